"""What cuda.core documents of a ProgramCacheResource, and compilations by NVRTC, which need no GPU."""

import ctypes
import io
from pathlib import Path

import pytest

pytest.importorskip("cuda.core")

from cuda.core import ObjectCode, Program, ProgramOptions
from cuda.core.utils import ProgramCacheResource, make_program_cache_key

from warmstart.hosts.cuda_core import ProgramCache

SOURCE = 'extern "C" __global__ void scale(float *x, float by) { x[threadIdx.x] *= by; }'
OPTIONS = ProgramOptions(arch="sm_90", name="scale")


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


#: Program.compile("ptx") asks the driver for its version, to warn of what it cannot load.
needs_driver = pytest.mark.skipif(not has_driver(), reason="needs the driver of an NVIDIA GPU")


@pytest.fixture
def cache(tmp_path):
    with ProgramCache(tmp_path / "programs", max_bytes=1 << 30) as cache:
        yield cache


def program(source=SOURCE, options=OPTIONS):
    return Program(source, "c++", options)


def damage_entries(path: Path):
    for file in (path / "entries").iterdir():
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)


def test_cache_is_a_resource(cache):
    assert isinstance(cache, ProgramCacheResource)


@pytest.mark.parametrize("value", [b"", b"code", bytes(range(256)) * 4096])
def test_bytes_come_back_unchanged_as_bytes(cache, value):
    cache["key"] = value
    assert type(cache["key"]) is bytes
    assert cache["key"] == value
    assert type(cache.get("key")) is bytes
    assert cache.get("key") == value


def test_text_and_its_utf_8_are_the_same_key(cache):
    cache["schlüssel"] = b"one"
    assert cache["schlüssel".encode()] == cache[bytearray("schlüssel".encode())] == b"one"
    cache["schlüssel".encode()] = b"two"
    assert cache["schlüssel"] == b"two"
    assert len(cache) == 1


def test_key_of_another_type_raises_type_error(cache):
    for key in (1, None, 1.5, ("k",)):
        for call in (cache.__getitem__, cache.__delitem__, cache.get, lambda key: cache.__setitem__(key, b"")):
            with pytest.raises(TypeError, match="key"):
                call(key)


def test_absent_key_raises_key_error_that_names_it(cache):
    with pytest.raises(KeyError, match="absent"):
        cache["absent"]
    with pytest.raises(KeyError, match="absent"):
        del cache["absent"]


def test_get_of_absent_key_returns_the_default(cache):
    assert cache.get("absent") is None
    assert cache.get("absent", b"default") == b"default"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_values_are_taken_from_buffers(cache, kind):
    cache["key"] = kind(b"code")
    assert cache["key"] == b"code"
    cache["key"] = memoryview(b"c-o-d-e")[::2]
    assert cache["key"] == b"code"


def test_value_of_another_type_raises_type_error(cache):
    for value in ("text", 1, None, [1]):
        with pytest.raises(TypeError, match="program"):
            cache["key"] = value
    assert len(cache) == 0


def test_object_code_is_stored_as_its_bytes(cache):
    cache["key"] = ObjectCode.from_cubin(b"cubin")
    assert cache["key"] == b"cubin"


def test_file_of_object_code_is_read_when_stored(cache, tmp_path):
    file = tmp_path / "kernel.cubin"
    file.write_bytes(b"cubin")
    cache["key"] = ObjectCode.from_cubin(str(file))
    file.write_bytes(b"other")
    assert cache["key"] == b"cubin"
    file.unlink()
    assert cache["key"] == b"cubin"
    with pytest.raises(FileNotFoundError, match=r"kernel\.cubin"):
        cache["other"] = ObjectCode.from_cubin(str(file))
    assert len(cache) == 1


def test_later_value_replaces_the_earlier(cache):
    cache["key"] = b"one"
    cache["key"] = b"two"
    assert cache["key"] == b"two"
    assert len(cache) == 1


def test_delete_removes_one_entry(cache):
    cache.update({"one": b"1", "two": b"2"})
    del cache["one"]
    assert cache.get("one") is None
    assert cache["two"] == b"2"
    assert len(cache) == 1


def test_clear_removes_all_entries(cache):
    cache.update({"one": b"1", "two": b"2"})
    cache.clear()
    assert len(cache) == 0
    assert cache.get("one") is None


def test_update_takes_mappings_and_pairs(cache):
    cache.update({"one": b"1", b"two": bytearray(b"2")})
    cache.update([("three", ObjectCode.from_ptx(b"3"))])
    assert [cache[key] for key in ("one", "two", "three")] == [b"1", b"2", b"3"]


