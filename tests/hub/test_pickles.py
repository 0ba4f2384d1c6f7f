"""A pytorch_model.bin is read as torch.load reads it; and nothing in one is ever run, whoever made it."""

import builtins
import importlib
import json
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from rich.console import Console

import regard
from regard.config import ConfigError
from regard.deploy.exchange import import_model
from regard.hub import HubError
from regard.hub.pickles import read_pickle
from tests.hub.marians import ENGLISH, marian

QUIET = Console(quiet=True)


@pytest.fixture
def guarded(monkeypatch):
    """What a pickle would need to do harm raises, so that a test that gets there fails."""

    def never(*_, **__):
        raise AssertionError("something of the file was run")

    "".encode("cp437")  # which zipfile looks for, and Python then executes the module of
    for module, name in ((os, "system"), (os, "popen"), (builtins, "eval"), (builtins, "exec")):
        monkeypatch.setattr(module, name, never)
    monkeypatch.setattr(pickle, "loads", never)
    monkeypatch.setattr(pickle, "Unpickler", never)
    monkeypatch.setattr(importlib, "import_module", never)
    monkeypatch.setattr(torch, "load", never)


def state_dicts() -> dict[str, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    tied = torch.nn.ModuleDict({"a": torch.nn.Embedding(5, 3), "b": torch.nn.Linear(3, 5, bias=False)})
    tied["b"].weight = tied["a"].weight
    base = torch.arange(24.0)
    kinds = (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
    )
    kinds += (torch.int8, torch.uint8, torch.bool)
    return {
        "module": module.state_dict(),
        "tied": tied.state_dict(),
        "plain": {"x": torch.randn(2, 3)},
        "kinds": {str(kind): torch.arange(6).to(kind).view(2, 3) for kind in kinds},
        "views": {
            "rows": base[3:9].view(2, 3),
            "every other": base[::2],
            "turned": base.view(4, 6).t(),
            "all": base,
        },
        "odd": {"none": torch.empty(0, 3), "one": torch.tensor(1.5), "ä.β": torch.ones(1, 1, 1)},
        "parameters": {
            "x": torch.nn.Parameter(torch.randn(2, 2)),
            "y": torch.nn.Parameter(torch.ones(1), False),
        },
        "ordered": OrderedDict(b=torch.ones(2), a=torch.zeros(3)),
        "many": {f"layer.{i}.weight": torch.full((2,), float(i)) for i in range(700)},
    }


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "stream"])
@pytest.mark.parametrize("name", state_dicts())
def test_tensors_are_those_of_torch(tmp_path, name, zipped):
    path = tmp_path / "pytorch_model.bin"
    torch.save(state_dicts()[name], path, _use_new_zipfile_serialization=zipped)
    wanted, found = torch.load(path, weights_only=True), read_pickle(path)
    assert [*found] == [*wanted]
    for key, tensor in wanted.items():
        assert torch.equal(found[key], tensor)
        assert (found[key].dtype, found[key].stride()) == (tensor.dtype, tensor.stride())


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "stream"])
def test_shared_storages_stay_shared(tmp_path, zipped):
    path = tmp_path / "x.bin"
    torch.save(state_dicts()["tied"], path, _use_new_zipfile_serialization=zipped)
    found = read_pickle(path)
    assert found["a.weight"].data_ptr() == found["b.weight"].data_ptr()


