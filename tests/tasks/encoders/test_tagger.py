import io
import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.testing import assert_close

from regard.models.headed import Headed, HeadedConfig
from regard.settings.models import ClassifyConfig, TagConfig
from regard.settings.presets import bert
from regard.tasks.base.reading import Reader, ReadingWarning
from regard.tasks.tagging.lines import TagCounts, line_format, tag_lines
from regard.tasks.tagging.tagger import Tagger, allowed, best_valid, log_softmax
from regard.text import (
    DataError,
    Span,
    TagError,
    Tokenizer,
    TokenizerConfig,
    read_conll,
    read_conllu,
    spans,
)

LETTERS = Tokenizer.train(["abcdefgh"], TokenizerConfig(kind="characters", vocabulary=40))
TEXT = Tokenizer.train(["Ann Lee lives in Rome, Italy."], TokenizerConfig(kind="wordpiece", vocabulary=200))
LABELS = ("O", "B-X", "I-X", "B-Y", "I-Y")


def tagger(
    words: str = "first",
    longest: int = 64,
    labels: tuple[str, ...] = LABELS,
    tokenizer: Tokenizer = LETTERS,
    **options,
) -> Tagger:
    encoder = bert(len(tokenizer), layers=1, d_model=16, heads=2, d_ff=16)
    model = Headed(HeadedConfig(encoder=encoder, head=TagConfig(tags=len(labels), words=words))).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # so that tags differ from word to word
            parameter.normal_(std=0.5)
    return Tagger(Reader(model, tokenizer, longest=longest), labels, **options)


def well_formed(tags) -> bool:
    try:
        spans(tags, "IOB2")
    except TagError:
        return False
    return True


@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.just(5)), elements=st.floats(-5, 0, width=16)))
def test_the_best_valid_sequence_is_the_best_of_all_that_are(logs):
    begins, follows = allowed(LABELS)
    chosen = best_valid(logs, begins, follows)
    rows = np.arange(len(logs))
    best = max(
        logs[rows, list(numbers)].sum()
        for numbers in itertools.product(range(5), repeat=len(logs))
        if well_formed([LABELS[number] for number in numbers])
    )
    assert well_formed([LABELS[number] for number in chosen])
    assert_close(logs[rows, chosen].sum(), best)


def test_tags_that_cannot_be_iob2_are_not_held_to_it():
    assert allowed(("NOUN", "VERB")) is None
    assert allowed(("I-X", "I-Y")) is None
    assert allowed(("B-X", "I-X")) is not None


@pytest.mark.parametrize("words", ["first", "mean"])
def test_a_sentence_is_tagged_the_same_in_any_company(words):
    made = tagger(words)
    sentences = [["ab", "c", "defgh"], ["a"], ["abcdefgh"] * 5, ["h", "g", "f", "e"]]
    together = made.tag(sentences)
    for sentence, wanted in zip(sentences, together, strict=True):
        [alone] = made.tag([sentence])
        assert alone.tags == wanted.tags
        np.testing.assert_allclose(alone.probabilities, wanted.probabilities, atol=1e-5)


@pytest.mark.spec("5.6")
@pytest.mark.parametrize("words", ["first", "mean"])
def test_scores_are_those_the_head_gives_each_word(words):
    made = tagger(words)
    sentence = ["abc", "d", "ef"]
    encoding = LETTERS.encode_words(sentence, template="cls")
    [states] = made.reader.read(
        [made.reader.pieces(["".join(sentence)])[0]], lambda states, _: states, rows="tokens"
    )
    places = torch.tensor([0, 1, 1, 1, 4, 5, 5, 7])
    head = made.reader.model.head
    with torch.no_grad():
        scores = head(torch.from_numpy(states), places if words == "mean" else None)
    [found] = made.scores([sentence])
    subwords = [encoding.subwords(word) for word in range(encoding.word_counts[0])]
    wanted = scores[[places[0] for places in subwords if places]]
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)


@pytest.mark.spec("5.6")
@pytest.mark.parametrize("words", ["first", "mean"])
def test_a_long_sentence_is_read_in_windows_and_joined(words):
    made = tagger(words)
    sentence = ["abc", "d", "ef", "gh", "a", "bcd"]
    [whole] = made.scores([sentence])
    made.reader.longest = 14  # its 12 tokens and two of the template
    np.testing.assert_array_equal(made.scores([sentence])[0], whole)
    made.reader.longest = 10
    [joined] = made.scores([sentence])
    # eight tokens at once: abc d ef gh, and ef gh a bcd
    [first], [second] = made.scores([sentence[:4]]), made.scores([sentence[2:]])
    np.testing.assert_allclose(joined[:3], first[:3], atol=1e-5)
    np.testing.assert_allclose(joined[3:], second[1:], atol=1e-5)


def test_a_word_longer_than_a_window_is_told():
    with pytest.warns(ReadingWarning, match="1 words have more tokens than the 6"):
        [found] = tagger(longest=6).tag([["ab", "abcdefgh", "c"]])
    assert len(found.tags) == 3


