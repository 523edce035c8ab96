"""A program cache for `cuda.core`.

    from warmstart.hosts.cuda_core import ProgramCache

    with ProgramCache("/tmp/programs", max_bytes=1 << 30) as cache:
        program.compile("cubin", cache=cache)

Tested with cuda-core 1.2.2 and NVRTC 13.5.
"""

from __future__ import annotations

import os
from abc import ABCMeta
from pathlib import Path

from cuda.core import ObjectCode
from cuda.core.utils import ProgramCacheResource

from warmstart import Cache


class ProgramCache(ProgramCacheResource, metaclass=ABCMeta):
    """Keeps compiled programs in a directory that any number of processes share.

    `max_bytes` caps the directory, `memory_bytes` keeps as many bytes in memory as well, and `seal` is a secret of 32
    bytes, as for `warmstart.Cache`, which says what is raised. `cache` is the `warmstart.Cache` behind it.

    A hit is verified; a damaged entry counts as absent. What cannot be stored is counted in `cache.stats()`, and raises
    nothing. There is no `in`, as for every `ProgramCacheResource`: another process may evict an entry after the answer.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int | None = None,
        memory_bytes: int | None = None,
        seal: bytes | None = None,
    ) -> None:
        self.cache = Cache(path, max_bytes=max_bytes, memory_bytes=memory_bytes, seal=seal)
        self._get = self.cache.get_bytes

    def __getitem__(self, key: bytes | str) -> bytes:
        """Return a program. Raise KeyError if it is not stored, or damaged."""
        found = self._get(_key(key))
        if found is None:
            raise KeyError(key)
        return found

    def get(self, key: bytes | str, default: bytes | None = None) -> bytes | None:
        """Return a program, or `default` if it is not stored, or damaged."""
        found = self._get(_key(key))
        return default if found is None else found

    def __setitem__(self, key: bytes | str, value: bytes | bytearray | memoryview | ObjectCode) -> None:
        """Store a program. Of an ObjectCode that names a file, store its contents; raise OSError if it has none."""
        self.cache.put(_key(key), _program(value))

    def __delitem__(self, key: bytes | str) -> None:
        """Remove a program. Raise KeyError if it is not stored."""
        if not self.cache.remove(_key(key)):
            raise KeyError(key)

    def __len__(self) -> int:
        """Return the number of programs."""
        return len(self.cache)

    def clear(self) -> None:
        """Remove all programs."""
        self.cache.clear()

    def close(self) -> None:
        """Write the order of use and the counters, and close."""
        self.cache.close()


def _key(key: object) -> bytes:
    if isinstance(key, str):
        key = key.encode()
    elif not isinstance(key, (bytes, bytearray)):
        raise TypeError(f"a key is bytes or str, not {type(key).__name__}: pass what make_program_cache_key returns")
    return b"cuda.core:" + key


def _program(value: object) -> bytes | bytearray:
    if isinstance(value, ObjectCode):
        value = value.code
        if isinstance(value, str):
            return Path(value).read_bytes()
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, (bytes, bytearray)):
        return value
    raise TypeError(f"a program is bytes, bytearray, memoryview or ObjectCode, not {type(value).__name__}")
