"""Damages what is cached, and starts the program again twice: `cargo xtask bench damage`.

The programs are a training step of JAX and a kernel that NVRTC compiles. Each runs over our cache and over its host's own: with one
flipped bit in an entry, with an entry cut short, and after a process was killed while it wrote. Fails unless ours crashes never,
never has another result, and builds once what was damaged.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import jax
import numpy
from cuda.core import Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache
from jax._src import compiler

import warmstart.hosts.cuda_core
import warmstart.hosts.jax
from warmstart.demo import training_step

KERNEL = (
    'extern "C" __global__ void scale(float *x, float by, int n) {\n'
    + "".join(f"    if (threadIdx.x < n - {n}) x[threadIdx.x + {n}] = x[threadIdx.x] * by + {n}.0f;\n" for n in range(40))
    + "}"
)

#: The hosts, their own caches, and where these keep entries.
HOSTS = {"jax": ("JAX's own", "*-cache"), "cuda.core": ("cuda.core's own", "entries/*/*")}

#: What two starts after the damage can show, the worst first.
SIGHTS = ("crashed", "wrong result", "built at every start", "built once", "found")

BEGIN, END = "<!-- The damage: `cargo xtask bench damage --doc` writes what follows. -->", "<!-- The end of the damage. -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=100)
    parser.add_argument("--truncations", type=int, default=20)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ours", action="store_true", help="leave the hosts' own caches out")
    parser.add_argument("--quick", action="store_true", help="do a tenth of it")
    parser.add_argument("--strict", action="store_true", help="is how it always runs")
    parser.add_argument("--doc", action="store_true", help="write the table into docs/compare.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts to a file")
    arguments = parser.parse_args()
    trials = {"flip": arguments.flips, "truncation": arguments.truncations, "kill": arguments.kills}
    if arguments.quick:
        trials = {damage: -(-number // 10) for damage, number in trials.items()}
    rows, holds = [], True
    with tempfile.TemporaryDirectory() as directory:
        for host, (own, _) in HOSTS.items():
            for cache in ["warmstart"] if arguments.ours else ["warmstart", own]:
                subject = Subject(host, cache, Path(directory))
                for damage, number in trials.items():
                    seen = Counter(subject.try_out(damage, seed) for seed in range(number))
                    rows.append(
                        {"host": host, "cache": cache, "damage": damage, "trials": number}
                        | {sight: seen[sight] for sight in SIGHTS}
                    )
                    print(rows[-1], flush=True)
                    healthy = seen["built once"] + (seen["found"] if damage == "kill" else 0)
                    holds &= cache != "warmstart" or healthy == number
    text = table(rows)
    print(f"\n{text}\nours: {'holds' if holds else 'DOES NOT HOLD'}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"bench": "damage", "rows": rows}) + "\n")
    if arguments.doc:
        document = Path(__file__).parents[2] / "docs/compare.md"
        before, rest = document.read_text().split(BEGIN)
        document.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}")
    return 0 if holds else 1


def table(rows: list[dict]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in ([*rows[0]], *([str(v) for v in row.values()] for row in rows))]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n"


class Subject:
    """A program of a host over one cache, and the cache with all that the program needs."""

    def __init__(self, host: str, cache: str, directory: Path) -> None:
        self.host, self.cache = host, cache
        self.path, self.primed = directory / "cache", directory / f"primed {host} {cache}"
        self.entries = "entries/*" if cache == "warmstart" else HOSTS[host][1]
        self.result = self.start().result
        assert self.start() == Start(0, self.result, 0), f"{host} over {cache}: a second start finds nothing"
        # Not in place: JAX has the path in its keys.
        self.path.rename(self.primed)

    def try_out(self, damage: str, seed: int) -> str:
        """Damage the cache and start twice; return what was seen."""
        shutil.rmtree(self.path, ignore_errors=True)
        chance = random.Random(f"{damage} {seed}")
        result = self.result
        if damage == "kill":
            result = self.killed(chance)
        else:
            shutil.copytree(self.primed, self.path)
            file = chance.choice(sorted(self.path.glob(self.entries)))
            data = bytearray(file.read_bytes())
            if damage == "flip":
                bit = chance.randrange(8 * len(data))
                data[bit // 8] ^= 1 << bit % 8
            else:
                del data[chance.randrange(len(data)) :]
            file.write_bytes(data)
        large = damage == "kill"
        first, second = self.start(large), self.start(large)
        shutil.rmtree(self.path)
        if first.code or second.code:
            return "crashed"
        if {first.result, second.result} != {result}:
            return "wrong result"
        return ("found" if not first.builds else "built once") if not second.builds else "built at every start"

    def killed(self, chance: random.Random) -> str:
        """Kill a first start as soon as it writes an entry; return what it would have computed."""
        if not hasattr(self, "large_result"):
            self.large_result = self.start(large=True).result
            shutil.rmtree(self.path)
        pid, _ = self.fork(large=True)
        # An empty file in tmp/ may be a lock.
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if any(self.path.glob(self.entries)) or any(size_of(file) for file in self.path.glob("tmp/*")):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                break
        return self.large_result

    def start(self, large: bool = False) -> "Start":
        """Run the program in a process of its own."""
        pid, pipe = self.fork(large)
        with open(pipe) as answer:
            text = answer.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return Start(code, *json.loads(text)) if code == 0 else Start(code, "", 0)

    def fork(self, large: bool) -> tuple[int, int]:
        # A fork, because importing JAX takes longer than the program.
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid:
            os.close(write)
            return pid, read
        code = 1
        try:
            # What a host says of its own damage.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            run = {"jax": run_jax, "cuda.core": run_cuda_core}[self.host]
            result, builds = run(self.cache, self.path, large)
            os.write(write, json.dumps([result, builds]).encode())
            code = 0
        finally:
            os._exit(code)


def size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


class Start(NamedTuple):
    """What a start of a program did: its exit code, below 0 for a signal, a text of its results, and its builds."""

    code: int
    result: str
    builds: int


def run_jax(cache: str, path: Path, large: bool) -> tuple[str, int]:
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if cache == "warmstart":
        warmstart.hosts.jax.install(path)
    else:
        jax.config.update("jax_compilation_cache_dir", str(path))
    compile, builds = compiler.backend_compile_and_load, []

    def counted(*arguments, **named):
        builds.append(1)
        return compile(*arguments, **named)

    compiler.backend_compile_and_load = counted
    step, weights, tokens = training_step(layers=2)
    # Frozen weights are part of the program, which then takes 4 MiB.
    frozen = numpy.random.default_rng(1).standard_normal((1 << 14 if large else 1, 64)).astype(numpy.float32)

    @jax.jit
    def tune(weights, tokens):
        return step(weights | {"embedding": weights["embedding"] + jax.numpy.asarray(frozen)[tokens.sum() % len(frozen)]}, tokens)

    losses = []
    for _ in range(3):
        weights, loss = tune(weights, tokens)
        losses.append(float(loss).hex())
    warmstart.hosts.jax.uninstall()
    return " ".join(losses), len(builds)


def run_cuda_core(cache: str, path: Path, large: bool) -> tuple[str, int]:
    builds = []

    class Counted(warmstart.hosts.cuda_core.ProgramCache if cache == "warmstart" else FileStreamProgramCache):
        def __setitem__(self, key, value):
            builds.append(key)
            super().__setitem__(key, value)

    with Counted(path) as programs:
        code = Program(KERNEL, "c++", ProgramOptions(arch="sm_90")).compile("cubin", cache=programs).code
    return hashlib.sha256(code).hexdigest(), len(builds)


if __name__ == "__main__":
    sys.exit(main())