@pytest.mark.parametrize("decode", ["valid", "greedy"])
def test_a_word_without_tokens_gets_o(decode):
    [found] = tagger(decode=decode).tag([["ab", "", "c"]])
    assert found.tags[1] == "O"
    assert np.isnan(found.probabilities[1])
    [found] = tagger(decode=decode).tag([["", ""]])
    assert found.tags == ("O", "O")
    assert json.loads(json.dumps(found.to_dict()))["probabilities"] == [None, None]


def test_a_word_without_tokens_gets_the_first_tag_where_there_is_no_o():
    [found] = tagger(labels=("NOUN", "VERB")).tag([["ab", "", "c"]])
    assert found.tags[1] == "NOUN"
    assert found.spans == ()


def test_no_sentences_and_no_words_give_none():
    assert tagger().tag([]) == []
    [found] = tagger().tag([[]])
    assert (found.words, found.tags, found.spans) == ((), (), ())


def fixed(made: Tagger, tags: list[str]) -> Tagger:
    """It will see these tags in a sentence, nearly sure."""
    scores = np.full((len(tags), len(made.labels)), -5.0)
    scores[np.arange(len(tags)), [made.labels.index(tag) for tag in tags]] = 5.0
    made.lay_out = lambda sentences: sentences
    made.score = lambda sentences, progress=None: [scores[: len(words)] for words in sentences]
    return made


def test_what_is_malformed_is_repaired():
    seen = ["I-X", "I-X", "O", "I-Y", "B-X", "I-Y"]
    [found] = fixed(tagger(decode="greedy"), seen).tag([["a"] * 6])
    assert found.tags == ("B-X", "I-X", "O", "B-Y", "B-X", "B-Y")
    assert found.spans == (Span("X", 0, 2), Span("Y", 3, 4), Span("X", 4, 5), Span("Y", 5, 6))
    [found] = fixed(tagger(decode="valid"), seen).tag([["a"] * 6])
    assert well_formed(found.tags)
    assert found.to_dict()["spans"][0] == {"label": "X", "start": 0, "end": 2, "text": "a a"}


def test_probabilities_are_those_of_the_tags():
    made = tagger(decode="valid")
    [found], [scores] = made.tag([["ab", "c", "d"]]), made.scores([["ab", "c", "d"]])
    chances = torch.softmax(torch.from_numpy(scores).double(), dim=1).numpy()
    np.testing.assert_allclose(np.exp(log_softmax(scores)), chances)
    wanted = [chances[row, LABELS.index(tag)] for row, tag in enumerate(found.tags)]
    np.testing.assert_allclose(found.probabilities, wanted)


def test_plain_text_is_split_at_spaces_and_signs():
    made = tagger(tokenizer=TEXT)
    found = made.tag("Ann Lee  lives in Rome, Italy.")
    assert found.words == ("Ann", "Lee", "lives", "in", "Rome", ",", "Italy", ".")
    assert made.tag(["Ann Lee", ["Ann", "Lee"]]) == [made.tag("Ann Lee")] * 2


def test_another_head_or_other_labels_are_refused():
    made = tagger()
    with pytest.raises(ValueError, match="2 labels for a model of 5 tags"):
        Tagger(made.reader, ("O", "B-X"))
    with pytest.raises(ValueError, match="decode='best'"):
        Tagger(made.reader, LABELS, decode="best")
    config = HeadedConfig(encoder=made.reader.model.config.encoder, head=ClassifyConfig())
    with pytest.raises(TypeError, match="ClassifyHead does not tag"):
        Tagger(Reader(Headed(config), LETTERS, longest=64), LABELS)


CONLL = """-DOCSTART- -X- O

# ab c
ab NN  I-X
c NN I-X
d NN B-X

\t
# ef
ef NN O
"""


@pytest.mark.spec("5.6")
def test_columns_keep_every_line_and_get_one_more(tmp_path):
    (tmp_path / "in.conll").write_text(CONLL)
    made = tagger()
    counts = made.tag_file(tmp_path / "in.conll", tmp_path / "out.conll", comment="#")
    assert counts == TagCounts(sentences=2, words=4, silent=0)
    one, two = made.tag([["ab", "c", "d"], ["ef"]])
    tags = iter((*one.tags, *two.tags))
    lines = (tmp_path / "out.conll").read_text().splitlines()
    for line, old in zip(lines, CONLL.splitlines(), strict=True):
        assert line == (f"{old} {next(tags)}" if " NN " in old else old)
    read = list(read_conll(tmp_path / "out.conll", comment="#", scheme="IOB2"))
    assert [record.tags for record in read] == [one.tags, two.tags]


def test_the_column_of_tags_may_be_replaced(tmp_path):
    (tmp_path / "in.conll").write_text(CONLL)
    made, out = fixed(tagger(), ["B-Y", "I-Y", "O"]), io.StringIO()
    made.tag_file(tmp_path / "in.conll", out, comment="#", replace=True)
    assert out.getvalue().splitlines()[3:6] == ["ab NN  B-Y", "c NN I-Y", "d NN O"]
    out = io.StringIO()
    made.tag_file(tmp_path / "in.conll", out, comment="#", replace=True, tag=1)
    assert out.getvalue().splitlines()[3] == "ab B-Y  I-X"


