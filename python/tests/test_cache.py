"""The calls of a cache, over each store."""

import array
import os
import stat
from pathlib import Path

import pytest

import warmstart
from warmstart import Artifact, Cache, Fields, Miss


def fields(**others: str) -> Fields:
    fields = Fields("test", 1).text("name", "kernel")
    for label, value in others.items():
        fields = fields.text(label, value)
    return fields


def test_what_was_put_is_found(cache):
    assert cache.get("key") is None
    assert cache.get_bytes("key") is None
    assert cache.put("key", b"code") is None
    hit = cache.get("key")
    assert isinstance(hit, Artifact)
    assert (hit.origin, hit.miss, hit.refusal, bytes(hit)) == ("hit", None, None, b"code")
    assert cache.get_bytes("key") == b"code"
    assert "key" in cache
    assert "other" not in cache
    assert len(cache) == 1
    assert cache.remove("key") is True
    assert cache.remove("key") is False
    assert cache.get("key") is None


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 1 << 20])
def test_payload_of_any_length_is_unchanged(cache, size):
    payload = os.urandom(size)
    assert cache.put("key", payload) is None
    assert cache.get_bytes("key") == payload
    assert memoryview(cache.get("key")) == payload
    assert len(cache.get("key")) == size


def test_hit_is_read_only_and_outlives_its_cache(cache):
    cache.put("key", b"code")
    view = memoryview(cache.get("key"))
    cache.clear()
    cache.close()
    assert view.readonly
    assert view == b"code"
    with pytest.raises(TypeError):
        view[0] = 1
    with pytest.raises(BufferError):
        os.readv(0, [view])


def test_empty_artifact_is_true_and_a_miss_is_false(cache):
    cache.put("key", b"")
    assert cache.get("key")
    assert cache.look_up("key")
    miss = cache.look_up("other")
    assert isinstance(miss, Miss)
    assert not miss
    assert (miss.reason, miss.is_damage) == ("absent", False)
    assert miss.explanation == warmstart.REASONS["absent"]


def test_text_and_its_bytes_are_one_key(cache):
    cache.put("schlüssel", b"1")
    for key in [b"schl\xc3\xbcssel", bytearray(b"schl\xc3\xbcssel"), memoryview(b"schl\xc3\xbcssel")]:
        assert cache.get_bytes(key) == b"1"


@pytest.mark.parametrize("key", [None, 1, ["key"], object()])
def test_key_of_another_type_is_refused(cache, key):
    for call in [cache.get, cache.get_bytes, cache.look_up, cache.remove, cache.__contains__]:
        with pytest.raises(TypeError, match="give Fields, bytes or str"):
            call(key)


def test_any_contiguous_buffer_is_stored(cache):
    for data in [bytearray(b"ab"), memoryview(b"xaby")[1:3], array.array("H", [1, 2])]:
        assert cache.put("key", data) is None
        assert cache.get_bytes("key") == bytes(memoryview(data))
    with pytest.raises(BufferError, match="contiguous"):
        cache.put("key", memoryview(b"abcd")[::2])
    with pytest.raises(TypeError, match="str has no buffer"):
        cache.put("key", "text")


def test_missing_artifact_is_built_once(cache):
    calls = []

    def build():
        calls.append(None)
        return b"code"

    built = cache.get_or_build(fields(), build)
    found = cache.get_or_build(fields(), build)
    assert len(calls) == 1
    assert (built.origin, built.miss, bytes(built)) == ("built", "absent", b"code")
    assert (found.origin, found.miss, bytes(found)) == ("hit", None, b"code")
    assert found.created is not None
    assert found.build_seconds is not None
    stats = cache.stats()
    assert (stats["builds"], stats["hits"], stats["misses"]) == (1, 1, {"absent": 1})


