"""`aget_or_build` leaves the event loop free."""

import asyncio
import threading
import time

import pytest


def test_loop_goes_on_while_something_is_built(cache):
    async def main():
        ticks, release = 0, threading.Event()

        def build():
            assert threading.current_thread() is not threading.main_thread()
            assert release.wait(10)
            return b"code"

        task = asyncio.create_task(cache.aget_or_build("key", build))
        while ticks < 20:
            await asyncio.sleep(0.001)
            ticks += 1
        assert not task.done()
        release.set()
        return await task

    assert bytes(asyncio.run(main())) == b"code"
    assert cache.get("key").origin == "hit"


def test_async_builder_runs_on_the_loop(cache):
    async def main():
        loop = asyncio.get_running_loop()

        async def build():
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            return b"code"

        return await asyncio.gather(*(cache.aget_or_build("key", build) for _ in range(8)))

    artifacts = asyncio.run(main())
    assert {bytes(artifact) for artifact in artifacts} == {b"code"}
    assert cache.stats()["builds"] == 1


def test_exception_of_an_async_builder_is_raised(cache):
    async def build():
        raise KeyError("no compiler")

    with pytest.raises(KeyError, match="no compiler"):
        asyncio.run(cache.aget_or_build("key", build))


def test_cancelled_caller_leaves_the_build_to_end(cache):
    async def main():
        release = threading.Event()
        build = lambda: b"code" if release.wait(10) else b""  # noqa: E731
        task = asyncio.create_task(cache.aget_or_build("key", build))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()

    asyncio.run(main())
    deadline = time.monotonic() + 10
    while "key" not in cache and time.monotonic() < deadline:
        time.sleep(0.001)
    assert cache.get_bytes("key") == b"code"