CONLLU = """# text = ab c
1-2\tabc\t_\t_\t_\t_\t_\t_\t_\t_
1\tab\tab\tNOUN\tNN\t_\t0\troot\t_\t_
2\tc\t\tVERB\tVB\t_\t1\tx\t_\t_
2.1\td\t_\tX\t_\t_\t_\t_\t_\t_
"""


def test_universal_dependencies_keep_their_ten_columns(tmp_path):
    (tmp_path / "in.conllu").write_text(CONLLU.replace("c\t\t", "c\tc\t"))
    made = fixed(tagger(labels=("NOUN", "DET")), ["DET", "NOUN"])
    made.tag_file(tmp_path / "in.conllu", tmp_path / "out.conllu")
    [record] = read_conllu(tmp_path / "out.conllu")
    assert (record.words, record.tags) == (("ab", "c"), ("DET", "NOUN"))
    lines = (tmp_path / "out.conllu").read_text().splitlines()
    kept = (tmp_path / "in.conllu").read_text().splitlines()
    assert [lines[row] for row in (0, 1, 4)] == [kept[row] for row in (0, 1, 4)]
    assert lines[2] == kept[2].replace("NOUN", "DET")


def test_an_empty_cell_is_a_column_too():
    out = io.StringIO()
    made = fixed(tagger(labels=("NOUN", "DET")), ["DET", "NOUN"])
    tag_lines(CONLLU.splitlines(), out, made.tag, format="conllu")
    assert out.getvalue().splitlines()[3] == "2\tc\t\tNOUN\tVB\t_\t1\tx\t_\t_"


def test_plain_text_becomes_words_and_tags(tmp_path):
    (tmp_path / "in.txt").write_text("Ann Lee.\n\nRome\n")
    made, out = tagger(tokenizer=TEXT), io.StringIO()
    counts = made.tag_file(tmp_path / "in.txt", out)
    assert counts.sentences == 2
    one, two = made.tag(["Ann Lee.", "Rome"])
    rows = [f"{word}\t{tag}" for each in (one, two) for word, tag in zip(each.words, each.tags, strict=True)]
    assert out.getvalue().splitlines() == [*rows[:3], "", "", rows[3], ""]


def test_no_more_than_a_window_is_read_ahead():
    out, read, written = io.StringIO(), [], []

    def lines():
        for number in range(20):
            read.append(number)
            written.append(out.getvalue().count("a"))
            yield "a O" if number % 2 == 0 else ""

    tag_lines(lines(), out, tagger().tag, format="conll", window=2)
    assert len(read) == 20
    assert written == [2 * (number // 4) for number in read]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (b"ab O\nc\n", {"word": 1}, "in.conll:2: no such column 1"),
        (b"ab O\n\nc\xff O\n", {}, "in.conll:3: invalid UTF-8"),
        (b"ab O\n\nc O\n", {"replace": True, "tag": 2}, "in.conll:1: no such column 2"),
    ],
)
def test_a_broken_line_is_told_by_file_and_line(tmp_path, text, options, message):
    (tmp_path / "in.conll").write_bytes(text)
    with pytest.raises(DataError) as error:
        tagger().tag_file(tmp_path / "in.conll", io.StringIO(), **options)
    assert message in str(error.value)
    assert "on_error" not in str(error.value)


def test_a_file_without_blank_lines_is_not_read_into_memory_whole():
    with pytest.raises(DataError, match="input:1: sentence too long"):
        tag_lines(("ab " * 1000 for _ in itertools.count()), io.StringIO(), tagger().tag, format="conll")


def test_names_tell_the_format_or_it_is_asked_for(tmp_path):
    assert [line_format(name) for name in ("a.conll.gz", "a.conllu", "a.txt")] == ["conll", "conllu", "text"]
    with pytest.raises(ValueError, match="give the format, one of conll, conllu, text"):
        line_format("eng.testa")
    (tmp_path / "in.txt").write_text("a\n")
    with pytest.raises(ValueError, match="the file that is read"):
        tagger().tag_file(tmp_path / "in.txt", tmp_path / "in.txt")
    with pytest.raises(ValueError, match="columns of conll have no names"):
        tagger().tag_file(tmp_path / "in.txt", io.StringIO(), format="conll", tag="UPOS")


def test_predict_gives_the_tags_of_each_sentence():
    own = tagger()
    sentences = [["a", "bc"], ["d"], ["e", "f", "gh"]]
    assert own.predict(sentences) == [list(each.tags) for each in own.tag(sentences)]
    assert own.predict(np.array(["a bc", "d"])) == [list(each.tags) for each in own.tag(["a bc", "d"])]
    with pytest.raises(TypeError, match="a float is no text"):
        own.predict([["a", float("nan")]])
