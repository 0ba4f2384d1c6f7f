"""MarianMT and M2M100 compute, cut and search here as they do in transformers, and go back there."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch.testing import assert_close

import regard
from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.deploy.engine import open_deployed
from regard.deploy.export import export
from regard.deploy.onnx_export import export_onnx
from regard.hub import HubError, read_translator, write_folder
from regard.tasks.translation.exchange import checkpoint_of, save_translator
from tests.hub.marians import (
    ENGLISH,
    GERMAN,
    LONGEST,
    REAL,
    TEXTS,
    found_ids,
    m2m,
    marian,
    states_and_scores,
    tokenizer_of,
)

pytest.importorskip("sentencepiece")
TIGHT = {"rtol": 1e-5, "atol": 1e-5}
KINDS = ["shared", "separate", "languages"]
HOW = {
    "separate": {"separate": True},
    "languages": {"languages": ("deu", "fra")},
    "published": {"published": True},
}
PUBLISHED = pytest.param(
    "published", marks=pytest.mark.skipif(not REAL.is_dir(), reason="no files of a published tokenizer here")
)
"""The tokenizer of a published folder, and a tiny model with a row for each of its 54,688 tokens."""
ENDS = {"languages": (0, 3.0), "published": (1, 10.5)}
"""Seeds, and how likely an end must be, for hypotheses of several lengths that all come to one."""


def equal_files(one: Path, other: Path) -> bool:
    a, b = (load_file(folder / "model.safetensors") for folder in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def padded(tokenizer, texts):
    return tokenizer(texts, return_tensors="pt", padding=True)


def without(rows, *ends: int) -> list[list[int]]:
    return [[id for id in row.tolist() if id not in ends] for row in rows]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, {"activation_function": "relu", "scale_embedding": False}], ids=str)
def test_a_marian_computes_as_there(hf, tmp_path, kind, settings):
    model = marian(hf, tmp_path, **HOW.get(kind, {}), **settings)
    mine = regard.load(tmp_path, regard.Translator, device="cpu", precision="float32")
    source, target = [5, 9, 3, 30, 0], [mine.start, 4, 17, 9]
    with torch.no_grad():
        theirs = model(torch.tensor([source]), decoder_input_ids=torch.tensor([target]))
    states, scores = states_and_scores(mine, source, target)
    assert_close(states, theirs.encoder_last_hidden_state[0], **TIGHT)
    assert_close(scores, theirs.logits[0], **TIGHT)


@pytest.mark.parametrize("kind", [*KINDS, PUBLISHED])
def test_a_marian_cuts_and_joins_as_there(hf, tmp_path, kind):
    marian(hf, tmp_path, **HOW.get(kind, {}))
    mine = read_translator(tmp_path).tokenizer
    theirs = tokenizer_of(hf, "MarianTokenizer", tmp_path)
    for text in TEXTS:
        if text.startswith((">>", "</s>")):  # text is text here
            continue
        ids = list(mine.encode(text).ids)
        assert ids == theirs(text)["input_ids"][:-1], text
        assert mine.encode_batch([text]) == [ids]
        target = list(mine.target.encode(text).ids)
        assert target == theirs(text_target=text)["input_ids"][:-1], text
        assert mine.target.decode(target).strip() == theirs.decode(target, skip_special_tokens=True), text


@pytest.mark.parametrize("kind", [*KINDS, PUBLISHED])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_marian_searches_as_there(hf, tmp_path, kind, beam):
    """Theirs stop as ours do with early_stopping; and we never write <unk>, nor the token of a language. With
    all hypotheses wanted, no beam leaves before it is full."""
    seed, ends = (0, 0.0) if beam == 1 else ENDS.get(kind, (5, 5.0))
    model = marian(hf, tmp_path, seed=seed, ends=ends, **HOW.get(kind, {}))
    mine = regard.load(tmp_path, regard.Translator, device="cpu", precision="float32")
    to = "deu" if kind == "languages" else None
    texts = [text for text in TEXTS if text.strip() and not text.startswith(("</s>", ">>"))]
    theirs = tokenizer_of(hf, "MarianTokenizer", tmp_path)
    marked = [f">>{to}<< {text}" if to else text for text in texts]
    rows = model.generate(
        **padded(theirs, marked),
        num_beams=beam,
        num_return_sequences=beam,
        early_stopping=True if beam > 1 else None,
        max_new_tokens=LONGEST,
        bad_words_ids=[[id] for id in mine.never_written],
    )
    wanted = without(rows, 0, model.config.pad_token_id)
    decoding = DecodeConfig(method="greedy") if beam == 1 else DecodeConfig(beam=beam, n_best=beam)
    found = found_ids(mine, texts, decoding, to)
    assert [each for own in found for each in own] == wanted
    assert beam == 1 or len({len(each) for each in wanted}) > 2, "no case: all are of one length"
    assert len({*map(tuple, wanted)}) > 2, "no case: the text does not matter"


@pytest.mark.parametrize("n_best", [1, 4])
@pytest.mark.parametrize("told", [{}, {"early_stopping": False, "length_penalty": 0.9}])
def test_a_marian_stops_as_its_folder_says(hf, tmp_path, told, n_best):
    """Unless it says otherwise, by transformers' estimate."""
    marian(hf, tmp_path, seed=5, ends=5.0)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "num_beams": 4, **told}))
    model = hf.MarianMTModel.from_pretrained(tmp_path).eval()
    mine = regard.load(tmp_path, regard.Translator, device="cpu", precision="float32")
    assert mine.decoding.stop == "estimate"
    texts = [text for text in TEXTS if text.strip() and not text.startswith(("</s>", ">>"))]
    rows = model.generate(
        **padded(tokenizer_of(hf, "MarianTokenizer", tmp_path), texts),
        num_return_sequences=n_best,
        max_new_tokens=LONGEST,
        bad_words_ids=[[id] for id in mine.never_written],
    )
    found = found_ids(mine, texts, replace(mine.decoding, n_best=n_best), None)
    assert [each for own in found for each in own] == without(rows, 0, model.config.pad_token_id)
    full = found_ids(mine, texts, replace(mine.decoding, n_best=n_best, stop="full"), None)
    assert full != found, "no case: it does not matter when it stops"


