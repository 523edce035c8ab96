"""Processes: forks while threads put, multiprocessing, and builds that processes share."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import ON_DISK, STORES, wait_for

from warmstart import Cache

#: Python 3.12 warns of each fork beside threads; that it is safe here is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

FORKS = 200


def use(cache: Cache, name: str) -> None:
    """Get, put and build."""
    assert cache.get_bytes("known") == b"known"
    assert bytes(cache.get("known") or b"") == b"known"
    assert cache.put(name, name.encode()) is None
    assert cache.get_bytes(name) == name.encode()
    assert bytes(cache.get_or_build(f"{name} built", name.encode)) == name.encode()
    [one, other] = cache.get_or_build_many([f"{name} 1", f"{name} 2"], lambda index: b"%d" % index, workers=2)
    assert (bytes(one), bytes(other)) == (b"0", b"1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_children_use_a_cache_that_threads_put_into(cache):
    """Each child gets, puts and builds; none hangs."""
    cache.put("known", b"known")
    stop, failures = threading.Event(), []

    def putting(thread: int) -> None:
        index = 0
        while not stop.is_set():
            # A child of another process may hold the store's lock for a moment.
            if cache.put(f"{thread} {index % 100}", os.urandom(1000)) not in (None, "busy"):
                failures.append("a put was refused")
            index += 1

    threads = [threading.Thread(target=putting, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    try:
        codes = []
        for index in range(FORKS):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    use(cache, f"child {index}")
                    code = 0
                finally:
                    os._exit(code)
            codes.append(wait_for(child, 30))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * FORKS
    assert failures == []
    use(cache, "parent")
    assert cache.verify()


def work(arguments: dict, name: str) -> str:
    with Cache(**arguments) as cache:
        use(cache, name)
    return name


def inherited(cache: Cache, name: str) -> None:
    use(cache, name)


@pytest.mark.parametrize("store", ON_DISK)
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_each_start_method_of_multiprocessing_works(tmp_path: Path, store, method):
    arguments = STORES[store](tmp_path)
    with Cache(**arguments) as cache:
        cache.put("known", b"known")
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            names = [f"{method} {index}" for index in range(4)]
            assert pool.starmap(work, [(arguments, name) for name in names]) == names
        if method == "fork":
            child = context.Process(target=inherited, args=(cache, "inherited"))
            child.start()
            child.join(30)
            assert child.exitcode == 0
        for name in names:
            assert cache.get_bytes(name) == name.encode()
        assert cache.verify()


BUILDER = """
import sys, time, warmstart

def build(index):
    with open(sys.argv[2], "a") as log:
        log.write(f"{index}\\n")
    time.sleep(0.02)
    return b"%d" % index

with warmstart.Cache(sys.argv[1]) as cache:
    print("ready", flush=True)
    sys.stdin.readline()
    artifacts = cache.get_or_build_many([f"{index}" for index in range(20)], build, workers=1)
    assert [bytes(artifact) for artifact in artifacts] == [b"%d" % index for index in range(20)]
"""


def test_processes_that_start_together_build_each_artifact_once(tmp_path: Path):
    log = tmp_path / "log"
    arguments = [sys.executable, "-c", BUILDER, tmp_path / "cache", log]
    processes = [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.communicate("go\n", timeout=60)
        assert process.returncode == 0
    assert sorted(log.read_text().split(), key=int) == [str(index) for index in range(20)]


def test_artifact_of_a_builder_that_was_killed_is_built_elsewhere(tmp_path: Path):
    code = "import sys, time, warmstart; cache = warmstart.Cache(sys.argv[1]);"
    code += "cache.get_or_build('key', lambda: (print('building', flush=True), time.sleep(60)))"
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path / "cache"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "building\n"
    killer = threading.Timer(0.2, process.kill)
    killer.start()
    with Cache(tmp_path / "cache") as cache:
        started = time.monotonic()
        assert bytes(cache.get_or_build("key", lambda: b"code")) == b"code"
        assert time.monotonic() - started < 30
    process.wait()
    process.stdout.close()
