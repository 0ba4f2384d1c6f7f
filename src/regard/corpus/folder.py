"""What is written: a folder of shards, and what is known of them.

    manifest.json              the input, the model, the settings; when all is done, counts and flags
    part-000000.npy ...        shards, in the order of the input; each is there whole or not at all
    bad.jsonl                  records that could not be read, with where they stand
    .regard/plan.jsonl         which records belong to which shard (plan.py)
    .regard/done/000000.json   written after the files of a shard: it is done, and what it has
    .regard/lock               held by the process that works here

A shard's files get their names when they are whole and on the disk, its mark comes last. So whatever is
killed whenever, a shard is done or is not, and the same command goes on with those that are not. A mark names
the run that it is of (`fingerprint`): what another model or another plan has left behind is not done.
"""

import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from regard.config import ConfigError
from regard.corpus.addresses import refuse_address
from regard.corpus.plan import Shard
from regard.disk import full_disk, read_plain, replace, write_text

FORMAT = "regard corpus 1"
MANIFEST, BAD = "manifest.json", "bad.jsonl"
_PART = re.compile(r"part-\d{6,}\.(?:npy|txt|jsonl|parquet|ids)")
OVERWRITE = "start anew with --overwrite, or name another folder"
ELSEWHERE = "choose an empty or a new folder"
_DECIDING = ("regard", "model", "settings", "shards", "bytes")


class ForeignError(ConfigError):
    """A folder with files of others; nothing in it is touched."""


@dataclass(frozen=True, slots=True)
class Done:
    """A shard that is done."""

    number: int
    run: str
    """The fingerprint of the run that it is of."""
    files: tuple[str, ...]
    rows: int
    tokens: int
    bytes: int
    """Of the input."""
    seconds: float
    flags: Mapping[str, int] = field(default_factory=dict)
    bad: Sequence[Mapping[str, Any]] = ()


