import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.text.records import Line, Origin
from regard.text.specials import Specials
from regard.text.tokenizer import Tokenizer
from regard.text.training import Kind, TokenizerConfig

TRAIN_ALL = """
import hashlib, random, sys
from pathlib import Path
from typing import get_args
from regard.text.tokenizer import Tokenizer
from regard.text.training import Kind, TokenizerConfig
draw = random.Random(0)
words = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 8))) for _ in range(1200)]
lines = [" ".join(words[i : i + 8]) for i in range(0, 1200, 8)]
for kind in get_args(Kind):
    file = Tokenizer.train(lines, TokenizerConfig(kind=kind, vocabulary=600)).save(Path(sys.argv[1]) / kind)
    print(kind, hashlib.sha256(file.read_bytes()).hexdigest())
"""


def test_the_same_text_gives_the_same_file_in_every_process(tmp_path: Path) -> None:
    """Random words, so that ties abound; hash seeds and thread counts vary."""
    runs = []
    for seed, threads in (("0", "1"), ("1", "2"), ("2", "3")):
        environment = os.environ | {"PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        run = subprocess.run(
            [sys.executable, "-c", TRAIN_ALL, str(tmp_path)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        runs.append(run.stdout)
    assert runs[0].count("\n") == 7
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece", "unigram", "characters", "words"])
def test_the_order_of_lines_makes_no_difference(kind: Kind) -> None:
    lines = ["the cat sat", "a rat ran", "the cats ran on", "über der Wiese"]
    config = TokenizerConfig(kind=kind, vocabulary=320)
    forth, back = Tokenizer.train(iter(lines), config), Tokenizer.train(reversed(lines), config)
    assert forth.fingerprint() == back.fingerprint()


def test_closed_vocabularies_go_by_frequency_then_code_point() -> None:
    def learned(kind: Kind, **settings: Any) -> list[str]:
        tokenizer = Tokenizer.train(["c a b a", "d c a"], TokenizerConfig(kind=kind, **settings))
        ordered = sorted(tokenizer.vocabulary, key=lambda token: tokenizer.vocabulary[token])
        return ordered[7:]

    assert learned("words", vocabulary=100) == ["a", "c", "b", "d"]
    assert learned("words", vocabulary=9) == ["a", "c"]
    assert learned("words", vocabulary=100, minimum_frequency=2) == ["a", "c"]
    assert learned("characters", vocabulary=100) == [" ", "a", "c", "b", "d"]


def test_wordpiece_marks_what_continues_a_word() -> None:
    config = TokenizerConfig(kind="wordpiece", vocabulary=60, lowercase=True, strip_accents=True)
    tokenizer = Tokenizer.train(["walk walking walked talk talking Über"] * 5, config)
    tokens = tokenizer.encode("TALKED, über").tokens
    assert "".join(tokens).replace("##", "") == "talked<unk>uber"
    assert tokens[0] == "talk"
    assert tokens[1].startswith("##")


@pytest.mark.parametrize(
    ("settings", "text", "back"),
    [
        ({"lowercase": True}, "Das Ä", "das ä"),
        ({"strip_accents": True}, "Das Ä", "Das A"),
        ({"normalisation": "nfc"}, "e\u0301", "é"),
        ({"normalisation": "nfkc"}, "ﬁ", "fi"),
        ({"normalisation": "none"}, "e\u0301 ﬁ", "e\u0301 ﬁ"),
    ],
)
def test_text_comes_back_as_the_settings_ask(settings: dict[str, Any], text: str, back: str) -> None:
    tokenizer = Tokenizer.train(["das ist"], TokenizerConfig(vocabulary=300, **settings))
    assert tokenizer.decode(tokenizer.encode(text).ids) == back


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_without_byte_fallback_new_characters_are_unknown(kind: Kind) -> None:
    config = TokenizerConfig(kind=kind, vocabulary=30, byte_fallback=False)
    tokenizer = Tokenizer.train(["the cat sat on the mat"], config)
    assert len(tokenizer) <= 30
    assert tokenizer.encode("cat字").ids[-1] == tokenizer.ids.unknown


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_rare_characters_can_be_left_out(kind: Kind) -> None:
    lines = ["the cat sat on the mat"] * 3 + ["字"]
    tokenizer = Tokenizer.train(lines, TokenizerConfig(kind=kind, vocabulary=320, minimum_frequency=2))
    assert "字" not in tokenizer.vocabulary


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece", "unigram"])
def test_a_vocabulary_may_ask_for_more_than_the_text_holds(kind: Kind) -> None:
    tokenizer = Tokenizer.train(["ab ab"], TokenizerConfig(kind=kind, vocabulary=5000))
    assert len(tokenizer) < 300


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece", "unigram"])
def test_a_vocabulary_too_small_is_told_the_least_that_works(kind: Kind) -> None:
    lines = ["the quick brown fox jumps over the lazy dog " + "".join(map(chr, range(0x4E00, 0x4E40)))]
    reserved = len(TokenizerConfig(kind=kind, vocabulary=5000).reserved)
    with pytest.raises(ValueError, match="is too small for this text") as caught:
        Tokenizer.train(lines, TokenizerConfig(kind=kind, vocabulary=reserved + 1))
    least = int(str(caught.value).split("choose ")[1].split()[0])
    assert len(Tokenizer.train(lines, TokenizerConfig(kind=kind, vocabulary=least))) == least


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_nothing_cannot_be_learned_from(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="no text to train"):
        Tokenizer.train(lines, TokenizerConfig())


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "characters", "words"])
def test_a_minimum_that_leaves_nothing_is_told_so(kind: Kind) -> None:
    with pytest.raises(ValueError, match="choose 2 or less"):
        Tokenizer.train(["ab ab"], TokenizerConfig(kind=kind, minimum_frequency=9))


def test_one_string_is_not_lines() -> None:
    with pytest.raises(TypeError, match="pass a list of lines"):
        Tokenizer.train("the cat", TokenizerConfig())


def test_records_are_not_texts() -> None:
    lines = [Line("the cat", Origin("x", 1))]
    remedy = r"a Line is no text: pass texts, as \(line\.text for line in read_lines\(path\)\)"
    with pytest.raises(TypeError, match=remedy):
        Tokenizer.train(lines, TokenizerConfig())  # type: ignore[arg-type]
    tokenizer = Tokenizer.train((line.text for line in lines), TokenizerConfig())
    with pytest.raises(TypeError, match=remedy):
        tokenizer.encode_batch(lines)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'the cat' is one string, but many are taken"):
        tokenizer.encode_batch("the cat")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "sentencepiece"}, "choose one of bpe"),
        ({"normalisation": "NFC"}, "choose one of none, nfc, nfkc"),
        ({"minimum_frequency": 0}, "choose 1 or more"),
        ({"vocabulary": 100}, "choose more than 263"),
        ({"specials": Specials(pad="a b")}, "special token 'a b' for 'pad'"),
        ({"specials": Specials(extra=("x",))}, "special token 'x' for 'extra'"),
        ({"specials": Specials(unknown=None)}, "set specials.unknown"),
    ],
)
def test_a_configuration_is_checked_at_birth(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TokenizerConfig(**settings)
