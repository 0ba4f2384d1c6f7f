import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, get_scorer, r2_score

import regard
from regard.layout import Layout
from regard.settings.models import ClassifyConfig, EmbedConfig, PoolConfig
from regard.tasks.base.reading import ReadingWarning
from regard.tasks.classification.classifier import Classifier, Prediction, probabilities
from regard.text import DataError
from tests.tasks.encoders import toys

NAMES = ("no", "perhaps", "yes")


def classifier(longest: int = 512, problem: str = "single", kind: str = "mean") -> Classifier:
    head = ClassifyConfig(labels=1 if problem == "number" else 3, pool=PoolConfig(kind=kind))  # type: ignore[arg-type]
    labels = () if problem == "number" else NAMES
    return Classifier(toys.reader(toys.model(head), longest), labels, problem)  # type: ignore[arg-type]


def scores(own: Classifier, text: str, second: str | None = None) -> np.ndarray:
    """By the model itself, on this text alone."""
    encoding = toys.tokenizer().encode(text, second, template="cls")
    marks = None if second is None else torch.tensor(encoding.segments)
    with torch.no_grad():
        model = own.reader.model.eval()
        return model(torch.tensor(encoding.ids), Layout.of([len(encoding)]), marks)[0].numpy()


@pytest.mark.parametrize("kind", ["first", "last", "mean", "max", "attention", "pooler"])
def test_scores_are_those_of_each_text_alone(kind: str) -> None:
    own = classifier(kind=kind)
    texts = [*toys.texts(20), ""]
    expected = np.stack([scores(own, text) for text in texts])
    np.testing.assert_allclose(own.scores(texts), expected, rtol=1e-4, atol=1e-5)
    pairs = np.stack([scores(own, text, text[:9]) for text in texts])
    np.testing.assert_allclose(own.scores(texts, [t[:9] for t in texts]), pairs, rtol=1e-4, atol=1e-5)


def test_a_prediction_has_the_likeliest_label_and_all_probabilities_from_it_down() -> None:
    own = classifier()
    found = own.classify(list(toys.texts(20)))
    for text, prediction in zip(toys.texts(20), found, strict=True):
        chances = torch.softmax(torch.from_numpy(scores(own, text)), dim=0)
        assert prediction.label == NAMES[int(chances.argmax())]
        assert prediction.labels == (prediction.label,)
        assert prediction.value == pytest.approx(float(chances.max()), rel=1e-4)
        assert list(prediction.probabilities) == [NAMES[i] for i in chances.argsort(descending=True)]
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
        assert prediction.to_dict()["labels"] == [prediction.label]
    assert len({prediction.label for prediction in found}) > 1


def test_of_several_labels_those_count_that_are_likelier_than_not() -> None:
    own = classifier(problem="multi")
    seen = set()
    for text in toys.texts(40):
        prediction = own.classify(text)
        chances = torch.sigmoid(torch.from_numpy(scores(own, text)))
        assert set(prediction.labels) == {n for n, c in zip(NAMES, chances, strict=True) if c > 0.5}
        assert prediction.probabilities == pytest.approx(
            dict(zip(NAMES, chances.tolist(), strict=True)), rel=1e-3
        )
        assert (prediction.label, prediction.value) == (None, pytest.approx(float(chances.max()), rel=1e-3))
        seen.add(len(prediction.labels))
    assert len(seen) > 1


def test_a_number_is_the_score_itself() -> None:
    own = classifier(problem="number")
    prediction = own.classify("sun rain")
    assert prediction == Prediction(None, (), prediction.value, {})
    assert prediction.value == pytest.approx(float(scores(own, "sun rain")[0]), rel=1e-4)
    assert prediction.to_dict() == {"value": prediction.value}
    assert own.scores(["sun", "rain"]).shape == (2, 1)


def test_one_text_gives_one_prediction_and_none_give_none() -> None:
    own = classifier()
    assert own.classify("sun") == own.classify(["sun"])[0]
    assert own.classify("sun", "rain") == own.classify(["sun"], ["rain"])[0]
    assert own.classify("sun", "rain") != own.classify("sun")
    assert own.classify("").label in NAMES
    assert own.classify([]) == []
    assert own.scores([]).shape == (0, 3)


def test_one_and_many_are_not_mixed_up() -> None:
    own = classifier()
    with pytest.raises(TypeError, match="one second text for several"):
        own.classify(["sun", "rain"], "dog")
    with pytest.raises(TypeError, match="several second texts for one"):
        own.classify("sun", ["dog"])  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="2 texts and 1 seconds"):
        own.classify(["sun", "rain"], ["dog"])


LONG = ["sun rain", "sun rain tree house dog river old", "dog " * 9]


def test_long_texts_are_cut_with_a_warning_or_refused() -> None:
    own = classifier(longest=6)
    with pytest.warns(ReadingWarning, match="2 of 3 texts"):
        found = own.scores(LONG)
    np.testing.assert_allclose(found[1], scores(own, "sun rain tree house"), rtol=1e-4, atol=1e-5)
    with pytest.raises(DataError, match="input:2: too long"):
        own.classify(LONG, too_long="error")


