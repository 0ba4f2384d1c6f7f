"""A little text for every task, and the smallest recipes that learn from it."""

import json
import random
from pathlib import Path
from typing import Any

from regard.memory import Memory, Segment
from tests.tasks import tiny
from tests.tasks.encoders import toys

SHAPE: dict[str, Any] = {"preset": "tiny", "d_model": 16, "heads": 2, "layers": 2, "d_ff": 32}
TRAIN: dict[str, Any] = {"steps": 3, "validate_every": 3, "log_every": 1}
OPTIMIZER: dict[str, Any] = {"learning_rate": 3e-3, "warmup": 1, "schedule": "linear"}


def _write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def _rows(rows: list[tuple[str, ...]], apart: str = "\t") -> str:
    return "".join(f"{apart.join(row)}\n" for row in rows)


def _recode(folder: Path, *names: str) -> None:
    """The same in UTF-16."""
    for name in names:
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name.replace("train", "utf16")).write_text(text, encoding="utf-16")


def _pairs(folder: Path) -> None:
    train, other = tiny.pairs(40), tiny.pairs(41, start=100)
    long = (" ".join(["house"] * 12), " ".join(["haus"] * 12))
    tiny.write_pairs(folder, "train", [*train, long])
    tiny.write_pairs(folder, "other", other)
    tiny.write_pairs(folder, "valid", tiny.pairs(12, start=200))
    tiny.write_pairs(folder, "test", tiny.pairs(6, start=220))
    tiny.write_pairs(folder, "elsewhere", [*train, *tiny.pairs(2, start=200)])
    table = [("en", "de", "second"), *((*pair, pair[0].upper()) for pair in train)]
    _write(
        folder,
        table__tsv=_rows(table),
        table__rows=_rows(table, ","),
        bars__tsv=_rows(table, "|"),
        other__tsv=_rows([("en", "de"), *other]),
        terms__tsv=_rows([("term", "translation"), ("dog", "hund")]),
    )
    _recode(folder, "train.en", "train.de")
    for end in ("en", "de"):
        (folder / f"broken.{end}").write_bytes((folder / f"train.{end}").read_bytes() + b"\xff\xfe dog\n")
    for name, words in (("memory", {"de": "hund"}), ("two", {"de": "hund", "fr": "baum"})):
        with Memory(folder / f"{name}.db", create=True) as memory:
            for language, word in words.items():
                memory.add(Segment(f"{source} dog", word, "en", language) for source, _ in train)
                memory.add_terms("en", language, [({"hund": "dog", "baum": "tree"}[word], word, "usual")])
    tiny.write_pairs(folder / "away", "train", other)
    tiny.write_pairs(folder / "away", "valid", tiny.pairs(12, start=240))


