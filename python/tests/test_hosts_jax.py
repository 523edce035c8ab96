# ruff: noqa: E402
"""JAX over our cache, in this process and in others."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")

import numpy
from jax._src import cache_key, compilation_cache, compiler

from warmstart.hosts import jax as host

PATCHED = [
    (compilation_cache, "get_file_cache"),
    (cache_key, "get"),
    (cache_key, "hashlib"),
    (cache_key, "_log_cache_key_hash"),
    (compiler, "_compile_and_write_cache"),
]

#: Computes in a process of its own. The first argument is the directory, the second what to do before.
PROGRAM = """
import json, os, sys, time
import jax, numpy
from warmstart.hosts import jax as host
cache = None
exec(sys.argv[2])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_raise_persistent_cache_errors", True)
step = jax.jit(lambda x: (jax.numpy.sin(x) @ x.T).sum())
print(float(step(numpy.arange(64, dtype=numpy.float32).reshape(8, 8))))
stats = cache.stats()
print(json.dumps({"hits": stats["hits"], "builds": stats["builds"], "misses": sum(stats["misses"].values())}))
"""
INSTALL = "cache = host.install(sys.argv[1]).cache"
SINGLE = "cache = host.install(sys.argv[1], single_build=True).cache"
SCHEME = """
caches = host.register_scheme()
jax.config.update("jax_compilation_cache_dir", "warmstart://" + sys.argv[1])
class cache:
    def stats():
        [cache] = caches.values()
        return cache.stats()
"""


@pytest.fixture
def installed(tmp_path):
    """Installs ours, and makes JAX store everything."""
    old = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

    def install(path=tmp_path / "jax", **options):
        return host.install(path, **options)

    yield install
    host.uninstall()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", old)
    jax.clear_caches()


def start(path, before=INSTALL):
    command = [sys.executable, "-c", PROGRAM, str(path), before]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def finish(process):
    result, stats = process.communicate(timeout=120)[0].splitlines()
    assert process.returncode == 0
    return float(result), json.loads(stats)


def entry_files(path):
    return list(Path(path, "entries").iterdir())


def doubled(options=None, factor=2):
    """Returns a function that JAX has not seen; equal arguments make equal programs."""

    def double(x):
        return x * factor + 1

    return jax.jit(double, compiler_options=options)


def count_compilations(monkeypatch):
    counted = []
    original = compiler.backend_compile_and_load

    def compile_and_load(*args, **kwargs):
        counted.append(1)
        time.sleep(0.2)
        return original(*args, **kwargs)

    monkeypatch.setattr(compiler, "backend_compile_and_load", compile_and_load)
    return counted


def test_second_process_finds_what_the_first_stored(tmp_path):
    cold, first = finish(start(tmp_path))
    warm, second = finish(start(tmp_path))
    assert cold == warm
    assert first["hits"] == 0 < first["misses"]
    assert second["hits"] == first["misses"]
    assert second["misses"] == 0


def test_moved_directory_is_found(tmp_path):
    finish(start(tmp_path / "one"))
    (tmp_path / "one").rename(tmp_path / "two")
    assert finish(start(tmp_path / "two"))[1]["misses"] == 0


def test_damaged_entry_is_compiled_once(tmp_path):
    result, stats = finish(start(tmp_path))
    for file in entry_files(tmp_path):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(data)
    again, damaged = finish(start(tmp_path))
    assert again == result
    assert damaged["misses"] == stats["misses"]
    again, healed = finish(start(tmp_path))
    assert again == result
    assert healed["misses"] == 0


def test_uninstall_restores_functions_and_options(installed):
    def state():
        options = ("jax_compilation_cache_dir", "jax_persistent_cache_enable_xla_caches")
        return [getattr(*patched) for patched in PATCHED] + [getattr(jax.config, option) for option in options]

    before = state()
    cache = installed(single_build=True).cache
    assert all(old is not new for old, new in zip(before, state(), strict=True))
    host.uninstall()
    assert state() == before
    assert cache.closed
    host.uninstall()


def test_install_replaces_an_earlier_one(installed, tmp_path):
    first, second = installed(), installed(tmp_path / "second")
    doubled()(1.0)
    assert first.cache.closed
    assert len(second) > 0
    host.uninstall()
    assert compilation_cache.get_file_cache.__module__ == "jax._src.compilation_cache"


def test_directory_that_is_set_later_is_used(installed, tmp_path):
    first = installed(single_build=True)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "later"))
    compilation_cache.reset_cache()
    doubled()(1.0)
    assert len(first) == 0 < len(entry_files(tmp_path / "later"))


def test_failed_install_changes_nothing(installed, tmp_path):
    (tmp_path / "file").write_text("no directory")
    before = installed()
    with pytest.raises(OSError, match="file"):
        host.install(tmp_path / "file")
    doubled()(1.0)
    assert len(before) > 0


def test_keys_are_those_of_jax(installed):
    lowered = doubled().lower(1.0)
    backend = jax.devices()[0].client
    devices = numpy.array([[jax.devices()[0]]])
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    arguments = lowered.compiler_ir(), devices, options, backend
    plain = compilation_cache.get_cache_key(*arguments)
    installed()
    assert compilation_cache.get_cache_key(*arguments) == plain


@pytest.mark.parametrize(
    ("change", "label"),
    [("source", "computation"), ("option", "compile_options"), ("flag", "XLA flags"), ("hook", "custom_hook")],
)
def test_explain_names_the_part_that_differs(installed, monkeypatch, change, label):
    cache = installed()
    doubled()(1.0)
    jax.clear_caches()
    factor, options = 2, None
    if change == "source":
        factor = 3
    elif change == "option":
        options = {"xla_embed_ir_in_executable": True}
    elif change == "flag":
        monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    else:
        monkeypatch.setattr(cache_key, "custom_hook", lambda: "of the test")
    doubled(options, factor)(1.0)
    explanation = cache.explain()
    assert [change.label for change in explanation.changes] == [label]


def test_key_of_unknown_parts_is_stored_and_found(installed):
    cache = installed()
    cache.put("jit_f-0123", b"program")
    assert cache.get("jit_f-0123") == b"program"
    assert cache.get("jit_f-0124") is None
    with pytest.raises(ValueError, match="empty"):
        cache.get("")


def test_contents_are_checked_if_jax_is_told_to(installed):
    cache = installed()
    jax.config.update("jax_compilation_cache_check_contents", True)
    try:
        checked, _ = compilation_cache.get_file_cache(cache.cache.path)
    finally:
        jax.config.update("jax_compilation_cache_check_contents", False)
    assert isinstance(checked, compilation_cache.VerificationCache)
    assert checked._base_cache is cache


def test_program_above_the_cap_is_not_stored_and_runs(installed):
    cache = installed(max_bytes=64)
    assert doubled()(1.0) == 3.0
    assert len(cache) == 0
    assert sum(cache.cache.stats()["refusals"].values()) > 0


def test_single_build_of_threads_compiles_once(installed, monkeypatch):
    installed(single_build=True)
    float(jax.numpy.float32(1))
    counted, results = count_compilations(monkeypatch), []
    threads = [threading.Thread(target=lambda: results.append(float(doubled()(1.0)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [3.0] * 4
    assert len(counted) == 1


def test_single_build_of_processes_compiles_once(tmp_path):
    finish(start(tmp_path / "count"))
    programs = len(entry_files(tmp_path / "count"))
    # They compile within milliseconds, so one that pauses in the middle makes them meet.
    pause = """