def test_exception_of_a_builder_is_raised_unchanged(cache):
    class OwnError(Exception):
        pass

    error = OwnError("no compiler")
    with pytest.raises(OwnError) as raised:
        cache.get_or_build("key", lambda: (_ for _ in ()).throw(error))
    assert raised.value is error
    assert "key" not in cache
    assert bytes(cache.get_or_build("key", lambda: b"code")) == b"code"


def test_builder_that_returns_no_bytes_is_refused(cache):
    with pytest.raises(TypeError, match="the builder returned NoneType: return bytes"):
        cache.get_or_build("key", lambda: None)
    assert "key" not in cache


def test_builder_may_build_what_it_needs(cache):
    inner = lambda: cache.get_or_build("inner", lambda: b"1")  # noqa: E731
    assert bytes(cache.get_or_build("outer", lambda: bytes(inner()) + b"2")) == b"12"


def test_many_are_returned_in_order_and_equal_keys_built_once(cache):
    names = ["relu", "gelu", "relu", "tanh"]
    built, ready = [], []

    def build(index):
        built.append(names[index])
        return names[index].encode()

    found = cache.get_or_build_many(
        names, build, workers=2, progress=lambda index, artifact: ready.append((index, bytes(artifact)))
    )
    assert [bytes(artifact) for artifact in found] == [name.encode() for name in names]
    assert sorted(built) == ["gelu", "relu", "tanh"]
    assert sorted(ready) == [(index, name.encode()) for index, name in enumerate(names)]
    assert {artifact.origin for artifact in cache.get_or_build_many(iter(names), build)} == {"hit"}


