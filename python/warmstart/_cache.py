"""The cache: the native one, with what is easier in Python."""

from __future__ import annotations

from . import _warmstart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any

    from typing_extensions import Buffer

    from ._warmstart import Artifact
    from .types import Key


class Cache(_warmstart.Cache):
    """A cache of artifacts that are expensive to build, such as compiled kernels.

    `path` is a directory (`store="files"`, one file per entry) or a database (`store="sqlite"`, better for many small
    entries), which any number of processes share; `store="memory"` has no path. `max_bytes` caps the store: the least recently
    used entries are evicted. `memory_bytes` keeps as many bytes of a store on disk in memory as well. `seal` is a secret of 32
    bytes: entries that were not sealed with it are misses. With `durable`, entries survive a loss of power. A `read_only` store
    changes nothing on disk. `timeout` is how many seconds a caller waits for another one's build before it builds for itself.

    A disk that fails, is full or is read-only raises nothing: look-ups miss, and puts return the reason. Raise ValueError for
    arguments that contradict each other, and OSError if `path` is of the wrong kind or other users may write to it.

    A key is `Fields`, or bytes or text that are used as they are: then prefix them with the name of your program, and put
    everything that determines the artifact into them, such as the version of its compiler.

    >>> cache = Cache(store="memory", max_bytes=1 << 20)
    >>> bytes(cache.get_or_build("my-runtime:kernel", lambda: b"code"))
    b'code'
    >>> cache.get("my-runtime:kernel").origin
    'hit'
    """

    __slots__ = ()

    def get_or_build_many(
        self,
        requests: Iterable[Key],
        build: Callable[[int], Buffer],
        *,
        workers: int = 0,
        progress: bool | Callable[[int, Artifact], object] | None = None,
    ) -> list[Artifact]:
        """Look many keys up, build what is missing, and return all in the order of the requests.

        `build` is called with the index of a request, by `workers` threads at once; 0 stands for the cores that the process
        may use. What another thread or process is building is left to it, and the others are built meanwhile: processes that
        start together divide the builds. Equal keys are built once.

        `progress` shows a bar of tqdm, where that is installed; or it is called with an index and its artifact as soon as that
        is there. An exception of a builder does not stop the others, which are stored; at the end the first one is raised
        unchanged, and further ones are logged.
        """
        if not isinstance(progress, bool):
            return super().get_or_build_many(requests, build, workers=workers, progress=progress)
        keys = list(requests)
        tqdm = _tqdm() if progress else None
        if tqdm is None:
            return super().get_or_build_many(keys, build, workers=workers)
        with tqdm(total=len(keys)) as bar:
            return super().get_or_build_many(keys, build, workers=workers, progress=lambda index, artifact: bar.update())

    async def aget_or_build(self, key: Key, build: Callable[[], Buffer] | Callable[[], Awaitable[Buffer]]) -> Artifact:
        """Do what `get_or_build` does, in a thread of asyncio's, so that the event loop goes on.

        A `build` that is an `async def` function runs on the event loop, any other one in the thread. If the caller is
        cancelled, the build goes on and is stored.
        """
        import asyncio
        import inspect

        if inspect.iscoroutinefunction(build):
            loop = asyncio.get_running_loop()
            return await asyncio.to_thread(self.get_or_build, key, lambda: asyncio.run_coroutine_threadsafe(build(), loop).result())
        return await asyncio.to_thread(self.get_or_build, key, build)  # type: ignore[arg-type]


def _tqdm() -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm
