"""Small models of every kind that can be served, and a large one that knows nothing but takes its time."""

import json
from pathlib import Path

from regard.tasks.base.folder import read_config, write_config
from tests import examples
from tests.examples import FAST, FILMS, MINILM, NAMES, PAIRS, STORY, TINY, train, write_lines

NAMED = ("en-de", "sentiment", "entities", "answers", "bert", "verse", "minilm")
"""Models that a service for all tests has; "slow" and "slow-verse" are there for others."""


TEMPLATE = (
    "{% for message in messages %}{{ 'ROMEO: ' + message['content'] }}{% endfor %}"
    "{{ 'JULIET: ' if juliet }}"
    "{% if messages[0].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
)


def answering(folder: Path) -> None:
    """Give a language model a chat template."""
    config = read_config(folder)
    about = {key: value for key, value in config.items() if key not in ("format", "task", "digests")}
    write_config(folder, "language", {**about, "chat_template": TEMPLATE})


def make(folder: Path) -> None:
    """Below folder/runs."""
    (folder / "runs").mkdir(parents=True)
    (folder / "runs" / "minilm").symlink_to(MINILM)
    write_lines(folder / "train.en", [source for source, _ in PAIRS])
    write_lines(folder / "train.de", [target for _, target in PAIRS])
    write_lines(folder / "films.tsv", ["text\tlabel", *("\t".join(row) for row in FILMS)])
    tagged = ["\n".join(f"{word} {tag}" for word, tag in sentence) + "\n" for sentence in NAMES]
    write_lines(folder / "names.conll", tagged)
    write_lines(folder / "letters.txt", ["The cat sat on the mat.", "The dog lay on the rug."] * 8)
    write_lines(folder / "verse.txt", ["ROMEO: But, soft! what light through yonder window breaks?"] * 40)
    asked = {"context": STORY, "qas": [examples.answered(*each) for each in examples.ANSWERS]}
    squad = {"data": [{"title": "A story", "paragraphs": [asked]}]}
    write_lines(folder / "story.json", [json.dumps(squad)])
    examples.translator(folder, "en-de")
    for name, task, file, steps in (
        ("sentiment", "classify", "films.tsv", 40),
        ("entities", "tag", "names.conll", 40),
        ("answers", "answer", "story.json", 60),
        ("bert", "pretrain", "letters.txt", 40),
    ):
        train(folder, name, steps, task=task, data={"train": file, "valid": file})
    verse = {"task": "language", "data": {"train": "verse.txt"}}
    train(folder, "verse", 20, context={"tokens": 64}, **verse)
    answering(folder / "runs" / "verse")
    large = {**TINY, "layers": 2, "d_model": 256, "heads": 4, "d_ff": 1024}
    files = {"train": ["train.en", "train.de"], "valid": ["train.en", "train.de"]}
    brief = {"optimizer": {**FAST, "learning_rate": 1e-9}, "model": large}
    words = {"kind": "words", "vocabulary": 60}
    train(folder, "slow", 1, data=files, tokenizer=words, decode={"minimum": 60, "maximum": 80}, **brief)
    train(folder, "slow-verse", 1, context={"tokens": 1024}, batch={"tokens": 1024}, **brief, **verse)