def test_error_of_one_of_many_stops_no_other(cache, caplog):
    errors = [ValueError("first"), ValueError("second")]

    def build(index):
        if index % 2:
            raise errors[index // 2]
        return b"%d" % index

    with pytest.raises(ValueError, match="first") as raised:
        cache.get_or_build_many(["0", "1", "2", "3"], build, workers=1)
    assert raised.value is errors[0]
    assert [key in cache for key in "0123"] == [True, False, True, False]
    assert "second" in caplog.text


def test_exception_of_a_callback_is_raised_after_all_is_built(cache):
    def tell(index, artifact):
        raise KeyError(index)

    with pytest.raises(KeyError):
        cache.get_or_build_many(["a", "b"], lambda index: b"x", progress=tell)
    assert len(cache) == 2


def test_progress_shows_a_bar(cache, capsys):
    pytest.importorskip("tqdm")
    cache.get_or_build_many(["a", "b"], lambda index: b"x", progress=True)
    assert "2/2" in capsys.readouterr().err


def test_entries_describe_their_keys(cache):
    cache.put(fields(flags="-O2"), b"code")
    cache.put("plain", b"x" * 1000)
    described, plain = cache.entries()
    assert (described.name, described.domain) == ("kernel", "test")
    assert described.fields == [("name", "kernel"), ("flags", "-O2")]
    assert plain.name is plain.domain is plain.unreadable is None
    assert plain.size >= 1000
    assert len(plain.digest) == 64


def test_explanation_names_the_field_that_differs(cache):
    assert cache.explain(fields()) is None
    cache.put(fields(flags="-O2"), b"code")
    explanation = cache.explain(fields(flags="-O3"))
    assert [(change.label, change.old, change.new) for change in explanation.changes] == [("flags", "-O2", "-O3")]
    assert explanation.nearest.name == "kernel"
    assert 'flags ("-O2", now "-O3")' in str(explanation)


def test_verify_finds_all_whole(cache):
    cache.put("key", b"code")
    verification = cache.verify()
    assert verification
    assert (verification.whole, verification.damaged, verification.reason) == (1, [], None)


def test_prune_evicts_the_least_recently_used(cache):
    for key in "abc":
        cache.put(key, b"x")
    assert cache.get("a")
    removed = cache.prune(max_entries=1)
    assert (removed.entries, removed.reason) == (2, None)
    assert removed.bytes > 0
    assert [key in cache for key in "abc"] == [True, False, False]
    with pytest.raises(ValueError, match="give max_bytes or max_entries"):
        cache.prune()


def test_clear_removes_all_and_keeps_counting(cache):
    cache.get_or_build("key", lambda: b"x")
    assert cache.clear() is None
    assert len(cache) == 0
    assert cache.stats()["builds"] == 1


def test_closed_cache_says_so(cache):
    with cache:
        assert not cache.closed
        cache.put("key", b"x")
    assert cache.closed
    assert cache.close() is None
    calls = [
        lambda: cache.get("key"),
        lambda: cache.get_bytes("key"),
        lambda: cache.look_up("key"),
        lambda: cache.put("key", b""),
        lambda: cache.get_or_build("key", lambda: b""),
        lambda: cache.get_or_build_many(["key"], lambda index: b""),
        lambda: "key" in cache,
        lambda: len(cache),
        lambda: cache.remove("key"),
        lambda: cache.entries(),
        lambda: cache.explain(fields()),
        lambda: cache.stats(),
        lambda: cache.verify(),
        lambda: cache.prune(max_entries=1),
        lambda: cache.clear(),
        lambda: cache.flush(),
        lambda: cache.__enter__(),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the cache is closed: open it again"):
            call()


def test_entries_and_counters_outlive_the_cache(on_disk):
    with on_disk() as cache:
        cache.get_or_build(fields(), lambda: b"code")
    with on_disk() as cache:
        assert cache.get_bytes(fields()) == b"code"
        cache.flush()
        stats = cache.stats(all_processes=True)
    assert (stats["builds"], stats["hits"], stats["misses"]) == (1, 1, {"absent": 1})


def test_cap_holds_and_oversize_is_a_refusal(on_disk, caplog):
    with on_disk(max_bytes=1 << 20) as cache:
        for index in range(40):
            assert cache.put(str(index), bytes(64 << 10)) is None
        assert cache.put("large", bytes(2 << 20)) == "oversize"
        assert cache.stats()["refusals"] == {"oversize": 1}
        assert "larger than the cap" in caplog.text
        built = cache.get_or_build("large", lambda: bytes(2 << 20))
        assert (len(built), built.refusal) == (2 << 20, "oversize")
        assert sum(entry.size for entry in cache.entries()) <= 1 << 20
        assert cache.stats()["evictions"] > 20


def test_other_secret_finds_nothing(on_disk):
    with on_disk(seal=b"1" * 32) as cache:
        cache.put("key", b"code")
        assert cache.get_bytes("key") == b"code"
    with on_disk(seal=b"2" * 32) as cache:
        assert cache.look_up("key").reason == "forged"
    with on_disk() as cache:
        assert cache.look_up("key").reason == "sealed"


def test_read_only_cache_changes_nothing(on_disk):
    with on_disk() as cache:
        cache.put("key", b"code")
    with on_disk(read_only=True) as cache:
        assert cache.put("other", b"x") == "read_only"
        assert cache.get_bytes("key") == b"code"
        assert cache.get_or_build("another", lambda: b"x").refusal == "read_only"
    with on_disk() as cache:
        assert [entry.digest for entry in cache.entries()] == [cache.entries()[0].digest]
        assert "other" not in cache


def test_memory_keeps_what_files_lost(tmp_path):
    with Cache(tmp_path / "cache", memory_bytes=1 << 20) as cache:
        cache.put("key", bytearray(b"code"))
        for entry in (tmp_path / "cache" / "entries").iterdir():
            entry.unlink()
        assert cache.get_bytes("key") == b"code"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs a path"),
        ({"store": "sqlite"}, "needs a path"),
        ({"store": "redis", "path": "x"}, "there is no store"),
        ({"store": "memory", "path": "x"}, "has no path"),
        ({"store": "memory", "memory_bytes": 1}, "give max_bytes"),
        ({"store": "memory", "seal": bytes(32)}, "open one on disk"),
        ({"path": "x", "seal": b"short"}, "give a secret of 32"),
        ({"path": "x", "timeout": -1}, "the timeout is -1"),
        ({"path": "x", "timeout": float("nan")}, "the timeout is NaN"),
        ({"path": "x\0"}, "NUL|null"),
    ],
)
def test_wrong_argument_says_what_to_do(arguments, message):
    with pytest.raises(ValueError, match=message):
        Cache(**arguments)