from jax._src import compiler
original = compiler.backend_compile_and_load
compiler.backend_compile_and_load = lambda *a, **k: (time.sleep(1), original(*a, **k))[1]
"""
    together = [start(tmp_path / "jax", SINGLE + pause) for _ in range(3)]
    finished = [finish(process) for process in together]
    assert len({result for result, _ in finished}) == 1
    assert sum(stats["builds"] for _, stats in finished) == programs


def test_single_build_returns_what_jax_does_not_store(installed):
    cache = installed(single_build=True)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1000.0)
    assert doubled()(1.0) == 3.0
    assert len(cache) == 0


def test_single_build_raises_what_the_compiler_raises(installed, monkeypatch):
    installed(single_build=True)

    def fail(*_, **__):
        raise RuntimeError("no such instruction")

    with monkeypatch.context() as patch:
        patch.setattr(compiler, "backend_compile_and_load", fail)
        with pytest.raises(RuntimeError, match="no such instruction"):
            doubled()(1.0)
    assert doubled()(1.0) == 3.0


def test_scheme_stores_and_finds(tmp_path):
    pytest.importorskip("etils.epath")
    cold, first = finish(start(tmp_path, SCHEME))
    warm, second = finish(start(tmp_path, SCHEME))
    assert cold == warm
    assert first["hits"] == 0
    assert second["hits"] > 0 == second["misses"]


def test_scheme_compiles_a_damaged_entry_once(tmp_path):
    pytest.importorskip("etils.epath")
    result, _ = finish(start(tmp_path, SCHEME))
    for file in entry_files(tmp_path):
        file.write_bytes(file.read_bytes()[:-1])
    again, damaged = finish(start(tmp_path, SCHEME))
    assert again == result
    assert damaged["misses"] > 0
    again, healed = finish(start(tmp_path, SCHEME))
    assert again == result
    assert healed["misses"] == 0
