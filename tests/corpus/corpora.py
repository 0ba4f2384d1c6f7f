"""A corpus through a model, in this process."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from regard.corpus.running import CorpusSettings, Outcome, run


def corpus(task: str, model: Path, inputs: Any, out: Path, **settings: Any) -> Outcome:
    given = [str(each) for each in (inputs if isinstance(inputs, list) else [inputs])]
    how = CorpusSettings(task=task, model=model, **{"device": "cpu", "shard_tokens": 300, **settings})
    return run(given, out, how, Console(quiet=True))


def parts(out: Path, suffix: str) -> list[Path]:
    return sorted(out.glob(f"part-*.{suffix}"))


def done(out: Path) -> dict[str, int]:
    """When each part of a shard that says it is done was written. Who is killed before it says so does that
    shard again."""
    marked = {path.stem for path in (out / ".regard" / "done").glob("*.json")}
    return {
        path.name: path.stat().st_mtime_ns for path in parts(out, "npy") if path.stem.split("-")[1] in marked
    }


def vectors(out: Path) -> np.ndarray:
    return np.concatenate([np.load(path) for path in parts(out, "npy")])


def text(out: Path, suffix: str = "txt") -> str:
    return "".join(path.read_text(encoding="utf-8") for path in parts(out, suffix))


def files(out: Path) -> dict[str, bytes]:
    """What there is to compare: all but the manifest, which knows times."""
    return {
        path.name: path.read_bytes()
        for path in out.iterdir()
        if path.is_file() and path.name != "manifest.json"
    }
