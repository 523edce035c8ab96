"""`memoize`: keeps what a function returns."""

from __future__ import annotations

from ._warmstart import Fields, array_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, overload

    from typing_extensions import Buffer

    from ._cache import Cache
    from ._warmstart import Artifact

    _P = ParamSpec("_P")
    _R = TypeVar("_R")
    _Codec: TypeAlias = tuple[Callable[[Any], Buffer], Callable[[memoryview], Any]]

#: The length of an array's header is a multiple of this, so that the array is as aligned as the artifact.
ALIGNMENT = 64

#: The types whose values are told apart by their text.
PLAIN = (bool, int, float, complex, type(None))


# Of one signature, an omitted `key` would leave no arguments that fit.
if TYPE_CHECKING:

    @overload
    def memoize(
        cache: Cache,
        *,
        version: int,
        codec: Literal["bytes", "array", "pickle"] | _Codec = "bytes",
        key: None = None,
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
    @overload
    def memoize(
        cache: Cache,
        *,
        version: int,
        codec: Literal["bytes", "array", "pickle"] | _Codec = "bytes",
        key: Callable[Concatenate[Fields, _P], Fields],
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...


def memoize(
    cache: Cache,
    *,
    version: int,
    codec: Literal["bytes", "array", "pickle"] | _Codec = "bytes",
    key: Callable[..., Fields] | None = None,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Keep what a function returns in `cache`, under its name, `version` and arguments.

    Raise `version`, a number from 0 to 2**32 - 1, whenever the function would return something else for the same arguments.
    Arguments are text, bytes, numbers, None, arrays (by the buffer protocol), and lists, tuples and dicts of these; for others,
    `key` adds the arguments to the fields that it gets as its first one. Raise TypeError for an argument that is none of these.

    Functions of one module and qualified name share their results. So a function that uses variables of an enclosing one needs a
    `key` that adds them. Raise TypeError for a lambda without `key`: all lambdas have one name.

    `codec` says what the function returns: `bytes`; an `array`, which always comes back as a read-only memoryview of its format
    and shape, for `numpy.asarray`; anything that `pickle` takes, if only programs that you trust can write to the cache; or a
    pair of functions, which encode a result as bytes and decode a view of them. A stored result that cannot be decoded is
    replaced.

    >>> from warmstart import Cache
    >>> @memoize(Cache(store="memory"), version=1)
    ... def compile(source: str, level: int = 2) -> bytes:
    ...     return source.encode()
    >>> compile("kernel"), compile(source="kernel", level=2)
    (b'kernel', b'kernel')
    """
    encode, decode = _codec(codec)

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        import functools
        import inspect

        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is an async function: call cache.aget_or_build in it")
        if key is None and function.__name__ == "<lambda>":
            raise TypeError("all lambdas of a module have one name: give memoize a key, or define a function")
        signature = inspect.signature(function)
        fields = Fields(f"{function.__module__}.{function.__qualname__}", version)
        if codec == "pickle":
            fields = fields.text("pickle", _pickle_version())

        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if key is None:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                wanted = fields
                for label, value in bound.arguments.items():
                    wanted = _with(wanted, label, value)
            else:
                wanted = key(fields, *args, **kwargs)
            artifact = cache.get_or_build(wanted, lambda: encode(function(*args, **kwargs)))
            try:
                return decode(memoryview(artifact))  # type: ignore[no-any-return]
            except Exception:
                if artifact.origin == "built":
                    raise
            _warn(wanted, artifact)
            encoded = encode(function(*args, **kwargs))
            cache.put(wanted, encoded)
            return decode(memoryview(encoded))  # type: ignore[no-any-return]

        return call

    return decorate


def _with(fields: Fields, label: str, value: Any) -> Fields:
    """Add an argument. Equal fields are equal arguments of the same types."""
    kind = type(value)
    if kind is str:
        return fields.text(label, value)
    if kind in (bytes, bytearray):
        return fields.bytes(label, value)
    if kind in PLAIN:
        return fields.list(label, [kind.__name__, repr(value)])
    if kind in (list, tuple):
        fields = fields.list(label, [kind.__name__, str(len(value))])
        for index, item in enumerate(value):
            fields = _with(fields, f"{label}[{index}]", item)
        return fields
    if kind is dict:
        fields = fields.list(label, ["dict", str(len(value))])
        for name in value:
            fields = _with(_with(fields, f"{label} key", name), f"{label} value", value[name])
        return fields
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"the argument {label} is a {kind.__name__}, which is in no key: give memoize a key") from None
    return fields.list(f"{label} type", [kind.__name__, view.format, *map(str, _shape(view))]).bytes(
        label, view if view.c_contiguous else view.tobytes()
    )


def _codec(codec: str | _Codec) -> _Codec:
    """Return the pair of functions that encode and decode."""
    if codec == "bytes":
        return _encode_bytes, bytes
    if codec == "array":
        return _encode_array, _decode_array
    if codec == "pickle":
        import pickle

        return (lambda result: pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)), pickle.loads
    if isinstance(codec, str):
        raise ValueError(f"there is no codec {codec!r}: give bytes, array, pickle or a pair of functions")
    return codec


def _pickle_version() -> str:
    """Return what the meaning of pickled bytes depends on."""
    import sys

    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def _encode_bytes(result: Any) -> bytes:
    if not isinstance(result, bytes):
        raise TypeError(f"the function returned {type(result).__name__}: return bytes, or give memoize a codec")
    return result


def _encode_array(result: Any) -> bytes:
    """Encode an array: one line of text with its format, size of an item and shape, padded, and its bytes."""
    view = memoryview(result)
    header = " ".join([view.format.replace(" ", ""), str(view.itemsize), *map(str, _shape(view))]).encode()
    return header.ljust(len(header) // ALIGNMENT * ALIGNMENT + ALIGNMENT - 1) + b"\n" + view.tobytes()


def _decode_array(view: memoryview) -> memoryview:
    end = next(at for at in range(ALIGNMENT - 1, len(view), ALIGNMENT) if view[at] == ord("\n")) + 1
    form, itemsize, *shape = bytes(view[:end]).decode().split()
    return array_view(view[end:], form, int(itemsize), [int(length) for length in shape])


def _shape(view: memoryview) -> tuple[int, ...]:
    return view.shape or ()


def _warn(wanted: Fields, artifact: Artifact) -> None:
    import logging

    logging.getLogger("warmstart").warning(
        "a stored result of %d bytes cannot be decoded, and is replaced: %r", len(artifact), wanted, exc_info=True
    )
