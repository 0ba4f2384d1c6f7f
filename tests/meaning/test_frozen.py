import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from regard.tasks.base.vectors import VectorsError
from regard.tasks.classification.frozen import STRENGTHS, FrozenClassifier, FrozenError

NAMES = ["news", "sport", "weather"]


def planted(sizes: list[int], spread: float = 0.6, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    random = np.random.default_rng(seed)
    owners = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    vectors = np.eye(8)[owners] + random.normal(size=(len(owners), 8)) * spread
    return vectors, [NAMES[owner] for owner in owners]


def several(rows: int, seed: int = 0) -> tuple[np.ndarray, list[list[str]]]:
    """Each label by the sign of one coordinate."""
    vectors = np.random.default_rng(seed).normal(size=(rows, 6))
    return vectors, [
        [name for name, value in zip(NAMES, row, strict=False) if value > 0.3] for row in vectors
    ]


@pytest.mark.parametrize("class_weight", ["none", "balanced"])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_those_of_scikit_learn(classes: int, class_weight):
    vectors, labels = planted([60, 25, 15][:classes])
    ours = FrozenClassifier.fit(vectors, labels, c=3.0, class_weight=class_weight)
    weight = None if class_weight == "none" else "balanced"
    theirs = LogisticRegression(C=3.0, class_weight=weight, max_iter=2000).fit(vectors, labels)
    assert list(ours.facts.labels) == list(theirs.classes_)
    found = ours.predict_proba(vectors)
    np.testing.assert_allclose(found, theirs.predict_proba(vectors), atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert ours.predict(vectors) == theirs.predict(vectors).tolist()


def test_a_rare_class_is_found_more_often_when_balanced():
    vectors, labels = planted([300, 15], spread=0.8)
    plain, balanced = (
        FrozenClassifier.fit(vectors, labels, c=1.0, class_weight=weight).predict(vectors).count("sport")
        for weight in ("none", "balanced")
    )
    assert balanced > 2 * plain


def test_planted_classes_are_learned():
    classifier = FrozenClassifier.fit(*planted([60, 60, 60], spread=0.3))
    vectors, labels = planted([50, 50, 50], spread=0.3, seed=1)
    assert np.mean([a == b for a, b in zip(classifier.predict(vectors), labels, strict=True)]) > 0.95
    assert classifier.facts.converged


@pytest.mark.parametrize("noise", [0.1, 2.0])
def test_c_is_the_one_with_the_least_loss_on_what_was_held_out(noise: float):
    classifier = FrozenClassifier.fit(*planted([40, 40, 20], spread=noise))
    losses = classifier.facts.held_out_loss
    assert list(losses) == [str(c) for c in STRENGTHS]
    assert losses[str(classifier.facts.c)] == min(losses.values())
    assert (classifier.facts.c > 1) == (noise < 1)  # noisy vectors want small weights
    given = FrozenClassifier.fit(*planted([40, 40, 20], spread=noise), c=classifier.facts.c)
    assert np.array_equal(given.weights, classifier.weights)  # fitted on all examples in the end
    assert given.facts.held_out_loss == {}


def naive_loss(likely: list, targets: list, classes: list[list], texts: int) -> float:
    """The mean of -log p, each example weighed by how rare its class is among `classes`."""
    total = 0.0
    for row, wanted in enumerate(targets):
        for column, (value, among) in enumerate(zip(wanted, classes, strict=True)):
            p = likely[row][column] if value else 1 - likely[row][column]
            total -= np.log(p) * texts / (2 * among.count(value))
    return total / len(targets)


def test_rare_labels_weigh_as_much_in_the_loss_when_balanced():
    vectors, labels = several(90)
    targets = [[name in each for name in NAMES] for each in labels]
    fitted = FrozenClassifier.fit(vectors, labels, multilabel=True, class_weight="balanced", seed=2)
    held = np.random.default_rng(2).permutation(90)[:18]  # a fifth
    kept = np.setdiff1d(np.arange(90), held)
    for c in STRENGTHS:
        columns = [
            LogisticRegression(C=c, class_weight="balanced", max_iter=2000)
            .fit(vectors[kept], [targets[row][column] for row in kept])
            .predict_proba(vectors[held])[:, 1]
            for column in range(3)
        ]
        likely = np.stack(columns, axis=1).tolist()
        classes = [[row[column] for row in targets] for column in range(3)]
        expected = naive_loss(likely, [targets[row] for row in held], classes, 90)
        assert fitted.facts.held_out_loss[str(c)] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("class_weight", ["none", "balanced"])
def test_the_loss_on_what_is_held_out_is_that_of_each_class_by_its_weight(class_weight):
    vectors, labels = planted([50, 20, 10])
    fitted = FrozenClassifier.fit(vectors, labels, class_weight=class_weight, seed=3)
    random = np.random.default_rng(3)
    rows = [[row for row, label in enumerate(labels) if label == name] for name in NAMES]
    held = sorted(int(row) for each in rows for row in random.permutation(each)[: len(each) // 5])
    kept = np.setdiff1d(np.arange(80), held)
    weight = None if class_weight == "none" else "balanced"
    model = LogisticRegression(C=1.0, class_weight=weight, max_iter=2000)
    model.fit(vectors[kept], [labels[row] for row in kept])
    likely = model.predict_proba(vectors[held])
    weights = {name: 80 / (3 * labels.count(name)) if weight else 1.0 for name in NAMES}
    losses = [
        -np.log(p[NAMES.index(labels[row])]) * weights[labels[row]]
        for row, p in zip(held, likely, strict=True)
    ]
    assert fitted.facts.held_out_loss["1.0"] == pytest.approx(np.mean(losses), rel=1e-6)


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("class_weight", ["none", "balanced"])
def test_a_seed_decides_what_is_held_out(class_weight, multilabel: bool):
    vectors, labels = several(80) if multilabel else planted([40, 40, 20])
    options = {"class_weight": class_weight, "multilabel": multilabel}
    first, again, other = (
        FrozenClassifier.fit(vectors, labels, seed=seed, **options).facts.held_out_loss for seed in (0, 0, 1)
    )
    assert first == again != other


def test_classes_with_a_single_text_are_learned_too():
    found = FrozenClassifier.fit(np.eye(3), NAMES)
    assert (found.facts.c, found.facts.held_out_loss) == (1.0, {})
    assert found.predict(np.eye(3)) == NAMES
    mixed = FrozenClassifier.fit(np.eye(3)[[0, 0, 0, 1, 2]], [NAMES[row] for row in (0, 0, 0, 1, 2)])
    assert len(mixed.facts.held_out_loss) == 4
    assert set(mixed.predict(np.eye(3))) == set(NAMES)


@pytest.mark.parametrize("class_weight", ["none", "balanced"])
def test_each_of_several_labels_is_a_regression_of_its_own(class_weight):
    vectors, labels = several(120)
    ours = FrozenClassifier.fit(vectors, labels, c=2.0, multilabel=True, class_weight=class_weight)
    weight = None if class_weight == "none" else "balanced"
    for column, name in enumerate(NAMES):
        alone = LogisticRegression(C=2.0, class_weight=weight, max_iter=2000)
        alone.fit(vectors, [name in each for each in labels])
        expected = alone.predict_proba(vectors)[:, 1]
        np.testing.assert_allclose(ours.predict_proba(vectors)[:, column], expected, atol=1e-9)
    found = ours.predict_sets(vectors)
    assert () in found
    assert np.mean([list(a) == b for a, b in zip(found, labels, strict=True)]) > 0.8
    assert all(
        set(few) <= set(many) for few, many in zip(ours.predict_sets(vectors, 0.9), found, strict=True)
    )
    with pytest.raises(FrozenError, match="ask predict_sets"):
        ours.predict(vectors)


def test_a_label_that_every_text_has_is_likely_everywhere():
    vectors, labels = several(30)
    found = FrozenClassifier.fit(vectors, [[*each, "text"] for each in labels], multilabel=True)
    column = found.facts.labels.index("text")
    np.testing.assert_allclose(found.predict_proba(vectors)[:, column], 30.5 / 31)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["a", "b"], {}, "3 vectors for the labels of 2 texts"),
        (["a", "a", "a"], {}, "nothing to tell apart"),
        ([[], [], []], {"multilabel": True}, "nothing to tell apart"),
        (["a", ["b"], "c"], {}, r"labels\[1\]=\['b'\] should be one label.* pass multilabel=True"),
        ([["a"], "b", []], {"multilabel": True}, r"labels\[1\]='b' should be the labels of a text"),
        (["a", "b", "c"], {"c": 0.0}, "c=0.0: .* choose it above 0"),
        (["a", "b", "c"], {"class_weight": "even"}, "class_weight='even' is none of none, balanced"),
    ],
)
def test_what_cannot_be_fitted_is_told(labels, options, message):
    with pytest.raises(FrozenError, match=message):
        FrozenClassifier.fit(np.eye(3), labels, **options)


def test_vectors_of_another_width_or_without_a_number_are_refused():
    vectors, labels = planted([9, 9])
    classifier = FrozenClassifier.fit(vectors, labels)
    with pytest.raises(VectorsError, match="width 3 where 8 belong"):
        classifier.predict(np.eye(3))
    vectors[5, 5] = np.inf
    with pytest.raises(VectorsError, match="row 5 "):
        classifier.predict_proba(vectors)
    with pytest.raises(VectorsError, match="row 5 "):
        FrozenClassifier.fit(vectors, labels)
