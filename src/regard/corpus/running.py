"""A corpus through a model, into a folder of shards; begun, gone on with, or found to be done.

    input -> plan of shards -> workers (local.py, on_ray.py) -> shards -> manifest

The output is a function of the input, the model and the settings: not of engines, of the number of workers,
or of who was killed when. It is what `regard embed`, `regard translate` and the others give for the whole
input at once. In float32 on a CPU all that is so to the last bit, where the compiled C computes (`regard
doctor` says); elsewhere, and of recurrent models, up to rounding: batches, and so sums, follow the threads
that a worker has.
"""

import hashlib
import inspect
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from regard import __version__
from regard.config import ConfigError
from regard.corpus import local
from regard.corpus.addresses import InputFile, found_files, refuse_address
from regard.corpus.folder import BAD, OVERWRITE, Done, OutFolder, fingerprint
from regard.corpus.plan import Planner, Shard, stream_hash
from regard.corpus.progress import Meter, shown, shown_planning
from regard.corpus.reading import Asked
from regard.corpus.work import Job
from regard.corpus.writing import COLUMNS
from regard.disk import replace
from regard.tasks.base.bulk import BulkSpec, Output
from regard.tasks.base.formats import AS_NAMED, FileOptions
from regard.tasks.base.model_hash import model_hash
from regard.tasks.base.tables import Wanted
from regard.tasks.base.terminal import say
from regard.tasks.registry import get_task
from regard.train.ranks import find_device

if TYPE_CHECKING:
    from regard.corpus.on_ray import Cluster

Engine = Literal["auto", "local", "ray"]
SHARD_TOKENS = 500_000


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusSettings:
    """How a corpus goes through a model. All but workers, engine and ray decide what comes out."""

    task: str
    """embed, translate, classify, tag or answer."""
    model: Path
    to: Output | None = None
    """What shards are; unless given, what suits the task."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The task's own."""
    files: FileOptions = AS_NAMED
    id: str | None = None
    keep: tuple[str, ...] = ()
    shard_tokens: int = SHARD_TOKENS
    device: str = "auto"
    precision: Any = None
    engine: Engine = "auto"
    workers: int | None = None
    ray: str | None = None
    """The address of a cluster; unless given, Ray is started here."""
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"--workers {self.workers}: give 1 or more")
        if self.engine == "local" and self.ray is not None:
            raise ConfigError("--ray is for --engine ray: leave one of the two out")

    @property
    def spec(self) -> BulkSpec:
        found = get_task(self.task).bulk
        if found is None:
            raise ConfigError(f"regard corpus {self.task}: this task does nothing with a corpus")
        return found

    @property
    def form(self) -> Output:
        chosen = self.to or self.spec.writes[0]
        if chosen not in self.spec.writes:
            raise ConfigError(f"--write {chosen}: {self.task} writes {', '.join(self.spec.writes)}")
        if chosen not in COLUMNS:
            more = [*(["keep"] if self.keep else []), *filter(self.settings.get, self.spec.columns)]
            if more:
                remedy = " or ".join(f"--write {each}" for each in self.spec.writes if each in COLUMNS)
                raise ConfigError(f"--{more[0]}: shards of {chosen} have no columns; give {remedy}")
        if "id" in self.keep:
            raise ConfigError("--keep id: every row has an id anyway; --id id takes it from that column")
        return chosen

    @property
    def asked(self) -> Asked:
        spec, options = self.spec, self.files
        given = ((options.column, "--column"), (options.second, "--second"))
        wanted = [
            Wanted(name, option, names, words=spec.words)
            for (name, option), names in zip(given, _columns(spec), strict=False)
            if option == "--column" or spec.both or name is not None
        ]
        return Asked(wanted=tuple(wanted), id=self.id, keep=self.keep, options=options)

    @property
    def on_ray(self) -> bool:
        return self.engine == "ray" or (self.engine == "auto" and self.ray is not None)

    def identity(self, device: str) -> dict[str, Any]:
        """What decides the output, beside the input and the model's weights; plain. `device` is the one that
        was found."""
        return {
            "task": self.task,
            "to": self.form,
            "settings": _plain(self.spec, self.settings),
            "files": asdict(self.files),
            "id": self.id,
            "keep": [*self.keep],
            "shard_tokens": self.shard_tokens,
            "device": device.partition(":")[0],
            "precision": self.precision,
        }