def test_update_keeps_what_came_before_a_failure(cache):
    with pytest.raises(TypeError):
        cache.update([("one", b"1"), ("two", 2)])
    assert cache["one"] == b"1"
    assert len(cache) == 1


def test_there_is_no_contains(cache):
    assert not hasattr(type(cache), "__contains__")


def test_with_closes_the_cache(tmp_path):
    with ProgramCache(tmp_path) as cache:
        cache["key"] = b"code"
    assert cache.cache.closed
    cache.close()
    with pytest.raises(ValueError, match="closed"):
        cache.get("key")


def test_entries_outlive_the_cache(tmp_path):
    with ProgramCache(tmp_path) as cache:
        cache["key"] = b"code"
    with ProgramCache(tmp_path) as cache:
        assert cache["key"] == b"code"
        assert len(cache) == 1


def test_damaged_entry_is_absent(cache):
    cache["key"] = b"code"
    damage_entries(Path(cache.cache.path))
    with pytest.raises(KeyError):
        cache["key"]
    assert cache.get("key") is None
    assert len(cache) == 0


def test_entry_above_the_cap_evicts_nothing_and_raises_nothing(tmp_path):
    with ProgramCache(tmp_path, max_bytes=100_000) as cache:
        cache["small"] = b"code"
        cache["large"] = bytes(200_000)
        assert cache.get("large") is None
        assert cache["small"] == b"code"
        assert sum(cache.cache.stats()["refusals"].values()) == 1


def test_compile_stores_and_finds(cache):
    plain = program().compile("cubin")
    first = program().compile("cubin", cache=cache)
    assert bytes(first.code) == bytes(plain.code)
    assert len(cache) == 1
    log = io.StringIO()
    second = program().compile("cubin", cache=cache, logs=log)
    assert second is not first
    assert bytes(second.code) == bytes(plain.code)
    assert (second.code_type, second.name) == (first.code_type, first.name) == ("cubin", "scale")
    assert cache.cache.stats()["hits"] == 1
    assert log.getvalue() == ""


@pytest.mark.parametrize("target", [pytest.param("ptx", marks=needs_driver), "cubin", "ltoir"])
def test_each_target_is_an_entry_of_its_own(cache, target):
    options = ProgramOptions(arch="sm_90", link_time_optimization=target == "ltoir")
    cache["other"] = b"other"
    code = program(options=options).compile(target, cache=cache).code
    assert program(options=options).compile(target, cache=cache).code == code
    assert len(cache) == 2


def test_other_source_or_option_is_a_miss(cache):
    program().compile("cubin", cache=cache)
    program(SOURCE.replace("*=", "+=")).compile("cubin", cache=cache)
    program(options=ProgramOptions(arch="sm_80", name="scale")).compile("cubin", cache=cache)
    assert cache.cache.stats()["hits"] == 0
    assert len(cache) == 3


def test_damaged_program_is_compiled_once_more(cache):
    code = bytes(program().compile("cubin", cache=cache).code)
    damage_entries(Path(cache.cache.path))
    assert bytes(program().compile("cubin", cache=cache).code) == code
    assert bytes(program().compile("cubin", cache=cache).code) == code
    assert cache.cache.stats()["hits"] == 1


def test_compile_refuses_name_expressions_with_a_cache(cache):
    with pytest.raises(ValueError, match="name_expressions"):
        program().compile("cubin", name_expressions=("scale",), cache=cache)


def test_compile_refuses_an_include_path_without_a_digest(cache, tmp_path):
    with pytest.raises(ValueError, match="extra_digest"):
        program(options=ProgramOptions(arch="sm_90", include_path=str(tmp_path))).compile("cubin", cache=cache)


def test_key_with_a_digest_of_the_headers_is_used_by_hand(cache, tmp_path):
    (tmp_path / "by.h").write_text("#define BY 2")
    options = ProgramOptions(arch="sm_90", include_path=str(tmp_path))
    source = '#include "by.h"\nextern "C" __global__ void scale(float *x) { x[threadIdx.x] *= BY; }'

    def key(digest):
        return make_program_cache_key(code=source, code_type="c++", options=options, target_type="cubin", extra_digest=digest * 32)

    made = program(source, options).compile("cubin")
    cache[key(b"a")] = made
    assert bytes(ObjectCode.from_cubin(cache.get(key(b"a"))).code) == bytes(made.code)
    assert cache.get(key(b"b")) is None
