"""Files of torch before 1.6; and damaged ones, with one line that names the file."""

import json
import os
import pickle
import struct
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from rich.console import Console

import regard
from regard.deploy.exchange import import_model
from regard.hub import HubError, read_translator
from regard.hub.pickles import read_pickle
from tests.hub.marians import ENGLISH, m2m, marian
from tests.hub.test_pickles import HOSTILE, SIXTEEN, Evil, guarded, number, one, tensor, text, written

__all__ = ["guarded"]  # the fixture
MAGIC, VERSION = pickle.dumps(0x1950A86A20F9469CFC6C, 2), pickle.dumps(1001, 2)
FACTS = pickle.dumps({"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2}}, 2)
NUMBERS = struct.pack("<q4f", 4, 1, 2, 3, 4)


def stream(
    path: Path, program: bytes, *, start=MAGIC + VERSION + FACTS, keys=("0",), numbers=NUMBERS
) -> Path:
    path.write_bytes(start + program + pickle.dumps([*keys], 2) + numbers)
    return path


def refused(path: Path, message: str) -> None:
    with pytest.raises(HubError, match=message) as caught:
        read_pickle(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def old(program: bytes) -> bytes:
    """The same with storages as they were written then: with what view they are."""
    return program.replace(b"tQ", b"NtQ")


def test_what_is_written_by_hand_here_is_a_stream(tmp_path):
    path = stream(tmp_path / "x.bin", old(one(tensor())))
    assert torch.equal(read_pickle(path)["x"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert torch.equal(torch.load(path, weights_only=True)["x"], read_pickle(path)["x"])


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_in_a_stream_is_run(tmp_path, guarded, name):
    program, message = HOSTILE[name]
    other = r"|cut short|not those of its tensors|opcode EMPTY_LIST"  # of the keys behind it
    refused(stream(tmp_path / "x.bin", old(program)), message + other)


BROKEN = {
    "no magic": ({"start": pickle.dumps(7, 2) + VERSION + FACTS}, "no file of torch's"),
    "a version": ({"start": MAGIC + pickle.dumps(1002, 2) + FACTS}, "no file of torch's"),
    "a magic that calls": ({"start": pickle.dumps(Evil(os.system, "true"), 2)}, "nothing of it was called"),
    "facts that call": (
        {"start": MAGIC + VERSION + pickle.dumps({"x": Evil(os.system, "true")}, 2)},
        "nothing of it was called",
    ),
    "big-endian": ({"start": MAGIC + VERSION + pickle.dumps({"little_endian": False}, 2)}, "little-endian"),
    "no facts": ({"start": MAGIC + VERSION + pickle.dumps(1, 2)}, "little-endian"),
    "keys of others": ({"keys": ("1",)}, "not those of its tensors"),
    "no keys": ({"keys": ()}, "not those of its tensors"),
    "a key twice": ({"keys": ("0", "0")}, "not those of its tensors"),
    "keys that are none": ({"keys": (1,)}, "no list of strings"),
    "another count": ({"numbers": struct.pack("<q4f", 3, 1, 2, 3, 4)}, "does not have the 4 numbers"),
    "a negative count": ({"numbers": struct.pack("<q4f", -4, 1, 2, 3, 4)}, "does not have the 4 numbers"),
    "cut short": ({"numbers": NUMBERS[:-1]}, "cut short: copy the folder anew"),
    "nothing behind": ({"numbers": b""}, "cut short: copy the folder anew"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_stream_that_contradicts_itself_is_refused(tmp_path, guarded, name):
    how, message = BROKEN[name]
    refused(stream(tmp_path / "x.bin", old(one(tensor())), **how), message)


def test_a_storage_that_is_a_view_of_another_is_refused(tmp_path, guarded):
    view = b"(" + text("0") + number(0) + number(4) + b"t"
    refused(stream(tmp_path / "x.bin", one(tensor()).replace(b"tQ", view + b"tQ")), "a view of another")


def test_any_cut_and_any_other_byte_gives_tensors_or_an_error(tmp_path):
    """Of a stream, and of a zip."""
    path, chance = tmp_path / "x.bin", torch.Generator().manual_seed(0)
    for zipped in (True, False):
        torch.save({"a": torch.ones(2, 3), "b": torch.zeros(4)}, path, _use_new_zipfile_serialization=zipped)
        whole = path.read_bytes()
        for place in torch.randint(len(whole), (300,), generator=chance).tolist():
            value = int(torch.randint(256, (), generator=chance))
            for broken in (whole[:place], whole[:place] + bytes([value]) + whole[place + 1 :]):
                path.write_bytes(broken)
                with suppress(HubError):
                    read_pickle(path)


def test_headers_of_a_zip_that_contradict_each_other(tmp_path):
    good = written(tmp_path / "x.bin", one(tensor()), SIXTEEN).read_bytes()
    path = tmp_path / "y.bin"
    named = bytearray(good.replace(b"m/data.pkl", b"m/da\xff\xfe.pkl"))
    central = named.index(b"PK\x01\x02")
    named[central + 8 : central + 10] = b"\x00\x08"  # it says that its name is UTF-8
    path.write_bytes(named)
    refused(path, "no whole zip .*utf-8")
    end = good.rindex(b"PK\x05\x06")
    path.write_bytes(good[: end + 12] + struct.pack("<I", 2**31) + good[end + 16 :])  # of its directory
    refused(path, "no whole zip")
    assert torch.equal(read_pickle(tmp_path / "x.bin")["x"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "stream"])
def test_one_storage_under_many_names_is_no_bomb(tmp_path, zipped):
    base = torch.zeros(2**18)
    path = tmp_path / "x.bin"
    torch.save({f"x{i}": base for i in range(4)}, path, _use_new_zipfile_serialization=zipped)
    assert len(read_pickle(path)) == 4
    torch.save({f"x{i}": base for i in range(8)}, path, _use_new_zipfile_serialization=zipped)
    refused(path, "the same numbers under too many names")


def test_tensors_are_counted(tmp_path, monkeypatch):
    torch.save({f"x{i}": torch.zeros(1) for i in range(9)}, tmp_path / "x.bin")
    monkeypatch.setattr("regard.hub.programs._TENSORS", 8)
    refused(tmp_path / "x.bin", "9 tensors, but a model has no more than 8")


@pytest.mark.parametrize("kind", ["marian", "separate", "m2m100"])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "stream"])
def test_a_folder_with_every_name_of_its_family_is_imported(hf, tmp_path, kind, zipped):
    pytest.importorskip("sentencepiece")
    theirs = tmp_path / "theirs"
    model = m2m(hf, theirs) if kind == "m2m100" else marian(hf, theirs, separate=kind == "separate")
    to = "de" if kind == "m2m100" else None
    wanted = regard.load(theirs, regard.Translator, device="cpu").translate(ENGLISH, to=to)
    (theirs / "model.safetensors").unlink()
    torch.save(model.state_dict(), theirs / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    import_model(theirs, tmp_path / "ours", pickle=True, console=Console(quiet=True))
    found = regard.load(tmp_path / "ours", regard.Translator, device="cpu").translate(ENGLISH, to=to)
    assert [each.text for each in found] == [each.text for each in wanted]


def test_a_tensor_of_another_name_is_refused_before_it_is_read(hf, tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece")
    model = marian(hf, tmp_path)
    strange = "\x1b[2Jevil" + "x" * 10_000
    torch.save({**model.state_dict(), strange: torch.zeros(3)}, tmp_path / "pytorch_model.bin")
    monkeypatch.setattr("regard.hub.pickles._numbers", None)
    with pytest.raises(HubError, match=r"a tensor '\\x1b\[2Jevilx+, which no Marian has") as caught:
        read_translator(tmp_path, pickle=True)
    assert len(str(caught.value)) < 400
    assert "\x1b" not in str(caught.value)


def test_what_is_left_out_is_named_without_its_escapes(hf, tmp_path):
    from safetensors.torch import load_file, save_file

    pytest.importorskip("sentencepiece")
    marian(hf, tmp_path)
    held = load_file(tmp_path / "model.safetensors")
    save_file({**held, "\x1b[2J" + "x" * 10_000: torch.zeros(1)}, tmp_path / "model.safetensors")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_translator(tmp_path)
    (message,) = [str(each.message) for each in caught if "left out" in str(each.message)]
    assert "\x1b" not in message
    assert len(message) < 400
    index = {"weight_map": {"\x1b[3J" + "x" * 10_000: "model-1.safetensors"}}
    (tmp_path / "model.safetensors").rename(tmp_path / "model-1.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(HubError, match=r"no tensor '\\x1b") as told:
        read_translator(tmp_path)
    assert len(str(told.value)) < 400
