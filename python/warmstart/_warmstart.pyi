"""The native part of the package. Import the names from `warmstart`."""

import builtins
import os
from collections.abc import Callable, Iterable
from typing import Literal, Self, final

from typing_extensions import Buffer, disjoint_base

from .types import Key, PackStats, Stats

__version__: str

#: Why a look-up missed or an artifact was not stored: the names, each with an explanation.
REASONS: dict[str, str]

@final
class Fields:
    """The labelled fields that a key is made of. Immutable: each method returns a new object.

    `domain` separates kinds of artifacts. Raise `schema`, from 0 to 2**32 - 1, when the meaning of the fields changes.
    The order of the fields matters. Put no path, home directory or time into a key: a moved checkout would miss.

    >>> Fields("my-runtime", 1).text("source", "kernel").list("flags", ["-O3"]).number("width", 4)
    Fields('my-runtime', 1, source, flags, width)
    """

    def __new__(cls, domain: str, schema: int = 1) -> Self: ...
    def text(self, label: str, value: str) -> Fields:
        """Add a text."""

    def bytes(self, label: str, value: Buffer) -> Fields:
        """Add bytes, copied from any contiguous buffer. They never equal a text with the same bytes."""

    def number(self, label: str, value: int) -> Fields:
        """Add a number from 0 to 2**64 - 1; raise OverflowError for another one."""

    def list(self, label: str, values: Iterable[str]) -> Fields:
        """Add texts whose boundaries count: `["ab"]` is not `["a", "b"]`."""

    def digest(self, label: str, digest: Buffer, note: str = ...) -> Fields:
        """Add a digest that was computed elsewhere. `note` is shown by `explain` and is no part of the key."""

    def file(self, label: str, path: str | os.PathLike[str]) -> Fields:
        """Add the contents of a file. Its path is no part of the key; its last component is shown by `explain`.

        Raise OSError if the file cannot be read.
        """

    @property
    def key(self) -> builtins.bytes:
        """The 32 bytes of the key."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Artifact:
    """The bytes that a cache keeps, as a read-only buffer: `memoryview(artifact)` copies nothing, `bytes(artifact)` copies.

    An artifact is true, even one of no bytes.
    """

    @property
    def origin(self) -> Literal["hit", "coalesced", "built"]:
        """`hit`: it was stored. `coalesced`: another caller built it meanwhile. `built`: this caller built it."""

    @property
    def miss(self) -> str | None:
        """Why the look-up missed, a name of `REASONS`; None for a hit."""

    @property
    def refusal(self) -> str | None:
        """Why the artifact that this caller built was not stored, a name of `REASONS`; None if it was, or was not built here."""

    @property
    def created(self) -> float | None:
        """When it was built, in seconds since 1970 UTC; None if unknown."""

    @property
    def build_seconds(self) -> float | None:
        """How long its build took, in seconds; None if unknown."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __bool__(self) -> Literal[True]: ...
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...

@final
class Miss:
    """A look-up that found nothing. A miss is false."""

    @property
    def reason(self) -> str:
        """The reason, a name of `REASONS`, such as `absent` or `checksum_mismatch`."""

    @property
    def explanation(self) -> str:
        """The reason in plain English."""

    @property
    def is_damage(self) -> bool:
        """Whether the entry was damaged; it is removed then."""

    def __bool__(self) -> Literal[False]: ...

@final
class Entry:
    """An entry, as its head describes it. Its payload is not read."""

    @property
    def digest(self) -> str:
        """The digest of the key, 64 hexadecimal digits, which identifies the entry in the store."""

    @property
    def size(self) -> int:
        """The bytes that it counts against the cap."""

    @property
    def used(self) -> float | None:
        """When it was last stored or used, in seconds since 1970 UTC; None if unknown."""

    @property
    def created(self) -> float | None:
        """When it was built, in seconds since 1970 UTC; None if unknown."""

    @property
    def name(self) -> str | None:
        """A short text for people: of the field `name`, `kernel` or `label`, or else of the first text."""

    @property
    def domain(self) -> str | None:
        """The domain of its key; None if it was not stored under `Fields`."""

    @property
    def fields(self) -> list[tuple[str, str | None]]:
        """The labels of its key, each with the value, cut to 256 bytes; None for bytes without a note."""

    @property
    def unreadable(self) -> str | None:
        """Why its head cannot be read, a name of `REASONS`; None if it can."""

@final
class Change:
    """A field in which two keys differ."""

    @property
    def label(self) -> str:
        """The label of the field."""

    @property
    def old(self) -> str | None:
        """The value of the stored entry, or a short digest of it; None if it has no such field."""

    @property
    def new(self) -> str | None:
        """The value that was looked up, likewise; None if there is no such field."""

@final
class Explanation:
    """The stored entry that is nearest to a key, and the fields that differ. `str` is one line for people."""

    @property
    def nearest(self) -> Entry:
        """The nearest entry of the same domain."""

    @property
    def changes(self) -> list[Change]:
        """The fields that differ."""

@final
class Damaged:
    """An entry that is not whole."""

    @property
    def digest(self) -> str:
        """The digest of the key, 64 hexadecimal digits."""

    @property
    def reason(self) -> str:
        """Why it is not whole, a name of `REASONS`."""

    @property
    def removed(self) -> bool:
        """Whether it was removed."""

@final
class Verification:
    """The result of `verify`. It is true if every entry is whole."""

    @property
    def whole(self) -> int:
        """The number of whole entries."""

    @property
    def damaged(self) -> list[Damaged]:
        """The others."""

    @property
    def reason(self) -> str | None:
        """Why not all entries could be read, a name of `REASONS`; None if all were."""

    def __bool__(self) -> bool: ...