def lock(file: IO[str], *, wait: bool = False) -> None:
    """For one process at a time: wait, or raise an OSError; Windows has no such locks."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def fingerprint(manifest: Mapping[str, Any]) -> str:
    """Of what decides the shards of a run: the input, the model, the settings, this version."""
    files = [(each["address"], each["sha256"]) for each in manifest["inputs"]]
    plain = json.dumps([*(manifest[name] for name in _DECIDING), files], sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:32]


class OutFolder:
    """A folder of shards, while it is written and later."""

    def __init__(self, path: Path | str, run: str = "") -> None:
        """`run` is the fingerprint of the run whose shards are asked for."""
        refuse_address(path)
        self.path, self.run = Path(path), run
        self.own = self.path / ".regard"

    def manifest(self) -> dict[str, Any] | None:
        """None where there is none."""
        try:
            found = json.loads(read_plain(self.path / MANIFEST))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if not self.own.is_dir():
                raise ForeignError(
                    f"{self.path / MANIFEST}: cannot be read ({error}); {ELSEWHERE}"
                ) from error
            raise ConfigError(f"{self.path / MANIFEST}: cannot be read ({error}); {OVERWRITE}") from error
        form = str(found.get("format")) if isinstance(found, dict) else ""
        if not form.startswith("regard corpus "):
            raise ForeignError(f"{self.path / MANIFEST}: not of regard corpus; {ELSEWHERE}")
        if form != FORMAT:
            raise ConfigError(f"{self.path / MANIFEST}: {form!r}, not {FORMAT!r}; {OVERWRITE}")
        return found

    def write_manifest(self, content: Mapping[str, Any]) -> None:
        write_text(self.path / MANIFEST, json.dumps({"format": FORMAT, **content}, indent=1) + "\n")

    def refuse_foreign(self) -> None:
        """Raise for a folder in which there is something else, and for one that this has not written."""
        if self.path.is_file():
            raise ConfigError(f"{self.path} is a file: name a folder for the shards")
        if not self.path.exists():
            return
        try:
            if self.manifest() is not None:
                return
        except ForeignError:
            raise
        except ConfigError:  # which --overwrite may mend
            return
        ours = self.own.is_dir()
        names = sorted(each.name for each in self.path.iterdir())
        other = [name for name in names if not (ours and (_PART.fullmatch(name) or name in (BAD, ".regard")))]
        if other:
            raise ForeignError(f"{self.path} holds other files ({other[0]}): {ELSEWHERE}")

    def clear(self) -> None:
        """Remove what this has written, and nothing else; the manifest first: without it nothing is done."""
        (self.path / MANIFEST).unlink(missing_ok=True)
        for name in ("done", "partial"):
            shutil.rmtree(self.own / name, ignore_errors=True)
        for each in self.path.iterdir() if self.path.is_dir() else ():
            if _PART.fullmatch(each.name) or each.name == BAD:
                each.unlink()
        (self.own / "plan.jsonl").unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For one process at a time; the lock ends with the process, however it ends."""
        self.own.mkdir(parents=True, exist_ok=True)
        with (self.own / "lock").open("w") as file:
            try:
                lock(file)
            except OSError as error:
                raise ConfigError(
                    f"{self.path}: another process is writing here; wait for it, or name another folder"
                ) from error
            shutil.rmtree(self.own / "partial", ignore_errors=True)
            yield

    def write_plan(self, shards: Iterator[Shard]) -> tuple[int, int]:
        """How many there are, and their bytes."""
        count = size = 0

        def save(partial: Path) -> None:
            nonlocal count, size
            with partial.open("w", encoding="utf-8") as file:
                for shard in shards:
                    file.write(shard.line() + "\n")
                    count, size = count + 1, size + shard.bytes

        replace(self.own / "plan.jsonl", save)
        return count, size

    def plan(self) -> Iterator[Shard]:
        try:
            with (self.own / "plan.jsonl").open(encoding="utf-8") as file:
                for number, line in enumerate(file):
                    yield Shard.parse(number, line)
        except FileNotFoundError as error:
            raise ConfigError(f"{self.path}: its plan is gone; {OVERWRITE}") from error

    def part(self, number: int, suffix: str) -> Path:
        """Where a file of a shard lies; by name they are in order."""
        return self.path / f"part-{number:06d}.{suffix}"

    def write_part(self, path: Path, save: Callable[[Path], object]) -> None:
        """A file of a shard, whole or not at all, by one of several processes."""
        folder = self.own / "partial"
        folder.mkdir(parents=True, exist_ok=True)
        with full_disk(path):
            replace(path, save, partial=folder / f"{path.name}.{platform.node()}.{os.getpid()}")

    def begin(self, number: int) -> int:
        """How many workers have begun this shard in this run, with the one that says so."""
        folder = self.own / "partial"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"begun-{number:06d}").open("ab") as file:
            file.write(b".")
            return file.tell()

    def mark(self, done: Done) -> None:
        """Say that a shard is done: its files are there."""
        path = self.own / "done" / f"{done.number:06d}.json"
        self.write_part(path, lambda partial: partial.write_text(json.dumps(asdict(done)), encoding="utf-8"))

    def done(self, number: int) -> Done | None:
        """None of a shard that is not, or is of another run, or whose files somebody has removed."""
        try:
            text = read_plain(self.own / "done" / f"{number:06d}.json")
        except FileNotFoundError:
            return None
        plain = json.loads(text)
        if plain.get("run") != self.run:
            return None
        found = Done(**{**plain, "files": tuple(plain["files"])})
        return found if all((self.path / name).exists() for name in found.files) else None

    def has_done(self) -> bool:
        """Whether there is a shard that somebody could lose."""
        return any((self.own / "done").glob("*.json"))

    def finished(self) -> dict[str, Any]:
        """The manifest of a folder in which all is done; an error for any other."""
        manifest = self.manifest()
        if manifest is None:
            raise ConfigError(f"{self.path}: no manifest.json; is it a folder of regard corpus?")
        if manifest["state"] != "done":
            raise ConfigError(f"{self.path}: not done yet; give the command that writes it once more")
        return manifest
