"""Subtitles: SRT and WebVTT. Times, numbers, settings, notes and styles stay to the byte.

A sentence that runs over several cues is one segment, if no pause and no other speaker parts them: it is
translated whole, and cut again by how long each cue stands and how much of the source it held, best behind a
clause. A cue for which there are no words left shows three dots. Two speakers in one cue (lines that begin
with a dash) are two segments. Where a cue had several lines, its translation is put on lines of at most
`line` characters again. Tags that are around a whole cue, and marks of its place ({\\an8}, <v Anna>), stay
there; others go where their words go.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from html import escape, unescape
from itertools import pairwise

from regard.config import ConfigError, from_dict
from regard.documents.base import Segment
from regard.documents.cutting import TAG, cut, lines, visible
from regard.documents.splicing import Site, Source, Spliced
from regard.text.charsets import check_encoding
from regard.text.markup import Notation, block
from regard.text.scanning import DEEPEST, Syntax, Token

SYNTAX = Syntax(kind="text", lines=False)
PAUSE = 1000
"""Milliseconds between cues that part sentences."""
MOST = 6
LONGEST = 300
"""Cues and characters of one segment, for subtitles without any full stop."""
REST = "..."
"""What a cue shows that gets no words: one without any is no cue to some players."""

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_TIMING = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t].*)?$")
_NOTE = re.compile(r"NOTE(?:\s|$)")
"""The first line of a comment."""
_LIKE_TIME = re.compile(r"\ufeff?\s*-?\d+\s*[:.,]\s*\d")
_INNER_TIME = re.compile(r"<[\d:.]+>")
"""When a part of a WebVTT cue is said: has to be within the time of the cue."""
_END = re.compile(r"[.!?…。！？♪♫\]][\"'”’»)\]]*$")  # noqa: RUF001
_BEGIN = re.compile(r"[-–—♪♫\[(]")  # noqa: RUF001
_DASH = re.compile(r"[ \t]*(?:[-–—]|>>)[ \t]*")  # noqa: RUF001


@dataclass(frozen=True, kw_only=True, slots=True)
class SubtitleSettings:
    line: int = 42
    """Characters of a line at most, where lines are made anew."""
    join: bool = True
    """Sentences that run over several cues are translated whole."""
    encoding: str | None = None
    """What the file is in, where no byte order mark says so; else UTF-8."""

    def __post_init__(self) -> None:
        if self.line < 1:
            raise ConfigError(f"line={self.line} holds no character: choose 42 or so")
        if self.encoding is not None:
            check_encoding(self.encoding)


@dataclass(frozen=True, slots=True)
class _Cue:
    number: int
    start: int
    end: int
    """Its text in the file, without what is around all of it."""
    first: int
    last: int
    """Milliseconds."""
    frame: str
    """What was before the text."""


class SrtFormat:
    name = "srt"
    endings = (".srt",)
    settings = tuple(each.name for each in fields(SubtitleSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Spliced:
        return _open(raw, file, settings, vtt=False)


class VttFormat:
    name = "vtt"
    endings = (".vtt",)
    settings = tuple(each.name for each in fields(SubtitleSettings))

    def open(self, raw: bytes, file: str, settings: Mapping[str, object]) -> Spliced:
        return _open(raw, file, settings, vtt=True)


def _open(raw: bytes, file: str, settings: Mapping[str, object], *, vtt: bool) -> Spliced:
    own = from_dict(SubtitleSettings, settings)
    source = Source.read(raw, file, own.encoding)
    writer = _Writer(source, own, _VTT if vtt else _SRT)
    groups = _joined(source.text, [*_cues(source, vtt)], own.join)
    return Spliced(source, [site for group in groups for site in writer.sites(group)])


def _cues(source: Source, vtt: bool) -> Iterator[_Cue]:
    """What follows each line with times; blank lines end it."""
    rows = [
        (start, source.text[start:end].rstrip("\r\n"))
        for start, end in zip(source.starts, [*source.starts[1:], len(source.text)], strict=True)
    ]
    if vtt and re.match(r"\ufeff?WEBVTT(?:[ \t]|$)", rows[0][1]) is None:
        raise source.error(0, "no WebVTT: it does not begin with WEBVTT")
    timings = {}
    first = ""
    for i, (start, row) in enumerate(rows):
        first = row if i == 0 or not rows[i - 1][1].strip() else first
        if "-->" not in row or (vtt and _NOTE.match(first) is not None):
            continue
        timing = _TIMING.match(row.lstrip("\ufeff"))
        if timing is not None:
            timings[i] = timing
        elif vtt or _is_timing(rows, i):
            raise source.error(start, "times that cannot be read:", repr(row[:60]))
    if not timings and not vtt and source.text.strip("\ufeff \t\r\n"):
        raise source.error(0, "no subtitles: no line has times (00:00:01,000 --> 00:00:02,000)")
    begins = sorted(timings)
    number = 0
    for k, i in enumerate(begins):
        following = begins[k + 1] if k + 1 < len(begins) else len(rows)
        own = rows[i + 1 : following]
        if following < len(rows) and _is_name(own, vtt):
            own = own[:-1]
        groups = _paragraphs(own)
        if vtt:  # a blank line ends it; other blocks may follow
            groups = groups[:1] if own and own[0][1].strip() else []
        times = _milliseconds(timings[i].groups())
        for group in groups:
            number += 1
            yield _framed(source.text, number, group[0][0], group[-1][0] + len(group[-1][1]), times)


def _is_timing(rows: Sequence[tuple[int, str]], i: int) -> bool:
    """Whether a line with an arrow has to be times in SRT, and is not what somebody says: it begins like
    such, or the number of a cue is above it."""
    if _LIKE_TIME.match(rows[i][1]) is not None or i == 0:
        return True
    numbered = rows[i - 1][1].strip("\ufeff \t").isdigit()
    return numbered and (i == 1 or not rows[i - 2][1].strip())


def _is_name(rows: Sequence[tuple[int, str]], vtt: bool) -> bool:
    """Whether the last of these is what the next cue is called."""
    if not rows or not rows[-1][1].strip() or not (vtt or rows[-1][1].strip().isdigit()):
        return False
    return len(rows) == 1 or not rows[-2][1].strip()


def _paragraphs(rows: Sequence[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    groups: list[list[tuple[int, str]]] = [[]]
    for row in rows:
        if row[1].strip():
            groups[-1].append(row)
        elif groups[-1]:
            groups.append([])
    return [group for group in groups if group]


def _milliseconds(groups: Sequence[str | None]) -> tuple[int, int]:
    def read(hours: str | None, minutes: str | None, seconds: str | None, rest: str | None) -> int:
        whole = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
        return whole * 1000 + int((rest or "0").ljust(3, "0"))

    return read(*groups[:4]), read(*groups[4:8])


def _framed(text: str, number: int, start: int, end: int, times: tuple[int, int]) -> _Cue:
    """Without white space, marks and pairs of tags around all of it."""
    begin = start
    for _ in range(DEEPEST):
        own = text[start:end].rstrip()
        start, end = start + len(own) - len(own.lstrip()), start + len(own)
        tag = TAG.match(text, start, end)
        if start >= end or tag is None or tag[1]:
            break
        if tag[2] is not None:
            pattern = re.compile(rf"</{re.escape(tag[2].split('.')[0])}\s*>")
            if (closing := pattern.search(text, start, end)) is not None:
                if closing.end() < end:
                    break
                end = closing.start()
        start = tag.end()
    return _Cue(number, start, end, *times, text[begin:start])


def _joined(text: str, cues: Sequence[_Cue], join: bool) -> list[list[_Cue]]:
    """Cues of one sentence together."""
    words = [visible(text[cue.start : cue.end]).strip() for cue in cues]
    stops = sum(_END.search(each) is not None for each in words)
    punctuated = stops * 3 > len(cues)
    groups: list[list[_Cue]] = []
    for i, cue in enumerate(cues):
        goes_on = (
            join
            and i > 0
            and len(groups[-1]) < MOST
            and sum(len(words[i - 1 - k]) for k in range(len(groups[-1]))) < LONGEST
            and words[i - 1]
            and words[i]
            and _END.search(words[i - 1]) is None
            and _BEGIN.match(words[i - 1]) is None
            and _BEGIN.match(words[i]) is None
            and (punctuated or not words[i][0].isupper())
            and -PAUSE <= cue.first - cues[i - 1].last <= PAUSE
            and _speaker(cue) == _speaker(cues[i - 1])
            and not any(_INNER_TIME.search(text, each.start, each.end) for each in cues[i - 1 : i + 1])
        )
        if goes_on:
            groups[-1].append(cue)
        else:
            groups.append([cue])
    return groups


def _speaker(cue: _Cue) -> str:
    found = re.search(r"<v[^>]*>", cue.frame)
    return found[0] if found else ""


class _Writer:
    def __init__(self, source: Source, settings: SubtitleSettings, notation: Notation) -> None:
        self._source, self._settings, self._notation = source, settings, notation

    def sites(self, group: Sequence[_Cue]) -> Iterator[Site]:
        text = self._source.text
        if len(group) == 1 and (parts := _speeches(text, group[0])):
            for k, (start, end) in enumerate(parts, 1):
                yield from self._site(f"{group[0].number}.{k}", [(start, end)], [1])
            return
        spans = [(cue.start, cue.end) for cue in group]
        key = str(group[0].number) if len(group) == 1 else f"{group[0].number}-{group[-1].number}"
        yield from self._site(key, spans, _shares(text, group))

    def _site(self, key: str, spans: Sequence[tuple[int, int]], shares: Sequence[float]) -> Iterator[Site]:
        text = self._source.text
        own = [text[start:end] for start, end in spans]
        tokens: list[Token] = []
        for k, each in enumerate(own):
            tokens += [*([Token("text", "\n")] if k else []), *_tokens(each)]
        found = block(tokens, SYNTAX, self._notation)
        if found is None:
            return
        line = self._source.line(spans[0][0])
        segment = Segment(key=key, line=line, block=found, source=found.raw)
        between = [text[a[1] : b[0]] for a, b in pairwise(spans)]
        finish = partial(self._finish, own=own, between=between, shares=shares)
        yield Site(spans[0][0], spans[-1][1], segment, finish=finish)

    def _finish(self, text: str, own: Sequence[str], between: Sequence[str], shares: Sequence[float]) -> str:
        times = iter(_INNER_TIME.findall("".join(own)))  # have to rise, wherever their words went
        text = _INNER_TIME.sub(lambda found: next(times, found[0]), " ".join(text.split()))
        parts = zip(cut(text, shares, whole=True), own, strict=True)
        written = [self._lines(_shown(part, source), source) for part, source in parts]
        return written[0] + "".join(a + b for a, b in zip(between, written[1:], strict=True))

    def _lines(self, text: str, source: str) -> str:
        """Broken where the source was, or fitted in a line and this does not."""
        longest = self._settings.line
        several = "\n" in source or "\r" in source
        if several or (len(visible(source)) <= longest < len(visible(text))):
            return lines(text, longest, self._source.line_end)
        return text


def _shown(text: str, source: str) -> str:
    """Not nothing; and without a dash that the source has not, for it would be another speaker's."""
    if not _DASH.match(source):
        text = re.sub(rf"^(?:{_DASH.pattern})+", "", text)
    return text if visible(text).strip() else text + REST


