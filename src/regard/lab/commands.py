"""What `regard compare` does at the prompt."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.config import ConfigError
from regard.lab.grid import Part, Study, is_study, overridden, read_study, variants
from regard.lab.report import HEADINGS, cells, markdown, page, remarks
from regard.lab.summary import Summary, summarise
from regard.lab.work import Budget, Run, check_settings, train_grid
from regard.look.plots import check_out
from regard.tasks.base.folder import write_json
from regard.tasks.base.terminal import say
from regard.train.checkpoint import write_text

WIDE, COSTS = 140, 6
"""On a narrower terminal, only so many columns."""


def compare(
    recipe: Path,
    settings: Sequence[str] | None,
    *,
    data: Path | None = None,
    out: Path,
    seeds: int | None,
    budget: str | None,
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
    spent = Budget.of(budget or study.budget) if budget or study.budget else None
    plans = []
    for part in study.part:
        path = root / part.recipe
        where = [f"data.root={data / part.data}"] if data is not None else []
        plans.append((part, path, variants(overridden(part.settings, [*where, *(settings or ())]))))
        check_settings(path, plans[-1][2])
    done: list[tuple[str, Summary]] = []
    every: list[list[Run]] = []
    for number, (part, path, own) in enumerate(plans):
        place = out if len(plans) == 1 else out / (part.name or str(number))
        if len(plans) > 1:
            say(console, f"\n{part.name or path.stem}")
        runs = train_grid(
            path,
            own,
            seeds=count,
            out=place,
            budget=spent,
            device=device,
            overwrite=overwrite,
            console=console,
        )
        if runs is None:
            return False
        every.append(runs)
        done.append((part.name, summarise(runs)))
    facts = _facts(study, plans, count, spent)
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


def _facts(
    study: Study, plans: Sequence[tuple[Part, Path, Sequence[object]]], seeds: int, budget: Budget | None
) -> list[str]:
    recipes = ", ".join(dict.fromkeys(path.name for _, path, _ in plans))
    given = (
        "each run as the recipe has it" if budget is None else f"{budget.amount:g} {budget.kind} for each run"
    )
    line = f"{recipes}; seeds 0 to {seeds - 1}; {given}." if seeds > 1 else f"{recipes}; one seed; {given}."
    return [*([study.question] if study.question else []), line]


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
