"""Compares the Python package with a floor or a peer, in turns: `cargo xtask bench python`.

A ratio is the median of the ratios of two batches that ran one after the other. Files are on a disk, in the page cache.
"""

import argparse
import gc
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import diskcache
import jax
import xxhash
from cuda.core import Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache, InMemoryProgramCache
from jax._src.lru_cache import LRUCache

import warmstart.hosts.cuda_core
import warmstart.hosts.jax
from warmstart import Cache
from warmstart.demo import training_step

TARGET = Path(__file__).parents[2] / "target"
#: Far more than reading the clock takes.
BATCH_SECONDS = 2e-3

KIB, MIB = 1 << 10, 1 << 20
SIZES = {"1KiB": KIB, "64KiB": 64 * KIB, "4MiB": 4 * MIB}

Job = Callable[[int], object]


class Bench:
    """The rows that were measured, and how long to measure."""

    def __init__(self, quick: bool) -> None:
        self.quick = quick
        self.rows: list[dict] = []

    def bounded(self, name: str, value: float, unit: str, against: str, sense: str, bound: float | None) -> None:
        holds = bound is None or (value <= bound if sense == "<=" else value == bound)
        self.add(name, value, unit, against, bound, sense, holds)

    def add(self, name, value, unit, against="none", bound=None, sense="<=", holds=True) -> None:
        row = {"name": name, "value": value, "unit": unit, "against": against, "bound": bound, "sense": sense, "holds": holds}
        self.rows.append(row)
        verdict = "" if bound is None else f"{sense} {bound:g}  {'holds' if holds else 'DOES NOT HOLD'}"
        print(f"{name:44}{value:>14.4g} {unit:6}{against:30}{verdict}", flush=True)

    def compare(
        self,
        name: str,
        against: str,
        bound: float | None,
        ours: Job,
        theirs: Job,
        rounds: int = 61,
        undo: tuple[Job, Job] | None = None,
        subject: str = "warmstart",
    ) -> None:
        """Time two jobs in turns. Each is called with the number of its call, and so is what undoes it, outside the time."""
        rounds = max(3, rounds // 8) if self.quick else rounds
        jobs, calls, times = (ours, theirs), [0, 0], ([], [])

        def batch(side: int, size: int) -> float:
            first, calls[side] = calls[side], calls[side] + size
            took = timed(jobs[side], first, size)
            if undo:
                timed(undo[side], first, size)
            return took / size

        sizes = []
        for side in range(2):
            # The first calls open, allocate or import something.
            batch(side, 2)
            took = statistics.median(batch(side, 1) for _ in range(15))
            sizes.append(max(1, round(BATCH_SECONDS / took)))
        gc.disable()
        for number in range(rounds):
            # Each side goes first as often as the other, and begins after a collection, which leaves the processor's caches cold.
            for side in (number % 2, 1 - number % 2):
                gc.collect()
                times[side].append(batch(side, sizes[side]))
        gc.enable()
        ratio = statistics.median(mine / other for mine, other in zip(*times, strict=True))
        self.bounded(name, ratio, "ratio", against, "<=", bound)
        self.add(f"{name}/{subject}", statistics.median(times[0]) * 1e6, "us")
        self.add(f"{name}/{against}", statistics.median(times[1]) * 1e6, "us")


def timed(job: Job, first: int, count: int) -> float:
    began = time.perf_counter()
    for call in range(first, first + count):
        job(call)
    return time.perf_counter() - began


def values(size: int, number: int) -> list[bytes]:
    random_bytes = random.Random(size).randbytes
    return [random_bytes(size) for _ in range(number)]


def keys(number: int) -> list[bytes]:
    return values(32, number)


def entries_of(size: int) -> int:
    return min(256, 64 * MIB // size)


def memory(bench: Bench, _: Path) -> None:
    number = 1024
    names, ours, theirs = keys(number), Cache(store="memory"), InMemoryProgramCache()
    for name, value in zip(names, values(16 * KIB, number), strict=True):
        ours.put(name, value)
        theirs[name] = value
    bench.compare(
        "memory_hit_view/16KiB",
        "cuda.core memory",
        1.0,
        lambda n: ours.get(names[n % number]),
        lambda n: theirs.get(names[n % number]),
    )


def files(bench: Bench, directory: Path) -> None:
    for (label, size), bound in zip(SIZES.items(), (1.15, 1.3, 1.3), strict=True):
        number = entries_of(size)
        names, cache = keys(number), Cache(directory / f"files {label}")
        payloads = values(size, number)
        raw = verified_read(directory / f"raw {label}", payloads)
        for name, value in zip(names, payloads, strict=True):
            cache.put(name, value)

        def as_bytes(n, get=cache.get_bytes, names=names, number=number):
            return get(names[n % number])

        def as_view(n, get=cache.get, names=names, number=number):
            return get(names[n % number])

        rounds = 201 if size == KIB else 101
        bench.compare(f"file_hit_bytes/{label}", "raw + xxhash", bound, as_bytes, raw, rounds)
        if label == "4MiB":
            bench.compare(f"file_hit_view/{label}", "raw + xxhash", 1.1, as_view, raw, rounds)


def verified_read(directory: Path, payloads: list[bytes]) -> Job:
    """Return what reads and hashes the payload of a number: the least that a verified look-up takes in Python."""
    directory.mkdir()
    paths = [str(directory / str(n)) for n in range(len(payloads))]
    for path, payload in zip(paths, payloads, strict=True):
        Path(path).write_bytes(payload)

    def read(n: int) -> bytes:
        file = os.open(paths[n % len(paths)], os.O_RDONLY)
        data = os.read(file, len(payloads[n % len(paths)]))
        os.close(file)
        xxhash.xxh3_64_intdigest(data)
        return data

    return read


def peer(bench: Bench, directory: Path) -> None:
    for (label, size), bound in zip(SIZES.items(), (0.3, 0.4, 0.5), strict=True):
        number = entries_of(size)
        names, ours, theirs = keys(number), Cache(directory / f"get {label}"), peer_cache(directory / f"get peer {label}")
        payloads = values(size, number)
        for name, value in zip(names, payloads, strict=True):
            ours.put(name, value)
            theirs.set(name, value)
        bench.compare(
            f"get/{label}",
            "diskcache",
            bound,
            lambda n, ours=ours, names=names: ours.get_bytes(names[n % len(names)]),
            lambda n, theirs=theirs, names=names: theirs.get(names[n % len(names)]),
        )
        if label == "4MiB":
            bench.compare(
                f"get/{label}/floor",
                "diskcache",
                None,
                verified_read(directory / "floor", payloads),
                lambda n, theirs=theirs, names=names: theirs.get(names[n % len(names)]),
                subject="raw + xxhash",
            )
    for label, store, bound in (("64KiB", "files", 0.6), ("4MiB", "files", 0.6), ("1KiB", "sqlite", 1.2)):
        payloads = values(SIZES[label], entries_of(SIZES[label]))
        ours, theirs = Cache(directory / f"set {label}", store=store), peer_cache(directory / f"set peer {label}")

        def key(n):
            return b"%032d" % n

        bench.compare(
            f"set/{store}/{label}",
            "diskcache",
            bound,
            lambda n, ours=ours, payloads=payloads: ours.put(key(n), payloads[n % len(payloads)]),
            lambda n, theirs=theirs, payloads=payloads: theirs.set(key(n), payloads[n % len(payloads)]),
            # So that the disk does not write meanwhile what piles up.
            undo=(lambda n, ours=ours: ours.remove(key(n)), lambda n, theirs=theirs: theirs.delete(key(n))),
        )
        ours.close()
        theirs.close()


def peer_cache(path: Path) -> diskcache.Cache:
    return diskcache.Cache(str(path), eviction_policy="least-recently-used", size_limit=1 << 40)


def cuda_core(bench: Bench, directory: Path) -> None:
    source = 'extern "C" __global__ void scale(float *x, float by) { x[threadIdx.x] *= by; }'
    program = Program(source, "c++", ProgramOptions(arch="sm_90"))
    ours, theirs = warmstart.hosts.cuda_core.ProgramCache(directory / "cuda"), FileStreamProgramCache(directory / "cuda own")
    bench.compare(
        "cuda_core_hit",
        "cuda.core files",
        0.5,
        lambda _: program.compile("cubin", cache=ours),
        lambda _: program.compile("cubin", cache=theirs),
    )


def jax_put(bench: Bench, directory: Path) -> None:
    number, size = 5000, 16 * KIB
    [value] = values(size, 1)
    ours_path, theirs_path = directory / "jax", directory / "jax own"
    theirs_path.mkdir()
    # Its own put would take half an hour: put what it would leave.
    for n in range(number):
        (theirs_path / f"jit_f-{n:064x}-cache").write_bytes(value)
        (theirs_path / f"jit_f-{n:064x}-atime").write_bytes(time.time_ns().to_bytes(8, "little"))
    with Cache(ours_path) as cache:
        for n in range(number):
            cache.put(f"{n}", value)
        total = sum(entry.size for entry in cache.entries())
    theirs = LRUCache(str(theirs_path), max_size=number * size)
    ours = warmstart.hosts.jax.install(ours_path, max_bytes=total)
    bench.compare(
        "jax_put_at_cap/5000",
        "JAX's own",
        1 / 50,
        lambda n: ours.put(f"jit_g-{n:064x}", value),
        lambda n: theirs.put(f"jit_g-{n:064x}", value),
        rounds=31,
    )
    bench.add("jax_put_at_cap/5000/entries_of_warmstart", len(ours), "count")
    bench.add("jax_put_at_cap/5000/entries_of_JAX's own", len(list(theirs_path.glob("*-cache"))), "count")
    warmstart.hosts.jax.uninstall()


def jax_start(bench: Bench, directory: Path) -> None:
    def start(path: Path, ours: bool) -> float:
        """Train for one step in a process of its own; return the seconds from the choice of the cache to the result."""
        read, write = os.pipe()
        with warnings.catch_warnings():
            # It warns of threads; none of them is JAX's, which has not started a backend here.
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            try:
                jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
                step, weights, tokens = training_step(layers=6)
                jax.block_until_ready(jax.device_put(0.0))
                began = time.perf_counter()
                if ours:
                    warmstart.hosts.jax.install(path)
                else:
                    jax.config.update("jax_compilation_cache_dir", str(path))
                jax.block_until_ready(step(weights, tokens))
                os.write(write, repr(time.perf_counter() - began).encode())
            finally:
                os._exit(0)
        os.close(write)
        with open(read) as answer:
            took = float(answer.read())
        os.waitpid(pid, 0)
        return took

    arguments = (directory / "start", True), (directory / "start own", False)
    cold = [start(*side) for side in arguments]
    bench.add("jax_start/cold/warmstart", cold[0] * 1e6, "us")
    bench.add("jax_start/cold/JAX's own", cold[1] * 1e6, "us")
    times = []
    for n in range(4 if bench.quick else 24):
        # Each side goes first as often as the other.
        order = arguments if n % 2 else arguments[::-1]
        took = [start(*side) for side in order]
        times.append(took if n % 2 else took[::-1])
    bench.bounded("jax_start/6_layers", statistics.median(ours / own for ours, own in times), "ratio", "JAX's own", "<=", 1.1)
    bench.add("jax_start/6_layers/warmstart", statistics.median(ours for ours, _ in times) * 1e6, "us")
    bench.add("jax_start/6_layers/JAX's own", statistics.median(own for _, own in times) * 1e6, "us")


def many(bench: Bench, directory: Path) -> None:
    context = multiprocessing.get_context("fork")

    def process(path: Path, at_once: bool, gate, built) -> None:
        def build(n: int) -> bytes:
            time.sleep(0.1)
            with built.get_lock():
                built.value += 1
            return b"%d" % n

        with Cache(path) as cache:
            names = [f"build {n}" for n in range(40)]
            gate.wait()
            if at_once:
                found = cache.get_or_build_many(names, build, workers=1)
            else:
                found = [cache.get_or_build(name, lambda n=n: build(n)) for n, name in enumerate(names)]
            assert [bytes(one) for one in found] == [b"%d" % n for n in range(40)]
            gate.wait()

    def run(path: Path, at_once: bool) -> tuple[float, int]:
        gate, built = context.Barrier(5), context.Value("i", 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            processes = [context.Process(target=process, args=(path, at_once, gate, built)) for _ in range(4)]
            for one in processes:
                one.start()
        gate.wait()
        began = time.perf_counter()
        gate.wait()
        took = time.perf_counter() - began
        for one in processes:
            one.join()
        return took, built.value

    runs = [(run(directory / f"many {n}", True), run(directory / f"loop {n}", False)) for n in range(1 if bench.quick else 5)]
    ratio = statistics.median(together[0] / loop[0] for together, loop in runs)
    bench.bounded("four_processes/40_builds", ratio, "ratio", "loop", "<=", 0.35)
    bench.bounded("four_processes/40_builds/builds", max(together[1] for together, _ in runs), "count", "none", "==", 40)
    bench.add("four_processes/40_builds/warmstart", statistics.median(together[0] for together, _ in runs) * 1e6, "us")
    bench.add("four_processes/40_builds/loop", statistics.median(loop[0] for _, loop in runs) * 1e6, "us")


#: Rows that fork come before those that start a backend of JAX or threads.
ROWS = {job.__name__: job for job in (many, jax_start, memory, files, peer, cuda_core, jax_put)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to a file")
    parser.add_argument("--quick", action="store_true", help="take fewer samples")
    parser.add_argument("--strict", action="store_true", help="fail if a bound does not hold")
    parser.add_argument("--only", choices=ROWS, help="measure these rows alone")
    arguments = parser.parse_args()
    bench = Bench(arguments.quick)
    TARGET.mkdir(exist_ok=True)
    for name in [arguments.only] if arguments.only else ROWS:
        with tempfile.TemporaryDirectory(dir=TARGET) as directory:
            ROWS[name](bench, Path(directory))
    if arguments.json:
        arguments.json.write_text(json.dumps({"bench": "python", "rows": bench.rows}, separators=(",", ":")) + "\n")
    return 1 if arguments.strict and not all(row["holds"] for row in bench.rows) else 0


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main())
