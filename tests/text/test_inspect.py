"""The doctor on texts that are no translations: a fault is planted, and found where it is."""

import io
import json
from functools import partial
from random import Random

import numpy as np
import pytest
from rich.console import Console

from regard.text import DataError, Origin
from regard.text.doctor import Finding, Kind, Report, Sample, inspect, render
from regard.text.doctor.suspects import doubtful, hashed, held_out

LABELLED = Kind(records="texts", said="label", classes=True, one=True, needed=True)
TAGGED = Kind(records="sentences", sides=("sentence",), said="tags", classes=True, words=True, few=4)
ASKED = Kind(records="questions", sides=("question", "context"), said="answer", apart=("context",))
PLAIN = Kind(records="lines", sides=("line",), few=8)

TOPICS = {
    "cook": "soup bread oven salt pepper onion butter flour sugar dough spoon kettle".split(),  # noqa: SIM905
    "sail": "boat anchor wind harbour mast deck rope tide captain storm island sail".split(),  # noqa: SIM905
}
GLUE = ["the", "a", "with", "and", "of", "in", "to", "on", "for", "near"]
SIZE = 300


def texts(count: int, seed: int) -> list[tuple[str, str]]:
    """A text and its topic, whose words are all of it but for the smallest words."""
    random, made = Random(seed), []
    for number in range(count):
        topic = ("cook", "sail")[number % 2]
        words = [word for _ in range(5) for word in (random.choice(GLUE), random.choice(TOPICS[topic]))]
        made.append((f"{' '.join(words)} {seed}{number}", topic))
    return made


def reader(samples: list[Sample], errors: list[DataError] = [], **how):  # noqa: B006
    for error in errors:
        how["skipped"].add(error)
    return iter(samples)


def samples(rows: list[tuple], name: str) -> list[Sample]:
    return [
        Sample(
            text if isinstance(text, tuple) else (text,),
            (said,) if isinstance(said, str) else said,
            Origin(name, at),
        )
        for at, (text, said) in enumerate(rows, 1)
    ]


def look(
    change=lambda rows: None, kind: Kind = LABELLED, *, split: str = "train", make=texts, **options
) -> Report:
    """The report on clean text, after the caller has changed what it wants in a split."""
    splits = {}
    for name, count, seed in (("train", SIZE, 1), ("test", 60, 2)):
        rows = make(count, seed)
        if name == split:
            change(rows)
        splits[name] = [partial(reader, samples(rows, f"{name}.tsv"))]
    return inspect(splits, kind, **options)


def finding(report: Report, name: str) -> Finding:
    found = [each for each in report.findings if each.name == name]
    assert len(found) == 1, [each.name for each in report.findings]
    return found[0]


def test_clean_texts_have_no_findings_and_are_counted():
    report = look()
    assert report.findings == ()
    assert report.verdict == "fit for training"
    assert report.splits["train"].cells() == {
        "texts": "300",
        "broken": "0",
        "words": f"{sum(len(text.split()) for text, _ in texts(SIZE, 1)):,}",
        "classes": "2",
    }


@pytest.mark.parametrize(
    ("name", "text", "label", "why"),
    [
        ("contradicting labels", texts(SIZE, 1)[10][0], "sail", "'sail', but 'cook' at train.tsv:11"),
        (
            "contradicting labels",
            texts(SIZE, 1)[10][0].upper() + " !",
            "sail",
            "'sail', but 'cook' at train.tsv:11",
        ),
        ("duplicates", texts(SIZE, 1)[10][0], "cook", "2 times, first at train.tsv:11"),
        ("rare classes", "a text of its own", "ski", "'ski', once"),
        ("labels spelled alike", "the soup of a harbour", "Cook ", "'Cook ', once, beside 'cook', "),
        ("empty text", " ", "cook", "empty"),
        ("no words in text", "?! ...", "cook", "no words"),
        ("very long texts", "the soup " * 300, "cook", "2,699 letters"),
        ("wrong script", "Это уже совсем другая азбука", "cook", "Cyrillic"),
        ("mojibake", "the soup itâ€™s", "cook", "â€™"),
        (
            "foreign text",
            "der Hafen und sein Schiff waren ihm seit vielen Jahren wohl bekannt gewesen",
            "sail",
            "hardly",
        ),
    ],
)
def test_a_planted_fault_is_found_in_its_place(name, text, label, why):
    def plant(rows):
        rows[200] = text, label

    found = finding(look(plant), name)
    assert found.split == "train"
    [example] = [each for each in found.examples if each.origin == "train.tsv:201"]
    assert example.why.startswith(why)
    assert (example.source, example.target) == (text, None)
    assert found.remedy


def test_contradictions_count_all_texts_that_are_in_one():
    def plant(rows):
        rows[200], rows[201] = (rows[10][0], "sail"), (rows[10][0], "cook")

    found = finding(look(plant), "contradicting labels")
    assert (found.count, found.total) == (3, SIZE)


