"""Widening changes no score; and transformers, given the same weights, says the same."""

import sys
from dataclasses import replace

import pytest
import torch

from regard.bench import translation
from regard.bench.translation import peer_model
from regard.bench.widen import widened, widens
from regard.data.packing import pack
from regard.models.seq2seq import Seq2Seq
from regard.settings.models import Seq2SeqConfig
from regard.settings.presets import SEQ2SEQ
from regard.settings.presets import translator as shape_of
from regard.tasks.translation.translator import Translator
from regard.text import Tokenizer, TokenizerConfig
from regard.text.phrasebook import phrases


def pre_norm(vocabulary: int) -> Seq2SeqConfig:
    config = shape_of(vocabulary, layers=2, d_model=16, heads=2, d_ff=32, dropout=0.0)
    body = replace(config.encoder.body, norm=replace(config.encoder.body.norm, place="pre"))
    return replace(
        config, encoder=replace(config.encoder, body=body), decoder=replace(config.decoder, body=body)
    )


def stirred(vocabulary: int) -> Seq2Seq:
    """No norm or bias is left at its neutral first value."""
    torch.manual_seed(0)
    model = Seq2Seq(pre_norm(vocabulary)).eval()
    with torch.no_grad():
        for each in model.parameters():
            each.add_(0.2 * torch.randn_like(each))
    return model


@torch.no_grad()
def test_a_widened_translator_says_the_same():
    model = stirred(50)
    wide = widened(model, d_model=64, heads=8, d_ff=128, layers=5)
    assert wide.decoder.body.each[4].attention.project.weight.shape == (192, 64)
    source, target = pack([[3, 7, 9, 4], [5, 6]]), pack([[1, 8, 8], [1, 2, 3, 4, 5]])
    expected, found = (
        each.decoder.head(each(source.ids, source.layout, target.ids, target.layout)).log_softmax(-1)
        for each in (model, wide)
    )
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


@torch.no_grad()
def test_transformers_with_our_weights_gives_the_same_scores():
    texts = [pair.source for pair in phrases("train", 40)]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(vocabulary=400))
    model = widened(stirred(len(tokenizer)), d_model=32, heads=4, d_ff=64, layers=3)
    theirs = peer_model(Translator(model, tokenizer, longest=40))
    source, target = torch.randint(8, 300, (1, 9)), torch.randint(8, 300, (1, 6))
    found = theirs(input_ids=source, attention_mask=source * 0 + 1, decoder_input_ids=target).logits[0]
    asked, written = pack(source.tolist()), pack(target.tolist())
    states = model(asked.ids, asked.layout, written.ids, written.layout)
    torch.testing.assert_close(found, model.decoder.head(states), atol=1e-4, rtol=1e-4)


def test_only_what_can_be_widened_is():
    model = stirred(50)
    assert widens(model)
    assert not widens(model, d_model=40)
    assert not widens(model, layers=1)
    assert not widens(Seq2Seq(shape_of(50, layers=2, d_model=16, heads=2, d_ff=32, dropout=0.0)))  # post-norm
    assert not widens(Seq2Seq(SEQ2SEQ["recurrent"](50)))


@pytest.mark.long
def test_what_could_not_be_widened_is_compared_with_ctranslate2_alone(tmp_path, monkeypatch):
    texts = [pair.source for pair in phrases("train", 12)]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(vocabulary=400))
    torch.manual_seed(0)
    small = Seq2Seq(shape_of(len(tokenizer), layers=1, d_model=16, heads=2, d_ff=32, dropout=0.0)).eval()
    monkeypatch.setattr(translation, "STATUS", tmp_path / "nothing")
    task = translation.Task(Translator(small, tokenizer, longest=40), texts, texts, "as it is", wide=False)
    rows = [*translation.compare(task, tmp_path)]
    assert {row.peer.split()[0] for row in rows} == {"ctranslate2"}
    assert len(rows) == 8


def test_without_ctranslate2_its_rows_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    tokenizer = Tokenizer.train(["a b c"], TokenizerConfig(vocabulary=300))
    own = Translator(stirred(len(tokenizer)), tokenizer, longest=40)
    rows = [*translation.compare(translation.Task(own, ["a"], ["a"], "", wide=False), tmp_path)]
    assert [row.notes for row in rows] == ["not measured: pip install ctranslate2"] * 2
