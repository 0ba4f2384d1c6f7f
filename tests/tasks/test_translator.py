"""Translators: order, batches, lengths, prefixes, languages; and one that has learned to copy."""

import copy
import json
import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decode import DecodeConfig, Hypothesis
from regard.nn.native import attention as native_attention
from regard.nn.native import linear as native_linear
from regard.nn.quantized import quantize
from regard.tasks.base.describe import count_parameters
from regard.tasks.translation import engine as module
from regard.tasks.translation.encoding import encode_sources
from regard.tasks.translation.pieces import Piece, combine, in_batches, in_small_batches, number_sources
from regard.tasks.translation.result import Translation, TranslationWarning
from regard.tasks.translation.translator import Translator
from regard.text import DataError, Tokenizer, TokenizerConfig
from tests.models.families import BODIES
from tests.tasks.copying import WORDS, copier, model, sentences, tokenizer, translator

SHORT = DecodeConfig(beam=3, maximum=8)


def spied(monkeypatch):
    """What a search is asked for, batch by batch."""
    calls = []
    real = module.check

    def check(model, state, prefixes, **settings):
        calls.append({"prefixes": prefixes, **settings})
        return real(model, state, prefixes, **settings)

    monkeypatch.setattr(module, "check", check)
    return calls


@pytest.mark.spec("6.1")
def test_sources_end_with_the_end_token_and_begin_with_their_language():
    own = tokenizer("de", "fr")
    plain, end = own.encode_batch(WORDS[:2]), own.require("end")
    assert encode_sources(own, WORDS[:2]) == [[*ids, end] for ids in plain]
    german, french = own.ids.extra["<2de>"], own.ids.extra["<2fr>"]
    assert encode_sources(own, WORDS[:2], "de") == [[german, *ids, end] for ids in plain]
    assert encode_sources(own, WORDS[:2], ["fr", "de"]) == [
        [french, *plain[0], end],
        [german, *plain[1], end],
    ]
    assert encode_sources(own, WORDS[:2], ["fr", None]) == [[french, *plain[0], end], [*plain[1], end]]
    with pytest.raises(ValueError, match="'nl': this tokenizer has de, fr"):
        encode_sources(own, WORDS[:1], "nl")
    with pytest.raises(ValueError, match="1 languages for 2 texts"):
        encode_sources(own, WORDS[:2], ["de"])


@pytest.mark.parametrize("family", BODIES)
@pytest.mark.usefixtures("unchecked")
def test_a_batch_gives_what_each_text_gives_alone(family):
    texts = sentences(5, seed=3)
    random = translator(family, decoding=SHORT)
    together = random.translate(texts, batch_tokens=30)
    for text, found in zip(texts, together, strict=True):
        alone = random.translate(text)
        assert (alone.text, alone.finished) == (found.text, found.finished)
        assert alone.score == pytest.approx(found.score, rel=1e-4)


def test_order_and_blank_lines_are_kept():
    texts = ["harbour", "", "mirror garden silver", "  \t", "lantern", ""]
    random = translator(decoding=SHORT)
    found = random.translate(texts, align=True)
    assert [each.source for each in found] == texts
    for text, each in zip(texts, found, strict=True):
        if text.strip():
            assert each.text == random.translate(text).text
        else:
            assert (each.text, each.score, each.finished, each.pieces) == ("", 0.0, True, 0)
            assert each.alignment == ()
            assert [a.text for a in each.alternatives] == [""]
    assert random.translate([]) == []


def test_text_that_leaves_no_token_is_blank(monkeypatch):
    calls = spied(monkeypatch)
    own = Tokenizer.train(WORDS, TokenizerConfig(kind="wordpiece", vocabulary=80))
    random = Translator(model("gru, dot", len(own)).eval(), own, longest=9)
    found = random.translate("\u200b\ufeff", align=True)
    assert (found.text, found.pieces, found.alignment) == ("", 0, ())
    assert calls == []


