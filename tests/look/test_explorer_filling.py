"""Masks on the page: the parts of a text, and the filler's own candidates."""

import pytest

from regard.look.explorer.explorer import Explorer, Refused
from regard.look.explorer.filling import asked, parts
from regard.settings.models import EmbedConfig, MaskedConfig
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.pretraining.filler import Filler
from regard.text import Specials, Tokenizer, TokenizerConfig
from tests.tasks.encoders import toys

TEXT = "sun [MASK] tree house [MASK] river"


def explorer(tokenizer: Tokenizer | None = None) -> Explorer:
    tokenizer = tokenizer or toys.tokenizer()
    return Explorer(Filler(toys.reader(toys.model(MaskedConfig(), len(tokenizer)).eval(), own=tokenizer)))


@pytest.mark.parametrize("kind", ["words", "wordpiece", "bpe", "byte-bpe", "characters"])
@pytest.mark.parametrize(
    "text", ["a [MASK] tree, isn't  it?", " \n naïve 貓 🙂🙂 [MASK][MASK]. ", "x", "[MASK]", "<b>&amp;</b>\t"]
)
def test_parts_make_up_the_text(kind, text):
    tokenizer = Tokenizer.train(
        ["a tree is it naïve 貓 🙂 ? ."] * 2, TokenizerConfig(kind=kind, vocabulary=400)
    )
    found = parts(tokenizer, text)
    assert "".join(part for part, _ in found) == text
    assert sum(kind == "mask" for _, kind in found) == text.count("[MASK]")
    assert all(part.strip() == part for part, kind in found if kind == "word")


def test_candidates_are_those_of_the_filler():
    own = explorer()
    answer = own.ask("fill", {"text": TEXT, "top": 4})
    wanted = own.task.fill(TEXT, top=4)
    assert answer["filled"] == wanted.text
    for mask, candidates in zip(answer["masks"], wanted.candidates, strict=True):
        assert [(each["word"], each["share"], each["text"]) for each in mask] == [
            (each.word, each.probability, each.text) for each in candidates
        ]


def test_a_text_without_masks_has_only_words():
    answer = explorer().ask("fill", {"text": "sun tree"})
    assert answer["masks"] == []
    assert answer["parts"] == [["sun", "word"], [" ", "gap"], ["tree", "word"]]


def test_no_more_candidates_are_asked_for_than_there_are_words():
    [mask] = explorer().ask("fill", {"text": "sun [MASK]", "top": 500})["masks"]
    assert {each["word"] for each in mask} >= set(toys.WORDS)


def test_a_part_of_a_word_joins_the_word_before():
    answer = explorer(toys.subwords()).ask("fill", {"text": "[MASK] tree [MASK]", "top": 40})
    first, second = answer["masks"]
    assert not any(each["joins"] for each in first)  # there is none before it
    assert {each["joins"] for each in second} == {True, False}
    for each in second:
        assert each["text"] == f"[MASK] tree{'' if each['joins'] else ' '}{each['word']}"


def test_the_mask_is_spelled_alike_whatever_the_tokenizer_calls_it():
    config = TokenizerConfig(kind="words", vocabulary=30, specials=Specials(mask="<mask>"))
    own = explorer(Tokenizer.train([" ".join(toys.WORDS)] * 2, config))
    answer = own.ask("fill", {"text": TEXT})
    assert "".join(part for part, _ in answer["parts"]) == TEXT
    best = answer["masks"][0][0]
    assert best["text"] == f"sun {best['word']} tree house [MASK] river"


def test_a_saved_page_can_hide_each_word():
    own = explorer()
    questions = [given["text"] for _, given in asked(own, "sun likes tree", None, None)]
    assert questions == ["sun likes tree", "[MASK] likes tree", "sun [MASK] tree", "sun likes [MASK]"]
    for question, given in asked(own, "sun likes tree", None, None):
        own.ask(question, given)


def test_what_is_no_filler_and_what_is_no_text_is_refused():
    embedder = Explorer(Embedder(toys.reader(toys.model(EmbedConfig()))))
    with pytest.raises(Refused, match="this embedder fills no masks in"):
        embedder.ask("fill", {"text": TEXT})
    assert [*asked(embedder, TEXT, None, None)] == []
    with pytest.raises(Refused, match="no text"):
        explorer().ask("fill", {"text": " "})