def _plain(spec: BulkSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is not as it is anyway. Of a file that is named, its content counts."""
    takes = inspect.signature(getattr(spec.open, "part", spec.open)).parameters
    unknown = sorted(settings.keys() - takes.keys())
    if unknown:
        raise ConfigError(f"no setting {unknown[0]!r}: there is {', '.join([*takes][3:])}")
    found = {name: value for name, value in sorted(settings.items()) if value != takes[name].default}
    if "glossary" in found:
        found["glossary"] = hashlib.sha256(Path(found["glossary"]).read_bytes()).hexdigest()
    return found


def _columns(spec: BulkSpec) -> tuple[tuple[str, ...], ...]:
    return spec.reads if len(spec.reads) > 1 else (*spec.reads, ("second",))


@dataclass(frozen=True, slots=True)
class Outcome:
    folder: Path
    manifest: Mapping[str, Any]
    worked: int
    """Shards that were done now, and not before."""


def run(
    inputs: Sequence[str], out: Path | str, settings: CorpusSettings, console: Console | None = None
) -> Outcome:
    """Everything up to the manifest that says done."""
    console = console or Console(stderr=True)
    refuse_address(out)
    folder = OutFolder(Path(out).absolute())
    settings.form  # noqa: B018  # what cannot be written is told first
    folder.refuse_foreign()
    digest = model_hash(settings.model, folder.path)
    files = found_files(
        [str(each) for each in inputs], settings.files, folder.path, lambda line: say(console, line)
    )
    with ExitStack() as stack:
        stack.enter_context(folder.locked())
        ray = _cluster(settings, stack)
        device = find_device(settings.device) if ray is None else ray.device(settings.device)
        manifest = _begun(folder, files, digest, settings, device, console)
        folder = OutFolder(folder.path, fingerprint(manifest))
        if manifest["state"] == "done" and all(_is_there(folder)):
            say(console, f"{folder.path}: done already, {manifest['counts']['rows']:,} records")
            return Outcome(folder.path, manifest, 0)
        if (made := manifest["regard"]) != __version__:
            raise ConfigError(
                f"{folder.path} was begun by regard {made}, this is {__version__}: go on with that one, or "
                f"{OVERWRITE}"
            )
        names = tuple(tuple(each["names"]) for each in manifest["inputs"])
        job = Job(
            task=settings.task,
            model=str(Path(settings.model).absolute()),
            device=device,
            precision=settings.precision,
            settings=dict(settings.settings),
            out=str(folder.path),
            run=folder.run,
            form=settings.form,
            files=tuple(files),
            names=names,
            asked=settings.asked,
        )
        return _worked(folder, job, manifest, settings, ray, console)


def _cluster(settings: CorpusSettings, stack: ExitStack) -> "Cluster | None":
    """Ray, where it is asked for; imported there."""
    if not settings.on_ray:
        return None
    from regard.corpus import on_ray

    return stack.enter_context(on_ray.cluster(settings.ray, settings.workers))


def _begun(
    folder: OutFolder,
    files: list[InputFile],
    digest: str,
    settings: CorpusSettings,
    device: str,
    console: Console,
) -> dict[str, Any]:
    """The manifest: the folder's, if it is of the same input, model and settings; else a new one."""
    found = None if settings.overwrite else folder.manifest()
    if found is not None:
        try:
            _refuse_other(folder, found, files, digest, settings, device)
            return found
        except ConfigError:  # as where the first command had a mistake that only the model could find
            if folder.has_done():
                raise
    folder.clear()  # also where there is no manifest: what is left of a run that was cleared half
    planner = Planner(settings.asked, settings.shard_tokens)
    with shown_planning(len(files)) as progress:
        shards, size = folder.write_plan(planner.shards(files, progress))
    manifest = {
        "regard": __version__,
        "state": "working",
        "model": {"folder": str(settings.model), "sha256": digest},
        "settings": settings.identity(device),
        "inputs": [
            {**asdict(each.file), "names": [*each.names], "sha256": each.sha256} for each in planner.files
        ],
        "shards": shards,
        "bytes": size,
    }
    folder.write_manifest(manifest)
    say(console, f"{len(files):,} files, {size:,} bytes of text in {shards:,} shards")
    return manifest


def _refuse_other(
    folder: OutFolder,
    found: Mapping[str, Any],
    files: list[InputFile],
    digest: str,
    settings: CorpusSettings,
    device: str,
) -> None:
    if found["model"]["sha256"] != digest:
        raise ConfigError(
            f"{folder.path} was made by another model than {settings.model} is now; {OVERWRITE}"
        )
    for name, value in settings.identity(device).items():
        if (before := found["settings"].get(name)) != value:
            said = "write" if name == "to" else name
            raise ConfigError(f"{folder.path} was made with {said}={before!r}, not {value!r}; {OVERWRITE}")
    before = [(each["address"], each["format"]) for each in found["inputs"]]
    if before != [(each.address, each.format) for each in files]:
        raise ConfigError(f"{folder.path} was made from other files; {OVERWRITE}")
    for file, planned in zip(files, found["inputs"], strict=True):
        same = file.stamp == planned["stamp"]
        if not same and stream_hash(file, settings.files.encoding) != planned["sha256"]:
            raise ConfigError(f"{file.address} is not what it was when {folder.path} was begun; {OVERWRITE}")


def files_of(manifest: Mapping[str, Any]) -> list[InputFile]:
    """The input that a manifest tells of."""
    names = ("address", "format", "size", "stamp", "path")
    return [InputFile(**{name: each[name] for name in names}) for each in manifest["inputs"]]


def _is_there(folder: OutFolder) -> Iterator[bool]:
    return (folder.done(shard.number) is not None for shard in folder.plan())


def _worked(
    folder: OutFolder,
    job: Job,
    manifest: dict[str, Any],
    settings: CorpusSettings,
    ray: "Cluster | None",
    console: Console,
) -> Outcome:
    done_before = bytes_before = 0
    todo: list[int] = []
    for shard in folder.plan():
        if folder.done(shard.number) is None:
            todo.append(shard.number)
        else:
            done_before, bytes_before = done_before + 1, bytes_before + shard.bytes
    if done_before:
        say(console, f"{done_before:,} of {manifest['shards']:,} shards are done; going on with the others")
    wanted = set(todo)
    left: Iterable[Shard] = (shard for shard in folder.plan() if shard.number in wanted)
    meter = Meter(manifest["bytes"], manifest["shards"], done_before, bytes_before)
    with shown(meter) as progress:
        for done in _engine(job, left, len(todo), settings.workers, ray, progress.texts):
            progress.shard(done)
    whole = _summed(folder, manifest)
    folder.write_manifest(whole)
    counts, flags = whole["counts"], whole["flags"]
    told = "".join(f", {count:,} {name}" for name, count in flags.items())
    say(console, f"{folder.path}: {counts['rows']:,} records, {counts['tokens']:,} tokens{told}")
    if meter.rows:
        say(
            console,
            f"{meter.rows / meter.seconds:,.0f} sentences/s, {meter.tokens / meter.seconds:,.0f} tokens/s",
        )
    if counts["bad"]:
        say(console, f"{counts['bad']:,} records are bad: {folder.path / BAD} says why, and where they stand")
    return Outcome(folder.path, whole, len(todo))


def _engine(
    job: Job, shards: Iterable[Shard], count: int, wanted: int | None, ray: "Cluster | None", progress: Any
) -> Iterator[Done]:
    if not count:
        return iter(())
    if ray is not None:
        return ray.run(job, shards, wanted)
    workers = min(wanted or local.default_workers(job.device), count)
    return local.run(_sharing(job, workers), shards, workers, progress)


def _sharing(job: Job, workers: int) -> Job:
    return job if workers == 1 else changed(job, threads=max((os.cpu_count() or 1) // workers, 1))


def _summed(folder: OutFolder, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with what all shards have; their bad records go into one file."""
    counts: Counter[str] = Counter(rows=0, tokens=0, bad=0)
    flags: Counter[str] = Counter()
    parts: list[dict[str, Any]] = []

    def save(partial: Path) -> None:
        with partial.open("w", encoding="utf-8") as file:
            for shard in folder.plan():
                done = folder.done(shard.number)
                if done is None:
                    raise ConfigError(
                        f"{folder.path}: shard {shard.number} was removed meanwhile; go on anew"
                    )
                parts.append({"files": [*done.files], "rows": done.rows, "tokens": done.tokens})
                counts.update(rows=done.rows, tokens=done.tokens, bad=len(done.bad))
                flags.update(done.flags)
                file.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in done.bad)

    replace(folder.path / BAD, save)
    if not counts["bad"]:
        (folder.path / BAD).unlink()
    return {**manifest, "state": "done", "counts": dict(counts), "flags": dict(flags), "parts": parts}
