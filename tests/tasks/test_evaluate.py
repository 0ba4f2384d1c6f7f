"""Scores are sacrebleu's; the paired bootstrap is its own too, with an interval."""

import io
import json
import random
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from regard.tasks.translation.evaluate import Score, compare, render_comparison, render_scores, score

WORDS = "the a cat dog sat on mat house big small red green runs Sleeps".split()  # noqa: SIM905


def noisy(texts, share, seed):
    chance = random.Random(seed)
    return [
        " ".join(chance.choice(WORDS) if chance.random() < share else word for word in text.split())
        for text in texts
    ]


CHANCE = random.Random(0)
REFERENCES = [" ".join(CHANCE.choices(WORDS, k=CHANCE.randint(3, 9))) for _ in range(60)]
SECOND = noisy(REFERENCES, 0.2, seed=1)
GOOD, WORSE = noisy(REFERENCES, 0.25, seed=2), noisy(REFERENCES, 0.35, seed=3)


@pytest.mark.parametrize("sets", [[REFERENCES], [REFERENCES, SECOND]], ids=["one reference", "two"])
def test_scores_and_signatures_are_those_of_sacrebleu(sets):
    found = score(GOOD, sets, ("bleu", "chrf", "chrf++", "ter"))
    for name, metric in {"bleu": BLEU(), "chrf": CHRF(), "chrf++": CHRF(word_order=2), "ter": TER()}.items():
        assert found[name].value == metric.corpus_score(GOOD, sets).score
        assert found[name].signature == str(metric.get_signature())
    assert f"nrefs:{len(sets)}" in found["bleu"].signature
    assert [each.name for each in found.values()] == ["BLEU", "chrF2", "chrF2++", "TER"]


def test_a_flat_list_is_one_reference_set():
    assert score(GOOD, REFERENCES) == score(GOOD, [REFERENCES])
    assert list(score(GOOD, REFERENCES)) == ["bleu", "chrf", "ter", "exact"]


def test_exact_matches_are_counted_against_any_reference():
    found = score(["a cat", "b ", "c", "D"], [["a cat", "x", "x", "x"], ["x", "b", "x", "d"]], ["exact"])
    assert found["exact"].value == 50.0
    lowered = score(["a cat", "b ", "c", "D"], ["A cat", "x", "x", "d"], ["exact"], lowercase=True)
    assert lowered["exact"].value == 50.0


def test_case_tokenizer_and_language_reach_sacrebleu():
    shouted = [text.upper() for text in GOOD]
    assert score(shouted, REFERENCES, ["bleu"])["bleu"].value < 1
    assert score(shouted, REFERENCES, ["bleu"], lowercase=True) == score(
        GOOD, REFERENCES, ["bleu"], lowercase=True
    )
    assert "tok:char" in score(GOOD, REFERENCES, ["bleu"], tokenize="char")["bleu"].signature
    assert "tok:zh" in score(["你好"], ["你好"], ["bleu"], trg_lang="zh")["bleu"].signature


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ValueError, match="references have 59 lines, but there are 60"):
        score(GOOD, REFERENCES[1:])
    with pytest.raises(ValueError, match="reference set 2 has 1 lines"):
        score(GOOD, [REFERENCES, ["one"]])
    with pytest.raises(ValueError, match="no translations"):
        score([], [])
    with pytest.raises(ValueError, match="no references"):
        score(GOOD, [])
    with pytest.raises(TypeError, match="one string"):
        score("a cat", ["a cat"])
    with pytest.raises(ValueError, match="'blue' is not known"):
        score(GOOD, REFERENCES, ["blue"])
    with pytest.raises(ValueError, match="tokenize='14a'"):
        score(GOOD, REFERENCES, ["bleu"], tokenize="14a")