def test_blank_lines_never_reach_the_model(monkeypatch):
    calls = spied(monkeypatch)
    assert [each.text for each in translator().translate(["", " "])] == ["", ""]
    assert calls == []


def test_white_space_around_a_text_changes_nothing():
    random = translator(decoding=SHORT)
    padded = random.translate("  mirror garden \t", align=True)
    bare = random.translate("mirror garden", align=True)
    assert (padded.text, padded.alignment) == (bare.text, bare.alignment)


def test_a_string_gives_a_translation_that_prints_as_its_text():
    found = translator(decoding=SHORT).translate("mirror")
    assert str(found) == found.text
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["source"] == "mirror"
    assert "alignment" not in plain
    assert "alternatives" not in plain


def test_several_alternatives_come_in_order_and_the_first_is_the_translation():
    found = translator(decoding=DecodeConfig(beam=4, n_best=3, maximum=8)).translate("mirror", align=True)
    assert len(found.alternatives) == 3
    rankings = [each.ranking for each in found.alternatives]
    assert rankings == sorted(rankings, reverse=True)
    first = found.alternatives[0]
    assert (found.text, found.score, found.finished) == (first.text, first.score, first.finished)
    assert len(found.to_dict()["alternatives"]) == 3


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 100), st.integers(1, 4))
def test_batches_keep_to_the_budget_and_leave_nothing_out(lengths, budget, sharers):
    pieces = [Piece(i, (0, 1), "", [0] * length, [], i) for i, length in enumerate(lengths)]
    batches = list(in_batches(pieces, budget, sharers))
    assert all(batches)
    assert sorted(piece.number for batch in batches for piece in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(len(piece.ids) for piece in batch) <= budget


@given(
    st.lists(st.lists(st.integers(-9, 0), min_size=1, max_size=3), min_size=1, max_size=4), st.integers(1, 4)
)
def test_the_best_combinations_of_pieces_are_those_of_a_search_through_all(rankings, count):
    parts = [[Hypothesis((), r, r, True) for r in sorted(own, reverse=True)] for own in rankings]
    totals = [0]
    for own in rankings:
        totals = [total + ranking for total in totals for ranking in own]
    found = combine(parts, DecodeConfig(beam=4, n_best=count))
    assert [sum(h.ranking for h in each) for each in found] == sorted(totals, reverse=True)[:count]


def test_what_was_cut_off_comes_behind_what_was_finished():
    finished, cut = Hypothesis((1,), -9.0, -9.0, True), Hypothesis((2,), -1.0, -1.0, False)
    found = combine([[finished, cut], [finished]], DecodeConfig(n_best=2))
    assert found == [[finished, finished], [cut, finished]]


def test_only_the_end_among_special_tokens_may_be_written(monkeypatch):
    calls = spied(monkeypatch)
    own = tokenizer("de")
    wide = model("transformer, sinusoidal", len(own) + 5).eval()  # rows without a token
    Translator(wide, own, longest=24, languages=("de",), decoding=SHORT).translate("mirror")
    special = {own.vocabulary[token] for token in own.specials} - {own.require("end")}
    assert set(calls[0]["suppressed"]) == special | set(range(len(own), len(own) + 5))


def test_lengths_are_bounded_by_the_source_and_the_configuration(monkeypatch):
    calls = spied(monkeypatch)
    texts = ["harbour", "harbour harbour harbour"]
    translator(longest=24).translate(texts)
    assert sorted(calls[0]["maximums"]) == [2 * 2 + 20, 2 * 4 + 20]
    translator().translate(texts, decoding=DecodeConfig(maximum=9))
    assert calls[1]["maximums"] == [9, 9]
    translator().translate(texts, decoding=DecodeConfig(minimum=40))
    assert calls[2]["maximums"] == [40, 40]


def test_learned_positions_are_not_overrun():
    random = translator("transformer, learned", longest=60)
    text = " ".join(["harbour"] * 50)
    found = random.translate(text, decoding=DecodeConfig(method="greedy", minimum=200))
    assert not found.finished


def test_a_translation_stopped_at_its_maximum_is_flagged():
    config = DecodeConfig(method="greedy", minimum=5, maximum=5)
    random = translator()
    random.model.decoder.head.weight.data[random.tokenizer.require("end")] *= -1  # no end in sight
    assert not random.translate("mirror", decoding=config).finished


def test_a_character_longer_than_the_longest_is_warned_about():
    own = Tokenizer.train(WORDS, TokenizerConfig(kind="bpe", vocabulary=340))
    random = Translator(model("gru, dot", len(own)).eval(), own, longest=4, decoding=SHORT)
    with pytest.warns(TranslationWarning, match="line 1: .* trained on 4 at most"):
        random.translate("\N{GRINNING FACE}")


def test_what_is_no_text_is_refused():
    with pytest.raises(TypeError, match="NoneType is no text"):
        translator().translate(["mirror", None])


def test_a_model_is_given_back_in_the_mode_it_came_in_and_can_be_trained_on():
    random = translator("transformer, modern", decoding=SHORT)
    random.model.train()
    random.model.encoder.eval()
    random.translate("mirror garden")
    assert random.model.training
    assert not random.model.encoder.training
    ids = torch.tensor([5, 6, 7])
    layout = module.pack([[5, 6, 7]]).layout
    random.model(ids, layout, ids, layout).sum().backward()  # what was cached has no traces of inference
    random.model.eval()
    random.translate("mirror garden")
    assert not random.model.training


def test_dropout_does_not_translate():
    random = translator(decoding=SHORT)
    wanted = random.translate("mirror garden").text
    random.model.train()
    for part in random.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    assert random.translate("mirror garden").text == wanted


def test_a_forced_prefix_begins_the_translation():
    random = translator(decoding=SHORT)
    found = random.translate(["mirror", "garden"], prefixes=["silver bridge ", ""])
    assert found[0].text.startswith("silver bridge")
    assert found[1].text == random.translate("garden").text
    assert random.translate("mirror", prefixes="silver bridge").text == found[0].text
    with pytest.raises(ValueError, match="one for each text"):
        random.translate(["mirror", "garden"], prefixes=["silver"])
    with pytest.raises(ValueError, match="one for each text"):
        random.translate(["mirror", "garden"], prefixes="silver")


def test_languages_are_asked_for_and_checked():
    several = translator("transformer, sinusoidal", "de", "fr", decoding=SHORT)
    with pytest.raises(ValueError, match="one of de, fr"):
        several.translate("mirror")
    with pytest.raises(ValueError, match="to='nl' is no language of this model; choose one of de, fr"):
        several.translate("mirror", to="nl")
    with pytest.raises(ValueError, match="to='nl'"):
        several.stream([], to="nl")
    both = several.translate(["mirror", "mirror"], to=["de", "fr"])
    assert [each.text for each in both] == [several.translate("mirror", to=to).text for to in ("de", "fr")]
    with pytest.raises(ValueError, match="leave it out"):
        translator().translate("mirror", to="de")


def test_the_only_language_is_the_default(monkeypatch):
    one = translator("transformer, sinusoidal", "de", decoding=SHORT)
    assert one.translate("mirror", align=True) == one.translate("mirror", to="de", align=True)


def test_text_past_the_longest_is_warned_about_or_refused_by_line():
    long = " ".join(["harbour"] * 30)
    random = translator(decoding=SHORT)
    lengths = "31 tokens, but the model was trained on 24 at most"
    with pytest.warns(TranslationWarning, match=f"line 2: {lengths}"):
        whole = random.translate(["mirror", long], too_long="warn")[1]
    assert whole.pieces == 1
    with pytest.raises(DataError, match=f"input:2: too long: {lengths}; .*too_long='split'"):
        random.translate(["mirror", long], too_long="error")
    with pytest.raises(DataError, match="input:5:"):
        list(random.stream(["mirror"] * 4 + [long], window=2, too_long="error"))
    assert random.translate(long).pieces == 2
    with pytest.raises(ValueError, match="split, warn, error"):
        random.translate(long, too_long="cut")


@pytest.mark.filterwarnings("ignore::regard.tasks.translation.result.TranslationWarning")
@pytest.mark.usefixtures("unchecked")
def test_samples_hang_on_the_key_and_not_on_the_batch():
    random = translator()
    config = DecodeConfig(method="sample", maximum=8, n_best=2, seed=5)
    texts = [*sentences(6, seed=1), " ".join(WORDS * 3)]
    together = random.translate(texts, decoding=config)
    apart = [random.translate([text], decoding=config, keys=[i])[0] for i, text in enumerate(texts)]
    assert [[a.text for a in each.alternatives] for each in together] == [
        [a.text for a in each.alternatives] for each in apart
    ]
    assert together[-1].pieces > 1
    twice = random.translate(["mirror", "mirror"], decoding=config)
    assert twice[0].text != twice[1].text
    stream = random.stream(texts, window=2, decoding=config)
    assert [each.text for each in stream] == [each.text for each in together]


def test_a_batch_too_large_for_the_memory_is_decoded_in_halves(monkeypatch):
    small = translator(decoding=SHORT)
    texts, whole = ["mirror garden", "harbour", "silver bridge", "candle"], small.engine.decode
    expected = small.translate(texts)

    def short_of_memory(batch, options):
        if len(batch) > 1:
            raise torch.OutOfMemoryError("injected")
        return whole(batch, options)

    monkeypatch.setattr(small.engine, "decode", short_of_memory)
    assert [each.text for each in small.translate(texts)] == [each.text for each in expected]


def test_progress_counts_every_text_once():
    told = []
    texts = ["harbour", "", " ".join(WORDS * 3), "mirror"]
    translator(decoding=SHORT).translate(texts, batch_tokens=24, progress=told.append)
    assert sum(told) == len(texts)
    assert len(told) > 2


@pytest.mark.filterwarnings("ignore::regard.tasks.translation.result.TranslationWarning")
def test_a_stream_is_read_a_window_at_a_time():
    texts = [*sentences(5, seed=2), "", "mirror"]
    random = translator(decoding=SHORT)
    read = []

    def lines():
        for text in texts:
            read.append(text)
            yield text

    stream = random.stream(lines(), window=3)
    first = next(stream)
    assert len(read) == 3
    found = [first, *stream]
    assert [each.text for each in found] == [each.text for each in random.translate(texts)]


def test_a_stream_tells_how_many_translations_are_unfinished():
    config = DecodeConfig(method="greedy", minimum=5, maximum=5)
    random = translator()
    random.model.decoder.head.weight.data[random.tokenizer.require("end")] *= -1
    with pytest.warns(TranslationWarning, match="2 of 3 translations were stopped"):
        found = list(random.stream(["mirror", "", "garden"], decoding=config))
    assert [each.finished for each in found] == [False, True, False]


def test_alignment_is_refused_before_work_where_nothing_attends(monkeypatch):
    calls = spied(monkeypatch)
    with pytest.raises(ValueError, match="does not attend"):
        translator("lstm, no attention").translate("mirror", align=True)
    assert calls == []


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_model_that_copies_gives_the_text_back(precision):
    own = copier()
    copies = Translator(own.model, own.tokenizer, longest=own.longest, precision=precision)
    texts = sentences(40, seed=-2)
    found = copies.translate(texts)
    assert sum(each.text == text for each, text in zip(found, texts, strict=True)) >= 36
    assert all(each.finished for each in found)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_model_copies_and_aligns_on_cuda_too(precision):
    own = copier()
    texts = ["", *sentences(40, seed=-2)]
    wanted = own.translate(texts, align=True)
    moved = Translator(copy.deepcopy(own.model).cuda(), own.tokenizer, longest=12, precision=precision)
    found = moved.translate(texts, align=True, batch_tokens=100)
    same = [(a.text, a.alignment) == (b.text, b.alignment) for a, b in zip(found, wanted, strict=True)]
    assert sum(same) >= 39


@pytest.mark.usefixtures("unchecked")
def test_a_long_text_is_copied_piece_by_piece_and_aligned_as_one():
    own = copier()
    text = "mirror silver garden candle window harbour forest summer bridge lantern mirror candle"
    found = Translator(own.model, own.tokenizer, longest=9).translate(text, align=True)
    assert found.pieces >= 3
    assert found.text == text
    assert found.alignment == tuple((i, i) for i in range(12))


def test_links_of_pieces_are_those_of_the_pieces_alone():
    random = translator(decoding=SHORT)
    text = "mirror silver garden candle window. Forest summer bridge lantern. Mirror candle garden silver."
    whole = random.translate(text, align=True)
    assert whole.pieces == 3
    links, read, written = [], 0, 0
    for sentence in re.findall(r"[^.]+\.", text):
        alone = random.translate(sentence, align=True)
        links += [(i + read, j + written) for i, j in alone.alignment]
        read, written = read + len(sentence.split()), written + len(alone.text.split())
    assert whole.alignment == tuple(sorted(links))
    assert len(whole.text.split()) == written


@pytest.mark.usefixtures("unchecked")
def test_a_suppressed_word_is_not_written():
    copies = copier()
    assert copies.translate("mirror harbour garden").text == "mirror harbour garden"
    found = copies.translate("mirror harbour garden", suppressed=["harbour"])
    assert "harbour" not in found.text


def test_a_word_of_several_tokens_cannot_be_suppressed():
    with pytest.raises(ValueError, match=re.escape("'lantern' cannot be suppressed") + ".*several"):
        translator().translate("mirror", suppressed=["lantern"])
    with pytest.raises(TypeError, match="a list of words"):
        translator().translate("mirror", suppressed="harbour")


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="longest=2"):
        translator(longest=2)
    with pytest.raises(ValueError, match="float32, bfloat16"):
        translator(precision="half")
    with pytest.raises(ValueError, match="window=0"):
        translator().stream([], window=0)
    with pytest.raises(ValueError, match="batch_tokens=0"):
        translator().translate([], batch_tokens=0)
    with pytest.raises(ValueError, match="2 keys for 1 texts"):
        translator().translate(["mirror"], keys=[1, 2])