def written(
    path: Path, program: bytes, files: dict[str, bytes] | None = None, root: str = "m", **how
) -> Path:
    """A zip as torch makes one, of a program."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{root}/data.pkl", program, **how)
        for name, content in {"version": b"3\n", "byteorder": b"little", **(files or {})}.items():
            archive.writestr(f"{root}/{name}", content)
    return path


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value) if -(2**31) <= value < 2**31 else pickle.dumps(value, 2)[2:-1]


def tensor(
    *,
    key="0",
    count=4,
    kind="torch\nFloatStorage",
    offset=0,
    shape=(2, 2),
    strides=(2, 1),
    call="_rebuild_tensor_v2",
) -> bytes:
    storage = (
        b"("
        + text("storage")
        + b"c"
        + kind.encode()
        + b"\n"
        + text(key)
        + text("cpu")
        + number(count)
        + b"tQ"
    )
    sizes = b"(" + b"".join(map(number, shape)) + b"t"
    steps = b"(" + b"".join(map(number, strides)) + b"t"
    hooks = b"ccollections\nOrderedDict\n)R"
    return (
        b"ctorch._utils\n"
        + call.encode()
        + b"\n("
        + storage
        + number(offset)
        + sizes
        + steps
        + b"\x89"
        + hooks
        + b"tR"
    )


def one(value: bytes) -> bytes:
    """A program for {"x": value}."""
    return b"\x80\x02}" + text("x") + value + b"s."


SIXTEEN = {"data/0": struct.pack("<4f", 1, 2, 3, 4)}


def test_what_is_written_by_hand_here_is_a_pickle(tmp_path):
    """Or else what follows would be refused for another reason."""
    path = written(tmp_path / "x.bin", one(tensor()), SIXTEEN)
    assert torch.equal(read_pickle(path)["x"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert torch.equal(torch.load(path, weights_only=True)["x"], read_pickle(path)["x"])


class Evil:
    def __init__(self, function, *arguments):
        self.made = function, arguments

    def __reduce__(self):
        return self.made


def again(count: int) -> bytes:
    """Tuples of two, each holding the one before twice: 2^count, if anybody unfolds them."""
    return b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(count))


HOSTILE = {
    "os.system": (pickle.dumps({"x": Evil(os.system, "true")}, 2), "calls '.* system'; nothing of it was"),
    "eval": (pickle.dumps({"x": Evil(eval, "1")}, 2), "calls '.* eval'; nothing"),
    "getattr": (pickle.dumps({"x": Evil(getattr, 1, "real")}, 2), "calls '.* getattr'; nothing"),
    "exec at the top": (b"\x80\x02c__builtin__\nexec\n" + text("1") + b"\x85R.", "calls '__builtin__ exec'"),
    "import_module": (pickle.dumps({"x": Evil(importlib.import_module, "os")}, 2), "import_module'; nothing"),
    "a name that looks right": (
        b"\x80\x02}" + text("x") + b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n)Rs.",
        "__globals__'; nothing of it was called",
    ),
    "an object": (b"\x80\x02(ios\nsystem\n.", "opcode INST"),
    "newobj": (b"\x80\x02cos\nsystem\n)\x81.", "opcode NEWOBJ"),
    "obj": (b"\x80\x02(cos\nsystem\no.", "opcode OBJ"),
    "extension": (b"\x80\x02\x82\x01.", "opcode EXT1"),
    "stack global": (b"\x80\x02\x8c\x02os\x8c\x06system\x93.", "opcode STACK_GLOBAL"),
    "persistent text": (b"\x80\x02Pos\n.", "opcode PERSID"),
    "bytes": (b"\x80\x02C\x01a.", "opcode SHORT_BINBYTES"),
    "frames": (pickle.dumps({"x": 1}, 4), "of protocol 4"),
    "protocol 0": (pickle.dumps({"x": 1}, 0), "opcode"),
    "a name for a tensor": (b"\x80\x02}" + text("x") + b"cos\nsystem\ns.", "no tensor, but 'os system'"),
    "a state for a name": (b"\x80\x02cos\nsystem\n}b.", "gives a state to something"),
    "a state that is none": (b"\x80\x02}}" + text("y") + b"Ksb.", "gives a state|cannot be read"),
    "a list": (pickle.dumps([1], 2), "opcode EMPTY_LIST"),
    "nothing": (b"", "cannot be read|no end"),
    "cut short": (one(tensor())[:-20], "cannot be read|no end"),
    "no end": (b"\x80\x02}", "cannot be read|no end"),
    "an empty stack": (b"\x80\x02R.", "cannot be read"),
    "a mark for a value": (b"\x80\x02((\x86.", "takes a mark for a value"),
    "memory never kept": (b"\x80\x02h\x07.", "recalls 7, which was never kept"),
    "two values": (b"\x80\x02}}.", "more than one value"),
    "a number as key": (b"\x80\x02}K\x01K\x02s.", "a key that is no string"),
    "a tuple as key": (b"\x80\x02})K\x02s.", "a key that is no string, but a tuple"),
    "itself": (b"\x80\x02}q\x00" + text("x") + b"h\x00s.", "is no tensor, but a dict"),
    "a memo bomb": (b"\x80\x02)" + again(200) + b".", "no dictionary of tensors, but a tuple"),
    "a memo bomb for a tensor": (one(b")" + again(200)), "is no tensor, but a tuple"),
    "a memo bomb for a key": (b"\x80\x02})" + again(200) + b"K\x01s.", "no string, but a tuple"),
    "a memo bomb for a call": (b"\x80\x02cos\nsystem\n)" + again(200) + b"R.", "calls 'os system'"),
    "a call of a memo bomb": (b"\x80\x02)" + again(200) + b")R.", "calls a tuple; nothing"),
    "dropped": (b"\x80\x02}}0.", "opcode POP"),
    "out of the storage": (one(tensor(offset=1)), "does not lie in its storage"),
    "strides out of the storage": (one(tensor(strides=(3, 1))), "does not lie in its storage"),
    "before the storage": (one(tensor(offset=-1)), "no whole number from 0"),
    "negative strides": (one(tensor(strides=(-2, 1))), "no whole number from 0"),
    "negative sizes": (one(tensor(shape=(-2, -2))), "no whole number from 0"),
    "a huge size": (one(tensor(shape=(2**40, 2**40))), "does not lie in its storage"),
    "a size past all": (one(tensor(shape=(2**70, 1))), "beyond all bounds"),
    "sizes of nothing": (one(tensor(shape=(2**48, 2**48, 0), strides=(1, 1, 1))), "beyond all bounds"),
    "sizes from nothing": (one(tensor(shape=(2**20, 2**20), strides=(0, 0))), "does not lie in its storage"),
    "true for a size": (
        one(tensor()).replace(b"(" + number(2) + number(2) + b"t", b"(\x88" + number(2) + b"t", 1),
        "no whole number",
    ),
    "more strides": (one(tensor(strides=(2, 1, 1))), "2 sizes and 3 strides"),
    "a count that is none": (one(tensor(count=5)), "should have 20 bytes, but is 16"),
    "a huge count": (one(tensor(count=2**40)), "should have"),
    "a storage that is not there": (one(tensor(key="1")), "is missing"),
    "a storage by a path": (one(tensor(key="../../../etc/passwd")), "no number"),
    "a storage of no kind": (one(tensor(kind="os\nsystem")), "a storage of 'os system'"),
    "a complex storage": (one(tensor(kind="torch\nComplexFloatStorage")), "ComplexFloatStorage"),
    "another rebuild": (one(tensor(call="_rebuild_qtensor")), "_rebuild_qtensor'; nothing of it was called"),
    "a wrapped tensor": (one(tensor(call="_rebuild_wrapper_subclass")), "nothing of it was called"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_run(tmp_path, guarded, name):
    program, message = HOSTILE[name]
    path = written(tmp_path / "x.bin", program, SIXTEEN)
    with pytest.raises(HubError, match=message) as caught:
        read_pickle(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_storage_is_of_one_kind(tmp_path):
    both = b"\x80\x02}(" + text("x") + tensor() + text("y") + tensor(kind="torch\nIntStorage") + b"u."
    with pytest.raises(HubError, match="two kinds or sizes"):
        read_pickle(written(tmp_path / "x.bin", both, SIXTEEN))


def test_many_opcodes_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.hub.programs._STEPS", 1000)
    with pytest.raises(HubError, match="more than 1,000 opcodes"):
        read_pickle(written(tmp_path / "x.bin", b"\x80\x02" + b"}" * 2000 + b"."))
    monkeypatch.setattr("regard.hub.pickles._PROGRAM", 1000)
    with pytest.raises(HubError, match=r"more than 1,000 bytes"):
        read_pickle(written(tmp_path / "x.bin", b"\x80\x02" + b"}" * 2000 + b"."))


def test_zips_of_another_make_are_refused(tmp_path):
    path, good = tmp_path / "x.bin", one(tensor())
    with pytest.raises(HubError, match="is compressed"):
        read_pickle(written(path, good, SIXTEEN, compress_type=zipfile.ZIP_DEFLATED))
    with pytest.raises(HubError, match=r"not one data\.pkl"):
        read_pickle(written(path, good, SIXTEEN, root="a/b"))
    with pytest.raises(HubError, match=r"not one data\.pkl"):
        read_pickle(written(path, good, {**SIXTEEN, "inner/data.pkl": good}))
    with pytest.raises(HubError, match="lies outside its folder"):
        read_pickle(written(path, good, {**SIXTEEN, "../evil": b""}))
    with pytest.raises(HubError, match="little-endian"):
        read_pickle(written(path, good, {**SIXTEEN, "byteorder": b"big"}))
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(written(path, good, SIXTEEN), "a") as archive,
    ):
        archive.writestr("m/data.pkl", good)
    with pytest.raises(HubError, match="two files in the zip have one name"):
        read_pickle(path)
    whole = written(path, good, SIXTEEN).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(HubError, match="no whole zip"):
        read_pickle(path)
    path.write_bytes(whole.replace(SIXTEEN["data/0"], b"\0" * 16))
    with pytest.raises(HubError, match=r"no whole zip .*CRC"):
        read_pickle(path)


def test_files_of_the_zip_cannot_overlap(tmp_path):
    """A zip bomb without compression: many names for the same bytes."""
    path = written(tmp_path / "x.bin", b"", {"data/0": b"\0" * 4096})
    names = b"".join(
        text(f"t{i}") + tensor(key=str(i), count=1024, shape=(1024,), strides=(1,)) for i in range(9)
    )
    path = written(tmp_path / "x.bin", b"\x80\x02}(" + names + b"u.", {"data/0": b"\0" * 4096})
    with zipfile.ZipFile(path, "a") as archive:
        first = archive.getinfo("m/data/0")
        for i in range(1, 9):
            other = zipfile.ZipInfo(f"m/data/{i}")
            other.header_offset, other.CRC = first.header_offset, first.CRC
            other.file_size = other.compress_size = first.file_size
            archive.filelist.append(other)
            archive.NameToInfo[other.filename] = other
        archive._didModify = True
    with pytest.raises(HubError, match=r"they overlap|no whole zip"):
        read_pickle(path)


def as_pickle(folder: Path, model) -> None:
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def test_a_folder_is_imported_from_its_pickle(hf, tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece")
    theirs = tmp_path / "theirs"
    model = marian(hf, theirs, seed=1)
    wanted = [each.text for each in regard.load(theirs, regard.Translator, device="cpu").translate(ENGLISH)]
    as_pickle(theirs, model)
    with pytest.raises(HubError, match=r"pytorch_model\.bin, a pickle.* regard import FOLDER OUT --pickle"):
        regard.load(theirs)
    with pytest.raises(HubError, match="regard import FOLDER OUT --pickle"):
        import_model(theirs, tmp_path / "not", console=QUIET)
    import_model(theirs, tmp_path / "ours", pickle=True, console=QUIET)
    found = regard.load(tmp_path / "ours", regard.Translator, device="cpu").translate(ENGLISH)
    assert [each.text for each in found] == wanted
    with pytest.raises(ConfigError, match="is there already"):
        import_model(theirs, tmp_path / "ours", pickle=True, console=QUIET)


def test_shards_are_found_by_their_index(hf, tmp_path):
    pytest.importorskip("sentencepiece")
    theirs = tmp_path / "theirs"
    state = marian(hf, theirs, seed=1).state_dict()
    (theirs / "model.safetensors").unlink()
    names = [*state]
    parts = {"pytorch_model-1.bin": names[::2], "pytorch_model-2.bin": names[1::2]}
    for file, held in parts.items():
        torch.save({name: state[name] for name in held}, theirs / file)
    index = {"weight_map": {name: file for file, held in parts.items() for name in held}}
    (theirs / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    import_model(theirs, tmp_path / "ours", pickle=True, console=QUIET)
    mine = regard.load(tmp_path / "ours", regard.Translator, device="cpu", precision="float32")
    assert torch.equal(mine.model.encoder.embedding.tokens.weight, state["model.shared.weight"])
    index["weight_map"][names[0]] = "../evil.bin"
    (theirs / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with pytest.raises(HubError, match="no plain file name"):
        import_model(theirs, tmp_path / "other", pickle=True, console=QUIET)


def test_a_folder_without_a_pickle_says_so(hf, tmp_path):
    pytest.importorskip("sentencepiece")
    marian(hf, tmp_path / "theirs")
    with pytest.raises(HubError, match="nothing to read with --pickle; leave that out"):
        import_model(tmp_path / "theirs", tmp_path / "ours", pickle=True, console=QUIET)
