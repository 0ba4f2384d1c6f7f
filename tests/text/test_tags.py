import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.tags import Span, TagError, detect_scheme, spans, to_bioes, to_iob2


@st.composite
def tagged_spans(draw):
    """Spans that follow one another, side by side or with gaps, and the number of words."""
    found, position = [], 0
    for _ in range(draw(st.integers(0, 5))):
        start = position + draw(st.integers(0, 2))
        position = start + draw(st.integers(1, 4))
        found.append(Span(draw(st.sampled_from(["PER", "LOC", "creative-work"])), start, position))
    return tuple(found), position + draw(st.integers(0, 2))


def write(found, words, scheme):
    """The schemes from their definitions."""
    tags = ["O"] * words
    for before, span in zip((None, *found), found, strict=False):
        touches = before is not None and before.end == span.start and before.label == span.label
        first, inside, last, single = {
            "IOB1": ("B" if touches else "I", "I", "I", "B" if touches else "I"),
            "IOB2": ("B", "I", "I", "B"),
            "BIOES": ("B", "I", "E", "S"),
            "BILOU": ("B", "I", "L", "U"),
        }[scheme]
        length = span.end - span.start
        letters = [single] if length == 1 else [first, *[inside] * (length - 2), last]
        tags[span.start : span.end] = [f"{letter}-{span.label}" for letter in letters]
    return tuple(tags)


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES", "BILOU"])
@given(tagged_spans())
def test_every_scheme_gives_back_the_spans_it_was_written_from(scheme, example):
    found, words = example
    tags = write(found, words, scheme)
    assert spans(tags, scheme) == found
    assert to_iob2(tags, scheme) == write(found, words, "IOB2")


@given(tagged_spans())
def test_iob2_becomes_bioes_and_returns(example):
    found, words = example
    iob2 = write(found, words, "IOB2")
    assert to_bioes(iob2) == write(found, words, "BIOES")
    assert to_iob2(to_bioes(iob2), "BIOES") == iob2
    assert to_iob2(iob2, "IOB2") == iob2


@given(tagged_spans())
def test_iob2_read_as_iob1_is_the_same(example):
    tags = write(*example, "IOB2")
    assert to_iob2(tags, "IOB1") == tags


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES", "BILOU"])
@given(st.lists(tagged_spans(), min_size=1, max_size=5))
def test_the_scheme_is_detected_from_any_span(scheme, examples):
    sentences = [write(*example, scheme) for example in examples]
    assert detect_scheme(sentences) == (scheme if any(found for found, _ in examples) else None)


@pytest.mark.parametrize(
    ("scheme", "typo"), [("IOB2", "E-LOC"), ("IOB2", "I-LOC"), ("IOB1", "S-LOC"), ("BIOES", "L-LOC")]
)
def test_one_typo_does_not_change_the_scheme(scheme, typo):
    found = (Span("PER", 0, 2), Span("LOC", 3, 4))
    assert detect_scheme([["O", typo], *[write(found, 5, scheme)] * 2]) == scheme


def test_parts_of_speech_are_no_scheme():
    assert detect_scheme([["DT", "NN", "-LRB-", "PRP$"], ["O", "O"]]) is None


@pytest.mark.parametrize(
    ("scheme", "tags", "position"),
    [
        ("IOB2", ["O", "X-PER"], 1),
        ("IOB2", ["B-"], 0),
        ("IOB2", ["O", "NN"], 1),
        ("IOB2", ["O", "O", "I-PER"], 2),
        ("IOB2", ["B-LOC", "I-PER"], 1),
        ("IOB1", ["E-PER"], 0),
        ("BIOES", ["B-PER", "O"], 1),
        ("BIOES", ["O", "B-PER"], 1),
        ("BIOES", ["B-PER", "S-PER"], 1),
        ("BIOES", ["E-PER"], 0),
        ("BIOES", ["B-PER", "L-PER"], 1),
        ("BILOU", ["B-PER", "E-PER"], 1),
        ("BILOU", ["B-PER", "L-LOC"], 1),
    ],
)
def test_a_malformed_tag_is_named_by_its_place(scheme, tags, position):
    with pytest.raises(TagError) as caught:
        spans(tags, scheme)
    assert caught.value.position == position