def test_windows_are_averaged() -> None:
    own = classifier(longest=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = own.scores(LONG, too_long="windows")
    parts = ["sun rain tree house", "tree house dog river", "house dog river old"]
    mean = np.mean([scores(own, part) for part in parts], axis=0)
    np.testing.assert_allclose(found[0], scores(own, "sun rain"), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[2], scores(own, "dog dog dog dog"), rtol=1e-4, atol=1e-5)


def test_pairs_have_no_windows_and_are_not_cut_in_silence_instead() -> None:
    own = classifier(longest=6)
    with pytest.warns(ReadingWarning, match="1 of 1 texts"):
        own.scores(["sun " * 9], ["rain"], too_long="windows")


def test_progress_counts_every_text() -> None:
    done: list[int] = []
    classifier().classify(list(toys.texts(30)), progress=done.append)
    assert sum(done) == 30


@pytest.mark.parametrize("problem", ["single", "multi"])
def test_scores_of_any_size_have_probabilities(problem: str) -> None:
    wild = np.array([[3e4, -3e4, 0.0], [-3e38, 3e38, 1.0]], dtype=np.float32)
    with np.errstate(all="raise", under="ignore"):
        found = probabilities(wild, problem)  # type: ignore[arg-type]
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found <= 1)).all()
    assert found[0, 0] == 1
    assert found[1, 0] == 0


def test_what_does_not_classify_or_has_other_labels_is_refused() -> None:
    with pytest.raises(TypeError, match="EmbedHead does not classify"):
        Classifier(toys.reader(toys.model(EmbedConfig())), NAMES)
    for labels in (NAMES[:2], (*NAMES, "never"), ()):
        with pytest.raises(ValueError, match=rf"{len(labels)} labels.* 3 "):
            Classifier(toys.reader(), labels)


class Column:
    """As a Series of pandas or polars: it can be counted and gone through, and places are not numbers."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __getitem__(self, name: Any) -> Any:
        raise KeyError(name)

    def to_list(self) -> list[Any]:
        return self.values


class Frame(Column):
    columns = ("text", "label")


def test_predictions_are_as_scikit_learn_has_them() -> None:
    texts = list(toys.texts(20))
    own = classifier()
    found = own.classify(texts)
    assert own.classes_.tolist() == list(NAMES)
    assert own.predict(texts).tolist() == [each.label for each in found]
    chances = own.predict_proba(texts)
    np.testing.assert_allclose(chances, [[each.probabilities[name] for name in NAMES] for each in found])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert accuracy_score(own.predict(texts), own.classes_[chances.argmax(axis=1)]) == 1
    several = classifier(problem="multi")
    chosen = [[name in each.labels for name in NAMES] for each in several.classify(texts)]
    assert several.predict(texts).tolist() == chosen
    number = classifier(problem="number")
    assert number.predict(texts).tolist() == [each.value for each in number.classify(texts)]
    with pytest.raises(ValueError, match="no probabilities: use predict"):
        number.predict_proba(texts)
    with pytest.raises(TypeError, match="is one string, but many are taken"):
        own.predict("sun")
    assert own.predict([]).shape == (0,)


def test_it_is_scored_as_scikit_learn_scores() -> None:
    texts = list(toys.texts(20))
    gold = [NAMES[place % 3] for place in range(20)]
    own, weights = classifier(), np.arange(1.0, 21.0)
    found = own.predict(texts)
    assert own.score(texts, gold) == np.mean(found == gold)
    assert own.score(texts, gold, weights) == accuracy_score(gold, found, sample_weight=weights)
    assert own.score(texts, gold, seconds=texts) == np.mean(own.predict(texts, texts) == gold)
    assert get_scorer("accuracy")(own, texts, gold) == own.score(texts, gold)
    log_loss = -np.log(own.predict_proba(texts)[range(20), [place % 3 for place in range(20)]]).mean()
    assert get_scorer("neg_log_loss")(own, texts, gold) == pytest.approx(-log_loss)
    several = classifier(problem="multi")
    chosen = several.predict(texts)
    assert several.score(texts, chosen) == 1
    assert several.score(texts, ~chosen) == 0
    number = classifier(problem="number")
    wanted = np.arange(20.0)
    assert number.score(texts, wanted) == r2_score(wanted, number.predict(texts))
    assert get_scorer("r2")(number, texts, wanted) == number.score(texts, wanted)


def test_texts_may_be_a_column_or_an_array() -> None:
    texts = list(toys.texts(5))
    own = classifier()
    found = own.classify(texts, texts)
    assert own.classify(Column(texts), Column(texts)) == found
    assert own.classify(np.array(texts), np.array(texts)) == found
    assert own.classify(iter(texts), iter(texts)) == found
    with pytest.raises(
        TypeError, match=r"a Frame is a table: pass the column of the texts, as table\['text'\]"
    ):
        own.classify(Frame(texts))
    for missing in (None, float("nan")):
        with pytest.raises(TypeError, match="text 1 is missing; leave it out, or fill it in"):
            own.classify(Column(["sun", missing]))


def test_results_become_rows() -> None:
    texts = list(toys.texts(3))
    own = classifier()
    rows = regard.to_dicts(own.classify(texts))
    assert [row["label"] for row in rows] == own.predict(texts).tolist()
    assert [row["probability"] for row in rows] == own.predict_proba(texts).max(axis=1).tolist()