def test_those_who_share_the_work_get_equally_much():
    pieces = [Piece(i, (0, 1), "", [0] * (5 + i % 20), [], i) for i in range(400)]
    tokens = [sum(len(piece.ids) for piece in batch) for batch in in_batches(pieces, 4096, 4)]
    assert len(tokens) == 4
    assert max(tokens) - min(tokens) < 50


def test_small_batches_hold_the_longest_first_and_leave_nobody_idle():
    pieces = [Piece(i, (0, 1), "", [0] * (5 + i % 20), [], i) for i in range(100)]
    sizes = [[len(piece.ids) for piece in batch] for batch in in_small_batches(pieces, 4096, 64, 2)]
    assert [len(batch) for batch in sizes] == [50, 50]
    assert [size for batch in sizes for size in batch] == sorted(map(len, (p.ids for p in pieces)))[::-1]
    assert [len(batch) for batch in in_small_batches(pieces, 4096, 30, 2)] == [30, 30, 30, 10]
    assert [len(batch) for batch in in_small_batches(pieces[:9], 4096, 64, 2)] == [9]  # too few to share
    assert {len(batch) for batch in in_small_batches(pieces, 1, 64, 2)} == {1}


def test_an_error_in_one_thread_stops_all_of_them(monkeypatch):
    own = translator(decoding=SHORT)
    begun = []

    def check(*_args, **_settings):
        begun.append(1)
        raise ArithmeticError("broken")

    monkeypatch.setattr(module, "check", check)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(ArithmeticError, match="broken"):
            own.translate(sentences(60, seed=4), batch_tokens=40)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert len(begun) <= 2


