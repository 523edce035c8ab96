"""Damage is a counted miss, and the artifact is built again once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warmstart import Cache

PAYLOAD = bytes(range(256)) * 40


def flip(data: bytearray, seed: int) -> None:
    data[random.Random(seed).randrange(len(data))] ^= 1 << seed % 8


def truncate(data: bytearray, seed: int) -> None:
    del data[random.Random(seed).randrange(len(data)) :]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("damage", [flip, truncate])
def test_damaged_file_is_a_miss_and_is_rebuilt_once(tmp_path: Path, damage, seed, caplog):
    with Cache(tmp_path) as cache:
        cache.put("key", PAYLOAD)
    [entry] = (tmp_path / "entries").iterdir()
    data = bytearray(entry.read_bytes())
    damage(data, seed)
    entry.write_bytes(data)
    with Cache(tmp_path) as cache:
        assert cache.get_or_build("key", lambda: PAYLOAD).origin == "built"
        assert bytes(cache.get_or_build("key", lambda: b"wrong")) == PAYLOAD
        misses = cache.stats()["misses"]
    assert sum(misses.values()) == 1
    assert "absent" not in misses
    assert "a damaged entry was removed" in caplog.text


@pytest.mark.parametrize("call", ["get", "get_bytes"])
def test_damaged_file_is_never_handed_out(tmp_path: Path, call):
    with Cache(tmp_path) as cache:
        cache.put("key", PAYLOAD)
        [entry] = (tmp_path / "entries").iterdir()
        data = bytearray(entry.read_bytes())
        data[-1] ^= 1
        entry.write_bytes(data)
        assert getattr(cache, call)("key") is None
        assert cache.stats()["misses"] == {"checksum_mismatch": 1}
        assert not entry.exists()


def test_verify_removes_what_is_damaged(tmp_path: Path):
    with Cache(tmp_path) as cache:
        for key in "abc":
            cache.put(key, PAYLOAD)
        entry = next((tmp_path / "entries").iterdir())
        entry.write_bytes(entry.read_bytes()[:-1])
        verification = cache.verify()
        assert not verification
        assert verification.whole == 2
        assert [(bad.digest, bad.reason, bad.removed) for bad in verification.damaged] == [(entry.name, "truncated", True)]
        assert cache.verify()


WRITER = """
import sys, warmstart
cache = warmstart.Cache(sys.argv[1], store=sys.argv[2])
print("started", flush=True)
while True:
    for key in range(4):
        cache.put(str(key), bytes([key]) * (4 << 20))
"""


@pytest.mark.parametrize("store", ["files", "sqlite"])
def test_writer_that_is_killed_leaves_only_whole_entries(tmp_path: Path, store):
    path = tmp_path / "cache"
    for seed in range(5):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path, store], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(random.Random(seed).random() / 5)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        with Cache(path, store=store) as cache:
            assert cache.verify()
            for key in range(4):
                hit = cache.get_bytes(str(key))
                assert hit is None or hit == bytes([key]) * (4 << 20)
            assert cache.put("own", b"x") is None
