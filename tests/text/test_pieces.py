"""Pieces added to a tokenizer, and dropped from one."""

from typing import Any, get_args

import pytest

from regard.text import Kind, Tokenizer, TokenizerConfig
from regard.text.vocabulary import extended, reduced, unchanged
from tests.tasks import tiny

OLD = [side for pair in tiny.pairs(200) for side in pair]
NEW = [
    "the parliament debates a parliamentary amendment",
    "das parlament berät einen änderungsantrag im parlament",
    "ὦ parliament, ὦ amendment",
] * 3


def trained(kind: Any, **how: Any) -> Tokenizer:
    return Tokenizer.train(OLD, TokenizerConfig(kind=kind, vocabulary=400, **how))


@pytest.fixture(params=get_args(Kind))
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return trained(request.param)


def test_the_new_text_becomes_shorter_and_known(tokenizer: Tokenizer) -> None:
    found = extended(tokenizer, NEW, most=60).tokenizer
    assert len(tokenizer) < len(found) <= len(tokenizer) + 60
    before, after = ([ids for row in each.encode_batch(NEW) for ids in row] for each in (tokenizer, found))
    assert len(after) <= len(before)
    assert after.count(found.ids.unknown) <= before.count(tokenizer.ids.unknown)
    assert (len(after), after.count(found.ids.unknown)) < (len(before), before.count(tokenizer.ids.unknown))


def test_text_without_new_pieces_is_cut_as_before(tokenizer: Tokenizer) -> None:
    found = extended(tokenizer, NEW, most=60)
    for old, new in zip(tokenizer.encode_batch(OLD), found.tokenizer.encode_batch(OLD), strict=True):
        assert [piece for id in new for piece in found.made_of[id]] == old
        if max(new) < len(tokenizer):
            assert new == old
    assert any(max(ids) < len(tokenizer) for ids in found.tokenizer.encode_batch(OLD))


def test_a_new_piece_is_made_of_what_its_letters_were_cut_into(tokenizer: Tokenizer) -> None:
    found = extended(tokenizer, NEW, most=60)
    for old, new in zip(tokenizer.encode_batch(NEW), found.tokenizer.encode_batch(NEW), strict=True):
        assert [piece for id in new for piece in found.made_of[id]] == old


def test_what_comes_once_or_is_one_too_many_is_not_added(tokenizer: Tokenizer) -> None:
    assert extended(tokenizer, NEW[:1], most=60, minimum=5).tokenizer.vocabulary == tokenizer.vocabulary
    assert len(extended(tokenizer, NEW, most=3).tokenizer) == len(tokenizer) + 3


def test_new_text_comes_back_as_it_was() -> None:
    for kind in ("bpe", "byte-bpe", "unigram"):
        found = extended(trained(kind), NEW, most=60).tokenizer
        assert [found.decode(ids) for ids in found.encode_batch(NEW)] == NEW


def test_without_the_unused_a_text_is_cut_into_the_same_pieces(tokenizer: Tokenizer) -> None:
    used = OLD[:2]
    found = reduced(tokenizer, used)
    assert len(found.tokenizer) == len(found.made_of) < len(tokenizer)
    for old, new in zip(tokenizer.encode_batch(used), found.tokenizer.encode_batch(used), strict=True):
        assert [found.made_of[id] for id in new] == [(id,) for id in old]
    for id, (old,) in enumerate(found.made_of):
        assert found.tokenizer.token(id) == tokenizer.token(old)
    assert found.tokenizer.specials == tokenizer.specials


def test_special_tokens_stand_where_they_stood(tokenizer: Tokenizer) -> None:
    used = OLD[:2]
    found = reduced(tokenizer, used).tokenizer
    for template in ("sentence", "cls"):
        one, other = (each.encode(used[0], template=template).tokens for each in (tokenizer, found))
        assert one == other


def test_both_changes_are_one(tokenizer: Tokenizer) -> None:
    first = extended(tokenizer, NEW, most=60)
    both = first.then(reduced(first.tokenizer, NEW))
    for old, new in zip(tokenizer.encode_batch(NEW), both.tokenizer.encode_batch(NEW), strict=True):
        assert [piece for id in new for piece in both.made_of[id]] == old
    assert unchanged(tokenizer).then(first).made_of == first.made_of


def test_without_bytes_a_new_character_stands_for_the_unknown() -> None:
    tokenizer = trained("bpe", byte_fallback=False)
    found = extended(tokenizer, NEW, most=60)
    sign = found.tokenizer.vocabulary["ὦ"]
    assert found.made_of[sign] == (tokenizer.ids.unknown,)
    assert found.tokenizer.decode(found.tokenizer.encode_batch(["ὦ"])[0]) == "ὦ"
