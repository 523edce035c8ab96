"""JAX's persistent compilation cache, kept by warmstart.

    import warmstart.hosts.jax

    warmstart.hosts.jax.install("/tmp/jax", max_bytes=1 << 30)

From then on every program that JAX finds is verified, and the directory keeps its cap. JAX itself decides what it
stores, by `jax_persistent_cache_min_compile_time_secs`, which is 1 s unless set, and
`jax_persistent_cache_min_entry_size_bytes`.

`install` replaces private functions of JAX. It is tested with JAX 0.10.2 on Python 3.11, and with JAX 0.12.0.1 on
Python 3.13.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import logging
import os
import pathlib
import threading
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax
from jax._src import cache_key, compilation_cache, compiler, config
from jax._src.compilation_cache_interface import CacheInterface

from warmstart import Cache, Explanation, Fields

#: JAX uses a key right after it has derived it, so few need to be remembered.
_REMEMBERED = 1024

#: A part of a key that is longer is a digest in our key, and is shown as one.
_SHOWN_BYTES = 256

_installation: _Installation | None = None


def install(
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = None,
    memory_bytes: int | None = None,
    seal: bytes | None = None,
    single_build: bool = False,
    timeout: float = 60.0,
) -> JaxCache:
    """Make JAX keep what it compiles in a directory of warmstart, and return its cache. Replace an earlier `install`.

    `max_bytes` caps the directory, `memory_bytes` keeps as many bytes in memory as well, and `seal` is a secret of 32
    bytes, as for `warmstart.Cache`, which says what is raised.

    With `single_build`, one of all threads and processes compiles a program, and the others wait for it, at most
    `timeout` seconds. A program that JAX does not store is compiled by one after the other then.

    This sets the option `jax_compilation_cache_dir`, and `jax_persistent_cache_enable_xla_caches` to "none": XLA's own files
    would lie outside the cap, and their path would be part of every key.
    """
    global _installation
    keys = _Keys()

    def open_directory(path: str | os.PathLike[str]) -> JaxCache:
        cache = Cache(path, max_bytes=max_bytes, memory_bytes=memory_bytes, seal=seal, timeout=timeout)
        return JaxCache(cache, keys)

    cache = open_directory(path)
    uninstall()
    _installation = _Installation(cache, keys, open_directory, single_build=single_build)
    return cache


def uninstall() -> None:
    """Make JAX use its own cache again, with the options it had before `install`, and close ours."""
    global _installation
    if _installation is not None:
        _installation.undo()
        _installation.cache.cache.close()
        _installation = None


class JaxCache(CacheInterface):
    """What JAX calls: its keys and the programs it compiled. `cache` is the `warmstart.Cache` behind it."""

    def __init__(self, cache: Cache, keys: _Keys) -> None:
        self.cache = cache
        self._path = pathlib.Path(cache.path or "")
        self._keys = keys
        self._last_miss: str | None = None
        self._building = threading.local()

    def get(self, key: str) -> bytes | None:
        """Return the program that is stored under a key of JAX, or None."""
        found = self.cache.get_bytes(self._keys.fields(key))
        if found is None:
            self._last_miss = key
        return found

    def put(self, key: str, value: bytes) -> None:
        """Store a program. A failure is counted, and raises nothing."""
        built: list[bytes] | None = getattr(self._building, "programs", None)
        if built is None:
            self.cache.put(self._keys.fields(key), value)
        else:
            built.append(value)

    def explain(self, key: str | None = None) -> Explanation | None:
        """Compare `key`, or else the last key that was not found, with the nearest one that is stored.

        The fields are the parts of JAX's key: computation, jax_lib version, backend version, XLA flags,
        compile_options, accelerator_config, compression, custom_hook. Return None if nothing was missed, or nothing
        else is stored.
        """
        key = self._last_miss if key is None else key
        return None if key is None else self.cache.explain(self._keys.fields(key))

    def clear(self) -> None:
        """Remove all programs."""
        self.cache.clear()

    def __len__(self) -> int:
        return len(self.cache)

    def compile_once(self, key: str, compile: Callable[[], Any], read: Callable[[], Any]) -> Any:
        """Return what `compile` returns, or what `read` does if another caller stored it meanwhile."""
        made: list[Any] = []

        def build() -> bytes:
            programs: list[bytes] = []
            self._building.programs = programs
            try:
                made.append(compile())
            finally:
                self._building.programs = None
            if not programs:
                raise _NotStored
            return programs[-1]

        with contextlib.suppress(_NotStored):
            self.cache.get_or_build(self._keys.fields(key), build)
        if made:
            return made[0]
        executable = read()
        return compile() if executable is None else executable


class _NotStored(Exception):
    """JAX compiled a program and decided not to store it."""


class _Keys:
    """What JAX's keys were made of. Threads share it: each of its steps is atomic."""

    def __init__(self) -> None:
        self._fields: OrderedDict[str, Fields] = OrderedDict()

    def remember(self, key: str, parts: list[tuple[str, list[bytes]]]) -> None:
        """Remember the parts of a key."""
        fields = Fields("jax").text("name", key.rpartition("-")[0])
        for label, pieces in parts:
            whole = b"".join(pieces)
            if len(whole) <= _SHOWN_BYTES and whole.isascii():
                fields = fields.list(label, [piece.decode() for piece in pieces])
            else:
                fields = fields.digest(label, hashlib.sha256(whole).digest())
        self._fields[key] = fields
        while len(self._fields) > _REMEMBERED:
            self._fields.popitem(last=False)

    def fields(self, key: str) -> Fields:
        """Return the parts of a key, or the key as one field if JAX has not derived it lately."""
        if not key:
            raise ValueError("the key is empty: pass one that cache_key.get returned")
        return self._fields.get(key) or Fields("jax").text("key", key)


