"""The doctor's report on a terminal, or in a file: a table of counts, the findings, and the verdict."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from regard.text.doctor.findings import Finding, Report, Severity

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def render(report: Report, console: Console) -> None:
    """Print a report. Text from files is printed as it is; what is too long for the width is shortened."""
    if report.task:
        _print(Text(f"read as text for {report.task}; another task is chosen with --task"), 0, console)
    for note in report.notes:
        _print(Text(note), 0, console)
    for line in _counts(report):
        console.print(line, soft_wrap=True)
    console.print()
    for finding in report.findings:
        for text, indent in _lines(finding, console.width):
            _print(text, indent, console)
        console.print()
    styles: tuple[Severity, ...] = tuple(finding.severity for finding in report.findings)
    style = "bold red" if not report.ok else "bold yellow" if "warning" in styles else "bold green"
    _print(Text(f"Verdict: {report.verdict}", style=style), 0, console)


def _print(text: Text, indent: int, console: Console) -> None:
    """Wrapped and set in, without the blanks that rich leaves at the end of lines."""
    for line in text.wrap(console, console.width - indent):
        line.rstrip()
        console.print(Text(" " * indent) + line, soft_wrap=True)


def _counts(report: Report) -> Iterator[Text]:
    """A table without rules, which reads as well in a file."""
    found = {name: counts.cells() for name, counts in report.splits.items()}
    heads = [*dict.fromkeys(head for cells in found.values() for head in cells)]
    rows = [["split", *heads]]
    rows += [[name, *(cells.get(head, "") for head in heads)] for name, cells in found.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, (name, *cells) in enumerate(rows):
        line = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield Text(f"{name:<{widths[0]}}  {line}", style="" if number else "bold")


def _lines(finding: Finding, width: int) -> Iterator[tuple[Text, int]]:
    """Lines and how far each is set in."""
    head = Text()
    head.append(f"{finding.severity:<8}", style=_STYLES[finding.severity])
    head.append(f"{finding.split}: {finding.name}", style="bold")
    if finding.count:
        head.append(f"  {finding.count:,} of {finding.total:,} ({_percent(finding.share)})")
    yield head, 0
    yield Text(f"{finding.text}. {finding.remedy[:1].upper()}{finding.remedy[1:]}."), 8
    for example in finding.examples:
        place = Text(example.origin, style="cyan")
        place.append(f"  {example.why}", style="dim")
        yield place, 10
        if example.source or example.target:
            for side in (example.source, *([] if example.target is None else [example.target])):
                shown = _shortened(side.strip(), width - 12)
                yield Text(shown) if shown else Text("(empty)", style="dim"), 12


def _shortened(text: str, width: int) -> str:
    """What fits, with control characters made visible: they must not reach the terminal."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: width + 1])
    return shown if len(shown) <= width else shown[: width - 3] + "..."


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "under 0.1%"
