"""Texts that are written together and join at any time are those that `generate` gives of each alone."""

import math
from dataclasses import replace

import pytest
import torch

from regard.decode import DecodeConfig
from regard.tasks.language.generator import SAMPLING, Generator
from tests.tasks.language.scripted import generator

pytestmark = pytest.mark.usefixtures("unchecked")
GREEDY = DecodeConfig(method="greedy")
ASKED = [
    ("The cat", {"decoding": GREEDY, "max_tokens": 30}),
    ("two words, three", {"seed": 3, "samples": 2, "max_tokens": 7}),
    ("The cat sat", {"seed": 4, "stop": ["e", "th"], "max_tokens": 20}),
    ("two", {"decoding": replace(SAMPLING, temperature=1.5, top_k=9), "seed": 5, "max_tokens": 12}),
    ("The", {"decoding": GREEDY, "max_tokens": 3}),
]


def written(made: Generator, every: int) -> list[list]:
    """What comes of each, where one joins every so many steps."""
    found: dict[int, dict] = {}
    with made.ready():
        batch, step, begun = made.batch(), 0, 0
        while begun < len(ASKED) or batch.rows:
            if begun < len(ASKED) and step % every == 0:
                prompt, settings = ASKED[begun]
                assert batch.add(made.asked([prompt], **settings)) == [begun]
                begun += 1
            for each in batch.step():
                if each.whole is not None:
                    found.setdefault(each.prompt, {})[each.sample] = each.whole
            step += 1
    return [[found[number][sample] for sample in sorted(found[number])] for number in range(len(ASKED))]


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("precision", ["float32", "int8", "bfloat16"])
def test_texts_that_join_are_what_generate_gives_of_each(precision, every):
    made = generator(positions="rotary", ends=2.0)
    made = Generator(made.model, made.tokenizer, precision=precision)
    for (prompt, settings), rows in zip(ASKED, written(made, every), strict=True):
        alone = made.generate(prompt, **settings)
        assert [(each.text, each.ids, each.finished) for each in rows] == [
            (each.text, each.ids, each.finished) for each in alone
        ]
        assert [each.score for each in rows] == pytest.approx([each.score for each in alone], abs=0.05)
        for each in rows:
            assert len(each.token_scores) == len(each.ids)
            assert sum(each.token_scores) >= each.score - 1e-3  # which has the end's too


def test_a_text_may_end_before_it_would_with_what_there_is_of_it():
    made = generator(ends=-99.0)
    with made.ready():
        batch = made.batch()
        first, second = batch.add(made.asked(["The cat", "two"], decoding=GREEDY, max_tokens=20))
        parts = ["", ""]
        for _ in range(5):
            for each in batch.step():
                parts[each.prompt] += each.text
        [end] = batch.end(first)
        assert end.whole.finished == "length"
        assert len(end.whole.ids) == 5
        assert end.whole.text == parts[0] + end.text
        assert batch.end(first) == []
        assert [each.prompt for each in batch.step()] == [second]
        [late] = batch.add(made.asked(["The"], decoding=GREEDY, max_tokens=20))
        [nothing] = batch.end(late)
        assert (nothing.whole.text, nothing.whole.ids) == ("", ())
        while batch.rows:
            assert {each.prompt for each in batch.step()} == {second}


def test_long_texts_and_short_ones_have_states_of_their_own():
    """Or each short one would have the room of the longest."""
    made = generator(positions="rotary")
    with made.ready():
        batch = made.batch()
        batch.add(made.asked(["The cat"] * 3, decoding=GREEDY, max_tokens=20))
        batch.add(made.asked(["The cat " * 600], decoding=GREEDY, max_tokens=20))
        assert batch.rows == len(batch.step()) == 4
        longest = len(made.tokenizer.encode_batch(["The cat " * 600])[0])
        assert longest < batch.tokens < longest + 3 * 30


def test_a_text_without_numbers_says_so_and_the_others_go_on():
    made = generator(positions="rotary")
    [[bad]] = made.tokenizer.encode_batch(["Q"])
    with torch.no_grad():
        made.model.embedding.tokens.weight[bad] = math.nan
        made.model.head.weight = torch.nn.Parameter(torch.randn_like(made.model.head.weight))
    wanted = made.generate("The cat", decoding=GREEDY, max_tokens=6)[0].text
    with made.ready():
        batch = made.batch()
        batch.add(made.asked(["The cat", "Q"], decoding=GREEDY, max_tokens=6))
        told = batch.step()
        assert "no numbers" in str(told[1].error)
        assert told[0].error is None
        while batch.rows:
            [each] = batch.step()
        assert each.whole.text == wanted
        with pytest.raises(ValueError, match="no numbers"):
            list(made.write(["The cat", "Q"], decoding=GREEDY))