class _PartedHash:
    """Hashes a key of JAX as `hashlib.sha256` does, and keeps the bytes of each part."""

    def __init__(self) -> None:
        self._whole = hashlib.sha256()
        self._part: list[bytes] = []
        self.parts: list[tuple[str, list[bytes]]] = []

    def update(self, data: bytes) -> None:
        self._whole.update(data)
        self._part.append(bytes(data))

    def end_part(self, label: str) -> None:
        self.parts.append((label, self._part))
        self._part = []

    def digest(self) -> bytes:
        return self._whole.digest()


class _Installation:
    """The functions and options of JAX that `install` has replaced."""

    def __init__(
        self,
        cache: JaxCache,
        keys: _Keys,
        open_directory: Callable[[str], JaxCache],
        *,
        single_build: bool,
    ) -> None:
        self.cache = cache
        self._in_use = cache
        self._keys = keys
        self._open_directory = open_directory
        self._functions: list[tuple[Any, str, Any]] = []
        self._options: list[tuple[str, Any]] = []
        self._replace(compilation_cache, "get_file_cache", self._get_file_cache)
        if hasattr(cache_key, "_log_cache_key_hash") and hasattr(cache_key, "hashlib"):
            self._watch_keys()
        else:
            logging.getLogger("warmstart").warning("explain cannot name the parts of a key of JAX %s", jax.__version__)
        if single_build:
            self._compile_once()
        self._set("jax_compilation_cache_dir", str(cache.cache.path))
        self._set("jax_persistent_cache_enable_xla_caches", "none")
        compilation_cache.reset_cache()

    def undo(self) -> None:
        for module, name, function in reversed(self._functions):
            setattr(module, name, function)
        for option, value in self._options:
            jax.config.update(option, value)
        compilation_cache.reset_cache()

    def _replace(self, module: Any, name: str, function: Any) -> Any:
        original = getattr(module, name)
        self._functions.append((module, name, original))
        setattr(module, name, function)
        return original

    def _set(self, option: str, value: str) -> None:
        self._options.append((option, getattr(jax.config, option)))
        jax.config.update(option, value)

    def _get_file_cache(self, path: str) -> tuple[CacheInterface, str]:
        # The option may have been set to another directory since.
        self._in_use = self.cache if path == self.cache.cache.path else self._open_directory(path)
        if config.compilation_cache_check_contents.value:
            return compilation_cache.VerificationCache(self._in_use), path
        return self._in_use, path

    def _watch_keys(self) -> None:
        # `cache_key.get` hashes part after part into one `hashlib.sha256()`, and reports each to the log.
        last = threading.local()

        def log(hash_obj: Any, label: str, function: Any) -> None:
            if isinstance(hash_obj, _PartedHash):
                hash_obj.end_part(label)
                last.parts = hash_obj.parts
            log_of_jax(hash_obj, label, function)

        def get(*args: Any, **kwargs: Any) -> str:
            last.parts = []
            key: str = get_of_jax(*args, **kwargs)
            if last.parts:
                self._keys.remember(key, last.parts)
            return key

        self._replace(cache_key, "hashlib", types.SimpleNamespace(sha256=_PartedHash))
        log_of_jax = self._replace(cache_key, "_log_cache_key_hash", log)
        get_of_jax = self._replace(cache_key, "get", get)

    def _compile_once(self) -> None:
        read_parameters = inspect.signature(compiler._cache_read).parameters
        parameters = inspect.signature(compiler._compile_and_write_cache)

        def compile_and_write(*args: Any, **kwargs: Any) -> Any:
            given = parameters.bind(*args, **kwargs).arguments
            wanted = {name: given[name] for name in read_parameters}
            return self._in_use.compile_once(
                given["cache_key"],
                lambda: compile_of_jax(*args, **kwargs),
                lambda: compiler._cache_read(**wanted)[0],
            )

        compile_of_jax = self._replace(compiler, "_compile_and_write_cache", compile_and_write)