def test_leaks_are_told_with_how_many_are_to_the_letter_and_how_many_are_labelled_otherwise():
    train = texts(SIZE, 1)

    def plant(rows):
        rows[0], rows[1] = train[40], (f" {train[41][0].upper()}!", train[41][1])
        rows[2] = train[42][0], "sail"

    found = finding(look(plant, split="test"), "leak")
    assert (found.split, found.count, found.total, found.severity) == ("test", 3, 60, "warning")
    assert "2 of them to the letter, 1 with another label" in found.text
    assert [each.why for each in found.examples] == [f"also at train.tsv:{line}" for line in (41, 42, 43)]


def test_a_class_that_only_the_test_has_stops_training_and_one_that_it_lacks_does_not():
    def plant(rows):
        rows[5] = "something else", "ski"

    report = look(plant, split="test")
    found = finding(report, "unseen labels")
    assert (found.severity, found.split, found.count, report.ok) == ("error", "test", 1, False)
    assert found.examples[0].origin == "test.tsv:6"

    def more(rows):
        rows[:20] = [(text, "ski") for text, _ in rows[:20]]

    report = look(more)
    assert finding(report, "labels not in test").severity == "info"
    assert "'ski'" in finding(report, "labels not in test").text


def test_one_class_teaches_nothing_and_as_many_as_texts_are_none():
    def one(rows):
        rows[:] = [(text, "cook") for text, _ in rows]

    def many(rows):
        rows[:] = [(text, str(number)) for number, (text, _) in enumerate(rows)]

    assert finding(look(one), "one class").severity == "error"
    found = finding(look(many), "too many classes")
    assert (found.count, found.total) == (SIZE, SIZE)
    assert "data.problem=number" in found.remedy


@pytest.mark.parametrize("cooks", [285, 250])
def test_imbalance_is_told_where_one_class_is_nearly_all(cooks):
    def plant(rows):
        rows[:] = [(text, "cook" if number < cooks else "sail") for number, (text, _) in enumerate(rows)]

    found = finding(look(plant, closely=False), "imbalance")
    assert found.severity == "warning"
    assert f"always says 'cook' is right for {cooks / SIZE:.0%}" in found.text
    assert "loss.class_weights=balanced" in found.remedy


# labels in doubt


WRONG = (20, 101, 250)


def swapped(rows):
    for place in WRONG:
        text, label = rows[place]
        rows[place] = text, "sail" if label == "cook" else "cook"


def test_swapped_labels_are_the_likely_errors_with_what_was_given_and_predicted():
    found = finding(look(swapped), "likely label errors")
    assert {each.origin for each in found.examples} == {f"train.tsv:{place + 1}" for place in WRONG}
    assert (found.count, found.total) == (3, SIZE)
    for each in found.examples:
        given, predicted = ("sail", "cook") if _is_cook(each.source) else ("cook", "sail")
        assert each.why.startswith(f"given '{given}' (0.0")
        assert f"predicted '{predicted}' (" in each.why


def _is_cook(text: str) -> bool:
    return any(word in TOPICS["cook"] for word in text.split())


def test_the_vectors_of_a_model_may_doubt_labels_instead():
    asked = []

    def vectors(given: list[str]) -> np.ndarray:
        asked.extend(given)
        return np.array([[_is_cook(text), not _is_cook(text)] for text in given], dtype=np.float32)

    found = finding(look(swapped, vectors=vectors), "likely label errors")
    assert {each.origin for each in found.examples} == {f"train.tsv:{place + 1}" for place in WRONG}
    assert len(asked) == SIZE + 60


def test_labels_drawn_at_random_are_not_doubted_one_by_one():
    """A classifier that is often sure, and as often mistaken, tells nothing."""

    def plant(rows):
        random = Random(3)
        rows[:] = [(text, random.choice(["cook", "sail"])) for text, _ in rows]

    assert "likely label errors" not in {each.name for each in look(plant).findings}


def test_no_text_is_predicted_by_a_classifier_that_has_seen_it():
    """Each text has a word of its own, which tells its label to whoever has seen it; nothing else does."""
    random = Random(0)
    labels = np.array([random.randrange(2) for _ in range(200)])
    rows = hashed([f"word{number} word{number}" for number in range(200)])
    chances = held_out(rows, labels)
    assert (chances.argmax(1) == labels).mean() < 0.65


def test_doubt_is_confident_learning():
    chances = np.full((100, 2), [0.98, 0.02])
    labels = np.zeros(100, dtype=np.int64)
    chances[50:], labels[50:] = [0.03, 0.97], 1
    labels[7] = 1
    chances[8] = [0.6, 0.4]  # not sure of anything
    labels[8] = 1
    rows, likeliest = doubtful(chances, labels)
    assert rows.tolist() == [7]
    assert likeliest[7] == 0


