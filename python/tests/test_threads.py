"""Threads: one builds, and the interpreter's lock is released around files and databases."""

import fcntl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from warmstart import Cache


def test_one_of_many_threads_builds(cache):
    barrier, builds = threading.Barrier(8), []

    def build():
        builds.append(None)
        time.sleep(0.05)
        return b"code"

    def call(_):
        barrier.wait()
        return cache.get_or_build("key", build)

    with ThreadPoolExecutor(8) as pool:
        artifacts = list(pool.map(call, range(8)))
    assert len(builds) == 1
    assert {bytes(artifact) for artifact in artifacts} == {b"code"}
    origins = [artifact.origin for artifact in artifacts]
    assert origins.count("built") == 1
    assert cache.stats()["builds"] == 1


def test_waiting_caller_builds_after_a_failed_builder(cache):
    started, release = threading.Event(), threading.Event()

    def failing():
        started.set()
        assert release.wait(10)
        raise ValueError("no compiler")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_or_build, "key", failing)
        assert started.wait(10)
        second = pool.submit(cache.get_or_build, "key", lambda: b"code")
        release.set()
        with pytest.raises(ValueError, match="no compiler"):
            first.result(10)
        assert bytes(second.result(10)) == b"code"


def test_caller_that_waits_too_long_builds_for_itself(tmp_path):
    with Cache(tmp_path, timeout=0.05) as cache, ThreadPoolExecutor(1) as pool:
        started, release = threading.Event(), threading.Event()

        def slow():
            started.set()
            assert release.wait(10)
            return b"slow"

        first = pool.submit(cache.get_or_build, "key", slow)
        assert started.wait(10)
        assert bytes(cache.get_or_build("key", lambda: b"own")) == b"own"
        release.set()
        assert bytes(first.result(10)) == b"slow"


def test_threads_use_one_cache_at_once(cache):
    def work(thread):
        for index in range(100):
            key = f"{index % 10}"
            assert bytes(cache.get_or_build(key, lambda key=key: key.encode() * 100)) == key.encode() * 100
            cache.put(f"{thread}-{index}", b"x" * index)
            assert cache.get_bytes(f"{thread}-{index}") == b"x" * index

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(cache) == 410


def counts_during(call) -> int:
    """Return how far another thread counts while `call` runs. It needs the interpreter's lock."""
    count, stop = 0, threading.Event()

    def counting():
        nonlocal count
        while not stop.is_set():
            count += 1
            time.sleep(0)

    counter = threading.Thread(target=counting)
    counter.start()
    try:
        time.sleep(0.05)
        before = count
        call()
        return count - before
    finally:
        stop.set()
        counter.join()


def test_other_threads_run_while_a_put_waits_for_a_file(tmp_path):
    with Cache(tmp_path) as cache:
        cache.put("key", b"x")
        with open(tmp_path / "journal", "rb") as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            refusals = []
            assert counts_during(lambda: refusals.append(cache.put("other", b"x"))) > 100
    assert refusals == ["busy"]


LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_other_threads_run_while_a_put_waits_for_a_database(tmp_path):
    path = tmp_path / "cache.db"
    with Cache(path, store="sqlite") as cache:
        cache.put("key", b"x")
        # Locks of SQLite are of a process: two libraries of one process do not see each other's.
        arguments = [sys.executable, "-W", "ignore", "-c", LOCKER, path]
        locker = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert locker.stdout.readline() == "locked\n"
        refusals = []
        assert counts_during(lambda: refusals.append(cache.put("other", b"x"))) > 100
        locker.communicate("")
    assert refusals == ["busy"]
