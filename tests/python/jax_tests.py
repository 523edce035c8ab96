"""Runs JAX's own tests over JAX's own cache and over ours, and compares: `cargo xtask hosts --jax DIR`.

DIR is a checkout of jax-ml/jax at the tag of the installed version, outside this repository. This file is also the plugin of
pytest that puts the tests over a cache and counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Names, files, and what the environment says more.
GROUPS = {
    "compilation_cache_test, cache_key_test": {},
    "lax_control_flow_test, jax_jit_test": {"JAX_TEST_WITH_PERSISTENT_COMPILATION_CACHE": "1"},
}
CACHES = ("stock", "ours")

outcomes: dict[str, str] = {}
counts = {"gets": 0, "puts": 0, "hits": 0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", type=Path, required=True, metavar="DIR", help="a checkout of jax-ml/jax")
    directory = parser.parse_args().jax.resolve()
    import jax

    print(f"JAX {jax.__version__}, Python {sys.version.split()[0]}")
    print(f"{'tests':42}{'cache':>6}{'passed':>8}{'failed':>8}{'skipped':>8}{'gets':>7}{'puts':>7}{'hits':>7}{'s':>6}")
    same = True
    for group, environment in GROUPS.items():
        with tempfile.TemporaryDirectory() as reports:
            files = [directory / "tests" / f"{name}.py" for name in group.split(", ")]
            found = {cache: run(directory, files, environment, cache, Path(reports, cache)) for cache in CACHES}
        for cache, report in found.items():
            passed, failed, skipped = (
                sum(outcome == name for outcome in report["outcomes"].values()) for name in ("passed", "failed", "skipped")
            )
            numbers = [passed, failed, skipped, *report["counts"].values(), round(report["seconds"])]
            print(f"{group:42}{cache:>6}{''.join(f'{n:>{w}}' for n, w in zip(numbers, (8, 8, 8, 7, 7, 7, 6), strict=True))}")
        for test, outcome in sorted(found["stock"]["outcomes"].items()):
            if (ours := found["ours"]["outcomes"].get(test)) != outcome:
                print(f"DIFFERENT: {test}: {outcome} over JAX's own cache, {ours} over ours")
        same &= all(found["stock"][part] == found["ours"][part] for part in ("outcomes", "counts"))
    print("the same over both caches" if same else "NOT the same over both caches")
    return 0 if same else 1


def run(directory: Path, files: list[Path], environment: dict[str, str], cache: str, report: Path) -> dict:
    search = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = environment | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": search, "TESTED_CACHE": cache, "REPORT": str(report)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "jax_tests", "-p", "no:cacheprovider"]
    command += ["-c", directory / "pyproject.toml", *files]
    # In another folder, so that the installed JAX is imported and not that of the checkout.
    ended = subprocess.run(command, env=os.environ | environment, cwd=report.parent, capture_output=True, text=True)
    if not report.exists():
        sys.exit(f"pytest ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return json.loads(report.read_text())


def pytest_configure(config) -> None:
    import jax
    from jax._src.lru_cache import LRUCache

    config.began = time.monotonic()
    if os.environ["TESTED_CACHE"] == "ours":
        from warmstart.hosts import jax as host

        host.install(tempfile.mkdtemp())
        # The tests set directories of their own, or none.
        jax.config.update("jax_compilation_cache_dir", None)
        count_calls(host.JaxCache)
    else:
        count_calls(LRUCache)


def pytest_collection_modifyitems(items) -> None:
    from jax._src import compilation_cache

    for module in {item.module for item in items if hasattr(item.module, "InMemoryCache")}:
        if os.environ["TESTED_CACHE"] == "ours":
            module.InMemoryCache = lambda: compilation_cache.get_file_cache(tempfile.mkdtemp())[0]
        else:
            count_calls(module.InMemoryCache)


def pytest_runtest_logreport(report) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish(session) -> None:
    report = {"outcomes": outcomes, "counts": counts, "seconds": time.monotonic() - session.config.began}
    Path(os.environ["REPORT"]).write_text(json.dumps(report))


def count_calls(cache: type) -> None:
    get, put = cache.get, cache.put

    def counted_get(self, key):
        found = get(self, key)
        counts["gets"] += 1
        counts["hits"] += found is not None
        return found

    def counted_put(self, key, value):
        counts["puts"] += 1
        return put(self, key, value)

    cache.get, cache.put = counted_get, counted_put


if __name__ == "__main__":
    sys.exit(main())
