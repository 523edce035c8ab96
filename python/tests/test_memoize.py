"""`memoize`, over each store."""

import array
import datetime
import pickle

import pytest

from warmstart import Fields, memoize


class Calls(list):
    """Counts the calls of a function."""

    def __call__(self, result):
        self.append(result)
        return result


def test_function_runs_once_for_equal_arguments(cache):
    calls = Calls()

    @memoize(cache, version=1)
    def compile(source: str, *flags: str, level: int = 2) -> bytes:
        """Compile."""
        return calls(f"{source} {flags} {level}".encode())

    assert compile("a", "-g", level=2) == compile("a", "-g") == b"a ('-g',) 2"
    assert len(calls) == 1
    assert type(compile("a", "-g")) is bytes
    assert compile("a", "-g", level=3) == b"a ('-g',) 3"
    assert compile("a") == b"a () 2"
    assert len(calls) == 3
    assert compile.__doc__ == "Compile."
    assert compile.__name__ == "compile"


def test_version_and_name_are_in_the_key(cache):
    def decorated(version, name):
        def function():
            return b"%d" % version

        function.__qualname__ = name
        return memoize(cache, version=version)(function)

    assert decorated(1, "a")() == b"1"
    assert decorated(2, "a")() == b"2"
    assert decorated(3, "b")() == b"3"
    assert len(cache) == 3


def test_arguments_of_other_types_are_other_arguments(cache):
    @memoize(cache, version=1)
    def kind(value) -> bytes:
        return repr(value).encode()

    values = [1, True, 1.0, "1", b"1", None, "None", [1], (1,), ["1"], [[1]], [], {}, {"a": 1}, {"a": "1"}, 1j]
    values += [array.array("b", [1]), array.array("B", [1]), array.array("h", [1])]
    for value in values * 2:
        assert kind(value) == repr(value).encode()
    assert len(cache) == len(values)


def test_argument_without_a_key_is_refused(cache):
    @memoize(cache, version=1)
    def of(value) -> bytes:
        return b""

    with pytest.raises(TypeError, match="the argument value is a date, which is in no key: give memoize a key"):
        of(datetime.date(2026, 1, 1))


def test_key_of_ones_own_extends_the_fields(cache):
    calls = Calls()

    @memoize(cache, version=1, key=lambda fields, day: fields.text("day", day.isoformat()))
    def of(day) -> bytes:
        return calls(day.isoformat().encode())

    assert of(datetime.date(2026, 1, 1)) == of(datetime.date(2026, 1, 1)) == b"2026-01-01"
    assert of(datetime.date(2026, 1, 2)) == b"2026-01-02"
    assert len(calls) == 2
    assert cache.entries()[0].fields == [("day", "2026-01-01")]


def test_result_of_another_type_needs_a_codec(cache):
    def three():
        return 3

    with pytest.raises(TypeError, match="the function returned int: return bytes, or give memoize a codec"):
        memoize(cache, version=1)(three)()
    with pytest.raises(ValueError, match="there is no codec 'json'"):
        memoize(cache, version=1, codec="json")


def test_codec_of_ones_own_encodes_and_decodes(cache):
    @memoize(cache, version=1, codec=(lambda text: text.encode(), lambda view: bytes(view).decode()))
    def upper(text: str) -> str:
        return text.upper()

    assert upper("ä") == upper("ä") == "Ä"


def test_pickle_is_used_only_if_named(cache):
    @memoize(cache, version=1, codec="pickle")
    def shape(n: int) -> dict:
        return {"n": n, "day": datetime.date(2026, 1, n)}

    assert shape(3) == shape(3) == {"n": 3, "day": datetime.date(2026, 1, 3)}


def test_stored_result_that_cannot_be_decoded_is_replaced(cache, caplog):
    calls = Calls()

    @memoize(cache, version=1, codec=(pickle.dumps, pickle.loads), key=lambda fields: fields)
    def one() -> int:
        return calls(1)

    assert one() == 1
    [entry] = cache.entries()
    fields_of = Fields(entry.domain, 1)
    assert fields_of in cache
    cache.put(fields_of, b"no pickle")
    assert one() == 1
    assert "cannot be decoded" in caplog.text
    assert one() == 1
    assert len(calls) == 2


def test_array_comes_back_with_its_format_and_shape(cache):
    numpy = pytest.importorskip("numpy")

    @memoize(cache, version=1, codec="array")
    def packed(weights, order: str):
        return numpy.asarray(weights, order=order).T.copy()

    weights = numpy.arange(24, dtype="float32").reshape(2, 3, 4)
    for _ in range(2):
        view = packed(weights, "C")
        assert isinstance(view, memoryview)
        assert view.readonly
        assert (view.format, view.shape) == ("f", (4, 3, 2))
        assert (numpy.asarray(view) == weights.T).all()
    assert len(cache) == 1
    packed(weights[:, ::-1], "C")
    packed(weights.astype("float64"), "C")
    assert len(cache) == 3
    # The same values in another layout of memory are the same argument.
    packed(numpy.asfortranarray(weights), "C")
    assert len(cache) == 3


@pytest.mark.parametrize("kind", ["bool", "uint8", ">i2", "int64", "float16", "float64", "complex64", "f4,i4", "S3"])
@pytest.mark.parametrize("shape", [(7,), (1, 3), (0, 2), ()])
def test_array_of_each_type_is_unchanged(cache, kind, shape):
    numpy = pytest.importorskip("numpy")
    made = numpy.ones(shape, kind)
    calls = Calls()
    of = memoize(cache, version=1, codec="array", key=lambda fields: fields)(lambda: calls(made))
    for _ in range(2):
        assert len(calls) <= 1
        again = numpy.asarray(of())
        assert again.dtype == made.dtype
        assert again.shape == made.shape
        assert (again == made).all()


def test_lambda_needs_a_key(cache):
    with pytest.raises(TypeError, match="all lambdas of a module have one name: give memoize a key"):
        memoize(cache, version=1)(lambda: b"x")


def test_async_function_is_refused(cache):
    with pytest.raises(TypeError, match="is an async function"):

        @memoize(cache, version=1)
        async def compile() -> bytes:
            return b""
