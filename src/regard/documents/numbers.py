"""Numbers that are to stay as they are: placeholders, in the blocks of any format."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from regard.documents.base import Segment
from regard.text.blocks import Block, Document, Inline, Mark, Piece
from regard.text.placeholders import placeholders


def keep_numbers(segments: Sequence[Segment]) -> list[Segment]:
    return [replace(each, block=_kept(each.block)) for each in segments]


def _kept(block: Block) -> Block:
    return replace(block, pieces=[*_pieces(block.pieces, block)])


def _pieces(pieces: Sequence[Piece], block: Block) -> Iterator[Piece]:
    for piece in pieces:
        match piece:
            case str():
                yield from _marked(piece, block)
            case Inline(opening, closing, inner, inside):
                yield Inline(opening, closing, [*_pieces(inner, block)], inside and _inside(inside))
            case Mark(raw, name, Document() as inside):
                yield Mark(raw, name, _inside(inside))
            case _:
                yield piece


def _inside(document: Document) -> Document:
    own = [each if isinstance(each, str) else _kept(each) for each in document.parts]
    return Document(own, [each for each in own if isinstance(each, Block)])


def _marked(text: str, block: Block) -> Iterator[Piece]:
    syntax, done = block.syntax, 0
    pattern = placeholders(numbers=True, count=syntax.count, printf=syntax.printf)
    for found in pattern.finditer(text):
        if done < found.start():
            yield text[done : found.start()]
        yield Mark(block.escape(found[0]), found[0])
        done = found.end()
    if done < len(text):
        yield text[done:]
