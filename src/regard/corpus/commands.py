"""What `regard corpus` does at the prompt."""

from pathlib import Path
from typing import Any, cast

from rich.console import Console

from regard.config import ConfigError
from regard.corpus import mining
from regard.corpus.addresses import refuse_address
from regard.corpus.dedupe import dedupe as dedupe_index
from regard.corpus.index import choose, open_index
from regard.corpus.running import SHARD_TOKENS, CorpusSettings, run
from regard.corpus.vectors import ShardedVectors
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.outputs import check_one_file, is_stream
from regard.tasks.base.terminal import say

OWN = (
    "to_format", "id", "keep", "shard_tokens", "device", "precision", "engine", "workers", "ray", "overwrite",
)  # fmt: skip
"""Options that all of them have; the others are the task's own settings."""


def _run(task: str, given: dict[str, Any]) -> None:
    inputs, out, model = given.pop("inputs"), given.pop("folder"), given.pop("model")
    files: FileOptions = given.pop("files", AS_NAMED)
    own = {name: given.pop(name) for name in OWN}
    keep, tokens = tuple(own.pop("keep") or ()), own.pop("shard_tokens") or SHARD_TOKENS
    form = own.pop("to_format")
    settings = CorpusSettings(
        task=task,
        model=model,
        to=form,
        settings={name: value for name, value in given.items() if value is not None},
        files=files,
        keep=keep,
        shard_tokens=tokens,
        **own,
    )
    console = Console(stderr=True)
    try:
        run(inputs, cast(Path, out), settings, console)
    except KeyboardInterrupt:
        say(console, "stopped; the same command goes on with what is not done")
        raise


def embed(**given: Any) -> None:
    _run("embed", given)


def translate(**given: Any) -> None:
    glossary = given.pop("glossary")
    given["glossary"] = None if glossary is None else str(Path(glossary).absolute())
    _run("translate", given)


def classify(**given: Any) -> None:
    _run("classify", given)


def tag(**given: Any) -> None:
    _run("tag", given)


def answer(**given: Any) -> None:
    _run("answer", given)


def mine(
    sources: Path, targets: Path, out: Path, *, neighbours: int, threshold: float, kind: str, console: Console
) -> None:
    refuse_address(out)
    check_one_file(out)
    if is_stream(out):  # in which there shall be nothing but pairs
        console = Console(stderr=True)
    count = mining.mine(
        sources, targets, out, neighbours=neighbours, threshold=threshold, kind=kind, console=console
    )
    say(console, f"{out}: {count:,} pairs")


def dedupe(vectors: Path, out: Path, *, threshold: float, kind: str, console: Console) -> None:
    refuse_address(out)
    check_one_file(out)
    if is_stream(out):
        raise ConfigError(f"{out}: what is left out is written beside it: name a file")
    found = ShardedVectors(vectors)
    index = open_index(found, choose(len(found), kind)[0], lambda line: say(console, line))
    done = dedupe_index(index, out, threshold)
    unread = f" and {done.unread:,} that could not be read" if done.unread else ""
    aside = f"{done.dropped:,} duplicates{unread} were left out, and are in {out}.dropped.jsonl"
    say(console, f"{out}: {done.kept:,} records; {aside}")