@final
class Removed:
    """What `prune` removed."""

    @property
    def entries(self) -> int:
        """The number of entries."""

    @property
    def bytes(self) -> int:
        """The bytes that they counted against the cap."""

    @property
    def reason(self) -> str | None:
        """Why pruning ended early, a name of `REASONS`; None if it did not."""

@disjoint_base
class Cache:
    """The native part of `warmstart.Cache`."""

    def __new__(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        store: Literal["files", "sqlite", "memory"] = "files",
        max_bytes: int | None = None,
        memory_bytes: int | None = None,
        seal: Buffer | None = None,
        durable: bool = False,
        read_only: bool = False,
        timeout: float = 60.0,
    ) -> Self: ...
    @property
    def path(self) -> str | None:
        """The path of the directory or database; None for one in memory."""

    @property
    def closed(self) -> bool:
        """Whether the cache is closed."""

    def get(self, key: Key) -> Artifact | None:
        """Look a key up; return None on any miss. Damage is a miss, and is removed."""

    def get_bytes(self, key: Key) -> bytes | None:
        """Look a key up, and read straight into a new bytes object; return None on any miss.

        Counts no saved time.
        """

    def look_up(self, key: Key) -> Artifact | Miss:
        """Look a key up; a miss has its reason."""

    def put(self, key: Key, data: Buffer) -> str | None:
        """Store bytes, of any contiguous buffer; return None, or a name of `REASONS` that says why they were not stored."""

    def get_or_build(self, key: Key, build: Callable[[], Buffer]) -> Artifact:
        """Look a key up, else call `build`, store what it returns, and return that.

        Of all threads, and all processes that share the store, one builds and the others wait for it, at most for `timeout`
        seconds. An exception of `build` is raised unchanged, nothing is stored, and one of the waiting callers builds. Raise
        TypeError if `build` returns something without a buffer.
        """

    def get_or_build_many(
        self,
        requests: Iterable[Key],
        build: Callable[[int], Buffer],
        *,
        workers: int = 0,
        progress: Callable[[int, Artifact], object] | None = None,
    ) -> list[Artifact]: ...
    def remove(self, key: Key) -> bool:
        """Remove an entry; return whether there was one."""

    def entries(self) -> list[Entry]:
        """List the entries, the next to be evicted first. Reads no payload."""

    def explain(self, key: Fields) -> Explanation | None:
        """Explain why a key misses: return the nearest entry of its domain, or None if there is no other. Scans the domain."""

    def stats(self, *, all_processes: bool = False) -> Stats:
        """Return the counters of this cache, or those that all processes have reported to the store."""

    def verify(self) -> Verification:
        """Read every entry to its end, and remove the damaged ones."""

    def prune(self, *, max_bytes: int | None = None, max_entries: int | None = None) -> Removed:
        """Evict least recently used entries until the rest fits. Raise ValueError if no limit is given."""

    def clear(self) -> str | None:
        """Remove every entry; return None, or a name of `REASONS` that says why some may be left."""

    def flush(self) -> str | None:
        """Write the counters and the order of use; return None, or a name of `REASONS` that says why that failed."""

    def close(self) -> str | None:
        """Flush and close. Later calls raise ValueError; closing again does nothing."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...
    def __contains__(self, key: Key, /) -> bool: ...
    def __len__(self) -> int: ...

@final
class Pack:
    """A file of packed weights that is mapped, so that all processes share one copy. A context manager.

    `checks` says whose checksums are verified: of no payloads, of each when it is first looked up, or of all when the file is
    opened; the index always is. `timeout` is how many seconds to wait for another writer. Raise OSError if `path` is something
    else than a pack or another user could have written it, and ValueError if it is open in this process with other options.

    A forked child opens the pack again.
    """

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        checks: Literal["none", "first_use", "all"] = "none",
        read_only: bool = False,
        prefetch: bool = False,
        timeout: float = 0.0,
    ) -> Self: ...
    def get(self, name: str, *, model: Buffer, packing: int, bias: str | None = None) -> memoryview | None:
        """Return the weight as a read-only view of the mapping, or None.

        `model` is 32 bytes that identify the model, as `model_of_file` returns them. `packing` is a number from 0 to 2**32 - 1
        that changes whenever the packed bytes would. The view keeps the pack open.
        """

    def look_up(self, name: str, *, model: Buffer, packing: int, bias: str | None = None) -> memoryview | Miss:
        """Return the weight as `get` does, or a miss with its reason."""

    def put(self, name: str, data: Buffer, *, model: Buffer, packing: int, bias: str | None = None) -> memoryview:
        """Copy a packed weight into the file, and return the view of it. `save` makes it last."""

    def save(self) -> str | None:
        """Save what was put, for the next process; return None, or a name of `REASONS` that says why it was not saved."""

    def refresh(self) -> None:
        """Find what other processes have saved since."""

    def model_of_file(self, path: str | os.PathLike[str]) -> bytes:
        """Return the digest of a model's file, 32 bytes, remembered beside the pack. Raise OSError if it cannot be read."""

    def stats(self) -> PackStats:
        """Return the counters."""

    def close(self) -> None:
        """Close the pack. Views of it stay valid; later calls raise ValueError."""

    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...

def run_command(arguments: list[str]) -> int:
    """Run the command `warmstart` with these arguments, without the program's name; return its exit code."""

def array_view(buffer: Buffer, format: str, itemsize: int, shape: list[int], /) -> memoryview:
    """Return a read-only view of bytes as a C-contiguous array. Raise ValueError if they have another length."""