def register_scheme(
    *, max_bytes: int | None = None, memory_bytes: int | None = None, seal: bytes | None = None
) -> dict[str, Cache]:
    """Make `warmstart://DIRECTORY` a value of `jax_compilation_cache_dir`, without replacing a function of JAX.

    Return the caches that are open, by directory; more are added as JAX opens them. The options are those of `install`.
    `explain` names no parts of keys, and programs that were stored after `install` are not found. On GPUs, set
    `jax_persistent_cache_enable_xla_caches` to "none". Raise ImportError if the package `etils[epath]` is not
    installed; JAX looks for it when it is imported.
    """
    try:
        from etils import epath
    except ImportError as error:
        raise ImportError("JAX opens URLs by etils: pip install 'etils[epath]', before JAX is imported") from error

    directories: dict[str, Cache] = {}

    def open_directory(directory: str) -> Cache:
        if directory not in directories:
            directories[directory] = Cache(directory, max_bytes=max_bytes, memory_bytes=memory_bytes, seal=seal)
        return directories[directory]

    epath.register_path_cls("warmstart://")(type("_Path", (_SchemePath,), {"opened": staticmethod(open_directory)}))
    return directories


class _SchemePath:
    """The few calls of a path that JAX makes: its directory, and a file in it for each key."""

    opened: Callable[[str], Cache]

    def __init__(self, url: str) -> None:
        self._url = url
        directory, _, self._file = url.removeprefix("warmstart://").rpartition("/")
        self._directory = directory
        self._found: bytes | None = None

    def joinpath(self, *parts: str) -> _SchemePath:
        return type(self)("/".join([self._url, *parts]))

    __truediv__ = joinpath

    def __str__(self) -> str:
        return self._url

    __fspath__ = __str__

    def mkdir(self, **_: Any) -> None:
        self.opened(self._url.removeprefix("warmstart://"))

    def exists(self) -> bool:
        # JAX asks before it reads, and removes no damaged entry. So an entry exists if it can be read.
        self._found = self._cache().get_bytes(self._key())
        return self._found is not None

    def read_bytes(self) -> bytes:
        found = self._cache().get_bytes(self._key()) if self._found is None else self._found
        if found is None:
            raise FileNotFoundError(f"{self._url} is not stored")
        return found

    def write_bytes(self, data: bytes) -> int:
        self._cache().put(self._key(), data)
        return len(data)

    def _cache(self) -> Cache:
        return self.opened(self._directory)

    def _key(self) -> Fields:
        return Fields("jax").text("key", self._file.removesuffix("-cache"))
