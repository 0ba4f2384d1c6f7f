"""Why the Transformer: the counts against their formulas, the task against a loop, and the picture."""

import io
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.testing import assert_close

from regard.config import ConfigError
from regard.layout import Layout
from regard.look import claims, plot_commands
from regard.look.claims import (
    GRADED,
    KINDS,
    Claims,
    ClaimsConfig,
    Kind,
    build_encoder,
    gradient_norms,
    longest_chain,
    measure,
    path_length,
    recall_accuracy,
    recall_batch,
    recent,
    sequential_steps,
    step_cells,
    training_speed,
)
from regard.look.plot_claims import panels_of, plot_claims

SMALL = ClaimsConfig(
    lengths=(2, 5, 9),
    d_model=16,
    timed_lengths=(4, 16),
    timed_tokens=32,
    timed_width=16,
    timed_layers=1,
    repeats=1,
    distances=(2, 3),
    symbols=4,
    train_steps=2,
    batch=4,
    seeds=2,
)


@pytest.mark.spec("4.3")
@pytest.mark.parametrize("length", [2, 3, 17, 40])
@pytest.mark.parametrize("layers", [1, 3])
def test_a_recurrent_layer_takes_as_many_steps_as_tokens_and_a_transformers_the_same_for_all(
    length: int, layers: int
):
    """Queries, keys and values; scores; the weighted sum; output; two of the feed-forward."""
    assert sequential_steps(build_encoder("transformer", 16, layers=layers), length) == 6 * layers
    assert sequential_steps(build_encoder("recurrent", 16, layers=layers), length) == length * layers


def test_a_chain_is_the_longest_way_and_not_the_number_of_products():
    a, b = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    assert longest_chain(a) == 0
    assert longest_chain((a + b).exp()) == 0
    assert longest_chain(a @ b + b @ a + a @ a) == 1
    assert longest_chain((a @ b) @ b + a @ b) == 2
    deep = a
    for _ in range(3000):
        deep = deep @ b
    assert longest_chain(deep) == 3000


@pytest.mark.spec("4.3")
@pytest.mark.parametrize("length", [2, 3, 17, 40])
def test_the_first_token_is_one_layer_away_and_in_a_recurrent_one_a_step_for_each_token_between(length: int):
    assert path_length(build_encoder("transformer", 16, layers=1), length) == 1
    assert path_length(build_encoder("recurrent", 16, layers=1), length) == length - 1


@pytest.mark.parametrize(("window", "length"), [(1, 9), (3, 9), (3, 11), (8, 9)])
def test_a_window_makes_the_path_longer(window: int, length: int):
    encoder = build_encoder("transformer", 16, layers=1, window=window)
    assert path_length(encoder, length) == math.ceil((length - 1) / window)


def test_the_cells_step_done_once_for_each_token_is_the_layer():
    body = build_encoder("recurrent", 8, layers=1).body.double()
    inputs = torch.randn(6, 8, dtype=torch.float64)
    states = torch.zeros(6, 16, dtype=torch.float64)
    whole = body(inputs, Layout.of([6]))
    for step in range(6):
        assert not torch.allclose(states[:, :8], whole), f"after {step} steps already"
        states = step_cells(body, inputs, states)
    assert_close(states[:, :8], whole)


def test_the_question_comes_last_and_its_answer_first():
    ids, answers = recall_batch(50, 7, 5, torch.Generator().manual_seed(0))
    assert ids.shape == (50, 8)
    for row, answer in zip(ids.tolist(), answers.tolist(), strict=True):
        (place,) = [place for place, each in enumerate(row) if each == 5]
        assert row[place - 7] == answer
        assert all(0 <= each < 5 for each in row[:place])
    assert {*answers.tolist()} == {*range(5)}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_near_is_learned_by_both_and_the_same_every_time(kind: Kind):
    config = ClaimsConfig(d_model=32, symbols=4, train_steps=60, rate=1e-2, batch=16)
    threads = torch.get_num_threads()
    first, again = (recall_accuracy(kind, 3, config, seed=1) for _ in range(2))
    assert first == again > 0.9
    untrained = recall_accuracy(kind, 3, replace(config, train_steps=1), seed=1)
    assert untrained < 0.6
    assert torch.get_num_threads() == threads


def test_speed_is_tokens_by_the_quickest_pass(monkeypatch: pytest.MonkeyPatch):
    """Sequences that do not fill the batch are not counted: 3 of 10 tokens, of 32."""
    passes = [1.0, 4.0, 2.0, 5.0]  # the first one warms up
    clock = iter([time for start, spent in enumerate(passes) for time in (10 * start, 10 * start + spent)])
    monkeypatch.setattr("regard.look.claims.time.perf_counter", lambda: next(clock))
    config = replace(SMALL, repeats=3)
    assert training_speed("recurrent", 10, config, torch.device("cpu")) == pytest.approx(30 / 2.0)


