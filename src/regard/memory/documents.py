"""What a memory can learn of translated documents, such as XLIFF and PO."""

from collections import Counter
from collections.abc import Iterator, Sequence

from regard.config import ConfigError
from regard.documents.base import Opened
from regard.documents.registry import FORMATS, format_of, open_document
from regard.memory.segments import Segment
from regard.text.blocks import Block, Inline, Mark, Piece
from regard.text.markup import read_block


def is_bilingual(file: str) -> bool:
    """Whether a file of this name has texts and their translations."""
    name = format_of(file)
    return name is not None and FORMATS[name].tells == "sources"


def scan_document(file: str, source: str | None, target: str | None, left: Counter[str]) -> Iterator[Segment]:
    return segments_of(open_document(file), source, target, left)


def segments_of(
    opened: Opened, source: str | None = None, target: str | None = None, left: Counter[str] | None = None
) -> Iterator[Segment]:
    """Its translations that count, as plain text, without their tags. Those that do not count, and those that
    plain text cannot say, are left out; `left` counts them, by the reason. The languages are the file's,
    where it says them."""
    source, target = opened.source_language or source, opened.target_language or target
    left = Counter() if left is None else left
    if source is None or target is None:
        missing = "source" if source is None else "target"
        raise ConfigError(f"the file does not say its {missing} language: give --source and --target")
    for each in opened.segments:
        if each.state != "final":
            left["fuzzy or to be reviewed"] += each.state == "draft"
            continue
        blocks = each.block, read_block(each.target, each.block.syntax)
        reasons = [reason for reason in map(_more_than_text, blocks) if reason]
        texts = [block.view().text for block in blocks]
        if reasons:
            left[reasons[0]] += 1
        elif all(texts):
            yield Segment(texts[0], texts[1], source, target)


def _more_than_text(block: Block) -> str:
    """What it has that is neither text nor a tag; "" for nothing."""
    if block.inside:
        return "of several lines or branches"
    return "with marks that stand for words" if _stands(block.pieces) else ""


def _stands(pieces: Sequence[Piece]) -> bool:
    return any(
        each.name is None if isinstance(each, Mark) else isinstance(each, Inline) and _stands(each.nodes)
        for each in pieces
    )
