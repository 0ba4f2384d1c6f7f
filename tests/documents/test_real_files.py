"""Files that others have written, in and out: a catalogue of Sphinx, messages of Symfony, OASIS' examples."""

import re
from collections import Counter

import pytest

from regard.bench.encoder import DATA
from regard.documents.registry import open_document
from tests.documents.standin import careless, same
from tests.documents.test_carrying import carried

REAL = DATA / "documents"
FILES = [
    *sorted(REAL.glob("*.po")),
    *sorted(REAL.glob("*.xlf")),
    *sorted((REAL / "xliff-2.1" / "valid").glob("*.xlf")),
]
MARK = re.compile(r"</?[a-zA-Z][^<>]*>|\{\{ ?\w+ ?\}\}|%(?:\(\w+\))?[sd]")
"""Tags and placeholders of these files, found without the help of what is tested."""

WORDLESS = {"almostEmpty", "typeSubTypeValues"}
"""Those with nothing to translate."""

pytestmark = pytest.mark.skipif(not FILES, reason="no real data beside this checkout")


def emptied(file) -> bytes:
    """The file as its translator first gets it: no translations yet."""
    raw = file.read_bytes()
    if file.suffix == ".po":
        head, *entries = re.split(rb"\n(?=\n)", raw)
        return b"\n".join(
            [head, *(re.sub(rb'(?m)^msgstr "[^\n]*"(\n"[^\n]*")*', b'msgstr ""', e) for e in entries)]
        )
    return re.sub(rb"\s*<target[^>]*>.*?</target>", b"", raw, flags=re.DOTALL)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
@pytest.mark.parametrize("write", [same, careless])
def test_marks_order_and_sources_are_kept_whatever_a_model_writes(file, write):
    for raw in (file.read_bytes(), emptied(file)):
        opened = open_document(file, raw)
        assert opened.write([None] * len(opened.segments)) == raw
        results = carried(opened, write)
        written = opened.write(results, "fr")
        again = open_document(file, written)
        assert [(each.key, each.source) for each in again.segments] == [
            (each.key, each.source) for each in opened.segments
        ]
        for before, after, result in zip(opened.segments, again.segments, results, strict=True):
            if result is not None and result.origin == "model":
                assert Counter(MARK.findall(after.target)) == Counter(MARK.findall(before.source))
                assert write is not same or after.target == before.source
        assert again.write([None] * len(again.segments)) == written
    by_model = [result for result in results if result.origin == "model"]  # of the emptied one
    assert bool(by_model) == (file.stem not in WORDLESS)
