import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warmstart import Cache

#: The stores, as arguments of a cache in a directory.
STORES: dict[str, Callable[[Path], dict[str, object]]] = {
    "files": lambda directory: {"path": directory / "cache"},
    "sqlite": lambda directory: {"path": directory / "cache.db", "store": "sqlite"},
    "tiered": lambda directory: {"path": directory / "cache", "memory_bytes": 1 << 24},
    "memory": lambda directory: {"store": "memory"},
}
ON_DISK = [name for name in STORES if name != "memory"]


@pytest.fixture(params=STORES)
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cache]:
    """A new cache over each of the stores."""
    with Cache(**STORES[request.param](tmp_path)) as cache:
        yield cache


@pytest.fixture(params=ON_DISK)
def on_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Cache]:
    """Opens a cache over each of the stores on disk; always the same one."""
    arguments = STORES[request.param](tmp_path)
    return lambda **others: Cache(**arguments, **others)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the hosts' tests last: once JAX runs, it warns of every fork in its process."""
    items.sort(key=lambda item: "test_hosts" in item.nodeid)


def wait_for(process: int, seconds: float) -> int | None:
    """Return the exit code of a forked child; None, once it is killed, if it does not end in time."""
    import signal
    import time

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None
