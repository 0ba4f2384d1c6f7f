"""What a memory can learn of translated documents, such as XLIFF and PO."""

from collections.abc import Iterator

from regard.config import ConfigError
from regard.documents.base import Opened
from regard.documents.registry import FORMATS, format_of, open_document
from regard.memory.segments import Segment
from regard.text.blocks import Block, Mark
from regard.text.markup import read_block


def is_bilingual(file: str) -> bool:
    """Whether a file of this name has texts and their translations."""
    name = format_of(file)
    return name is not None and FORMATS[name].tells == "sources"


def scan_document(file: str, source: str | None, target: str | None) -> Iterator[Segment]:
    return segments_of(open_document(file), source, target)


def segments_of(opened: Opened, source: str | None = None, target: str | None = None) -> Iterator[Segment]:
    """Its translations that count, as plain text: none that is fuzzy, or to be reviewed. Those with tags, or
    with several lines, are left out. The languages are the file's, where it says them."""
    source, target = opened.source_language or source, opened.target_language or target
    if source is None or target is None:
        missing = "source" if source is None else "target"
        raise ConfigError(f"the file does not say its {missing} language: give --source and --target")
    for each in opened.segments:
        if each.state != "final":
            continue
        texts = _text_alone(each.block), _text_alone(read_block(each.target, each.block.syntax))
        if all(texts):
            yield Segment(*texts, source, target)


def _text_alone(block: Block) -> str:
    """What a model would read of it; "" where that is not all there is."""
    view = block.view()
    named = any(isinstance(each, Mark) and each.name is None for each in block.pieces)
    return "" if view.nodes or named or block.inside else view.text