@pytest.mark.usefixtures("unchecked")
def test_batches_side_by_side_give_what_they_give_one_after_the_other():
    texts = sentences(40, seed=4)
    own = translator(decoding=SHORT)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(own.translate(texts, batch_tokens=40))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    one, other = found
    assert [each.text for each in one] == [each.text for each in other]
    assert [each.score for each in one] == pytest.approx([each.score for each in other], rel=1e-4)


def test_a_translator_uses_the_weights_that_its_model_has_now():
    own = translator(decoding=SHORT)
    text = sentences(1, seed=5)[0]
    before = own.translate(text)
    with torch.no_grad():
        for each in own.model.decoder.parameters():
            each.mul_(0.5)
    changed = own.translate(text)
    assert changed.score != before.score
    fresh = Translator(copy.deepcopy(own.model), own.tokenizer, longest=own.longest, decoding=SHORT)
    assert changed.score == pytest.approx(fresh.translate(text).score, rel=1e-5)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_without_a_compiler_translations_are_the_same(precision, monkeypatch):
    texts = sentences(12, seed=6)

    def translated() -> list[Translation]:
        own = translator(decoding=DecodeConfig(beam=2, maximum=8))
        fresh = Translator(own.model, own.tokenizer, longest=own.longest, precision=precision)
        return fresh.translate(texts, decoding=own.decoding)

    compiled = translated()
    for part in (native_attention, native_linear):
        monkeypatch.setattr(part, "available", lambda: False)
    monkeypatch.setattr(native_linear, "bytes_available", lambda: False)
    plain = translated()
    if precision == "float32":
        assert [each.text for each in compiled] == [each.text for each in plain]
    near = [abs(a.score - b.score) < 0.01 * abs(b.score) for a, b in zip(compiled, plain, strict=True)]
    assert sum(near) >= (12 if precision == "float32" else 10)  # in 8 bits, another word may be chosen