@pytest.fixture(scope="module")
def found() -> Claims:
    return measure(SMALL, device="cpu")


@pytest.mark.spec("4.3")
def test_all_claims_are_measured_and_drawn(found: Claims):
    pytest.importorskip("matplotlib")
    figure = plot_claims(found)
    assert len(figure.axes) == 6
    wanted = (found.steps, found.paths, found.speeds)
    for axes, values, places in zip(
        figure.axes, wanted, (SMALL.lengths, SMALL.lengths, SMALL.timed_lengths), strict=False
    ):
        lines = {line.get_label(): line for line in axes.lines}
        for kind, name in (("transformer", "Transformer"), ("recurrent", "LSTM")):
            assert [*lines[name].get_xdata()] == [*places]
            assert [*lines[name].get_ydata()] == values[kind]
    recall = {line.get_label(): line for line in figure.axes[3].lines}
    means = [sum(runs) / 2 for runs in found.accuracies["recurrent"]]
    assert [*recall["LSTM"].get_ydata()] == pytest.approx(means)
    for axes, panel in zip(figure.axes, panels_of(found), strict=True):
        told = [text.get_text() for text in axes.texts]
        assert panel.caption in told
        assert {"Transformer", "LSTM"} <= {text.split()[0] for text in told}


@pytest.mark.spec("4.3")
def test_gradients_are_those_of_the_whole_jacobian(monkeypatch: pytest.MonkeyPatch):
    config = replace(SMALL, seeds=1, d_model=8)
    monkeypatch.setattr(claims, "DIRECTIONS", 2000)
    for kind in GRADED:
        torch.manual_seed(0)
        body = build_encoder(kind, 8, layers=1).double().body
        inputs = torch.randn(6, 8, dtype=torch.float64)
        whole = torch.autograd.functional.jacobian(lambda x, own=body: own(x, Layout.of([6]))[-1], inputs)
        assert_close(
            gradient_norms(kind, 6, config), whole.square().sum(dim=(0, 2)).sqrt(), rtol=0.05, atol=0
        )


@pytest.mark.spec("4.3")
def test_gradients_fade_in_recurrent_layers_and_their_last_tokens_weigh_most():
    config = ClaimsConfig(lengths=(8, 96), d_model=24, seeds=1)
    shares = {}
    for kind in GRADED:
        fading = [gradient_norms(kind, length, config) for length in config.lengths]
        shares[kind] = [float(norms[0] / norms[-1]) for norms in fading]
        longest = fading[-1] / fading[-1].sum()
        near = float(longest[-8:].sum())
        assert near > 0.8 if kind != "transformer" else near < 0.5
    assert shares["recurrent"][-1] < 1e-6
    assert shares["recurrent"][0] > 1000 * shares["recurrent"][-1]
    assert shares["transformer"][-1] > 1e-3
    assert recent(config) == [0, 1, 2, 4, 8, 16, 32, 64]  # and no further than 95


def test_the_numbers_are_told_beside_the_picture(
    found: Claims, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("matplotlib")
    asked: list[ClaimsConfig] = []

    def measured(config: ClaimsConfig, *, device: str, tell: Callable[[str], None]) -> Claims:
        asked.append(config)
        tell("counting")
        return found

    monkeypatch.setattr(plot_commands, "measure", measured)
    shown = io.StringIO()
    out = tmp_path / "claims.svg"
    plot_commands.claims(out, seed=7, console=Console(file=shown, width=100))
    assert out.read_bytes().startswith(b"<?xml")
    assert asked == [ClaimsConfig(seed=7)]
    rows = [line.split() for line in shown.getvalue().splitlines()]
    assert ["LSTM", "2", "5", "9"] in rows
    assert ["LSTM", "1", "4", "8"] in rows
    assert rows.count(["Transformer", "1", "1", "1"]) == 1
    assert capsys.readouterr().err == "counting\n"


def test_weights_are_those_of_the_timed_layers(found: Claims):
    """A Transformer's: four projections, a feed-forward of four times the width, biases, and three norms with
    that at the end. An LSTM's: four gates, each from input and state, with two biases."""
    d = SMALL.timed_width
    assert found.weights["transformer"] == 4 * (d * d + d) + 8 * d * d + 5 * d + 3 * 2 * d
    assert found.weights["recurrent"] == 4 * (2 * d * d + 2 * d)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ValueError, match=r"distances=\(1, 4\): name at least one, and none below 2"):
        ClaimsConfig(distances=(1, 4))
    with pytest.raises(ValueError, match="timed_lengths has 1024, but timed_tokens=512"):
        ClaimsConfig(timed_tokens=512)
    with pytest.raises(ValueError, match="seeds=0 must be at least 1"):
        ClaimsConfig(seeds=0)
    with pytest.raises(ConfigError, match=r"a\.gif: a picture is"):
        plot_commands.claims(Path("a.gif"), console=Console())