@pytest.mark.parametrize("kind", [*KINDS, PUBLISHED])
def test_a_marian_goes_back_as_it_came(hf, tmp_path, kind):
    marian(hf, tmp_path / "theirs", **HOW.get(kind, {}))
    checkpoint = read_translator(tmp_path / "theirs")
    save_translator(checkpoint, tmp_path / "ours")
    mine = regard.load(tmp_path / "ours", regard.Translator, device="cpu", precision="float32")
    write_folder(checkpoint_of(mine), tmp_path / "back")
    assert equal_files(tmp_path / "theirs", tmp_path / "back")
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "theirs" / name).read_bytes() == (tmp_path / "back" / name).read_bytes()
    again = hf.MarianMTModel.from_pretrained(tmp_path / "back")
    first = hf.MarianMTModel.from_pretrained(tmp_path / "theirs")
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    one, other = (tokenizer_of(hf, "MarianTokenizer", tmp_path / each) for each in ("theirs", "back"))
    for text in TEXTS:
        assert one(text, text_target=text) == other(text, text_target=text)
    to = "fra" if kind == "languages" else None
    texts = regard.load(tmp_path / "theirs", regard.Translator, device="cpu").translate(ENGLISH, to=to)
    assert [each.text for each in mine.translate(ENGLISH, to=to)] == [each.text for each in texts]


@pytest.mark.skipif(not REAL.is_dir(), reason="the files of a published tokenizer are not here")
def test_a_published_tokenizer_cuts_as_there(hf):
    from regard.hub.families import MARIAN
    from regard.hub.pieces import read_pieces

    mine = read_pieces(REAL, MARIAN.pieces, (54688, 54688)).tokenizer
    theirs = tokenizer_of(hf, "MarianTokenizer", REAL)
    many = [
        *TEXTS,
        *(f"{a} {b}" for a in TEXTS for b in GERMAN),
        *(chr(code) * 3 for code in range(0x20, 0x3000, 7)),
    ]
    many = [text for text in many if "</s>" not in text and not text.startswith(">>")]
    for text in many:
        assert mine.encode_batch([text])[0] == theirs(text)["input_ids"][:-1], repr(text)


@pytest.mark.skipif(not REAL.is_dir(), reason="the files of a published tokenizer are not here")
def test_a_published_config_is_read(hf, tmp_path):
    table = json.loads((REAL / "config.json").read_text())
    sizes = {
        "d_model": 16,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
    }
    small = {**table, **sizes, "num_hidden_layers": 1}
    model = hf.MarianMTModel(
        hf.MarianConfig(**{**small, "bad_words_ids": None, "max_length": None, "num_beams": None})
    )
    model.generation_config.max_length = 20
    model.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps(small))
    for name in ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"):
        shutil.copy(REAL / name, tmp_path / name)
    mine = regard.load(tmp_path, regard.Translator, device="cpu", precision="float32")
    assert (mine.decoding.beam, mine.longest, mine.start, mine.end) == (4, 512, 54687, 0)
    assert mine.translate("Hello world.").source == "Hello world."