def _speeches(text: str, cue: _Cue) -> list[tuple[int, int]]:
    """Lines that different people say, without their dashes; the first may have none, if it is a sentence."""
    spans: list[tuple[int, int]] = []
    for found in re.finditer(r"[^\r\n]+", text[cue.start : cue.end]):
        if (dash := _DASH.match(found[0])) is not None:
            spans.append((cue.start + found.start() + dash.end(), cue.start + found.end()))
        elif spans:
            spans[-1] = (spans[-1][0], cue.start + found.end())
        else:
            spans.append((cue.start + found.start(), cue.start + found.end()))
    if not any(_DASH.match(row) for row in text[cue.start : cue.end].splitlines()):
        return []
    whole = _DASH.match(text, cue.start) or _END.search(visible(text[slice(*spans[0])]).rstrip())
    return spans if whole and all(_is_whole(text[slice(*each)]) for each in spans) else []


def _is_whole(text: str) -> bool:
    """Whether every tag has its other one."""
    return all(token.kind != "mark" or not token.name for token in _tokens(text))


def _shares(text: str, group: Sequence[_Cue]) -> list[float]:
    """What part of the sentence is over when each cue ends: by its text, and by its time."""
    lengths = [max(len(visible(text[cue.start : cue.end])), 1) for cue in group]
    times = [max(cue.last - cue.first, 1) for cue in group]
    both = [a / sum(lengths) + b / sum(times) for a, b in zip(lengths, times, strict=True)]
    return [sum(both[: i + 1]) / 2 for i in range(len(both) - 1)] + [1]


def _tokens(text: str) -> list[Token]:
    """Text, tags that match, and marks."""
    tokens: list[Token] = []
    stack: list[int] = []
    done = 0
    for found in TAG.finditer(text):
        if done < found.start():
            tokens.append(Token("text", text[done : found.start()]))
        done = found.end()
        name = (found[2] or "").split(".")[0]
        tokens.append(Token("mark", found[0], name))
        if not name:
            continue
        if not found[1]:
            stack.append(len(tokens) - 1)
        elif stack and tokens[stack[-1]].name == name:
            tokens[stack.pop()].kind = "open"
            tokens[-1].kind = "close"
    if done < len(text):
        tokens.append(Token("text", text[done:]))
    return tokens


def _write(text: str) -> str:
    """In SRT nothing can be escaped: what would be a tag or an arrow between times is left out."""
    return re.sub("-{2,}>", "->", TAG.sub("", text))


_SRT = Notation(write=_write)
_VTT = Notation(unescape, partial(escape, quote=False))
SRT, VTT = SrtFormat(), VttFormat()
