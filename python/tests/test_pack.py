"""Packs: views of a mapped file."""

import gc
import os
from pathlib import Path

import pytest
from conftest import wait_for

from warmstart import Miss, Pack

MODEL = bytes(range(32))


def test_weight_is_a_view_of_the_mapping(tmp_path: Path):
    numpy = pytest.importorskip("numpy")
    weights = numpy.arange(1000, dtype="float32")
    with Pack(tmp_path / "model.xpwc") as pack:
        assert pack.get("layer", model=MODEL, packing=1) is None
        view = pack.put("layer", weights, model=MODEL, packing=1)
        assert (numpy.frombuffer(view, "float32") == weights).all()
        assert pack.save() is None
        assert len(pack) == 1
    # Views keep their pack open.
    del view
    gc.collect()
    with Pack(tmp_path / "model.xpwc", checks="all") as pack:
        view = pack.get("layer", model=MODEL, packing=1)
        mapped = numpy.frombuffer(view, "float32")
        assert (mapped == weights).all()
        assert view.readonly
        assert not mapped.flags.writeable
        assert pack.stats()["hits"] == 1
    # The view keeps the mapping.
    gc.collect()
    assert mapped[999] == 999
    if os.path.exists("/proc/self/maps"):
        maps = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines(True) if line.endswith("model.xpwc\n")]
        address = mapped.__array_interface__["data"][0]
        assert any(int(start, 16) <= address < int(end, 16) for span, _ in maps for start, end in [span.split("-")])


def test_miss_has_its_reason(tmp_path: Path):
    with Pack(tmp_path / "model.xpwc") as pack:
        pack.put("layer", b"x" * 100, model=MODEL, packing=1, bias="bias")
        pack.save()
        reasons = [
            pack.look_up("other", model=MODEL, packing=1).reason,
            pack.look_up("layer", model=bytes(32), packing=1, bias="bias").reason,
            pack.look_up("layer", model=MODEL, packing=2, bias="bias").reason,
        ]
        assert reasons == ["absent", "other_model", "other_seed"]
        assert isinstance(pack.look_up("layer", model=MODEL, packing=1), Miss)
        assert pack.look_up("layer", model=MODEL, packing=1, bias="bias").nbytes == 100
        assert pack.stats()["misses"] == {"absent": 2, "other_model": 1, "other_seed": 1}


def test_damaged_weight_is_a_miss(tmp_path: Path):
    path = tmp_path / "model.xpwc"
    with Pack(path) as pack:
        pack.put("layer", b"0123456789" * 100, model=MODEL, packing=1)
        pack.save()
    gc.collect()
    data = bytearray(path.read_bytes())
    data[data.index(b"0123456789") + 500] ^= 1
    path.write_bytes(data)
    with Pack(path, checks="first_use", read_only=True) as pack:
        assert pack.look_up("layer", model=MODEL, packing=1).reason == "checksum_mismatch"


def test_saved_by_another_handle_is_found_after_a_refresh(tmp_path: Path):
    path = tmp_path / "model.xpwc"
    code = "import sys, warmstart; pack = warmstart.Pack(sys.argv[1]);"
    code += "pack.put('layer', b'x' * 64, model=bytes(range(32)), packing=1); print(pack.save())"
    import subprocess
    import sys

    with Pack(path) as pack:
        saved = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True)
        assert saved.stdout == "None\n"
        pack.refresh()
        assert pack.get("layer", model=MODEL, packing=1) == b"x" * 64


def test_digest_of_a_model_is_that_of_b2sum(tmp_path: Path):
    import hashlib

    model = tmp_path / "model.safetensors"
    model.write_bytes(b"weights" * 1000)
    with Pack(tmp_path / "model.xpwc") as pack:
        assert pack.model_of_file(model) == hashlib.blake2b(b"weights" * 1000, digest_size=32).digest()
        with pytest.raises(FileNotFoundError):
            pack.model_of_file(tmp_path / "missing")


def test_closed_pack_says_so(tmp_path: Path):
    pack = Pack(tmp_path / "model.xpwc")
    view = pack.put("layer", b"x" * 64, model=MODEL, packing=1)
    pack.close()
    pack.close()
    assert view == b"x" * 64
    for call in [lambda: len(pack), pack.save, pack.refresh, pack.stats, lambda: pack.get("a", model=MODEL, packing=1)]:
        with pytest.raises(ValueError, match="the pack is closed: open it again"):
            call()


def test_wrong_argument_says_what_to_do(tmp_path: Path):
    with pytest.raises(ValueError, match="there are no checks"):
        Pack(tmp_path / "model.xpwc", checks="some")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the timeout is -1"):
        Pack(tmp_path / "model.xpwc", timeout=-1)
    (tmp_path / "other").write_text("no pack" * 100)
    with pytest.raises(OSError, match="not of packed weights"):
        Pack(tmp_path / "other")
    with Pack(tmp_path / "model.xpwc") as pack, pytest.raises(ValueError, match="the model has 3 bytes"):
        pack.get("a", model=b"abc", packing=1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_is_told_to_open_the_pack_again(tmp_path: Path):
    with Pack(tmp_path / "model.xpwc") as pack:
        pack.put("layer", b"x" * 64, model=MODEL, packing=1)
        pack.save()
        child = os.fork()
        if child == 0:
            try:
                pack.get("layer", model=MODEL, packing=1)
            except ValueError as error:
                os._exit(7 if "before a fork" in str(error) else 1)
            os._exit(1)
        assert wait_for(child, 10) == 7
