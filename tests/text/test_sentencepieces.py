"""SentencePiece models inside a tokenizer: as the library cuts, with the numbers of another vocabulary."""

import json
import pickle
import random
import sys

import pytest

from regard.text import Tokenizer
from regard.text.sentencepieces import is_pieces, model_files, piece_state
from regard.text.specials import Specials
from tests.hub.marians import ENGLISH, GERMAN, TEXTS, pieces_of, spm, table

sentencepiece = pytest.importorskip("sentencepiece")
ROLES = Specials(pad="<pad>", unknown="<unk>", start="<pad>", end="</s>", cls=None, sep=None, mask=None)


def made(kind: str = "unigram", *, left_out: int = 0, target: bool = False) -> tuple[Tokenizer, object]:
    """And the library's own, of the same file. `left_out` pieces have no number."""
    model = spm(tuple(ENGLISH), 80 if kind == "unigram" else 60, kind)
    numbers = table(["</s>", "<unk>"], model, last=["<pad>"])
    for piece in pieces_of(model)[:left_out]:
        del numbers[piece]
    other = spm(tuple(GERMAN), 70) if target else None
    theirs = table(["</s>", "<unk>", "<pad>"], other, last=[]) if other else None
    state = piece_state(model, numbers, ROLES, target=other, target_vocabulary=theirs)
    return Tokenizer(json.dumps(state)), sentencepiece.SentencePieceProcessor(model_proto=model)


def drawn(count: int) -> list[str]:
    """Letters of all kinds, in runs: what a model of scores that are equal cuts one way or the other."""
    chance = random.Random(0)
    letters = "aeioth .,!?10'\u00a0\u3000\u200b\u0301éßﬁ½Ω中🙂\n\t▁<>/s"
    rows = ("".join(chance.choice(letters) * chance.randint(1, 7) for _ in range(12)) for _ in range(count))
    return [*rows]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_texts_are_cut_as_the_library_cuts(kind):
    tokenizer, model = made(kind)
    for text in [*TEXTS, *GERMAN, *drawn(500)]:
        pieces = model.encode(text, return_type=str)
        wanted = [tokenizer.vocabulary.get(piece, 1) for piece in pieces]
        wanted = [
            1 if id in (0, len(tokenizer) - 1) else id for id in wanted
        ]  # a text is never a special token
        assert list(tokenizer.encode(text).ids) == wanted, repr(text)
        assert tokenizer.encode_batch([text]) == [wanted]


def test_pieces_without_a_number_are_unknown():
    tokenizer, model = made(left_out=30)
    text = ENGLISH[3]
    ids = tokenizer.encode(text).ids
    known = [piece in tokenizer.vocabulary for piece in model.encode(text, return_type=str)]
    assert [id != tokenizer.ids.unknown for id in ids] == known
    assert 0 < sum(known) < len(known)


def test_tokens_lie_where_their_letters_are():
    tokenizer, _ = made()
    text = "The  cat,   sat"
    encoding = tokenizer.encode(text)
    assert "".join(text[a:b].strip() for a, b in encoding.offsets) == "Thecat,sat"
    assert encoding.words[0] == 0
    assert encoding.word_counts == (3,)
    apart = tokenizer.encode_words(["The", "cat,", "sat"])
    assert sorted({*apart.words}) == [0, 1, 2]
    assert apart.ids == encoding.ids


def test_special_tokens_in_a_text_are_text_unless_asked_for():
    tokenizer, _ = made()
    text = "The cat</s>sat"
    assert tokenizer.ids.end not in tokenizer.encode(text).ids
    ids = tokenizer.encode(text, specials_in_text=True).ids
    assert ids.count(tokenizer.ids.end) == 1
    assert tokenizer.decode(ids, skip_specials=False) == "The cat</s>sat"
    assert tokenizer.decode(ids) == "The cat sat"


def test_both_sides_travel_in_one_file(tmp_path):
    tokenizer, _ = made(target=True)
    again = Tokenizer.load(tokenizer.save(tmp_path / "tokenizer.json"))
    copied = pickle.loads(pickle.dumps(tokenizer))
    for other in (again, copied):
        assert other.fingerprint() == tokenizer.fingerprint()
        assert other.target.vocabulary == tokenizer.target.vocabulary != tokenizer.vocabulary
        for text in GERMAN:
            assert other.target.encode(text) == tokenizer.target.encode(text)
    assert tokenizer.target.decode(tokenizer.target.encode(GERMAN[1]).ids) == GERMAN[1]
    assert tokenizer.target.target is tokenizer.target
    assert is_pieces(tokenizer.state)
    assert model_files(tokenizer.state) == (spm(tuple(ENGLISH), 80), spm(tuple(GERMAN), 70))


def test_a_broken_model_is_told():
    tokenizer, _ = made()
    state = json.loads(json.dumps(dict(tokenizer.state)))
    for proto, message in (("!!", "base 64"), ("aGVsbG8=", "no SentencePiece model")):
        broken = {**state, "model": {**state["model"], "proto": proto}}
        with pytest.raises(ValueError, match=message):
            Tokenizer.parse(json.dumps(broken), "tokenizer.json")
    with pytest.raises(ValueError, match="ids up to"):
        Tokenizer.parse(json.dumps(state), "tokenizer.json", ids=10)
    lost = {**state, "model": {**state["model"], "vocab": {"a": 0}}}
    with pytest.raises(ValueError, match="is not in the vocabulary"):
        Tokenizer.parse(json.dumps(lost), "tokenizer.json")


def test_without_the_library_the_extra_is_named(monkeypatch):
    tokenizer, _ = made()
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ImportError, match=r"pip install 'regard\[desk\]'"):
        Tokenizer(json.dumps(dict(tokenizer.state)))
