"""The explorer answers whatever its page may ask of models of Hugging Face's, and says how they score."""

import base64
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.look.explorer.explorer import Explorer
from regard.look.explorer.questions import script
from tests.hub import llamas
from tests.hub.gpts import change
from tests.hub.marians import ENGLISH
from tests.hub.t5s import t5
from tests.hub.toys import TEXTS, toy

SCORES = {
    "mpnet": "score = q · k / √8 + b",
    "modernbert": "score = q · k / √8",
    "xlm-roberta": "score = q · k / √8",
    "Llama": "score = q · k / √8",
    "Mistral": "score = q · k / √8",
    "Qwen2": "score = q · k / √8",
    "Qwen3": "score = q · k / √16",
    "t5": "score = q · k + b",
}
SETTINGS = {"Mistral": {"sliding_window": 4}, "Qwen3": {"head_dim": 16}}


def made(hf, folder: Path, family: str) -> tuple[Explorer, str]:
    """What explores it, and a text."""
    if family == "t5":
        t5(hf, folder)
        change(folder, "generation_config.json", max_length=8)
    elif family[0].isupper():
        llamas.save(llamas.build(hf, family, **SETTINGS.get(family, {})), folder)
    else:
        toy(hf, folder, family, "ForMaskedLM")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is left out
        return Explorer(regard.load(folder, device="cpu"), family), ENGLISH[1] if family == "t5" else TEXTS[0]


def numbers(text: str) -> np.ndarray:
    kind, digits = text.split(":")
    return np.frombuffer(base64.b64decode(digits), f"<{kind}").astype(np.float64)


@pytest.mark.parametrize("family", SCORES)
def test_every_scripted_question_answers(hf, tmp_path, family):
    explorer, text = made(hf, tmp_path, family)
    calls = [*script(explorer, text)]
    asked = {name for name, _ in calls}
    assert {"read", "head", "neuron", "tour", "positions"} <= asked
    answers = {name: [] for name in asked}
    for name, given in calls:
        found = explorer.ask(name, given)
        answers[name].append((given, found))
        json.dumps(found, allow_nan=False)
    [(_, tour)] = answers["tour"]
    said = {step["title"]: step for step in tour["steps"]}
    equation = said["Scores become weights"]["equation"]
    assert equation.partition("      ")[0] == SCORES[family]
    assert ("b is what" in said["Scores become weights"]["says"]) is SCORES[family].endswith("+ b")
    _check_scores(explorer, said, tour["side"], tour["token"], text)


def _check_scores(explorer: Explorer, said: dict, side: str, token: int, text: str) -> None:
    """The scores that the tour names are those of its q and of the keys, by its equation."""
    head = int(said["Query, key and value"]["says"].partition("Here head ")[2].split()[0]) - 1
    told = explorer.ask("neuron", {"text": text, "place": side, "layer": 0, "head": head})
    size = told["size"]
    q = numbers(said["Query, key and value"]["shows"][0]["values"])
    keys = numbers(told["keys"]).reshape(-1, size)
    np.testing.assert_allclose(numbers(told["queries"]).reshape(-1, size)[token], q, atol=1e-6)
    scores = keys @ q / (size**0.5 if "√" in said["Scores become weights"]["equation"] else 1)
    if told["bias"] is not None:
        scores = scores + numbers(told["bias"]).reshape(-1, len(keys))[token]
    for row in said["Scores become weights"]["shows"][0]["rows"]:
        assert np.abs(scores - float(row["remark"].removeprefix("score "))).min() < 2e-3
    layer = explorer.parts.sides[side].body.each[0]
    if layer.attention.rotary is None:  # then q is no more than q = W_q x
        x = explorer.traced(text).trace.inputs(side)
        x = layer.attention_residual.norm(x) if layer.attention_residual.place == "pre" else x
        first = slice(head * size, (head + 1) * size)
        with torch.no_grad():
            expected = layer.attention.project(x)[token, first]
        np.testing.assert_allclose(q, expected.numpy(), atol=1e-4)
