"""`memoize`: keeps what a function returns."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, TypeVar

    from ._cache import Cache
    from ._warmstart import Key

    F = TypeVar("F", bound=Callable[..., Any])


def memoize(
    cache: Cache,
    *,
    version: int,
    codec: Literal["bytes", "array", "pickle"] | tuple[Callable[[Any], Any], Callable[[memoryview], Any]] = "bytes",
    key: Callable[..., Key] | None = None,
) -> Callable[[F], F]:
    """Keep what a function returns in `cache`, under its name, `version` and arguments.

    Raise `version` whenever the function would return something else for the same arguments. Arguments are text, bytes,
    numbers, None, lists and tuples of these, and arrays (by the buffer protocol); for others, `key` makes a key of the arguments.

    `codec` says what the function returns: `bytes`; an `array`, which is returned as a read-only memoryview of the same
    format and shape; anything that can be pickled, if nothing but your own programs writes to the cache; or a pair of functions
    that encode a result as bytes and decode a view of them.
    """
    raise NotImplementedError