def test_p_values_are_those_of_sacrebleus_paired_bootstrap(monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    found = compare(GOOD, WORSE, REFERENCES, ("bleu", "chrf", "ter"), samples=300)
    metrics = {"BLEU": BLEU(), "chrF2": CHRF(), "TER": TER()}
    _, wanted = PairedTest([("b", WORSE), ("s", GOOD)], metrics, [REFERENCES], "bs", n_samples=300)()
    for name, theirs in (("bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")):
        baseline, system = wanted[theirs]
        own = found.differences[name]
        assert (own.system, own.baseline) == (system.score, baseline.score)
        assert own.difference == system.score - baseline.score
        assert own.p_value == pytest.approx(system.p_value, abs=1e-12)


def test_the_interval_holds_95_percent_of_resampled_differences():
    """By a naive loop: draw sentences, score both systems on them anew."""
    draws = np.random.default_rng(7)
    differences = []
    for _ in range(40):
        rows = draws.choice(60, size=60, replace=True)
        references = [[REFERENCES[i] for i in rows]]
        ours, theirs = ([texts[i] for i in rows] for texts in (GOOD, WORSE))
        metric = CHRF()
        differences.append(
            metric.corpus_score(ours, references).score - metric.corpus_score(theirs, references).score
        )
    differences.sort()
    found = compare(GOOD, WORSE, REFERENCES, ["chrf"], samples=40, seed=7).differences["chrf"]
    assert (found.low, found.high) == pytest.approx((differences[1], differences[-2]))
    assert found.low < found.difference < found.high


def test_a_system_does_not_differ_from_itself():
    found = compare(GOOD, GOOD, REFERENCES, ["bleu", "exact"], samples=40)
    for each in found.differences.values():
        assert (each.difference, each.low, each.high, each.p_value) == (0, 0, 0, 1)
        assert not each.better
    assert (found.changed, found.gains, found.losses) == (0, (), ())


def test_lower_ter_is_better():
    found = compare(GOOD, WORSE, REFERENCES, ["ter", "exact"], samples=40).differences
    assert found["ter"].difference < 0
    assert found["ter"].better
    share = score(GOOD, REFERENCES, ["exact"])["exact"].value
    assert found["exact"].system == share


def test_the_sentences_that_changed_most_come_first():
    found = compare(GOOD, WORSE, [REFERENCES, SECOND], ["chrf"], samples=40, examples=3)
    both = zip(GOOD, WORSE, REFERENCES, SECOND, strict=True)
    gains = [
        CHRF().sentence_score(ours, [*own]).score - CHRF().sentence_score(theirs, [*own]).score
        for ours, theirs, *own in both
    ]
    assert [each.gain for each in found.gains] == pytest.approx(sorted(gains)[:-4:-1])
    assert [each.gain for each in found.losses] == pytest.approx(sorted(gains)[:3])
    assert found.changed == sum(a != b for a, b in zip(GOOD, WORSE, strict=True))
    first = found.gains[0]
    assert (first.system, first.baseline) == (GOOD[first.line - 1], WORSE[first.line - 1])
    assert first.reference == REFERENCES[first.line - 1]


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="samples=39"):
        compare(GOOD, WORSE, REFERENCES, samples=39)


def rendered(render, what):
    out = io.StringIO()
    render(what, Console(file=out, width=200))
    return out.getvalue()


def test_scores_are_shown_with_their_signatures():
    shown = rendered(render_scores, {"x": Score("[bold]x", 12.345, "tok:[red]")})
    assert "[bold]x" in shown
    assert "12.35" in shown or "12.34" in shown
    assert "tok:[red]" in shown


def test_a_comparison_is_shown_with_text_as_it_is():
    system, baseline = ["[bold]a cat", *GOOD[1:]], ["[red]dog", *WORSE[1:]]
    found = compare(system, baseline, ["[bold]a cat", *REFERENCES[1:]], samples=40)
    shown = rendered(render_comparison, found)
    assert "[bold]a cat" in shown
    assert "[red]dog" in shown
    assert "TER (lower is better)" in shown
    assert "40 samples" in shown


def test_results_are_plain_data():
    found = compare(GOOD, WORSE, REFERENCES, samples=40)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["differences"]["bleu"]["name"] == "BLEU"
    assert json.loads(json.dumps(score(GOOD, REFERENCES)["bleu"].to_dict()))["name"] == "BLEU"


def test_scoring_needs_no_torch_and_importing_it_no_sacrebleu():
    names = "'torch' in sys.modules, 'sacrebleu' in sys.modules"
    probe = f"import sys, regard.tasks.translation.evaluate; print({names})"
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
