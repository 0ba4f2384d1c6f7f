"""A translator of Hugging Face's, fine-tuned here, is trained as there, and stays what it is."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.testing import assert_close

import regard
from regard.config import ConfigError
from regard.deploy.exchange import export_model
from regard.settings.training import LossConfig
from regard.tasks import run
from regard.tasks.base.folder import FolderError
from regard.tasks.registry import as_recipe
from regard.tasks.translation.train import Prepared, TranslationLoss, read_corpus
from regard.tasks.vocabulary import vocabulary
from regard.train.ranks import Ranks
from tests.hub.marians import ENGLISH, GERMAN, m2m, marian, states_and_scores, tokenizer_of
from tests.hub.t5s import PROMPTS, t5

pytest.importorskip("sentencepiece")
KINDS = {
    "separate": (None, None, "MarianTokenizer"),
    "languages": (None, "deu", "MarianTokenizer"),
    "m2m100": ("en", "de", "M2M100Tokenizer"),
    "nllb": ("eng_Latn", "deu_Latn", "NllbTokenizer"),
    "t5": (None, None, "T5Tokenizer"),
    "flan": (None, None, "T5Tokenizer"),
    "mt5": (None, None, "T5Tokenizer"),
}
"""What is read, what is written, and how transformers cuts it."""


def started(hf, kind: str, folder: Path):
    if kind in ("m2m100", "nllb"):
        return m2m(hf, folder, kind=kind, seed=1, ends=0.4)
    if kind in ("t5", "flan", "mt5"):
        return t5(hf, folder, kind)
    return marian(
        hf, folder, ends=0.0, separate=kind == "separate", languages=("deu", "fra") * (kind == "languages")
    )


def tuning(folder: Path, kind: str) -> dict:
    for name, texts in (("a.en", ENGLISH), ("a.de", GERMAN)):
        (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    files = ["a.en", "a.de", *([KINDS[kind][1]] if KINDS[kind][1] else [])]
    return {
        "data": {"train": files, "valid": files, "root": str(folder)},
        "model": {"start": str(folder / "theirs"), "dropout": 0.0},
        "batch": {"tokens": 512},
        "optimizer": {"learning_rate": 0.0},
        "train": {"steps": 2},
    }


def prepared(plain: dict, out: Path) -> Prepared:
    ranks = Ranks(rank=0, count=1, device=torch.device("cpu"))
    return read_corpus(as_recipe(plain), out, ranks, Console(quiet=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_rate_of_zero_leaves_it_as_it_was(hf, tmp_path, kind):
    started(hf, kind, tmp_path / "theirs")
    run.fit(
        tuning(tmp_path, kind), out=tmp_path / "out", device="cpu", check=False, console=Console(quiet=True)
    )
    before, after = (
        regard.load(tmp_path / each, regard.Translator, device="cpu", precision="float32")
        for each in ("theirs", "out")
    )
    assert (after.marks, after.source_language) == (before.marks, before.source_language)
    assert (after.languages, after.decoding) == (before.languages, before.decoding)
    one, other = (each.translate(ENGLISH, to=KINDS[kind][1]) for each in (before, after))
    assert [(each.text, each.score) for each in one] == [(each.text, each.score) for each in other]
    assert any(each.text for each in one)
    export_model(tmp_path / "out", tmp_path / "back", console=Console(quiet=True))
    back = regard.load(tmp_path / "back", regard.Translator, device="cpu", precision="float32")
    assert [each.text for each in back.translate(ENGLISH, to=KINDS[kind][1])] == [each.text for each in one]


@pytest.mark.parametrize("kind", KINDS)
def test_its_loss_is_that_of_transformers(hf, tmp_path, kind):
    model = started(hf, kind, tmp_path / "theirs")
    found = prepared(tuning(tmp_path, kind), tmp_path / "out")
    reads, to, name = KINDS[kind]
    told = {} if reads is None else {"src_lang": reads, "tgt_lang": to}
    theirs = tokenizer_of(hf, name, tmp_path / "theirs", **told)
    wanted, rows = torch.zeros(3), {}
    for source, target in zip(ENGLISH, GERMAN, strict=True):
        marked = f">>{to}<< {source}" if kind == "languages" else source
        pair = theirs(marked, text_target=target, return_tensors="pt")
        with torch.no_grad():
            mean = model(input_ids=pair["input_ids"], labels=pair["labels"]).loss
        wanted += torch.tensor([0.0, float(mean) * pair["labels"].numel(), pair["labels"].numel()])
        rows[tuple(pair["input_ids"][0].tolist())] = pair["labels"][0].tolist()
    loss = TranslationLoss(found.model.eval(), LossConfig(label_smoothing=0.0))
    ((_, batch),) = found.feed.parts(1)
    begins = (
        [*pairwise(batch.source.layout.offsets.tolist())],
        [*pairwise(batch.inputs.layout.offsets.tolist())],
    )
    for (a, b), (c, d) in zip(*begins, strict=True):
        assert rows.pop(tuple(batch.source.ids[a:b].tolist())) == batch.labels[c:d].tolist()
    assert not rows
    with torch.no_grad():
        sums = loss(batch)
    assert int(sums[2]) == int(wanted[2])
    assert_close(sums[1], wanted[1], rtol=1e-5, atol=1e-4)


def test_without_a_source_language_there_is_nothing_to_train_on(hf, tmp_path):
    started(hf, "m2m100", tmp_path / "theirs")
    path = tmp_path / "theirs" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "src_lang": None}))
    with pytest.raises(ConfigError, match=r"from which language, one of en.* write it there, as src_lang"):
        prepared(tuning(tmp_path, "m2m100"), tmp_path / "out")


def change(folder: Path, out: Path, lines: list[str], **how):
    file = out.with_suffix(".txt")
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return vocabulary(folder, out, text=[file], console=Console(quiet=True), **how)


@pytest.mark.parametrize("kind", ["languages", "m2m100"])
def test_without_unused_pieces_it_reads_and_scores_as_before(hf, tmp_path, kind):
    started(hf, kind, tmp_path / "theirs")
    found = change(tmp_path / "theirs", tmp_path / "less", [ENGLISH[1], GERMAN[1]], add=0, drop_unused=True)
    assert found.dropped > 5
    before, after = (
        regard.load(tmp_path / each, regard.Translator, device="cpu", precision="float32")
        for each in ("theirs", "less")
    )
    to, rows = KINDS[kind][1], []
    for each in (before, after):
        (source,), (target,) = each.encode([ENGLISH[1]], to), each.tokenizer.target.encode_batch([GERMAN[1]])
        target = [each.start, *each.mark(to), *target]
        rows.append([each.tokenizer.token(id) for id in (*source, *target)])
        _, scores = states_and_scores(each, source, target)
        number = [each.tokenizer.vocabulary[token] for token in after.tokenizer.vocabulary]
        rows.append(scores[:, number])
    assert rows[0] == rows[2]
    assert "<unk>" not in rows[0]
    assert_close(rows[1], rows[3], rtol=1e-6, atol=1e-6)
    export_model(tmp_path / "less", tmp_path / "back", console=Console(quiet=True))


def test_what_takes_no_new_pieces_says_so(hf, tmp_path):
    started(hf, "m2m100", tmp_path / "m2m")
    with pytest.raises(ValueError, match=r"SentencePiece model takes no new pieces.*--add 0 --drop-unused"):
        change(tmp_path / "m2m", tmp_path / "more", ENGLISH)
    started(hf, "separate", tmp_path / "separate")
    with pytest.raises(FolderError, match="its sides have vocabularies of their own"):
        change(tmp_path / "separate", tmp_path / "less", ENGLISH, add=0, drop_unused=True)


def test_a_prompt_is_set_before_every_source_and_kept(hf, tmp_path):
    t5(hf, tmp_path / "theirs", "flan")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "task_specific_params": PROMPTS}))
    plain = tuning(tmp_path, "flan")
    plain["data"]["prompt"] = "translate English to German: "
    found = prepared(plain, tmp_path / "prepared")
    theirs = tokenizer_of(hf, "T5Tokenizer", tmp_path / "theirs")
    wanted = {tuple(theirs(plain["data"]["prompt"] + text)["input_ids"]) for text in ENGLISH}
    ((_, batch),) = found.feed.parts(1)
    bounds = pairwise(batch.source.layout.offsets.tolist())
    assert {tuple(batch.source.ids[a:b].tolist()) for a, b in bounds} == wanted
    run.fit(plain, out=tmp_path / "out", device="cpu", check=False, console=Console(quiet=True))
    before, after = (
        regard.load(tmp_path / each, regard.Translator, device="cpu", precision="float32")
        for each in ("theirs", "out")
    )
    assert (before.default_prompt, after.default_prompt) == ("", "translation_en_to_de")
    one = before.translate(ENGLISH, prompt="translation_en_to_de")
    assert [each.text for each in after.translate(ENGLISH)] == [each.text for each in one]
    assert [each.score for each in after.translate(ENGLISH)] == [each.score for each in one]
    export_model(tmp_path / "out", tmp_path / "back", console=Console(quiet=True))
    facts = json.loads((tmp_path / "back" / "config.json").read_text())
    assert facts["prefix"] == "translate English to German: "
    assert {name: own["prefix"] for name, own in facts["task_specific_params"].items()} == after.prompts
    back = regard.load(tmp_path / "back", regard.Translator, device="cpu", precision="float32")
    assert (back.prompts, back.default_prompt) == (after.prompts, after.default_prompt)