# words with tags


def sentences(count: int, seed: int) -> list[tuple]:
    made = []
    for text, _ in texts(count, seed):
        made.append((text, tuple("B-X" if word in TOPICS["cook"] else "O" for word in text.split())))
    return made


def test_tagged_sentences_are_compared_with_their_tags():
    def plant(rows):
        text, tags = rows[10]
        rows[200] = text, ("B-Y", *tags[1:])

    report = look(plant, TAGGED, make=sentences)
    found = finding(report, "contradicting tags")
    assert (found.examples[0].origin, found.examples[0].why) == (
        "train.tsv:201",
        "other tags at train.tsv:11",
    )
    once = finding(report, "tags that appear once")
    assert (once.examples[0].origin, once.examples[0].why) == ("train.tsv:201", "'B-Y', once")


def test_a_tag_that_a_word_hardly_ever_has_is_told():
    def plant(rows):
        text, tags = rows[10]
        place = next(place for place, tag in enumerate(tags) if tag == "B-X")
        rows[10] = text, (*tags[:place], "O", *tags[place + 1 :])

    clean = look(kind=TAGGED, make=sentences)
    assert "unusual tags" not in {each.name for each in clean.findings}
    found = finding(look(plant, TAGGED, make=sentences), "unusual tags")
    assert (found.count, found.examples[0].origin) == (1, "train.tsv:11")
    assert " is O, and " in found.examples[0].why


# two texts, and lines


def questions(count: int, seed: int) -> list[tuple]:
    return [
        ((f"what is number {seed}{at}", text), text.split()[1])
        for at, (text, _) in enumerate(texts(count, seed))
    ]


def test_questions_of_the_test_about_a_text_that_was_learned_from_are_told():
    train = questions(SIZE, 1)

    def plant(rows):
        (asked, _), answer = rows[3]
        rows[3] = (asked, train[9][0][1]), answer

    found = finding(look(plant, ASKED, split="test", make=questions), "shared context")
    assert (found.examples[0].origin, found.examples[0].why) == ("test.tsv:4", "also at train.tsv:10")
    assert found.examples[0].target == train[9][0][1]


def test_short_lines_are_alike_by_chance_and_long_ones_are_not():
    def plant(rows):
        rows[20] = rows[30] = ("Enter the king.", ())
        rows[40] = rows[50] = ("the harbour and the boat near the old island in a storm", ())

    def plain(count, seed):
        return [(text, ()) for text, _ in texts(count, seed)]

    found = finding(look(plant, PLAIN, make=plain), "duplicates")
    assert (found.count, found.examples[0].origin) == (1, "train.tsv:51")


# what cannot be read, and what is too much


def test_broken_records_are_told_with_what_to_do():
    broken = [
        DataError(Origin("train.conll", 7), "wrong tag", "('I-X' continues no 'X')"),
        DataError(Origin("train.conll", 9), "ragged row", "(3 columns)"),
    ]
    rows = samples(sentences(SIZE, 1), "train.conll")
    report = inspect({"train": [partial(reader, rows, broken)]}, TAGGED)
    invalid = finding(report, "invalid tags")
    assert (invalid.count, invalid.examples[0].origin) == (1, "train.conll:7")
    assert "data.scheme" in invalid.remedy
    assert finding(report, "broken lines").examples[0].origin == "train.conll:9"


def test_a_split_without_records_is_an_error():
    report = inspect({"train": [partial(reader, [])]}, LABELLED)
    assert (finding(report, "no texts").severity, report.ok) == ("error", False)


def test_of_too_many_records_every_nth_is_looked_at_and_that_is_said():
    def plant(rows):
        rows[200] = rows[200][0], "ski"
        rows[201] = rows[201][0], "golf"

    report = look(plant, most=100)
    counts = report.splits["train"]
    assert (counts.records, counts.looked) == (SIZE, 100)
    found = finding(report, "sampled")
    assert (found.count, found.total, found.severity) == (100, SIZE, "info")
    assert "one in 3 texts" in found.text
    # of the two, 201 is the 67th that is looked at: its own line is named, and the other is not seen
    assert [each.why for each in finding(report, "rare classes").examples] == ["'golf', once"]
    assert finding(report, "rare classes").examples[0].origin == "train.tsv:202"


def test_the_page_and_the_json_say_the_same():
    report = look(swapped)
    written = io.StringIO()
    render(report, Console(file=written, width=200))
    page = written.getvalue()
    plain = json.loads(json.dumps(report.to_dict()))
    for each in plain["findings"]:
        assert f"{each['split']}: {each['name']}" in page
        assert each["examples"][0]["origin"] in page
    assert f"Verdict: {plain['verdict']}" in page
    assert "None" not in page
