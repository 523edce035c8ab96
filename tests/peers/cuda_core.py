"""One process at a cache of cuda-core, for `cargo xtask bench peers`.

It is told what to be as JSON in its first argument and says 0 when it is ready. Then it obeys a line at a time, and
answers each with the nanoseconds that it took. crew.rs says the same to processes in Rust.
"""

import hashlib
import json
import sys
import time

from cuda.core.utils import FileStreamProgramCache, InMemoryProgramCache

task = json.loads(sys.argv[1])
FAR = 1 << 40


def key(n):
    return hashlib.blake2b(n.to_bytes(8, "little"), digest_size=32).digest()


def open_cache():
    if task["kind"] == "memory":
        return InMemoryProgramCache(max_size_bytes=task["max_bytes"])
    return FileStreamProgramCache(task["path"], max_size_bytes=task["max_bytes"])


def make_values():
    many = max(1, min(256, (64 << 20) // task["size"]))
    stream = hashlib.shake_128(b"values").digest(task["size"] + many)
    return [stream[n : n + task["size"]] for n in range(many)]


VALUES = make_values()
cache = open_cache()
print(0, flush=True)
for line in sys.stdin:
    verb, start, count = line.split()
    start, count = int(start), int(count)
    far = FAR if verb in ("miss", "put") else 0
    keys = [key(n + far) for n in range(start, start + count)]
    values = [VALUES[n % len(VALUES)] for n in range(start, start + count)]
    found = 0
    before = time.perf_counter_ns()
    if verb in ("fill", "put"):
        for k, value in zip(keys, values):
            cache[k] = value
    elif verb in ("hit", "miss"):
        for k in keys:
            if cache.get(k) is not None:
                found += 1
    elif verb == "open":
        cache = open_cache()
        found = int(cache.get(keys[0]) is not None)
    took = time.perf_counter_ns() - before
    expected = {"hit": count, "miss": 0, "open": 1}.get(verb, found)
    if found != expected:
        sys.exit(f"{verb}: {found} of {count} were found")
    print(took, flush=True)