def test_path_of_the_wrong_kind_is_an_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(OSError, match="name a directory"):
        Cache(file)
    with pytest.raises(OSError, match="name a file in it"):
        Cache(tmp_path, store="sqlite")


@pytest.mark.skipif(os.name != "posix", reason="needs permissions of Unix")
def test_directory_that_others_write_to_is_an_error(tmp_path):
    directory = tmp_path / "cache"
    directory.mkdir()
    directory.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    with pytest.raises(PermissionError):
        Cache(directory)
    Cache(directory, seal=bytes(32)).close()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder where nothing can be created")
def test_unusable_disk_raises_nothing(caplog):
    with Cache("/proc/self/cache") as cache:
        built = cache.get_or_build("key", lambda: b"code")
        assert (bytes(built), built.refusal) == (b"code", "unavailable")
        assert cache.put("key", b"code") == "unavailable"
        assert cache.look_up("key").reason in ("absent", "unavailable")
        assert "key" not in cache
        assert len(cache) == 0
        assert cache.entries() == []
    assert "an artifact was not stored" in caplog.text


def test_fields_are_immutable_and_in_order():
    base = Fields("test").text("a", "1")
    assert base.text("b", "2") != base.text("c", "2")
    assert base == Fields("test", 1).text("a", "1")
    assert hash(base) == hash(Fields("test", 1).text("a", "1"))
    assert base.text("b", "2").text("c", "3") != base.text("c", "3").text("b", "2")
    assert base.list("l", ["ab"]) != base.list("l", ["a", "b"])
    assert base.bytes("x", b"1") != base.text("x", "1")
    assert base.digest("h", b"1", "note").key == base.digest("h", b"1", "other").key
    assert len(base.key) == 32
    with pytest.raises(OverflowError):
        base.number("n", -1)
    with pytest.raises(TypeError, match="give a list"):
        base.list("l", "text")


def test_fields_hash_as_every_language_does():
    """The preimage of docs/format.md, hashed by Python."""
    import hashlib

    def prefixed(data: bytes) -> bytes:
        return len(data).to_bytes(8, "little") + data

    preimage = b"warmstart key 1\0" + prefixed(b"dom") + (7).to_bytes(4, "little") + (4).to_bytes(8, "little")
    preimage += prefixed(b"a") + b"\x01" + prefixed(b"text") + prefixed(b"b") + b"\x02" + prefixed(b"\0\xff")
    preimage += prefixed(b"c") + b"\x03" + (9).to_bytes(8, "little")
    preimage += prefixed(b"d") + b"\x04" + (2).to_bytes(8, "little") + prefixed(b"x") + prefixed(b"")
    fields = Fields("dom", 7).text("a", "text").bytes("b", b"\0\xff").number("c", 9).list("d", ["x", ""])
    assert fields.key == hashlib.blake2b(preimage, digest_size=32).digest()


def test_file_counts_by_contents(tmp_path: Path):
    (tmp_path / "a").mkdir()
    files = [tmp_path / "header.h", tmp_path / "a" / "header.h"]
    for file in files:
        file.write_text("int x;")
    one, other = (Fields("test").file("header", file) for file in files)
    assert one == other
    files[1].write_text("int y;")
    assert one != Fields("test").file("header", files[1])
    with pytest.raises(FileNotFoundError) as raised:
        Fields("test").file("header", tmp_path / "missing")
    assert raised.value.filename == tmp_path / "missing"
