"""How a folder says that it searches is how it is searched here; what is not done here is told."""

import json
import sys
import warnings
from pathlib import Path

import pytest

import regard
from regard.deploy.exchange import export_model, import_model
from regard.hub import HubError, HubWarning, read_translator
from tests.hub.marians import ENGLISH, TEXTS, m2m, marian, tokenizer_of

pytest.importorskip("sentencepiece")


def generation(folder: Path, **settings) -> None:
    path = folder / "generation_config.json"
    held = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**held, **settings}))


def opened(folder: Path) -> regard.Translator:
    return regard.load(folder, regard.Translator, device="cpu", precision="float32")


def test_settings_that_have_a_counterpart_are_taken_over_and_go_back(hf, tmp_path, console):
    marian(hf, tmp_path / "theirs")
    told = {"num_beams": 3, "length_penalty": 0.5, "early_stopping": "never", "min_length": 4}
    told |= {"max_length": 90, "no_repeat_ngram_size": 2, "repetition_penalty": 1.25}
    generation(tmp_path / "theirs", **told)
    decoding = opened(tmp_path / "theirs").decoding
    wanted = {"beam": 3, "length_penalty": 0.5, "stop": "exact", "minimum": 3, "maximum": 88}
    assert decoding == regard.DecodeConfig(**wanted, no_repeat=2, repetition_penalty=1.25)
    import_model(tmp_path / "theirs", tmp_path / "ours", console=console)
    export_model(tmp_path / "ours", tmp_path / "back", console=console)
    back = json.loads((tmp_path / "back" / "generation_config.json").read_text())
    assert {key: back[key] for key in told} == told
    assert opened(tmp_path / "back").decoding == decoding
    generation(tmp_path / "theirs", num_beams=1, early_stopping=True)
    assert opened(tmp_path / "theirs").decoding.method == "greedy"


LENGTHS = [{"max_length": 12}, {"max_new_tokens": 9}, {"min_length": 9}, {"min_new_tokens": 7}]
REPEATED = [{"no_repeat_ngram_size": 2}, {"repetition_penalty": 1.5}]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("marian", each) for each in (*LENGTHS, *REPEATED)] + [("m2m100", each) for each in LENGTHS],
    ids=lambda given: given if isinstance(given, str) else "".join(given),
)
def test_lengths_and_repetitions_are_counted_as_there(hf, tmp_path, kind, settings):
    """Greedily; at the maximum theirs have to end, as published folders say."""
    model = m2m(hf, tmp_path, seed=1, ends=0.4) if kind == "m2m100" else marian(hf, tmp_path, ends=1.0)
    to, name = ("de", "M2M100Tokenizer") if kind == "m2m100" else (None, "MarianTokenizer")
    told = {"max_length": 20, **settings} if "max_new_tokens" not in settings else settings
    generation(tmp_path, num_beams=1, **told)
    mine, theirs = opened(tmp_path), tokenizer_of(hf, name, tmp_path)
    texts = [text for text in TEXTS if text.strip() and not text.startswith(("</s>", ">>"))]
    forced = {"forced_bos_token_id": mine.mark(to)[0]} if to else {}
    rows = model.generate(
        **theirs(texts, return_tensors="pt", padding=True),
        **told,
        **forced,
        num_beams=1,
        forced_eos_token_id=mine.end,
        bad_words_ids=[[id] for id in mine.never_written if (id,) != mine.mark(to)],
    )
    wanted = [mine.tokenizer.target.decode(row.tolist()).strip() for row in rows]
    found = [each.text for each in mine.translate(texts, to=to, split="never")]
    assert found == wanted
    assert len({*wanted}) > 2, "no case: the text does not matter"
    plain = mine.translate(texts, to=to, split="never", decoding=regard.DecodeConfig(method="greedy"))
    assert [each.text for each in plain] != wanted, "no case: the setting does not matter"


@pytest.mark.parametrize(
    "settings",
    [
        {"bad_words_ids": [[5]]},
        {"bad_words_ids": [[5, 6]]},
        {"suppress_tokens": [5]},
        {"renormalize_logits": True},
        {"do_sample": True},
        {"forced_bos_token_id": 4},
        {"num_beam_groups": 2, "diversity_penalty": 0.5},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_what_is_not_done_here_is_told_in_one_line(hf, tmp_path, settings):
    marian(hf, tmp_path)
    generation(tmp_path, **settings)
    with pytest.warns(HubWarning) as caught:
        read_translator(tmp_path)
    (message,) = [str(each.message) for each in caught]
    assert all(key in message for key in settings)
    assert "\n" not in message


def test_what_changes_nothing_is_not_told(hf, tmp_path):
    model = marian(hf, tmp_path)
    plain = {"bad_words_ids": [[model.config.pad_token_id]], "do_sample": False, "renormalize_logits": False}
    plain |= {"suppress_tokens": None, "diversity_penalty": 0.0, "num_beam_groups": 1}
    generation(tmp_path, **plain, forced_eos_token_id=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_translator(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("length_penalty", float("nan"), "an ordinary number"),
        ("length_penalty", True, "an ordinary number"),
        ("num_beams", 0, "a whole number from 1 to 1024"),
        ("num_beams", 2.5, "a whole number"),
        ("max_length", -1, "a whole number from 1"),
        ("min_length", "x", "a whole number from 0"),
        ("no_repeat_ngram_size", -1, "a whole number from 0"),
        ("repetition_penalty", 0, "above 0"),
        ("early_stopping", "often", "true, false or 'never'"),
    ],
)
def test_what_is_no_setting_is_refused_with_its_file(hf, tmp_path, key, value, rule):
    marian(hf, tmp_path)
    generation(tmp_path, **{key: value})
    with pytest.raises(HubError, match=rf"generation_config\.json: {key}=.* must be {rule}"):
        read_translator(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(HubError, match=rf"/config\.json: {key}=.* must be {rule}"):
        read_translator(tmp_path)


@pytest.mark.parametrize("kind", ["marian", "m2m100"])
def test_texts_of_several_sentences_are_parted(hf, tmp_path, kind, console):
    m2m(hf, tmp_path / "theirs") if kind == "m2m100" else marian(hf, tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours", console=console)
    to, text = ("de" if kind == "m2m100" else None), f"{ENGLISH[0]} {ENGLISH[1]}"
    for folder in ("theirs", "ours"):
        mine = opened(tmp_path / folder)
        assert mine.trained_on_single_sentences
        parted = mine.translate(text, to=to).text
        assert parted.split() == " ".join(each.text for each in mine.translate(ENGLISH[:2], to=to)).split()


def test_one_language_alone_is_not_set_before_a_source(hf, tmp_path):
    marian(hf, tmp_path, languages=("deu",))
    mine, theirs = opened(tmp_path), tokenizer_of(hf, "MarianTokenizer", tmp_path)
    assert mine.languages == ()
    assert mine.encode([ENGLISH[0]], None) == [theirs(ENGLISH[0])["input_ids"]]
    assert mine.tokenizer.vocabulary[">>deu<<"] in mine.never_written


def test_a_missing_library_is_named(hf, tmp_path, monkeypatch, console):
    marian(hf, tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours", console=console)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    for folder in ("theirs", "ours"):
        with pytest.raises(ValueError, match=r"pip install 'regard\[desk\]'$"):
            opened(tmp_path / folder)