def test_8_bits_translate_nearly_alike():
    own = translator(decoding=DecodeConfig(method="greedy", maximum=8))
    eight = Translator(own.model, own.tokenizer, longest=own.longest, decoding=own.decoding, precision="int8")
    texts = sentences(12, seed=6)
    exact, rounded = own.translate(texts), eight.translate(texts)
    assert [each.score for each in exact] != [each.score for each in rounded]
    near = sum(abs(a.score - b.score) < 0.1 * abs(a.score) for a, b in zip(exact, rounded, strict=True))
    assert near >= 9  # others have chosen another word


@pytest.mark.parametrize("prefix", ["", "mirror"])
@pytest.mark.parametrize("text", ["harbour silver", "harbour. Mirror garden. " * 12])
def test_confidence_is_the_geometric_mean_of_the_probabilities_of_what_was_written(text, prefix):
    random = translator(decoding=DecodeConfig(beam=2, n_best=2, maximum=6))
    found = random.translate(text, prefixes=prefix)
    options = random.options()
    pieces = random.plan(number_sources([text], [None], [prefix], None, 1), options)
    with random.ready():
        results = random.decode(pieces, options)
    both = [(piece, result.hypotheses[0]) for piece, result in zip(pieces, results, strict=True)]
    written = sum(len(best.ids) - len(piece.prefix) + best.finished for piece, best in both)
    assert found.pieces == len(pieces)
    assert found.confidence == pytest.approx(math.exp(found.score / written), rel=1e-4)
    assert all(0 < each.confidence <= 1 for each in found.alternatives)
    assert found.to_dict()["confidence"] == found.confidence == found.alternatives[0].confidence
    assert random.translate(" ").confidence == 1


