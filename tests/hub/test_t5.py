"""T5, FLAN-T5 and mT5 compute, cut and search here as they do in transformers, and go back there."""

import base64
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import regard
from regard.config import ConfigError
from regard.data.packing import pack
from regard.decode import DecodeConfig
from regard.deploy.export import export
from regard.deploy.onnx_export import export_onnx
from regard.hub import HubError, read_translator, write_folder
from regard.look.explorer.explorer import Explorer
from regard.look.explorer.translation import QUESTIONS
from regard.look.texts import trace_translation
from regard.nn.positions import RelativeBias
from regard.tasks.translation.exchange import checkpoint_of, save_translator
from regard.tasks.translation.pieces import number_sources
from tests.hub.marians import (
    ENGLISH,
    GERMAN,
    LONGEST,
    REAL,
    TEXTS,
    found_ids,
    states_and_scores,
    tokenizer_of,
)
from tests.hub.t5s import KINDS, PROMPTS, spiece, t5

pytest.importorskip("sentencepiece")
TIGHT = {"rtol": 1e-5, "atol": 1e-5}
FINISHED = {"t5": (4, -3.0), "flan": (0, 2.0), "silu": (0, 4.0), "mt5": (0, 3.0)}
"""Seeds with which hypotheses come to their ends, and how much likelier an end is made."""
EACH = pytest.mark.parametrize("kind", KINDS)
SOURCE, TARGET = [5, 9, 3, 30, 17, 5, 44, 1], [0, 4, 17, 9, 60]


def opened(folder) -> regard.Translator:
    return regard.load(folder, regard.Translator, device="cpu", precision="float32")


def rewritten(folder, name: str, **values) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@EACH
def test_it_computes_as_there(hf, tmp_path, kind):
    model, mine = t5(hf, tmp_path, kind), opened(tmp_path)
    with torch.no_grad():
        theirs = model(
            torch.tensor([SOURCE]), decoder_input_ids=torch.tensor([TARGET]), output_hidden_states=True
        )
    states, scores = states_and_scores(mine, SOURCE, TARGET)
    assert_close(states, theirs.encoder_last_hidden_state[0], **TIGHT)
    assert_close(scores, theirs.logits[0], **TIGHT)
    read, written = pack([SOURCE]), pack([TARGET])
    with torch.no_grad():
        own = mine.model(read.ids, read.layout, written.ids, written.layout)
    assert_close(own, theirs.decoder_hidden_states[-1][0], **TIGHT)
    assert mine.model.config.decoder.head_scaled == (kind == "t5")
    assert mine.model.config.decoder.tied == (kind == "t5")


@EACH
def test_gradients_are_those_there(hf, tmp_path, kind):
    model, mine = t5(hf, tmp_path, kind), opened(tmp_path)
    labels = torch.tensor([9, 4, 17, 1, 3])
    logits = model(torch.tensor([SOURCE]), decoder_input_ids=torch.tensor([TARGET])).logits[0]
    torch.nn.functional.cross_entropy(logits, labels).backward()
    read, written = pack([SOURCE]), pack([TARGET])
    own = mine.model.decoder.head(mine.model(read.ids, read.layout, written.ids, written.layout))
    torch.nn.functional.cross_entropy(own, labels).backward()
    from regard.hub.families import family_named
    from regard.hub.family import TranslatorFamily
    from regard.hub.weights import write_names

    gradients = {name: each.grad for name, each in mine.model.named_parameters()}
    family = family_named("mt5" if kind == "mt5" else "t5", TranslatorFamily)
    found, _ = write_names(gradients, mine.model.config, family)
    theirs = {name: each.grad for name, each in model.named_parameters()}
    assert found.keys() == theirs.keys()
    for name, gradient in found.items():
        assert_close(gradient, theirs[name], rtol=1e-4, atol=1e-4, msg=name)


