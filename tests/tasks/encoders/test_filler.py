"""Filling in: the candidates are the likeliest tokens at each mask, and they read well."""

import json
import warnings

import pytest
import torch
from torch.testing import assert_close

from regard.settings.models import ClassifyConfig, MaskedConfig
from regard.tasks.base.reading import Piece, Reader, ReadingWarning
from regard.tasks.pretraining.filler import Filler, put, window
from regard.text import DataError, Specials, Tokenizer, TokenizerConfig
from tests.tasks.encoders import toys

TEXT = ["the cats walk", "the dogs walked", "a cat sees the dog walking"]


def learned(kind: str, **specials: str) -> Tokenizer:
    config = TokenizerConfig(
        kind=kind, vocabulary=300, byte_fallback=False, specials=Specials(**specials), minimum_frequency=2
    )
    return Tokenizer.train(TEXT * 2, config)


def filler(
    tokenizer: Tokenizer | None = None, longest: int = 512, nexts: bool = False, spare: int = 0
) -> Filler:
    tokenizer = tokenizer or toys.tokenizer()
    shape = {**toys.TINY, "encoder": {"pooler": nexts}}
    made = toys.model(MaskedConfig(next_sentence=nexts), len(tokenizer) + spare, **shape)
    return Filler(Reader(made, tokenizer, longest=longest))


def chances(own: Filler, ids: list[int], place: int) -> torch.Tensor:
    """Of every word there, by a pass of the whole model; special tokens are none."""
    found = toys.reader(own.reader.model, own=own.reader.tokenizer)
    with torch.no_grad():
        packed = next(found.batches([Piece(ids, None, 0)])).packed
        scores = own.reader.model.eval()(packed.ids, packed.layout)[place]
    tokenizer = own.reader.tokenizer
    words = [id for token, id in tokenizer.vocabulary.items() if token not in [*tokenizer.specials]]
    return torch.full_like(scores, -torch.inf).index_copy(0, torch.tensor(words), scores[words]).softmax(-1)


def test_candidates_are_the_likeliest_words_at_each_mask():
    own = filler(spare=5)  # an embedding may have more rows than there are tokens
    text = "sun [MASK] tree house [MASK] river"
    ids = [*own.reader.tokenizer.encode(text, template="cls", specials_in_text=True).ids]
    found = own.fill(text, top=4)
    assert len(found.candidates) == 2
    for place, candidates in zip((2, 5), found.candidates, strict=True):
        best = chances(own, ids, place).topk(4)
        assert [own.reader.tokenizer.vocabulary[each.token] for each in candidates] == best.indices.tolist()
        assert_close(torch.tensor([each.probability for each in candidates]), best.values)
    first, second = (candidates[0].word for candidates in found.candidates)
    assert found.text == f"sun {first} tree house {second} river"
    assert [each.text for each in found.candidates[1]] == [
        f"sun [MASK] tree house {each.word} river" for each in found.candidates[1]
    ]


def test_a_text_is_filled_the_same_in_any_company():
    own = filler()
    texts = ["sun [MASK]", "[MASK] tree house dog [MASK]", "old [MASK] red", "[MASK]"]
    told = []
    together = own.fill(texts, progress=told.append)
    assert sum(told) == len(texts)
    for text, found in zip(texts, together, strict=True):
        alone = own.fill(text)
        assert [[c.token for c in each] for each in alone.candidates] == [
            [c.token for c in each] for each in found.candidates
        ]
    assert own.fill([]) == []


@pytest.mark.parametrize("mask", ["[MASK]", "<mask>"])
def test_a_mask_may_be_written_as_the_tokenizer_does_or_in_brackets(mask):
    own = filler(learned("words", mask="<mask>"))
    assert own.fill(f"the {mask} walk").candidates == own.fill("the <mask> walk").candidates


