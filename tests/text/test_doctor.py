import gzip
import io
import json
from functools import cache, partial
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from regard.text.doctor.examine import examine
from regard.text.doctor.findings import Example, Finding, Report
from regard.text.doctor.page import render
from regard.text.readers import read_pairs, read_table_pairs
from regard.text.tokenizer import Tokenizer
from regard.text.training import TokenizerConfig

PAIRS = 1500


def language(seed: int, consonants: str, vowels: str) -> list[str]:
    random, words = Random(seed), {}
    while len(words) < 400:
        syllables = random.randint(1, 3)
        words["".join(random.choice(consonants) + random.choice(vowels) for _ in range(syllables))] = None
    return [*words]


SOURCE, TARGET, THIRD = language(1, "bdgmn", "aei"), language(2, "pktsr", "ouäö"), language(3, "fvzjw", "yéà")


@cache
def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs in made-up languages: word for word, in another order, words as frequent as in real ones."""
    random, pairs = Random(seed), []
    weights = [1 / (rank + 3) for rank in range(len(SOURCE))]
    for _ in range(count):
        chosen = random.choices(range(len(SOURCE)), weights, k=random.randint(6, 14))
        there = sorted(chosen, key=lambda word: random.random())
        pairs.append(
            (" ".join(SOURCE[word] for word in chosen) + ".", " ".join(TARGET[word] for word in there) + ".")
        )
    return pairs


@pytest.fixture
def corpus(write):
    """Writes splits of clean text, after the caller has changed what it wants, and examines them."""

    def examined(change=lambda source, target: None, *, split="train", **options) -> Report:
        splits = {}
        for name, count, seed in (("train", PAIRS, 1), ("valid", 200, 2), ("test", 200, 3)):
            source, target = map(list, zip(*sentences(count, seed), strict=True))
            if name == split:
                change(source, target)
            files = tuple(
                write(
                    f"{name}.{side}",
                    "".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape"),
                )
                for side, lines in (("xx", source), ("yy", target))
            )
            splits[name] = [files]
        return examine(splits, **options)

    return examined


def finding(report: Report, name: str) -> Finding:
    found = [each for each in report.findings if each.name == name]
    assert len(found) == 1, [each.name for each in report.findings]
    return found[0]


def test_clean_text_has_no_findings_and_is_fit_for_training(corpus):
    report = corpus()
    assert report.findings == ()
    assert report.ok
    assert report.verdict == "fit for training"
    counts = report.splits["train"]
    assert (counts.pairs, counts.broken) == (PAIRS, 0)
    assert counts.source_words == sum(len(source.split()) for source, _ in sentences(PAIRS, 1))


LONG = " ".join(SOURCE[i % 40] for i in range(400))
FOREIGN = " ".join(Random(5).choices(THIRD, k=40))


@pytest.mark.parametrize(
    ("name", "source", "target", "severity", "why"),
    [
        ("one side empty", None, "", "warning", "target is empty"),
        ("one side empty", "  ", None, "warning", "source is empty"),
        ("both sides empty", "", "", "info", "blank"),
        ("copies", "Alpha beta gamma delta", "alpha beta  gamma, delta!", "info", "4 words alike"),
        ("length ratio", None, "pu pu pu pu pu pu" * 40, "info", "letters"),
        ("very long lines", LONG, LONG.upper().replace("A", "O"), "info", "letters"),
        ("wrong script in source", "Это уже совсем другая азбука", None, "info", "Cyrillic"),
        ("wrong script in target", None, "これは日本語の文です", "info", "Kana"),
        ("control characters", None, "pu\x07ro", "info", "\\x07"),
        ("replacement characters", "b\ufffdda ge", None, "info", "\ufffd"),
        ("unknown marks", None, "pu <unk> ro", "info", "<unk>"),
        ("mojibake", "bÃ¤da ge", None, "info", "Ã¤"),
        ("mojibake", None, "itâ€™s", "info", "â€™"),
        ("markup", None, "pu &amp; ro", "info", "&amp;"),
        ("markup", 'ba <a href="x">de</a>', None, "info", '<a href="x">'),
        ("subword marks", "ba@@ de ge", None, "info", "@@"),
        ("source foreign", FOREIGN, None, "info", "hardly a common word"),
        ("target foreign", None, FOREIGN, "info", "hardly a common word"),
        ("target untranslated", None, " ".join(SOURCE[:20]), "info", "the other side's words"),
    ],
)
def test_a_planted_fault_is_found_in_its_place(corpus, name, source, target, severity, why):
    def plant(sources, targets):
        sources[1040] = sources[1040] if source is None else source
        targets[1040] = targets[1040] if target is None else target

    found = finding(corpus(plant), name)
    assert (found.severity, found.split, found.count, found.total) == (severity, "train", 1, PAIRS)
    (example,) = found.examples
    assert example.origin == "train.xx:1041 | train.yy:1041"
    assert why in example.why
    assert source in (None, example.source)
    assert target in (None, example.target)


def test_what_is_seldom_is_worth_knowing_and_what_is_frequent_is_a_warning(corpus):
    def plant(count):
        def change(source, target):
            target[:count] = [f"{line} &amp;" for line in target[:count]]

        return change

    assert finding(corpus(plant(1)), "markup").severity == "info"
    report = corpus(plant(2))
    assert finding(report, "markup").severity == "warning"
    assert report.ok
    assert report.verdict == "training makes sense, but look at: markup"


@pytest.mark.parametrize(
    "quotes", ["« Déjà…» dit-il", "„Ä“ und „Ö“", "Ã is a letter", "NÃO, senhor", "A & B; C < D > E"]
)
def test_odd_but_whole_text_is_no_damage(corpus, quotes):
    def plant(source, target):
        source[5] = target[5] = quotes

    assert {each.name for each in corpus(plant).findings} <= {"copies", "source foreign", "target foreign"}


def test_duplicates_are_counted_and_the_most_frequent_come_first(corpus):
    def plant(source, target):
        for copy, original in ((500, 10), (600, 20), (700, 20)):
            source[copy], target[copy] = source[original], target[original]

    found = finding(corpus(plant), "duplicates")
    assert found.count == 3
    assert [(each.origin.split(" ")[0], each.why) for each in found.examples] == [
        ("train.xx:601", "3 times, first at train.xx:21"),
        ("train.xx:501", "2 times, first at train.xx:11"),
    ]


def test_a_source_with_two_targets_is_shown_beside_the_first(corpus):
    def plant(source, target):
        source[700] = source[30].upper()

    (example,) = finding(corpus(plant), "several translations").examples
    assert example.why == "compare train.xx:31"


@pytest.mark.parametrize("change", [str, str.upper, lambda text: text.replace(" ", "  ").replace(".", " !")])
def test_what_leaks_is_found_whatever_its_case_and_punctuation(corpus, change):
    def plant(source, target):
        source[7], target[7] = (change(text) for text in sentences(PAIRS, 1)[99])

    found = finding(corpus(plant, split="test"), "leak")
    assert (found.severity, found.split, found.count, found.total) == ("warning", "test", 1, 200)
    assert f"stand in train too, {int(change is str)} of them to the letter" in found.text
    assert found.examples[0].origin.startswith("test.xx:8 ")
    assert found.examples[0].why == "also at train.xx:100"


def test_a_leaked_source_counts_even_if_its_target_differs(corpus):
    def plant(source, target):
        source[7] = sentences(PAIRS, 1)[99][0]

    report = corpus(plant, split="test")
    assert finding(report, "leaked sources").examples[0].why == "also at train.xx:100"
    assert "leak" not in {each.name for each in report.findings}


def test_a_test_set_inside_train_is_an_error(corpus):
    def plant(source, target):
        source[:], target[:] = map(list, zip(*sentences(PAIRS, 1)[:200], strict=True))

    report = corpus(plant, split="valid")
    assert finding(report, "leak").severity == "error"
    assert not report.ok
    assert report.verdict == "do not train on this yet: leak"


def test_broken_lines_are_all_counted_with_their_places(corpus):
    def plant(source, target):
        source[3], target[9], target[12] = "a\udcffb", "\udcfe", "a\0b"

    report = corpus(plant)
    broken = [each for each in report.findings if each.name == "broken lines"]
    assert [(each.count, each.severity) for each in broken] == [(2, "warning"), (1, "warning")]
    assert [each.origin for found in broken for each in found.examples] == [
        "train.xx:4",
        "train.yy:10",
        "train.yy:13",
    ]
    assert report.splits["train"].broken == 3


def test_a_file_that_cannot_be_read_is_an_error_with_its_remedy(write):
    write("x.xx", "ba\n"), write("x.yy.gz", b"no gzip")
    report = examine({"train": [("x.xx", "x.yy.gz")], "valid": [("x.xx", "nowhere")]})
    assert [each.text for each in report.findings if each.name == "unreadable file"] == [
        "x.yy.gz: not .gz data",
        "nowhere: no such file",
    ]
    assert not report.ok


def strangers(source, target):
    """Each target goes to the next of these sources."""
    places = range(15, PAIRS, 40)
    moved = [target[place] for place in places]
    for place, line in zip(places, moved[1:] + moved[:1], strict=True):
        target[place] = line


def test_pairs_that_do_not_belong_together_are_found(corpus):
    report = corpus(strangers, examples=20)
    found = finding(report, "misaligned")
    assert 25 <= found.count <= 38
    assert all((int(each.origin.rsplit(":")[-1]) - 16) % 40 == 0 for each in found.examples)
    assert "out of step" not in {each.name for each in report.findings}


@pytest.mark.parametrize("lost", [0, 3, 700, 1400])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_lost_line_is_found_near_its_place(corpus, lost, side):
    def plant(source, target):
        del (source if side == "source" else target)[lost]

    report = corpus(plant)
    found = finding(report, "out of step")
    assert found.severity == "error"
    assert len(found.examples) == 1
    place, line = found.text.split()[1].split(":")
    assert place == "train.yy"
    assert abs(int(line) - 1 - lost) <= 2
    assert ("one line earlier" if side == "target" else "one line later") in found.text
    assert abs(found.count - (PAIRS - lost)) <= 3
    unequal = finding(report, "unequal files")
    assert {str(PAIRS - 1), str(PAIRS)} <= set(unequal.text.replace(";", "").replace(",", "").split())
    assert "misaligned" not in {each.name for each in report.findings}


def test_lines_lost_on_both_sides_are_found_and_where_the_files_meet_again(corpus):
    def plant(source, target):
        del target[500], source[800]

    (example,) = finding(corpus(plant), "out of step").examples
    assert abs(int(example.origin.rsplit(":")[-1]) - 501) <= 2
    count = int(example.why.split()[1])
    assert abs(count - 300) <= 4


def test_shuffled_targets_are_called_unrelated(write):
    pairs = sentences(5000, 1)
    targets = [target for _, target in pairs]
    Random(1).shuffle(targets)
    files = write("x.xx", "\n".join(source for source, _ in pairs)), write("x.yy", "\n".join(targets))
    report = examine({"train": [files], "valid": [files]})
    assert finding(report, "unrelated sides").severity == "error"


def test_unknown_tokens_and_what_is_too_long_are_counted(corpus):
    tokenizer = Tokenizer.train(
        (text for pair in sentences(PAIRS, 1) for text in pair),
        TokenizerConfig(kind="words", vocabulary=2000),
    )

    def plant(source, target):
        source[3], target[4] = "ba qqq www de", " ".join(["pu"] * 30)

    report = corpus(plant, tokenizer=tokenizer, longest=20)
    unknown = finding(report, "unknown tokens in source")
    assert unknown.count == 2
    assert unknown.examples[0].origin.startswith("train.xx:4 ")
    assert unknown.examples[0].why == "2 of 4 tokens"
    too_long = finding(report, "too long")
    assert [(each.origin.split(" ")[0], each.why) for each in too_long.examples] == [
        ("train.xx:5", "30 tokens")
    ]
    counts = report.splits["train"]
    assert counts.target_tokens == sum(map(len, tokenizer.encode_batch(_lines("train.yy"))))


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def test_longest_without_a_tokenizer_is_refused(corpus):
    with pytest.raises(ValueError, match="longest=20 counts tokens"):
        corpus(longest=20)


def test_what_cannot_be_read_twice_or_is_no_corpus_is_refused(write):
    files = write("x.xx", "ba\n"), write("x.yy", "pu\n")
    with pytest.raises(TypeError, match="read twice, an iterator only once"):
        examine({"train": [read_pairs(*files)]})
    with pytest.raises(TypeError, match=r"'x.xx' is none: give \[\(source, target\)\]"):
        examine({"train": files})


def test_little_data_is_a_warning_and_nothing_is_an_error(write):
    files = write("x.xx", "ba de\n"), write("x.yy", "pu ro\n")
    report = examine({"train": [files]})
    assert [(each.name, each.severity) for each in report.findings] == [("little data", "warning")]
    empty = write("e.xx", ""), write("e.yy", "")
    report = examine({"train": [empty], "valid": [files]})
    assert [(each.name, each.severity) for each in report.findings] == [("no pairs", "error")]
    assert [each.name for each in examine({}).findings] == ["no training data"]


def test_files_tables_readers_and_lists_give_the_same_report(write):
    pairs = [*sentences(60, 1)]
    pairs[7] = (pairs[7][0], "")
    sides = [gzip.compress("\n".join(lines).encode()) for lines in zip(*pairs, strict=True)]
    files = write("x.xx.gz", sides[0]), write("x.yy.gz", sides[1])
    table = write("x.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs))
    ways = [
        files,
        partial(read_pairs, *files),
        partial(read_table_pairs, table, source=0, target=1),
        [*read_pairs(*files)],
    ]
    reports = [examine({"train": [way, way]}) for way in ways]
    assert len({json.dumps(each.to_dict()["splits"]) for each in reports}) == 1
    places = [finding(report, "one side empty").examples[0].origin for report in reports]
    in_files = "x.xx.gz:8 | x.yy.gz:8"
    assert places == [in_files, in_files, "x.tsv:8", in_files]
    assert {finding(report, "duplicates").count for report in reports} == {59}


def printed(report: Report, **options) -> str:
    stream = io.StringIO()
    render(report, Console(file=stream, width=80, **options))
    return stream.getvalue()


def test_the_page_shows_text_as_it_is_within_its_width(corpus):
    def plant(source, target):
        source[4], target[4] = "[red]ba[/red] &amp; [/] \x1b[31m de" + " ge" * 80, ""

    words = TokenizerConfig(kind="words", vocabulary=2000)
    page = printed(corpus(plant, tokenizer=Tokenizer.train(["ba de ge pu ro"], words)))
    assert "train.xx:5 | train.yy:5" in page
    assert "[red]ba[/red] &amp; [/] \\x1b[31m de ge" in page
    assert "\x1b" not in page
    assert max(map(len, page.splitlines())) <= 80
    assert not any(line != line.rstrip() for line in page.splitlines())
    assert "Verdict: do not train on this yet: unknown tokens in source" in page


def test_a_report_is_plain_data_and_its_findings_are_ordered_by_severity(corpus):
    def plant(source, target):
        target[3] = ""
        target[5] += " &amp;"
        del target[1000]

    report = corpus(plant)
    data = json.loads(json.dumps(report.to_dict()))
    assert data["ok"] is False
    order = [each["severity"] for each in data["findings"]]
    assert order == sorted(order, key=["error", "warning", "info"].index)
    assert set(order) == {"error", "warning", "info"}
    assert data["findings"][0]["examples"]
    assert data["splits"]["train"]["pairs"] == PAIRS - 1
    assert Example(**data["findings"][0]["examples"][0]) == report.findings[0].examples[0]