@EACH
@pytest.mark.parametrize("beam", [1, 4])
def test_it_searches_as_there(hf, tmp_path, kind, beam):
    """We never write <unk>, sentinels, and rows without a token."""
    # theirs have room for the keys of as many layers as the encoder has
    seed, ends = FINISHED[kind] if beam > 1 else (0, 0.0)
    model = t5(hf, tmp_path, kind, seed=seed, ends=ends, num_decoder_layers=2)
    mine = opened(tmp_path)
    theirs = tokenizer_of(hf, "T5Tokenizer", tmp_path)
    rows = model.generate(
        **theirs(ENGLISH, return_tensors="pt", padding=True),
        num_beams=beam,
        num_return_sequences=beam,
        early_stopping=True if beam > 1 else None,
        max_new_tokens=LONGEST,
        bad_words_ids=[[id] for id in mine.never_written],
    )
    wanted = [[id for id in row.tolist() if id not in (0, 1)] for row in rows]
    decoding = DecodeConfig(method="greedy") if beam == 1 else DecodeConfig(beam=beam, n_best=beam)
    found = [each for own in found_ids(mine, ENGLISH, decoding) for each in own]
    assert found == wanted
    assert len({*map(tuple, wanted)}) > 2, "no case: the text does not matter"
    assert beam == 1 or len({len(each) for each in wanted}) > 2, "no case: all are of one length"


@pytest.mark.parametrize("fast", [False, True], ids=["spiece.model", "tokenizer.json"])
@pytest.mark.parametrize("kind", ["t5", "mt5"])
def test_it_cuts_and_joins_as_there(hf, tmp_path, kind, fast):
    t5(hf, tmp_path, kind, fast=fast)
    mine, theirs = read_translator(tmp_path).tokenizer, tokenizer_of(hf, "T5Tokenizer", tmp_path)
    assert len(mine) == len(theirs)
    if kind == "t5":
        assert mine.vocabulary["<extra_id_0>"] == len(mine) - 1
    for text in TEXTS:
        if "</s>" in text:  # text is text here
            continue
        ids = list(mine.encode(text).ids)
        assert [*ids, 1] == theirs(text)["input_ids"], text
        assert mine.encode_batch([text]) == [ids]
        assert mine.decode(ids).strip() == theirs.decode(ids, skip_special_tokens=True).strip(), text
    assert mine.encode("<extra_id_5>").ids != (mine.vocabulary.get("<extra_id_5>"),)
    assert mine.specials.start == mine.specials.pad == "<pad>"


def many_texts() -> list[str]:
    pairs = [f"{a} {b}" for a in TEXTS for b in GERMAN]
    scripts = [
        "Привет, мир",
        "你好 世界",
        "مرحبا بالعالم",
        "नमस्ते दुनिया",
        "γειά",
        "안녕 세상아",
        "ภาษาไทย",
    ]
    letters = [chr(code) * 3 + "a" for code in range(0x20, 0x3000, 7)]
    return [text for text in [*TEXTS, *pairs, *scripts, *letters] if "</s>" not in text]


@pytest.mark.parametrize("bytes", [False, True], ids=["", "bytes"])
def test_a_tokenizer_of_many_scripts_cuts_as_there(hf, tmp_path, bytes):
    """By bytes where the model has them: transformers reads such a spiece.model as if it had not."""
    scripts = tuple(many_texts()[:150])
    t5(hf, tmp_path)
    (tmp_path / "spiece.model").write_bytes(
        spiece(700 if bytes else 500, scripts, byte_fallback=bytes, character_coverage=0.98)
    )
    rewritten(tmp_path, "tokenizer_config.json", extra_ids=3)
    from regard.hub.families import family_named
    from regard.hub.family import TranslatorFamily
    from regard.hub.pieces import read_pieces

    mine = read_pieces(tmp_path, family_named("t5", TranslatorFamily).pieces, (5000, 5000)).tokenizer
    if bytes:
        assert mine.ids.unknown not in mine.encode("Ω 𝄞").ids
        assert mine.decode(mine.encode("Ω 𝄞").ids) == "Ω 𝄞"
        return
    theirs = tokenizer_of(hf, "T5Tokenizer", tmp_path)
    for text in many_texts():
        assert [*mine.encode_batch([text])[0], 1] == theirs(text)["input_ids"], repr(text)


