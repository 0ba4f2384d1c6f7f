"""Documents whole, against the same sentences as plain text, by the same translator on the CPU.

The translator is that of the benchmark `translation`, the sentences are its own, once each. A document is
read, its segments are translated, tags are placed by alignment, and the file is written; plain text is a list
in and a list out.
"""

import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from html import escape

import torch
from rich.console import Console

from regard.bench.results import Report, Row, compared, processor, report
from regard.bench.timing import OURS, in_turns, rates
from regard.bench.translation import Task, find_task
from regard.decode import DecodeConfig
from regard.documents.registry import open_document
from regard.tasks.translation.documents import Carrier
from regard.tasks.translation.translator import Translator

TITLE = "Documents on the CPU, against plain text"
METHOD = (
    "The same sentences and the same model, base size, float32, beam 4: as a file, read and written, and as "
    "a list of texts. The same speed is 1."
)
SENTENCES = 400
SEARCH = DecodeConfig(beam=4)
TAGGED = 3
"""Of so many segments one has tags."""


def po(texts: Sequence[str]) -> bytes:
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    return (head + "".join(f'\nmsgid "{text}"\nmsgstr ""\n' for text in quoted)).encode()


def xliff(texts: Sequence[str]) -> bytes:
    """Every third segment has tags around some of its words."""
    units = []
    for number, text in enumerate(texts):
        words = [*map(escape, text.split())]
        if number % TAGGED == 0:
            first = random.Random(number).randrange(len(words))
            words[first] = f'<g id="1">{words[first]}'
            words[min(first + 2, len(words) - 1)] += "</g>"
        units.append(f'<trans-unit id="{number}"><source>{" ".join(words)}</source></trans-unit>\n')
    head = '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">'
    file = '<file original="a" datatype="plaintext" source-language="en" target-language="de"><body>\n'
    return f"{head}{file}{''.join(units)}</body></file></xliff>".encode()


def html(texts: Sequence[str]) -> bytes:
    body = "".join(f"<p>{escape(text)}</p>\n" for text in texts)
    return f'<!DOCTYPE html>\n<html lang="en"><body>\n{body}</body></html>\n'.encode()


FILES: dict[str, tuple[str, Callable[[Sequence[str]], bytes]]] = {
    "a catalogue (PO)": ("a.po", po),
    "HTML": ("a.html", html),
    f"XLIFF 1.2, tags in one of {TAGGED} segments": ("a.xlf", xliff),
}


def carried(translator: Translator, name: str, raw: bytes) -> bytes:
    opened = open_document(name, raw)
    (results,) = Carrier(translator, settings={"decoding": SEARCH}).translate([opened])
    return opened.write(results, "de")


def compare(task: Task) -> list[Row]:
    texts = [*dict.fromkeys(task.sources)][:SENTENCES]
    plain = partial(task.translator.translate, texts, decoding=SEARCH)
    rows = []
    for setting, (name, write) in FILES.items():
        whole = partial(carried, task.translator, name, write(texts))
        whole(), plain()
        times = in_turns({OURS: whole, "theirs": plain})
        speeds = [rates(len(texts), each) for each in times.values()]
        rows.append(
            compared(
                *speeds, work="a document, whole", setting=setting, unit="sentences/s",
                peer="regard, plain text", notes=task.what,
            )
        )  # fmt: skip
    return rows


def measure(console: Console) -> Report | None:
    torch.set_num_threads(os.cpu_count() or 1)
    task = find_task(console)
    if task is None:
        return None
    rows = compare(task)
    return report("documents", title=TITLE, method=METHOD, machine=processor(), rows=rows, peers=())
