"""What `regard compare` does at the prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.config import ConfigError
from regard.disk import write_text
from regard.lab.grid import Part, Study, Variant, is_study, named, overridden, read_study, started, variants
from regard.lab.report import HEADINGS, cells, markdown, page, remarks
from regard.lab.summary import Summary, summarise
from regard.lab.work import Budget, Run, check_settings, train_grid
from regard.look.plots import check_out
from regard.tasks.base.folder import write_json
from regard.tasks.base.terminal import say

WIDE, COSTS = 140, 6
"""On a narrower terminal, only so many columns."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A part of a study, ready to be trained."""

    part: Part
    recipe: Path
    out: Path
    variants: Sequence[Variant]
    started: Path | None
    """The folder of the part whose models it starts from."""
    budget: Budget | None


def compare(
    recipe: Path,
    settings: Sequence[str] | None,
    *,
    data: Path | None = None,
    out: Path,
    seeds: int | None,
    budget: str | None,
    at_once: int = 1,
    one_at_a_time: bool = False,
    overwrite: bool,
    device: str,
    console: Console,
) -> bool:
    """Whether all of it was done."""
    check_out(out / "report.svg")
    study, root = _study(recipe, settings or ())
    count = study.seeds if seeds is None else seeds
    if count < 1:
        raise ConfigError(f"--seeds {count}: 1 or more")
    if at_once < 1:
        raise ConfigError(f"--at-once {at_once}: 1 or more")
    plans: list[Planned] = []
    for part in study.part:
        path = root / part.recipe
        where = [f"data.root={data / part.data}"] if data is not None else []
        own = variants(
            overridden(part.settings, [*where, *(settings or ())]),
            one_at_a_time=one_at_a_time or part.one_at_a_time,
        )
        own = named(own, part.variant)
        place = out if len(study.part) == 1 else out / part.name
        from_ = next((each for each in plans if part.start and each.part.name == part.start), None)
        if from_ is not None:
            own = started(own, from_.variants)
        spent = budget or part.budget or study.budget
        planned = Planned(
            part, path, place, own, None if from_ is None else from_.out, Budget.of(spent) if spent else None
        )
        check_settings(path, own)
        plans.append(planned)
    done: list[tuple[str, Summary]] = []
    every: list[list[Run]] = []
    for each in plans:
        if len(plans) > 1:
            say(console, f"\n{each.part.name}")
        runs = train_grid(
            each.recipe,
            each.variants,
            seeds=count,
            out=each.out,
            started=each.started,
            budget=each.budget,
            device=device,
            at_once=at_once,
            overwrite=overwrite,
            console=console,
        )
        if runs is None:
            return False
        every.append(runs)
        done.append((each.part.name, summarise(runs)))
    facts = _facts(study, plans, every, count)
    write_text(out / "report.md", markdown(study.title, done, facts))
    write_text(out / "report.html", page(study.title, done, every, facts))
    plain = [
        {
            "name": name,
            "metric": each.metric,
            "better": each.better,
            "lines": [line.to_dict() for line in each.lines],
        }
        for name, each in done
    ]
    write_json(out / "report.json", {"title": study.title, "parts": plain})
    for name, summary in done:
        _render(name, summary, console)
    say(console, f"{out}/report.html, report.md, report.json")
    return True


def _study(recipe: Path, settings: Sequence[str]) -> tuple[Study, Path]:
    """What a file says, or the recipe as a study of one part; and where its paths start from."""
    if is_study(recipe):
        return read_study(recipe), recipe.parent
    varied = [each.partition("=")[0] for each in settings if "," in each]
    title = f"{recipe.stem}: {', '.join(varied)}" if varied else recipe.stem
    return Study(title=title, part=(Part(recipe=recipe.name),)), recipe.parent


def _facts(study: Study, plans: Sequence[Planned], runs: Sequence[Sequence[Run]], seeds: int) -> list[str]:
    recipes = ", ".join(dict.fromkeys(each.recipe.name for each in plans))
    given = dict.fromkeys(
        "each run as the recipe has it"
        if each.budget is None
        else f"{each.budget.amount:g} {each.budget.kind} for each run"
        for each in plans
    )
    which = f"seeds 0 to {seeds - 1}" if seeds > 1 else "one seed"
    lines = [f"{recipes}; {which}; {', or '.join(given)}."]
    most = max(run.at_once for own in runs for run in own)
    if most > 1:
        lines.append(f"Up to {most} runs side by side: time and tokens/s are of a share of the machine.")
    return [*([study.question] if study.question else []), *lines]


def _render(name: str, summary: Summary, console: Console) -> None:
    shown = len(HEADINGS) if console.width >= WIDE else COSTS  # what it cost stands in the report
    table = Table(title=name or None, title_justify="left")
    for place, heading in enumerate(HEADINGS[:shown]):
        table.add_column(heading, justify="right" if place else "left", overflow="fold")
    for line in summary.lines:
        table.add_row(*cells(line, summary)[:shown])
    console.print(table)
    for remark in remarks(summary):
        say(console, remark)