@pytest.mark.skipif(not REAL.is_dir(), reason="the files of a published tokenizer are not here")
def test_a_published_model_of_pieces_cuts_as_there(hf, tmp_path):
    """Another family's, whose special tokens stand elsewhere."""
    shutil.copy(REAL / "source.spm", tmp_path / "spiece.model")
    pieces = {"pad_token": "<unk>", "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 100, **pieces}))
    from regard.hub.families import family_named
    from regard.hub.family import TranslatorFamily
    from regard.hub.pieces import read_pieces

    mine = read_pieces(tmp_path, family_named("t5", TranslatorFamily).pieces, (10**6, 10**6)).tokenizer
    import sentencepiece

    theirs = sentencepiece.SentencePieceProcessor(model_file=str(REAL / "source.spm"))
    for text in [*ENGLISH, *GERMAN, "Über naïve 貓", "e\u0301 ﬁne ½ Ⅷ"]:
        assert mine.encode_batch([text])[0] == theirs.encode(text), text


def test_buckets_are_those_there(hf):
    from transformers.models.t5.modeling_t5 import T5Attention

    distances = torch.arange(-6000, 6001)
    for buckets, reach in ((32, 128), (8, 20), (64, 800), (32, 256)):
        for causal in (False, True):
            theirs = T5Attention._relative_position_bucket(
                distances, bidirectional=not causal, num_buckets=buckets, max_distance=reach
            )
            assert torch.equal(RelativeBias(1, buckets, reach, causal).bucket(distances), theirs)


@EACH
def test_it_goes_back_as_it_came(hf, tmp_path, kind):
    t5(hf, tmp_path / "theirs", kind, seed=2)
    rewritten(tmp_path / "theirs", "config.json", task_specific_params=PROMPTS)
    save_translator(read_translator(tmp_path / "theirs"), tmp_path / "ours")
    mine = opened(tmp_path / "ours")
    write_folder(checkpoint_of(mine), tmp_path / "back")
    one, other = (load_file(tmp_path / each / "model.safetensors") for each in ("theirs", "back"))
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name
    facts = json.loads((tmp_path / "back" / "config.json").read_text())
    assert facts["model_type"] == ("mt5" if kind == "mt5" else "t5")
    assert facts["task_specific_params"]["summarization"] == {"prefix": "summarize: "}
    name = "MT5" if kind == "mt5" else "T5"
    loaded = getattr(hf, f"{name}ForConditionalGeneration")
    models = [loaded.from_pretrained(tmp_path / each).eval() for each in ("theirs", "back")]
    with torch.no_grad():
        found = [
            model(torch.tensor([SOURCE]), decoder_input_ids=torch.tensor([TARGET])).logits for model in models
        ]
    assert torch.equal(*found)
    one, other = (tokenizer_of(hf, "T5Tokenizer", tmp_path / each) for each in ("theirs", "back"))
    assert [one(text)["input_ids"] for text in TEXTS] == [other(text)["input_ids"] for text in TEXTS]
    first = opened(tmp_path / "theirs").translate(ENGLISH[:3])
    assert [each.text for each in mine.translate(ENGLISH[:3])] == [each.text for each in first]


def test_a_tied_model_that_scales_nothing_has_its_output_written(hf, tmp_path):
    """transformers 4 takes it for untied."""
    t5(hf, tmp_path / "theirs", "t5", tie_word_embeddings=False)
    checkpoint = read_translator(tmp_path / "theirs")
    assert checkpoint.config.decoder.tied
    assert not checkpoint.config.decoder.head_scaled
    write_folder(checkpoint, tmp_path / "back")
    tensors = load_file(tmp_path / "back" / "model.safetensors")
    assert torch.equal(tensors["lm_head.weight"], tensors["shared.weight"])
    assert json.loads((tmp_path / "back" / "config.json").read_text())["tie_word_embeddings"] is False


def test_files_of_older_versions_are_read(hf, tmp_path):
    """Embeddings are written several times, cross-attention has a bias that nobody uses, and config.json has
    `output_past`, but not whether states are scaled."""
    t5(hf, tmp_path / "theirs")
    mine = opened(tmp_path / "theirs")
    shutil.copytree(tmp_path / "theirs", tmp_path / "old")
    path = tmp_path / "old" / "model.safetensors"
    tensors = load_file(path)
    double = {
        f"{side}.embed_tokens.weight": tensors["shared.weight"].clone() for side in ("encoder", "decoder")
    }
    bias = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    save_file(
        {**tensors, **double, "lm_head.weight": tensors["shared.weight"].clone(), bias: torch.ones(8, 3)},
        path,
    )
    path = tmp_path / "old" / "config.json"
    table = json.loads(path.read_text())
    for key in ("scale_decoder_outputs", "tie_word_embeddings", "is_gated_act", "dense_act_fn"):
        del table[key]
    path.write_text(json.dumps({**table, "output_past": True, "n_positions": 512}))
    old = opened(tmp_path / "old")
    assert old.model.config == mine.model.config
    assert old.translate(ENGLISH[0]).text == mine.translate(ENGLISH[0]).text


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("feed_forward_proj", "gated-relu", "feed_forward_proj='gated-relu' is none of"),
        ("feed_forward_proj", "gated-gelu", "means 'gelu_new': take one of the two out"),
        ("is_gated_act", True, "is_gated_act=True, but feed_forward_proj='relu' means False"),
        ("is_decoder", True, "is_decoder=True is not supported, only False"),
        ("is_encoder_decoder", False, "is_encoder_decoder=False is not supported, only True"),
        ("architectures", ["T5EncoderModel"], "T5EncoderModel.* is no translator that is read here"),
        ("architectures", ["T5ForQuestionAnswering"], "T5ForQuestionAnswering"),
        ("model_type", "umt5", "umt5"),
        ("num_layers", 5, "tensors of 2 layers, but num_layers=5"),
        ("num_decoder_layers", 2, "tensors of 3 layers, but num_decoder_layers=2"),
        ("num_decoder_layers", None, "tensors of 3 layers, but num_decoder_layers=2"),
        ("relative_attention_num_buckets", 6, "buckets=6 must be a multiple of 4"),
        ("relative_attention_num_buckets", 12, r"config.json makes it \[12, 3\]"),
        ("relative_attention_max_distance", 8, "reach=8 must be greater"),
        ("d_kv", 10, r"config.json makes it \["),
        ("decoder_start_token_id", 1, "decoder_start_token_id=1, but in the vocabulary it is 0"),
        ("eos_token_id", 2, "eos_token_id=2, but in the vocabulary it is 1"),
        ("scale_decoder_outputs", "x", "scale_decoder_outputs='x' must be true or false"),
        ("task_specific_params", {"a": {"prefix": 3}}, "the prefix 3 of 'a' must be a text"),
        ("task_specific_params", 3, "must be a table of tables"),
        ("rotary", True, "rotary=True is not known, and may change what the model computes"),
        ("auto_map", {"AutoModel": "x.y"}, "asks for code to be run"),
    ],
)
def test_what_is_almost_a_t5_is_refused_by_name(hf, tmp_path, key, value, message):
    t5(hf, tmp_path)
    rewritten(tmp_path, "config.json", **{key: value})
    with pytest.raises((HubError, ConfigError, ValueError), match=message):
        read_translator(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tokenizer_class", "ByT5Tokenizer", "tokenizer_class='ByT5Tokenizer' is not supported"),
        ("tokenizer_class", "RobertaTokenizer", "tokenizer_class='RobertaTokenizer'"),
        ("extra_ids", -1, "extra_ids=-1 must be a whole number"),
        ("extra_ids", 500, "they are not of one model"),
        ("pad_token", "<nothing>", "pad_token='<nothing>' is not in the vocabulary"),
    ],
)
def test_tokenizers_of_others_are_refused(hf, tmp_path, key, value, message):
    t5(hf, tmp_path)
    rewritten(tmp_path, "tokenizer_config.json", **{key: value})
    with pytest.raises(HubError, match=message):
        read_translator(tmp_path)


