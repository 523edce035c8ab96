"""Start a program cold and then warm, each in a process of its own: `python -m warmstart.demo`.

The program is a training step of JAX on the CPU; where JAX is not installed, it is C kernels and the C compiler.
The last line is JSON: {"host":"jax","cold_ms":…,"warm_ms":…,"hits":…,"misses":0,"verified":true}. `hits` and `misses`
are those of the warm start. `verified` is true if both starts computed the same bits and what is stored is whole.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TypedDict

from . import Cache, Fields


class Start(TypedDict):
    """What a process did: milliseconds until its first result, look-ups, and a digest of its results."""

    ms: float
    hits: int
    misses: int
    result: str


def main() -> int:
    """Run the demo, or with arguments one of its two processes; return the exit code."""
    if len(sys.argv) > 1:
        host, path = sys.argv[1:]
        print(json.dumps(PROGRAMS[host](path)))
        return 0
    host = "jax" if importlib.util.find_spec("jax") else "c"
    print("A training step of JAX on the CPU" if host == "jax" else "JAX is not installed: 32 generated C kernels")
    with tempfile.TemporaryDirectory(prefix="warmstart-demo-") as path:
        command = [sys.executable, "-m", "warmstart.demo", host, path]
        environment = os.environ | {"JAX_PLATFORMS": "cpu"}
        cold, warm = (
            json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout) for _ in range(2)
        )
        with Cache(path) as cache:
            whole = bool(cache.verify())
    verified = whole and cold["result"] == warm["result"]
    print_starts({"cold": cold, "warm": warm})
    print(
        json.dumps(
            {
                "host": host,
                "cold_ms": round(cold["ms"], 1),
                "warm_ms": round(warm["ms"], 1),
                "hits": warm["hits"],
                "misses": warm["misses"],
                "verified": verified,
            },
            separators=(",", ":"),
        )
    )
    return 0 if verified and warm["misses"] == 0 < warm["hits"] else 1


def print_starts(starts: dict[str, Start]) -> None:
    """Print a table of the starts, and a bar for each."""
    print(f"\n{'start':8}{'first result':>14}{'hits':>8}{'misses':>8}")
    for name, start in starts.items():
        print(f"{name:8}{start['ms']:>11.1f} ms{start['hits']:>8}{start['misses']:>8}")
    print()
    longest, width = max(start["ms"] for start in starts.values()), shutil.get_terminal_size().columns - 24
    for name, start in starts.items():
        print(f"{name:8}{'█' * max(1, round(width * start['ms'] / longest))} {start['ms']:.0f} ms")
    print()


def run_jax(path: str) -> Start:
    """Train for three steps."""
    import jax

    from .hosts import jax as host

    jax_cache = host.install(path)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    step, weights, tokens = training_step(layers=6)
    before = time.perf_counter()
    weights, loss = jax.block_until_ready(step(weights, tokens))
    ms = (time.perf_counter() - before) * 1e3
    losses = [float(loss)]
    for _ in range(2):
        weights, loss = step(weights, tokens)
        losses.append(float(loss))
    stats = jax_cache.cache.stats()
    host.uninstall()
    return Start(ms=ms, hits=stats["hits"], misses=sum(stats["misses"].values()), result=str(losses))


def training_step(layers: int, width: int = 64) -> tuple[Any, Any, Any]:
    """Return a training step of a transformer for JAX, the weights to begin with, and the tokens to train on."""
    import jax
    import jax.numpy as jnp
    import numpy

    random = numpy.random.default_rng(0)
    symbols, length = 128, 32

    def matrix(rows: int, columns: int) -> Any:
        return (random.standard_normal((rows, columns)) / rows**0.5).astype(numpy.float32)

    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    weights = {
        "embedding": matrix(symbols, width),
        "layers": [{name: matrix(*shape) for name, shape in shapes.items()} for _ in range(layers)],
    }
    tokens = random.integers(0, symbols, (4, length))

    def normalized(x: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)

    def loss(weights: Any, tokens: Any) -> Any:
        x = weights["embedding"][tokens]
        past = jnp.tril(jnp.ones((length, length), bool))
        for layer in weights["layers"]:
            q, k, v = jnp.split(normalized(x) @ layer["qkv"], 3, axis=-1)
            scores = jnp.where(past, q @ k.swapaxes(-1, -2) / width**0.5, -1e9)
            x = x + jax.nn.softmax(scores) @ v @ layer["out"]
            x = x + jax.nn.gelu(normalized(x) @ layer["up"]) @ layer["down"]
        scores = jax.nn.log_softmax(normalized(x) @ weights["embedding"].T)
        return -jnp.mean(jnp.take_along_axis(scores[:, :-1], tokens[:, 1:, None], axis=-1))

    @jax.jit
    def train(weights: Any, tokens: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, tokens)
        return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes), value

    return train, weights, tokens


def run_c(path: str) -> Start:
    """Compile, load and call kernels of C."""
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("neither JAX nor a C compiler is there: install one, such as with pip install jax")
    flags = ["-O3", "-shared", "-fPIC"]
    sources = [kernel(2 * n + 2) for n in range(32)]
    base = Fields("warmstart.demo").file("compiler", compiler).text("machine", platform.machine()).list("flags", flags)
    before = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory, Cache(path) as cache:

        def compiled(n: int) -> bytes:
            source, library = Path(directory, f"{n}.c"), Path(directory, f"{n}.compiled")
            source.write_text(sources[n])
            subprocess.run([compiler, *flags, "-o", library, source], check=True)
            return library.read_bytes()

        libraries = cache.get_or_build_many([base.text("source", source) for source in sources], compiled)
        results = hashlib.sha256()
        for n, library in enumerate(libraries):
            file = Path(directory, f"{n}.so")
            file.write_bytes(library)
            values = (ctypes.c_float * 4096)(*range(4096))
            ctypes.CDLL(str(file)).smooth(values)
            results.update(values)
        ms = (time.perf_counter() - before) * 1e3
        stats = cache.stats()
    return Start(ms=ms, hits=stats["hits"], misses=sum(stats["misses"].values()), result=results.hexdigest())


def kernel(width: int) -> str:
    """Return the source of a kernel that replaces each of 4096 numbers by the mean of `width` numbers."""
    mean = "(" + " + ".join(f"values[n + {tap}]" for tap in range(width)) + f") / {width}"
    return f"void smooth(float *values) {{ for (int n = 0; n < 4096 - {width}; n++) values[n] = {mean}; }}\n"


PROGRAMS = {"jax": run_jax, "c": run_c}

if __name__ == "__main__":
    sys.exit(main())