def test_a_long_text_is_read_around_each_mask():
    own = filler(longest=12)
    words = [toys.WORDS[place % 7] for place in range(40)]
    words[3] = words[20] = words[21] = words[39] = "[MASK]"
    found = own.fill(" ".join(words))
    encoding = own.reader.tokenizer.encode(" ".join(words), template="cls", specials_in_text=True)
    for place, candidates in zip((3, 20, 21, 39), found.candidates, strict=True):
        begin = min(max(place - 5, 0), 30)  # ten words, with [CLS] and [SEP]
        ids = [encoding.ids[0], *encoding.ids[1 + begin : 11 + begin], encoding.ids[-1]]
        wanted = chances(own, ids, 1 + place - begin)
        assert candidates[0].probability == pytest.approx(float(wanted.max()), rel=1e-4)
    assert len(window(encoding, 12, 21)) == 12
    assert len(found.text.split()) == 40


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("bpe", {"▁dog": "the dog sees", "s": "thes sees"}),
        ("byte-bpe", {"Ġdog": "the dog sees", "s": "thes sees"}),
        ("wordpiece", {"dog": "the dog sees", "##s": "thes sees"}),
        ("words", {"dog": "the dog sees"}),
    ],
)
def test_what_is_filled_in_reads_well(kind, tokens):
    own = filler(learned(kind))
    vocabulary = own.reader.tokenizer.vocabulary
    for token, wanted in tokens.items():
        [word] = own._read_out([vocabulary[token]])
        assert put("the [MASK] sees", [(4, 10)], [word]) == wanted
    most = sum(token not in [*own.reader.tokenizer.specials] for token in vocabulary)
    everything = own.fill("the [MASK] sees", top=most).candidates[0]
    assert len({each.token for each in everything}) == most
    assert all(each.word for each in everything)


def test_words_at_the_start_and_side_by_side_are_set_apart():
    assert put("[MASK] sat", [(0, 6)], [" cat"]) == "cat sat"
    assert put("[MASK][MASK].", [(0, 6), (6, 12)], [" cat", " sat"]) == "cat sat."
    assert put("the cat [MASK] so", [(8, 14)], [","]) == "the cat, so"
    assert put("walk[MASK]", [(4, 10)], ["ing"]) == "walking"


def test_what_cannot_be_filled_is_told():
    own = filler()
    with pytest.raises(DataError, match=r"input:2: nothing to fill in .*put \[MASK\] in the place of a word"):
        own.fill(["the [MASK]", "no mask here"])
    with pytest.raises(ValueError, match="top=0 candidates"):
        own.fill("[MASK]", top=0)
    with pytest.raises(ValueError, match="choose from 1 to 10"):
        own.fill("[MASK]", top=11)
    with pytest.raises(TypeError, match="does not fill in"):
        Filler(toys.reader(toys.model(ClassifyConfig())))


def test_follows_is_the_probability_of_the_first_of_two_scores():
    own = filler(nexts=True)
    firsts, seconds = ["sun rain", "old dog tree"], ["river", "red house likes"]
    ids, segments = own.reader.tokenizer.encode_pairs(firsts, seconds)
    model = own.reader.model.eval()
    for row, found in enumerate(own.follows(firsts, seconds)):
        piece = next(own.reader.batches([Piece(ids[row], None, 0)])).packed
        with torch.no_grad():
            states = model.states(piece.ids, piece.layout, torch.tensor(segments[row]))
            wanted = model.head.follows(states, piece.layout).softmax(-1)[0, 0]
        assert found == pytest.approx(float(wanted), rel=1e-4)
    with pytest.raises(ValueError, match="trained without next sentences"):
        filler().follows(firsts, seconds)


def test_pairs_that_are_cut_are_told():
    own = filler(nexts=True, longest=8)
    with pytest.warns(ReadingWarning, match="1 of 2 texts are longer than 8 tokens"):
        own.follows(["sun " * 9, "sun"], ["rain", "rain"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own.follows(["sun"], ["rain"])


def test_what_is_found_can_be_written_as_json():
    found = filler().fill("the [MASK]", top=2)
    again = json.loads(json.dumps(found.to_dict()))
    assert again["text"] == found.text
    assert [each["token"] for each in again["candidates"][0]] == [each.token for each in found.candidates[0]]
