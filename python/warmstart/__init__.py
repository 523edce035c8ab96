"""A cache of what ML runtimes compute at every start, so that the next start is warm.

>>> import warmstart
>>> cache = warmstart.Cache(store="memory")
>>> bytes(cache.get_or_build(warmstart.Fields("example").text("source", "x"), lambda: b"code"))
b'code'
"""

from ._cache import Cache
from ._memoize import memoize
from ._warmstart import (
    REASONS,
    Artifact,
    Change,
    Damaged,
    Entry,
    Explanation,
    Fields,
    Miss,
    Pack,
    Removed,
    Verification,
    __version__,
)

__all__ = [
    "REASONS",
    "Artifact",
    "Cache",
    "Change",
    "Damaged",
    "Entry",
    "Explanation",
    "Fields",
    "Miss",
    "Pack",
    "Removed",
    "Verification",
    "__version__",
    "memoize",
]
