"""The package: its examples, its import, its command, its types."""

import ast
import doctest
import importlib
import inspect
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import warmstart
from warmstart import Cache

PROJECT = Path(__file__).parents[1]
MODULES = ["warmstart", "warmstart._cache", "warmstart._memoize"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert (failed, tried > 0) == (0, True)


def test_every_name_is_there():
    assert sorted(set(warmstart.__all__)) == sorted(warmstart.__all__)
    for name in warmstart.__all__:
        assert hasattr(warmstart, name)


def test_import_loads_neither_asyncio_nor_hosts():
    code = "import logging, sys; before = set(sys.modules); import warmstart; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert [name for name in loaded if not name.startswith("warmstart")] == ["__future__"]
    assert not [name for name in loaded if name.startswith(("warmstart.hosts", "warmstart.types"))]


def test_import_takes_at_most_5_ms_more_than_logging():
    code = "import logging, time; began = time.perf_counter(); import warmstart; print(time.perf_counter() - began)"
    run = lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: E731
    run()
    # The least of some, because other processes take the cores too.
    assert min(float(run().stdout) for _ in range(9)) <= 0.005


def test_command_lists_the_entries(tmp_path):
    with Cache(tmp_path) as cache:
        cache.put(warmstart.Fields("test").text("name", "softmax"), b"code")
    listed = subprocess.run([sys.executable, "-m", "warmstart", "--json", "ls", tmp_path], check=True, capture_output=True)
    [entry] = json.loads(listed.stdout)["entries"]
    assert (entry["label"], entry["domain"]) == ("softmax", "test")


def test_command_returns_its_exit_code(tmp_path):
    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "warmstart", *arguments], capture_output=True, text=True)

    missing = run("ls", str(tmp_path / "missing"))
    assert (missing.returncode, missing.stderr) == (1, f"warmstart: there is nothing at {tmp_path}/missing; check the path\n")
    assert run("no-such-command").returncode == 2
    assert run("--version").stdout == f"warmstart {warmstart.__version__}\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="older Pythons show no __buffer__")
def test_stubs_match_the_module(tmp_path):
    pytest.importorskip("mypy")
    arguments = ["--ignore-missing-stub", "--mypy-config-file", PROJECT / "pyproject.toml"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "warmstart", *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_types_of_a_memoized_function_are_its_own(tmp_path):
    pytest.importorskip("mypy")
    tmp_path.joinpath("user.py").write_text(
        "import warmstart\n"
        "cache = warmstart.Cache(store='memory')\n"
        "@warmstart.memoize(cache, version=1)\n"
        "def f(n: int) -> bytes: return bytes(n)\n"
        "def by(fields: warmstart.Fields, n: int) -> warmstart.Fields: return fields.number('n', n)\n"
        "@warmstart.memoize(cache, version=1, key=by)\n"
        "def g(n: int) -> bytes: return bytes(n)\n"
        "reveal_type(f)\nreveal_type(g)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", PROJECT / "pyproject.toml", "user.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert checked.stdout.count('"def (n: int) -> bytes"') == 2, checked.stdout
    assert checked.returncode == 0, checked.stdout


def test_help_says_what_the_stubs_say():
    stubs = ast.parse(Path(warmstart.__file__).with_name("_warmstart.pyi").read_text())
    for stub in stubs.body:
        if not isinstance(stub, ast.ClassDef):
            continue
        there = getattr(warmstart._warmstart, stub.name)
        assert inspect.getdoc(there) == ast.get_docstring(stub), stub.name
        for member in stub.body:
            if isinstance(member, ast.FunctionDef) and not member.name.startswith("__"):
                assert inspect.getdoc(getattr(there, member.name)) == ast.get_docstring(member), f"{stub.name}.{member.name}"


@pytest.mark.parametrize("command", ["check", "format --check"])
def test_sources_are_clean(command):
    pytest.importorskip("ruff")
    arguments = ["--no-cache", "--config", PROJECT / "pyproject.toml", PROJECT, PROJECT.parent / "tests" / "python"]
    checked = subprocess.run([sys.executable, "-m", "ruff", *command.split(), *arguments], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_hit_in_memory_costs_no_more_than_a_dict_of_threads():
    """A bound against the interpreter's own speed: a hit is one call, and copies nothing."""
    import threading
    import time

    cache, lock, payload = Cache(store="memory"), threading.Lock(), os.urandom(1 << 20)
    cache.put(b"key", payload)
    plain = {b"key": payload}

    def ours():
        memoryview(cache.get(b"key"))

    def copied():
        with lock:
            bytearray(plain[b"key"])

    def took(call):
        began = time.perf_counter()
        for _ in range(200):
            call()
        return time.perf_counter() - began

    assert statistics.median(took(ours) for _ in range(5)) < statistics.median(took(copied) for _ in range(5)) / 10