def test_files_that_lack_are_named(hf, tmp_path):
    t5(hf, tmp_path, fast=True)
    rewritten(tmp_path, "tokenizer.json", post_processor={
        "type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<pad>", 0], "trim_offsets": True,
        "add_prefix_space": False,
    })  # fmt: skip
    with pytest.raises(HubError, match="post_processor sets other tokens around a text"):
        read_translator(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(HubError, match=r"spiece\.model: No such file"):
        read_translator(tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"no model")
    with pytest.raises(HubError, match="no SentencePiece model"):
        read_translator(tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("encoder.body.norm.place", "post", "norm.place='post'"),
        ("encoder.body.attention.scale", None, "attention.scale=None"),
        ("decoder.body.attention.heads", 4, "decoder.body.attention.heads=4|the weights are not"),
        ("decoder.body.feed_forward.activation", "gelu", "feed_forward.activation='gelu'"),
        ("encoder.embedding.scaled", True, "encoder.embedding.scaled=True"),
        ("decoder.positions.reach", 40, "decoder.positions.reach=40"),
        ("decoder.head_bias", True, "decoder.head_bias=True"),
        ("encoder.body.window", 3, "encoder.body.window=3"),
    ],
)
def test_what_t5_has_not_is_not_written(hf, tmp_path, path, value, message):
    t5(hf, tmp_path / "theirs")
    checkpoint = read_translator(tmp_path / "theirs")

    def changed(part, names):
        first, *rest = names
        return replace(part, **{first: changed(getattr(part, first), rest) if rest else value})

    with pytest.raises(HubError, match=message):
        write_folder(
            replace(checkpoint, config=changed(checkpoint.config, path.split("."))), tmp_path / "out"
        )


