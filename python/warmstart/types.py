"""Types for annotations. Import them under `typing.TYPE_CHECKING`: the package itself does not need them."""

from __future__ import annotations

from typing import TypeAlias, TypedDict, Union

from ._warmstart import Fields

#: A key: `Fields`, or any bytes or text that is unique to what it names. Text counts as its UTF-8 bytes.
Key: TypeAlias = Union[Fields, bytes, bytearray, memoryview, str]  # noqa: UP007


class Stats(TypedDict):
    """Counters of a cache. Times are in seconds, and `misses` and `refusals` are by the names of `warmstart.REASONS`."""

    hits: int
    misses: dict[str, int]
    refusals: dict[str, int]
    """Artifacts that were not stored."""
    builds: int
    """Artifacts built by callers of this cache."""
    coalesced: int
    """Misses whose artifact was built by another thread or process meanwhile."""
    evictions: int
    bytes_read: int
    bytes_written: int
    build_seconds: float
    wait_seconds: float
    """The time that `coalesced` look-ups waited."""
    saved_seconds: float
    """The time that the builds of the artifacts took that were hits."""


class PackStats(TypedDict):
    """Counters of a pack since it was opened, in this process."""

    hits: int
    misses: dict[str, int]
    packed: int
    """Weights that were put."""
    saved: int
    """Weights that were saved."""
    heap_bytes: int
    """Bytes of weights that are in memory, because the file had no room or another process was writing."""
    refusals: dict[str, int]