@pytest.mark.parametrize("kind", ["m2m100", "nllb"])
def test_an_m2m_computes_cuts_and_searches_as_there(hf, tmp_path, kind):
    model = m2m(hf, tmp_path, kind=kind, seed=1, ends=0.4)
    mine = regard.load(tmp_path, regard.Translator, device="cpu", precision="float32")
    reads, to = ("en", "de") if kind == "m2m100" else ("eng_Latn", "deu_Latn")
    name = "M2M100Tokenizer" if kind == "m2m100" else "NllbTokenizer"
    theirs = tokenizer_of(hf, name, tmp_path, src_lang=reads)
    assert (mine.source_language, mine.marks) == (reads, "both")
    for text in ENGLISH:
        assert mine.encode([text], to) == [theirs(text)["input_ids"]], text
    source, target = theirs(ENGLISH[1])["input_ids"], [2, *mine.mark(to), 9, 11, 30]
    with torch.no_grad():
        wanted = model(torch.tensor([source]), decoder_input_ids=torch.tensor([target]))
    states, scores = states_and_scores(mine, source, target)
    assert_close(states, wanted.encoder_last_hidden_state[0], **TIGHT)
    assert_close(scores, wanted.logits[0], **TIGHT)
    for beam in (1, 4):
        rows = model.generate(
            **padded(theirs, ENGLISH),
            # as a beginning, not by forced_bos_token_id: then it does not count in the length
            decoder_input_ids=torch.tensor([[2, *mine.mark(to)]] * len(ENGLISH)),
            num_beams=beam,
            num_return_sequences=beam,
            early_stopping=True if beam > 1 else None,
            max_new_tokens=LONGEST,
            bad_words_ids=[[id] for id in mine.never_written],
        )
        decoding = DecodeConfig(method="greedy") if beam == 1 else DecodeConfig(beam=beam, n_best=beam)
        found = [each for own in found_ids(mine, ENGLISH, decoding, to) for each in own]
        assert found == without(rows[:, 2:], 1, 2)
        assert beam == 1 or len({len(each) for each in found}) > 2, "no case: all are of one length"


@pytest.mark.parametrize("kind", ["m2m100", "nllb"])
def test_an_m2m_goes_back_as_it_came(hf, tmp_path, kind):
    m2m(hf, tmp_path / "theirs", kind=kind)
    save_translator(read_translator(tmp_path / "theirs"), tmp_path / "ours")
    mine = regard.load(tmp_path / "ours", regard.Translator, device="cpu", precision="float32")
    write_folder(checkpoint_of(mine), tmp_path / "back")
    assert equal_files(tmp_path / "theirs", tmp_path / "back")
    reads, to = ("en", "de") if kind == "m2m100" else ("eng_Latn", "deu_Latn")
    name = "M2M100Tokenizer" if kind == "m2m100" else "NllbTokenizer"
    one, other = (tokenizer_of(hf, name, tmp_path / each, src_lang=reads) for each in ("theirs", "back"))
    assert [one(text)["input_ids"] for text in ENGLISH] == [other(text)["input_ids"] for text in ENGLISH]
    first = regard.load(tmp_path / "theirs", regard.Translator, device="cpu").translate(ENGLISH, to=to)
    assert [each.text for each in mine.translate(ENGLISH, to=to)] == [each.text for each in first]


@pytest.mark.parametrize("kind", [*KINDS, "m2m100", "nllb"])
def test_ctranslate2_says_the_same(hf, tmp_path, kind):
    """Log-probabilities of every token, and greedy texts: export compares them before it is done."""
    pytest.importorskip("ctranslate2")
    if kind in KINDS:
        marian(hf, tmp_path / "theirs", seed=5, ends=2.0, **HOW.get(kind, {}))
    else:
        m2m(hf, tmp_path / "theirs", kind=kind, seed=1, ends=0.4)
    mine = regard.load(tmp_path / "theirs", regard.Translator, device="cpu", precision="float32")
    out = tmp_path / "out"
    difference = export(mine, out, samples=ENGLISH, console=Console(quiet=True))
    assert difference.most < 1e-4
    to = mine.languages[-1] if mine.languages else None
    greedy = DecodeConfig(method="greedy")
    texts = [
        [each.text for each in one.translate(ENGLISH, to=to, decoding=greedy)]
        for one in (mine, open_deployed(out))
    ]
    assert texts[0] == texts[1]
    assert any(texts[0])
    with pytest.raises(ConfigError, match=r"not exported to ONNX"):
        export_onnx(mine, tmp_path / "onnx", console=Console(quiet=True))