def test_a_translator_tells_its_languages():
    shown = repr(translator("transformer, sinusoidal", "de", "fr"))
    assert shown.startswith("Translator\n  task        translate\n  parameters  ")
    assert "  languages   2: de, fr" in shown


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="8 bits need oneDNN")
def test_a_translator_in_8_bits_has_as_many_parameters():
    own = translator().model
    parameters = sum(parameter.numel() for parameter in own.parameters())
    assert count_parameters(quantize(own)) == count_parameters(own) == parameters


# several sentences in a text

TWO = "mirror garden! Silver bridge.\n\nLantern"
PARTS = ["mirror garden!", "Silver bridge.", "Lantern"]


@pytest.mark.filterwarnings("ignore::regard.tasks.translation.result.TranslationWarning")
@pytest.mark.parametrize(("several", "parted"), [(None, False), (0.0, True), (0.05, True), (0.3, False)])
def test_texts_of_several_sentences_are_split_where_the_model_was_trained_on_single_ones(several, parted):
    random = translator(decoding=SHORT, longest=60, several_sentences=several)
    found = random.translate([TWO, *PARTS], align=True)
    alone = [each.text for each in found[1:]]
    assert [each.pieces for each in found] == [3 if parted else 1, 1, 1, 1]
    always = random.translate(TWO, split="always", align=True)
    assert always.text == f"{alone[0]} {alone[1]}\n\n{alone[2]}"
    assert always.score == pytest.approx(sum(each.score for each in found[1:]), rel=1e-4)
    never = random.translate(TWO, split="never", align=True)
    assert never.pieces == 1
    assert (found[0].text, found[0].alignment) == (
        ((each := always if parted else never).text, each.alignment)
    )
    assert [each.text for each in random.stream([TWO])] == [found[0].text]


