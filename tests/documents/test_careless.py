"""Whatever a translator writes, a file of any format is well-formed, keeps its tags, and is read again."""

import io
import random
import re
import zipfile
from collections import Counter
from html.parser import HTMLParser

import pysubs2
import pytest

from regard.documents.xmltree import read_xml
from regard.tasks.translation.documents import Carrier
from tests.documents.samples import FILES
from tests.documents.standin import StandIn

JUNK = [
    "<", ">", "&", '"', "'", "\\", "-->", "--->", "]]>", "{", "}", "#", "*",
    "**", "_x_", "`", "[x]", "](y)", "|", "- x", "1) x", "\n", "\n\n", "\r\n# x", ": ", "@string/x", "?x",
    "@x", "%s", "{0}", "&amp;", ":::", "~~",
]  # fmt: skip
TAGS = ["<b>", "</b>", "</p>", "<!--"]
PACKED = {"docx": "word/document.xml", "odt": "content.xml"}
MARKS = re.compile(
    r"<(?:w:(?:bookmark|footnoteReference|hyperlink|fld|ins|del|pict)|text:(?:note|page|line|tab)|draw:)[^<>]*>"
)
"""Of packed files, whose runs are written anew."""
SIGNS = re.compile(
    r"</?[A-Za-z][^<>]*>|\{\{\w+\}\}|\$t\(.*?\)|%\d?\$?[ds@](?!\w)|\{(?:count|name|0)\}|\{\w+, \w+,|\[\^1\]"
)


def careless(seed: int):
    """Words are dropped, doubled and permuted, others come in between; links are anything. There is one word
    at least."""

    def write(text: str) -> tuple[str, list[tuple[int, int]]]:
        chance = random.Random(f"{seed} {text}")
        words = [word for word in text.split() if chance.random() > 0.3]
        words += [word for word in words if chance.random() < 0.2]
        if chance.random() < 0.5:
            chance.shuffle(words)
        for _ in range(chance.randrange(4)):
            words.insert(chance.randrange(len(words) + 1), chance.choice(JUNK + TAGS))
        words.insert(chance.randrange(len(words) + 1), "Wort")
        count = len(text.split())
        links = [(chance.randrange(count + 1), chance.randrange(len(words) + 1)) for _ in range(count)]
        return " ".join(words), links

    return write


def reverse(text: str) -> tuple[str, list[tuple[int, int]]]:
    words = text.split()
    return " ".join(reversed(words)), [(i, len(words) - 1 - i) for i in range(len(words))]


def short(text: str) -> tuple[str, list[tuple[int, int]]]:
    return "Los.", [(0, 0)]


def unspaced(text: str) -> tuple[str, list[tuple[int, int]]]:
    return "旧车站非常近点击这里打开文件", [(0, 0)]


class Checked(HTMLParser):
    """The tags of a page, with the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[tuple[str, ...]] = Counter()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags[tag, *(name for name, _ in attributes)] += 1

    def handle_endtag(self, tag):
        self.tags["/", tag] += 1

    def handle_comment(self, data):
        self.tags["--",] += 1


def signs(name: str, raw: bytes) -> Counter:
    """Tags and marks of a file, found without the help of what is tested."""
    if name in PACKED:
        with zipfile.ZipFile(io.BytesIO(raw)) as package:
            text = package.read(PACKED[name])
            read_xml(text, name)
            return Counter(MARKS.findall(text.decode()))
    if name == "html":
        return Checked(raw.decode()).tags
    if name == "android":
        read_xml(raw, name)
    escapes = r"\\[!-~]" if name == "markdown" else r'\\(?=[/"])'
    return Counter(SIGNS.findall(re.sub(rf'title="[^"]*"|{escapes}', "", raw.decode())))


def written(name: str, write) -> bytes:
    format_, raw = FILES[name]
    opened = format_.open(raw, "file", {})
    (results,) = Carrier(StandIn(write)).translate([opened])
    return opened.write(results, "de")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("write", [reverse, short, unspaced, *range(25)])
def test_a_file_is_whole_whatever_its_translation_is(name, write):
    format_, raw = FILES[name]
    out = written(name, careless(write) if isinstance(write, int) else write)
    again, before = format_.open(out, "file", {}), format_.open(raw, "file", {})
    assert signs(name, out) == signs(name, raw)
    if name in ("srt", "vtt"):  # their segments are sentences, wherever these end now
        assert times(out) == times(raw)
        assert shown(name, out) == shown(name, raw)
    else:
        assert len(again.segments) == len(before.segments)


def times(raw: bytes) -> list[str]:
    return [line for line in raw.decode().split("\n") if "-->" in line]


def shown(name: str, raw: bytes) -> list[bool]:
    """Of each cue whether it says anything."""
    return [bool(each.plaintext.strip()) for each in pysubs2.SSAFile.from_string(raw.decode(), name)]