def test_an_m2m_is_told_both_languages(hf, tmp_path):
    m2m(hf, tmp_path, seed=3)
    mine = regard.load(tmp_path, regard.Translator, device="cpu", precision="float32")
    one, other = (mine.translate(ENGLISH[3], to="de", source_language=reads) for reads in ("en", "cs"))
    assert one.score != other.score
    assert one.score == mine.translate(ENGLISH[3], to="de").score
    with pytest.raises(ValueError, match="source_language='xx' is none of them, one of en, ha"):
        mine.translate("x", to="de", source_language="xx")
    with pytest.raises(ValueError, match="writes several languages"):
        mine.translate("x")
    aligned = mine.translate(ENGLISH[3], to="de", align=True)
    words = len(aligned.text.split())
    assert {target for _, target in aligned.alignment} <= {*range(words)}
    given = mine.align(ENGLISH[3], GERMAN[3], to="de")
    assert given.weights.shape == (len(GERMAN[3].split()), len(ENGLISH[3].split()))
    assert_close(given.weights.sum(1), torch.ones(len(given.weights), dtype=torch.float64).numpy())


def test_languages_stand_before_a_marians_source(hf, tmp_path):
    marian(hf, tmp_path, languages=("deu", "fra"))
    mine = regard.load(tmp_path, regard.Translator, device="cpu", precision="float32")
    assert mine.languages == ("deu", "fra")
    theirs = tokenizer_of(hf, "MarianTokenizer", tmp_path)
    assert mine.encode(["A dog"], "fra") == [theirs(">>fra<< A dog")["input_ids"]]
    assert mine.tokenizer.encode(">>fra<< A dog", specials_in_text=True).ids == (
        *mine.encode(["A dog"], "fra")[0][:-1],
    )
    with pytest.raises(ValueError, match="not told what it reads"):
        mine.translate("x", to="fra", source_language="en")


def test_terms_are_cut_as_what_is_written(hf, tmp_path):
    """Where the sides have vocabularies of their own, an id of one is another piece of the other."""
    marian(hf, tmp_path, seed=5, ends=5.0, separate=True)
    mine = regard.load(tmp_path, regard.Translator, device="cpu", precision="float32")
    found = mine.translate(ENGLISH[1], glossary={"cat": "Katze"}, decoding=DecodeConfig(beam=4))
    assert [(use.target, use.how) for use in found.terms] == [("Katze", "decoded")]
    assert "Katze" in found.text
    pieces = {mine.tokenizer.target.token(id) for id in mine.inner}
    assert pieces
    assert not any(piece.startswith("▁") for piece in pieces)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("normalize_before", True, "normalize_before=True is not supported, only False"),
        ("normalize_embedding", True, "normalize_embedding=True"),
        ("add_final_layer_norm", True, "add_final_layer_norm=True"),
        ("static_position_embeddings", False, "static_position_embeddings=False"),
        ("is_encoder_decoder", False, "is_encoder_decoder=False is not supported, only True"),
        ("tie_word_embeddings", False, "tie_word_embeddings=False"),
        ("activation_function", "tanh", "activation_function='tanh' is none of"),
        ("decoder_layers", 5, "tensors of 3 layers, but decoder_layers=5"),
        ("encoder_layers", 1, "tensors of 2 layers, but encoder_layers=1"),
        ("decoder_start_token_id", 0, "decoder_start_token_id=0, but in the vocabulary it is"),
        ("pad_token_id", 3, "pad_token_id=3, but in the vocabulary it is"),
        ("pad_token_id", "x", "pad_token_id='x', but in the vocabulary it is"),
        ("eos_token_id", 7, "eos_token_id=7, but in the vocabulary it is 0"),
        ("vocab_size", 40, "decoder_vocab_size=.* but the embeddings of both sides are one"),
        ("architectures", ["MarianForCausalLM"], "MarianForCausalLM.* is no translator"),
        ("rotary", True, "rotary=True is not known, and may change what the model computes"),
        ("auto_map", {"AutoModel": "x.y"}, "asks for code to be run"),
        ("d_model", 33, "cannot be split over heads"),
        ("encoder_ffn_dim", 32, r"config.json makes it \[32"),
    ],
)
def test_what_is_almost_a_marian_is_refused_by_name(hf, tmp_path, key, value, message):
    marian(hf, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(HubError, match=message):
        read_translator(tmp_path)


def test_files_of_another_model_are_refused(hf, tmp_path):
    marian(hf, tmp_path)
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    (tmp_path / "vocab.json").write_text(json.dumps({**vocabulary, "more": len(vocabulary)}))
    with pytest.raises(HubError, match="they are not of one model"):
        read_translator(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({**vocabulary, "more": 5}))
    with pytest.raises(HubError, match="two pieces have one id"):
        read_translator(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "source.spm").write_bytes(b"no model")
    with pytest.raises(HubError, match="no tokenizer that can be read"):
        read_translator(tmp_path)
    (tmp_path / "source.spm").unlink()
    with pytest.raises(HubError, match=r"source\.spm: No such file"):
        read_translator(tmp_path)
