"""What all pictures share: colours that everybody can tell apart, labels of any script, and files.

    magnitudes    viridis
    signs         blue, white, orange
    categories    the eight colours of Okabe and Ito (2008)

matplotlib is an extra (pip install regard[look]) and slow to import: nothing here imports it before a picture
is drawn. No display is needed, and the same picture gives the same file.
"""

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from regard.config import ConfigError
from regard.disk import replace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Arguments = ParamSpec("Arguments")

BLUE, ORANGE, GREY = "#2166ac", "#e66101", "#8c8c8c"
MAGNITUDES = "viridis"
CATEGORIES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000", "#f0e442")
FORMATS = (".png", ".svg", ".pdf")
MOST_LABELS = 60
"""On one axis; of more, every second, third, ... is shown."""
BOX = "\N{WHITE SQUARE}"
"""In place of a character that no font has."""

_FAMILIES = (
    "DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "Noto Sans KR",
    "Source Han Sans", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "Hiragino Sans",
    "PingFang SC", "Microsoft YaHei", "Malgun Gothic", "Arial Unicode MS", "Noto Sans Devanagari",
    "Noto Sans Thai", "Noto Emoji", "Unifont",
)  # fmt: skip
"""The first that has a character draws it. matplotlib brings the first along."""


def check_out(out: Path, option: str = "--out") -> None:
    """Before any work is done for it."""
    if out.suffix.lower() not in FORMATS:
        raise ConfigError(f"{option} {out}: a picture is {', '.join(FORMATS)}; end the name in one of these")


def save(figure: "Figure", out: Path) -> None:
    """In the format of the name's ending; a file exists whole or not at all."""
    import matplotlib

    check_out(out)
    form = out.suffix.lower()[1:]
    # Without a date, and with names that are not drawn by lot.
    metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    with matplotlib.rc_context({"svg.hashsalt": "regard", "pdf.fonttype": 42}):
        replace(out, lambda partial: figure.savefig(partial, format=form, dpi=120, metadata=metadata))


def picture(draw: "Callable[Arguments, Figure]") -> "Callable[Arguments, Figure]":
    """For functions that draw: in the style of the house. Text is text, dollar signs and all."""

    @wraps(draw)
    def styled(*arguments: Arguments.args, **options: Arguments.kwargs) -> "Figure":
        try:
            import matplotlib
        except ImportError as error:
            raise ConfigError("pictures are drawn by matplotlib: pip install regard[look]") from error
        settings: dict[Any, Any] = {
            "font.family": [*_fonts()],
            "font.size": 10,
            "text.parse_math": False,
            "axes.titlesize": 11,
            "axes.formatter.use_mathtext": False,
            "image.interpolation": "nearest",
            "legend.frameon": False,
        }
        with matplotlib.rc_context(settings):
            return draw(*arguments, **options)

    return styled


def new_figure(width: float, height: float) -> Any:
    """In inches; what is drawn finds its place by itself."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def set_title(figure: Any, text: str) -> None:
    """Above everything, in letters that fit the width."""
    longest = max(map(len, text.splitlines()))
    figure.suptitle(text, fontsize=min(13.0, 72 * figure.get_figwidth() / (0.58 * longest)))


def annotate(axes: Any, text: str, at: Any, offset: tuple[float, float], **style: Any) -> Any:
    """So many points away from a place."""
    return axes.annotate(text, at, xytext=offset, textcoords="offset points", **style)


def signs() -> Any:
    """Blue below zero, orange above, white at it."""
    from matplotlib.colors import LinearSegmentedColormap

    ends = ("#053061", BLUE, "#92c5de", "#ffffff", "#fdb863", ORANGE, "#7f3b08")
    return LinearSegmentedColormap.from_list("signs", ends)


@cache
def _fonts() -> dict[str, frozenset[int]]:
    """Each family that is there, with the characters that it has."""
    from matplotlib.font_manager import findfont, fontManager, get_font

    there = {entry.name for entry in fontManager.ttflist}
    return {
        family: frozenset(get_font(findfont(family)).get_charmap()) for family in _FAMILIES if family in there
    }


def shown(text: str, most: int | None = None) -> str:
    """Text that can be drawn: on one line, control characters visible, a box for what no font has. What is
    longer than `most` ends in an ellipsis."""
    text = "".join(_visible(character) for character in text)
    if most is not None and len(text) > most:
        text = text[: most - 1] + "…"
    fonts = _fonts().values()
    return "".join(c if any(ord(c) in font for font in fonts) else BOX for c in text)


def _visible(character: str) -> str:
    match unicodedata.category(character):
        case "Zs":
            return " "
        case "Cf":  # marks that join or part letters
            return ""
        case _:
            return character if character.isprintable() else character.encode("unicode_escape").decode()


def label_axis(
    axis: Any, labels: Sequence[str], special: Sequence[bool] = (), *, cell: float, longest: int = 24
) -> None:
    """Name every place on an axis of a matrix, special tokens in grey; `cell` is the room of one in points.
    The labels of an x axis are rotated where they would touch. Of more than MOST_LABELS, only every so
    many-th is named."""
    step = -(-len(labels) // MOST_LABELS)
    places = range(0, len(labels), step)
    names = [shown(labels[place], longest) for place in places]
    size = max(4.0, min(10.0, 0.8 * cell * step))
    ticks = {"ticks": [*places], "labels": names, "fontsize": size}
    if axis.axis_name == "x" and max(map(len, names), default=0) * 0.7 * size > cell * step:
        slanted = 0.7 * cell * step >= 1.2 * size
        above = axis.get_ticks_position() == "top"
        turn = {"rotation": 45, "ha": "left" if above else "right", "rotation_mode": "anchor"}
        ticks |= turn if slanted else {"rotation": 90}
    axis.set_ticks(**ticks)
    axis.set_tick_params(length=0, pad=2)
    for tick, place in zip(axis.get_ticklabels(), places, strict=True):
        if special and special[place]:
            tick.set_color(GREY)
