"""On an NVIDIA GPU: texts are what they are elsewhere, whole or in pieces."""

import pytest
import torch

from regard.decode import DecodeConfig
from regard.tasks.language.generator import Generator
from tests.tasks.language.scripted import generator

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("unchecked"),
]
PROMPTS = ["The cat", "two words, three", ""]
SEARCHES = [DecodeConfig(method="greedy"), DecodeConfig(beam=3)]


@pytest.mark.parametrize("past", ["stop", "slide"])
@pytest.mark.parametrize(
    "decoding", [DecodeConfig(method="greedy"), DecodeConfig(beam=3)], ids=lambda c: c.method
)
def test_searches_find_what_they_find_on_a_cpu(decoding, past):
    made = generator(longest=32)
    settings = {"decoding": decoding, "past": past, "max_tokens": 10 if past == "stop" else 50}
    here = made.generate(PROMPTS, **settings)
    made.model.cuda()
    there = made.generate(PROMPTS, **settings)
    assert [[each.ids for each in row] for row in there] == [[each.ids for each in row] for row in here]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_pieces_make_up_the_whole(precision):
    made = generator(longest=32)
    made = Generator(made.model.cuda(), made.tokenizer, precision=precision)
    for prompt in PROMPTS:
        for past, count in (("stop", 10), ("slide", 50)):
            settings = {"max_tokens": count, "past": past, "seed": 4, "stop": ["zz"]}
            [found] = made.generate(prompt, **settings)
            assert "".join(made.stream(prompt, **settings)) == found.text