def test_single_sentences_are_the_same_however_they_are_split():
    texts = [*sentences(6, seed=5), "mirror garden.", "", "  harbour! "]
    for config in (SHORT, DecodeConfig(method="sample", seed=3, n_best=2, maximum=8)):
        random = translator(decoding=config, several_sentences=0.0)
        wanted = random.translate(texts, split="never")
        assert random.translate(texts, split="always") == wanted
        assert random.translate(texts) == wanted


def test_several_best_of_split_sentences_are_combined():
    random = translator(decoding=DecodeConfig(beam=3, n_best=2, maximum=8), longest=60)
    found = random.translate(TWO, split="always")
    best = [random.translate(part).alternatives for part in PARTS]
    assert found.alternatives[0].score == pytest.approx(sum(each[0].score for each in best), rel=1e-4)
    assert len(found.alternatives) == 2


def test_a_sentence_of_several_that_is_too_long_is_split_warned_about_or_refused():
    random = translator(decoding=SHORT, longest=12)
    long = f"mirror! {' '.join(WORDS).capitalize()}."
    assert random.translate(long, split="always").pieces > 2
    with pytest.warns(TranslationWarning, match="trained on 12 at most"):
        assert random.translate(long, split="always", too_long="warn").pieces == 2
    with pytest.raises(DataError, match="input:1: too long"):
        random.translate(long, split="always", too_long="error")
    short = "mirror garden! Silver bridge! Mirror garden!"
    with pytest.raises(DataError, match="input:1: too long"):
        random.translate(short, too_long="error")
    assert random.translate(short, split="always", too_long="error").pieces == 3
    with pytest.raises(ValueError, match="split='maybe' is none of auto, always, never"):
        random.translate("mirror", split="maybe")


def test_what_leaves_no_token_is_no_sentence():
    own = Tokenizer.train(WORDS, TokenizerConfig(kind="wordpiece", vocabulary=80))
    random = Translator(model("gru, dot", len(own)).eval(), own, longest=9, decoding=SHORT)
    found = random.translate("\u200b\n\nmirror", split="always", prefixes="silver")
    assert (found.text, found.pieces) == (random.translate("mirror", prefixes="silver").text, 1)