def _labelled(folder: Path) -> None:
    def rows(texts: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [(f"{toys.sunny(text)}:{len(text) % 3}", text, text[::-1]) for text in texts]

    one, other = rows(toys.texts(40)), rows(toys.texts(40, seed=2))
    more = [("x:1", "red dog", "sees"), ("x:2", "red", "likes dog")]
    named = [("label", "text", "other"), *one]
    _write(
        folder,
        train__tsv=_rows(one),
        other__tsv=_rows(other),
        valid__tsv=_rows(rows(toys.texts(20, seed=1))),
        test__tsv=_rows(rows(toys.texts(6, seed=3))),
        named__tsv=_rows(named),
        bars__tsv=_rows(one, "|"),
        quotes__tsv=_rows([(label, f'"{text}"', rest) for label, text, rest in one]),
        commas__rows=_rows(one, ","),
        numbers__tsv=_rows([(str(len(row[1])), *row[1:]) for row in one]),
        several__tsv=_rows([("a,b,d;c" if "sun" in row[1] else "b", *row[1:]) for row in one]),
        wide__tsv=_rows([row[:2] for row in one] + [(row[0], f"{row[1]}\t{row[2]}") for row in more]),
        broken__tsv=_rows(one) + "\tno label\tat all\n",
        uneven__tsv=_rows([row for row in one if row[0].startswith("no")] + one[:5]),
    )
    _recode(folder, "train.tsv")
    _write(folder / "away", train__tsv=_rows(other), valid__tsv=_rows(other[:9]))


def _tagged(folder: Path) -> None:
    def sentences(seed: int, count: int = 24) -> list[list[tuple[str, str, str]]]:
        chance = random.Random(seed)
        made = []
        for _ in range(count):
            words = chance.choices(toys.WORDS, k=chance.randint(2, 9))
            rows: list[tuple[str, str, str]] = []
            for word in words:
                inside = [f"I{rows[-1][2][1:]}"] if rows and rows[-1][2] != "O" else []
                kind = "N" if word in ("sun", "dog") else "X"
                rows.append((word, kind, chance.choice(["B-A", "O", *3 * inside])))
            made.append(rows)
        return made

    def columns(made: list[list[tuple[str, ...]]]) -> str:
        return "\n".join("".join(f"{' '.join(row)}\n" for row in rows) for rows in made)

    def objects(made: list[list[tuple[str, ...]]], tags: Any) -> str:
        return "".join(
            json.dumps({"words": [r[0] for r in rows], "heard": [r[0][::-1] for r in rows], **tags(rows)})
            + "\n"
            for rows in made
        )

    one, other = sentences(0), sentences(1)
    # as IOB1 has it, where B- stands only between two spans of one kind
    older = [[(word, kind, tag.replace("B-", "I-")) for word, kind, tag in rows] for rows in one]
    _write(
        folder,
        train__conll=columns(one),
        other__conll=columns(other),
        valid__conll=columns(sentences(2, 12)),
        test__conll=columns(sentences(3, 4)),
        older__conll=columns(older),
        noted__conll="# sun O\n" + columns(one),
        counts__conll=columns([[(word, kind, str(len(word))) for word, kind, _ in rows] for rows in one]),
        train__jsonl=objects(one, lambda rows: {"tags": [r[2] for r in rows], "kinds": [r[1] for r in rows]}),
        numbers__jsonl=objects(one, lambda rows: {"tags": [["N", "X"].index(r[1]) for r in rows]}),
        broken__conll=columns(one) + "\nalone\n",
        bars__conll=columns(one).replace(" ", "|"),
    )
    _recode(folder, "train.conll")
    _write(folder / "away", train__conll=columns(other), valid__conll=columns(other[:5]))


def _questions(folder: Path) -> None:
    """What stands behind the word that is asked about."""

    def asked(seed: int, count: int = 24, longest: int = 9) -> list[dict[str, Any]]:
        chance = random.Random(seed)
        found = []
        for number in range(count):
            words = chance.sample(toys.WORDS, k=chance.randint(4, longest))
            place = chance.randrange(len(words) - 1)
            context = " ".join(words)
            end = min(len(words), place + 1 + chance.randint(1, 3))
            golds = [(" ".join(words[place + 1 : end]), len(" ".join(words[: place + 1])) + 1)]
            found.append({"id": str(number), "question": words[place], "context": context, "golds": golds})
        return found

    def squad(rows: list[dict[str, Any]]) -> str:
        def plain(row: dict[str, Any]) -> dict[str, Any]:
            answers = [{"text": text, "answer_start": start} for text, start in row["golds"]]
            qa = {"id": row["id"], "question": row["question"], "answers": answers}
            return {"context": row["context"], "qas": [{**qa, "is_impossible": not answers}]}

        return json.dumps({"data": [{"title": "x", "paragraphs": [plain(row) for row in rows]}]})

    def table(rows: list[dict[str, Any]]) -> str:
        """Each column twice; the second has it otherwise."""
        lines = []
        for row in rows:
            [(text, start)] = row["golds"]
            first, at = text.split()[0], row["context"].index(text.split()[0])
            own = {"question": row["question"], "context": row["context"], "answer": text, "start": start}
            other = {"asked": row["question"][::-1], "about": row["context"] + " sun sun", "says": first}
            lines.append(json.dumps({**own, **other, "at": at, "nowhere": 0}) + "\n")
        return "".join(lines)

    one, other = asked(0), asked(1)
    some = [{**row, "golds": row["golds"] if number % 3 else []} for number, row in enumerate(one)]
    away = [{**row, "golds": [("nowhere", 0)]} for row in one[:1]]
    _write(
        folder,
        train__json=squad(one),
        other__json=squad(other),
        valid__json=squad(asked(2, 12)),
        test__json=squad(asked(3, 6)),
        some__json=squad(some),
        broken__json=squad([*one, *away]),
        train__jsonl=table(one),
        bars__tsv=_rows(
            [
                ("question", "context", "answer", "start"),
                *(
                    (row["question"], row["context"], row["golds"][0][0], str(row["golds"][0][1]))
                    for row in one
                ),
            ],
            "|",
        ),
    )
    _recode(folder, "train.json")
    _write(folder / "away", train__json=squad(other), valid__json=squad(other[:5]))


def _rankings(folder: Path) -> None:
    """The right text begins with the word that is asked for."""

    def asked(seed: int, count: int = 24) -> list[dict[str, Any]]:
        chance = random.Random(seed)
        found = []
        for _ in range(count):
            firsts = chance.sample(toys.WORDS, k=4)
            texts = [
                " ".join([first, *chance.choices(toys.WORDS, k=chance.randint(1, 4))]) for first in firsts
            ]
            asked_for = " ".join([firsts[0], *chance.choices(toys.WORDS, k=2)])
            found.append({"query": asked_for, "positive": texts[0], "negatives": texts[1:]})
            found[-1] |= {"asked": firsts[1], "right": f"{texts[0]} sun", "wrong": f"{texts[3]} sun"}
            found[-1] |= {"scores": [4.0, *(float(len(text)) for text in texts[1:])], "flat": [1.0] * 4}
        return found

    def lines(rows: list[dict[str, Any]]) -> str:
        return "".join(json.dumps(row) + "\n" for row in rows)

    one, other = asked(0), asked(1)
    long = {**one[0], "query": "sun", "positive": " ".join(["dog"] * 14)}
    table = [("query", "positive", "negatives"), *((r["query"], r["positive"], r["wrong"]) for r in one)]
    _write(
        folder,
        train__jsonl=lines([*one, long]),
        other__jsonl=lines(other),
        valid__jsonl=lines(asked(2, 12)),
        test__jsonl=lines(asked(3, 6)),
        broken__jsonl=lines([*one, {**one[0], "negatives": []}]),
        train__rows=lines(one),
        bars__tsv=_rows(table, "|"),
    )
    _recode(folder, "train.jsonl")
    _write(folder / "away", train__jsonl=lines(other), valid__jsonl=lines(other[:5]))


def _documents(folder: Path) -> None:
    texts = toys.texts(60)
    one, other = texts[:40], toys.texts(40, seed=2)

    def parted(lines: tuple[str, ...], size: int = 5) -> str:
        return "\n\n".join("\n".join(lines[at : at + size]) for at in range(0, len(lines), size)) + "\n"

    marked = "".join(f"<doc {at}>\n{text}\n" for at, text in enumerate(one))
    quoted = [("body", "text"), *((text[::-1], f'"{text}"') for text in one)]
    _write(
        folder,
        train__txt=parted(one),
        other__txt=parted(other),
        valid__txt=parted(texts[40:]),
        marked__txt=marked,
        table__tsv=_rows(quoted),
        bars__tsv=_rows(quoted, "|"),
        commas__rows=_rows(quoted, ","),
    )
    _recode(folder, "train.txt")
    (folder / "broken.txt").write_bytes(parted(one).encode() + b"\xff\xfe dog\n")
    _write(folder / "away", train__txt=parted(other), valid__txt=parted(other[:10]))


def recipes(folder: Path) -> dict[str, dict[str, Any]]:
    """For each task; its files are written into the folder."""
    _pairs(folder / "pairs")
    _labelled(folder / "labelled")
    _tagged(folder / "tagged")
    _questions(folder / "questions")
    _rankings(folder / "rankings")
    _documents(folder / "documents")
    words = {"kind": "words", "vocabulary": 40}

    def recipe(task: str, data: dict[str, Any], **tables: Any) -> dict[str, Any]:
        return {
            "task": task,
            "data": data,
            "tokenizer": words,
            "model": {**SHAPE, "dropout": 0.1},
            "batch": {"tokens": 80},
            "optimizer": OPTIMIZER,
            "average": {"decay": 0.5},
            "train": TRAIN,
            **tables,
        }

    pairs = {
        "train": [{"source": "train.en", "target": "train.de"}],
        "valid": [{"source": "valid.en", "target": "valid.de"}],
        "root": str(folder / "pairs"),
    }
    documents = {"train": ["train.txt"], "valid": ["valid.txt"], "root": str(folder / "documents")}
    return {
        "translate": recipe("translate", pairs, decode={"maximum": 12}, model={**SHAPE, "layers": 1}),
        "pretrain": recipe("pretrain", {**documents, "longest": 16}),
        "classify": recipe(
            "classify",
            {
                "train": ["train.tsv"],
                "valid": ["valid.tsv"],
                "root": str(folder / "labelled"),
                "text": 1,
                "label": 0,
            },
        ),
        "tag": recipe(
            "tag", {"train": ["train.conll"], "valid": ["valid.conll"], "root": str(folder / "tagged")}
        ),
        "answer": recipe(
            "answer", {"train": ["train.json"], "valid": ["valid.json"], "root": str(folder / "questions")}
        ),
        "embed": recipe("embed", pairs),
        "rerank": recipe(
            "rerank", {"train": ["train.jsonl"], "valid": ["valid.jsonl"], "root": str(folder / "rankings")}
        ),
        "language": recipe("language", documents, context={"tokens": 16}),
    }
