"""Segments made up at random: nested and crossing tags, placeholders, entities, white space."""

import random

WORDS = [
    "the",
    "old",
    "station",
    "is",
    "near",
    "a",
    "river",
    "and",
    "walk",
    "Bahnhof",
    "größer",
    "日本",
    "naïve",
]
PLACEHOLDERS = [
    "%s",
    "%d",
    "%1$s",
    "%(name)s",
    "{name}",
    "{{x}}",
    "{0:N2}",
    "${y}",
    "%%",
    "$t(key)",
    "https://example.org/a?b=c",
    "a.b@example.org",
    "%.3f",
    "{when, date, short}",
]
CHOICE = "{n, plural, =0 {no file} one {# file of %s} other {# files of {who}}}"


def words(chance: random.Random) -> str:
    found = []
    for _ in range(chance.randint(1, 5)):
        kind = chance.random()
        if kind < 0.2:
            found.append(chance.choice(PLACEHOLDERS))
        elif kind < 0.23:
            found.append(CHOICE)
        elif kind < 0.28:
            found.append(chance.choice(["&amp;", "&lt;", "1 &gt; 0", "12.5", "\n      ", ","]))
        else:
            found.append(chance.choice(WORDS) + chance.choice(["", "", "", ",", "."]))
    return chance.choice([" ", " ", "  "]).join(found)


class Inline:
    """What is between the tags of a source; ids are given once."""

    def __init__(self, chance: random.Random, version: int) -> None:
        self.chance, self.version, self.ids = chance, version, 0

    def id(self) -> int:
        self.ids += 1
        return self.ids

    def text(self, depth: int = 0) -> str:
        parts = []
        for _ in range(self.chance.randint(1, 3)):
            parts.append(words(self.chance))
            if depth < 4 and self.chance.random() < 0.5:
                parts.append(self.tag(depth + 1))
        self.chance.shuffle(parts)
        whole = ""
        for part in parts:
            beside = whole.endswith(">") or part.startswith("<")
            whole += (self.chance.choice(["", " "]) if beside else " ") + part
        return whole.strip(" ")

    def tag(self, depth: int) -> str:
        one, own = self.id(), self.text
        if self.version == 1:
            kinds = [
                lambda: f'<g id="{one}" ctype="bold">{own(depth)}</g>',
                lambda: f'<x id="{one}"/>',
                lambda: f'<ph id="{one}">%code {{0}}</ph>',
                lambda: f'<bpt id="{one}">[b]</bpt>{own(depth)}<ept id="{one}">[/b]</ept>',
                lambda: f'<bx id="{one}"/>{own(depth)}<ex id="{one}"/>',
                lambda: f'<it id="{one}" pos="open">[i]</it>',
                lambda: f'<mrk mtype="protected">{own(depth)}</mrk>',
                lambda: f'<mrk mtype="term">{own(depth)}</mrk>',
                lambda: "<g id='9'></g>",
            ]
        else:
            kinds = [
                lambda: f'<pc id="{one}">{own(depth)}</pc>',
                lambda: f'<ph id="{one}"/>',
                lambda: f'<sc id="{one}"/>{own(depth)}<ec startRef="{one}"/>',
                lambda: self.crossing(one, depth),
                lambda: f'<mrk id="{one}" translate="no">{own(depth)}</mrk>',
                lambda: f'<mrk id="{one}" type="term">{own(depth)}</mrk>',
                lambda: f'<sm id="{one}" translate="no"/>{own(depth)}<em startRef="{one}"/>',
                lambda: (
                    f'<ph id="{one}" canReorder="firstNo" canCopy="no" canDelete="no"/> and '
                    f'<ph id="{self.id()}" canReorder="no" canCopy="no" canDelete="no"/>'
                ),
            ]
        return self.chance.choice(kinds)()

    def crossing(self, one: int, depth: int) -> str:
        two = self.id()
        a, b, c = (self.text(depth) for _ in range(3))
        return f'<sc id="{one}"/>{a}<sc id="{two}"/>{b}<ec startRef="{one}"/>{c}<ec startRef="{two}"/>'


def xliff(count: int, version: int, seed: int = 0) -> str:
    chance = random.Random(seed)
    units = [Inline(chance, version).text() for _ in range(count)]
    if version == 1:
        body = "\n".join(
            f'   <trans-unit id="{i}">\n    <source>{unit}</source>\n   </trans-unit>'
            for i, unit in enumerate(units)
        )
        return (
            '<?xml version="1.0" encoding="utf-8"?>\n'
            '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">\n'
            ' <file source-language="en" target-language="de" datatype="x" original="a">\n'
            f"  <body>\n{body}\n  </body>\n </file>\n</xliff>\n"
        )
    body = "\n".join(
        f'  <unit id="{i}">\n   <segment>\n    <source>{unit}</source>\n   </segment>\n  </unit>'
        for i, unit in enumerate(units)
    )
    return (
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="en" trgLang="de">\n'
        f' <file id="f">\n{body}\n </file>\n</xliff>\n'
    )


def po(count: int, seed: int = 0) -> str:
    chance = random.Random(seed)
    entries = []
    for i in range(count):
        text = words(chance).replace("&amp;", "&").replace("\n      ", "\\n")
        tagged = chance.choice([text, f"<b>{text}</b> and <br> {words(chance)}".replace("\n      ", "\\n")])
        plural = chance.random() < 0.2
        lines = [f"#: file.c:{i}", f'msgctxt "c{i}"', f'msgid "{tagged}"']
        lines += [f'msgid_plural "{tagged} all"', 'msgstr[0] ""', 'msgstr[1] ""'] if plural else ['msgstr ""']
        entries.append("\n".join(lines))
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n'
    header += '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n'
    return header + "\n" + "\n\n".join(entries) + "\n"