@EACH
@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_it_translates_in_other_precisions(hf, tmp_path, kind, precision):
    t5(hf, tmp_path, kind)
    mine = regard.load(tmp_path, regard.Translator, device="cpu", precision=precision)
    assert all(each.text for each in mine.translate(ENGLISH))


@pytest.mark.long
@EACH
def test_onnxruntime_says_the_same(hf, tmp_path, kind):
    """Log-probabilities of every token, and greedy texts: export compares them before it is done."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    t5(hf, tmp_path / "theirs", kind, seed=1)
    mine = opened(tmp_path / "theirs")
    [difference] = export_onnx(mine, tmp_path / "out", samples=ENGLISH, console=Console(quiet=True))
    assert difference.most < 1e-3


def test_ctranslate2_is_refused_by_the_name_of_the_setting(hf, tmp_path):
    pytest.importorskip("ctranslate2")
    t5(hf, tmp_path / "theirs")
    with pytest.raises(ConfigError, match=r"positions\.kind='relative'"):
        export(opened(tmp_path / "theirs"), tmp_path / "out", samples=ENGLISH, console=Console(quiet=True))


def test_prompts_are_set_before_texts_as_there(hf, tmp_path):
    t5(hf, tmp_path, "flan")
    rewritten(tmp_path, "config.json", task_specific_params=PROMPTS)
    mine, theirs = opened(tmp_path), tokenizer_of(hf, "T5Tokenizer", tmp_path)
    assert mine.prompts == {name: own["prefix"] for name, own in PROMPTS.items()}
    assert (mine.default_prompt, mine.several_sentences) == ("", None)
    for name in ("", *mine.prompts):
        [piece] = planned(mine, ENGLISH[1], prompt=name)
        assert piece.ids == theirs(mine.prompts.get(name, "") + ENGLISH[1])["input_ids"]
    rewritten(tmp_path, "config.json", prefix="summarize: ")
    assert opened(tmp_path).default_prompt == "summarization"
    rewritten(tmp_path, "config.json", prefix="other: ")
    other = opened(tmp_path)
    assert other.prompts[other.default_prompt] == "other: "
    assert other.encode([ENGLISH[0]], None) == [theirs("other: " + ENGLISH[0])["input_ids"]]
    with pytest.raises(ValueError, match="prompt='none' is no prompt of this model: it has summarization, "):
        other.translate("x", prompt="none")


def planned(translator: regard.Translator, text: str, **how):
    return translator.plan(number_sources([text], [None], [""], None, 1), translator.options(**how))


def test_the_explorer_and_traces_show_it(hf, tmp_path):
    t5(hf, tmp_path, "flan")
    rewritten(tmp_path, "config.json", task_specific_params=PROMPTS, prefix="summarize: ")
    mine = opened(tmp_path)
    found = Explorer(mine, "t5", QUESTIONS).ask("translate", {"text": ENGLISH[1]})
    assert [word["word"] for word in found["source"]["words"]] == ENGLISH[1].split()
    rows = np.frombuffer(base64.b64decode(found["alignment"].removeprefix("u2:")), dtype="<u2")
    assert len(rows) == len(found["target"]["words"]) * len(ENGLISH[1].split())
    traced = trace_translation(mine, ENGLISH[1])
    assert traced.trace.weights("cross", layer=0).shape[2] == len(traced.read)
    own = traced.trace.weights("encoder", layer=1)
    assert_close(own.sum(dim=-1), torch.ones(own.shape[:2]), rtol=1e-5, atol=1e-5)
    aligned = mine.align(ENGLISH[1], GERMAN[1])
    assert aligned.weights.shape == (len(GERMAN[1].split()), len(ENGLISH[1].split()))
