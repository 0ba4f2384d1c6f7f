"""A file of each format, and what all formats are asked."""

import io
import re
import zipfile
from collections.abc import Callable

from regard.documents import android, html, markdown, opendocument, strings, subtitles, word, yaml
from regard.documents.base import Format, Opened, Result, Segment

HTML = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>A &amp; B</title>
<script>if (a < b) { "text" }</script></head>
<body class=x><!-- a comment -->
<p title='The &quot;title&quot;'>The <b>old</b> <img src=x.png alt="Central Station"> closes &mdash; now.<br>
Next <code title="no">int x</code> line</p>
<p class="a notranslate" title="stays">stays <i>here</i></p><p translate=no>stays too</p>
<pre>  as   it is </pre><ul><li>one<li>two {{name}}</ul></body></html>
"""
MARKDOWN = """---
title: A title
tags: [one, two]
---
# The *old* station #

A paragraph with **bold `code`** and
a [link *here*](http://x.org/a_b "Title"), 5 \\* 3 &amp; more[^1].

> Quoted text with <b>tags</b>
> over lines.

- [ ] an item ![some picture](img.png)
  goes on\\
  after a break
    1. nested [ref]

| Head | Other \\| head |
|:-----|------|
| cell | `a \\| b` text |

<div title="In the title">
Some text of HTML
</div>

```python
not = "translated"
```

    nor = "this"

Heading below
=============

[ref]: http://x.org "Reference"
[^1]: The footnote itself.
"""
SRT = """1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>I wanted to go home,</i>

2
00:00:02,600 --> 00:00:04,000
<i>because it was <b>late</b> and
it was raining in the city.</i>

3
00:00:06,000 --> 00:00:07,000
- Yes.
- No, never.

4
00:00:10,000 --> 00:00:11,000 X1:10
A quite long sentence that was put
on two lines by somebody.
"""
VTT = """WEBVTT - a title
Kind: captions

NOTE a --> comment
that stays

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start position:0%
<v Anna>Hello &amp; good morning,

00:02.000 --> 00:03.000
<v Anna>dear <c.loud>friend</c>.

00:03.000 --> 00:04.000
<v Bob>Who <00:03.300>are <00:03.600>you?
"""
JSON = """{
  "menu": {"open": "Open <b>{{count}}</b> \\"files\\"", "list": ["First\\nSecond line", 3, null, true]},
  "e\\u00e9": "See $t(menu.open) or <a href=\\"x\\">here<\\/a>",
  "empty": "", "address": "http://x.org/"
}
"""
ARB = """{
  "@@locale": "en",
  "bags": "{count, plural, =0{No bag} one{# bag} other{{count} bags of {name}}} left",
  "@bags": {"description": "stays", "placeholders": {"count": {}}},
  "who": "{gender, select, male{He is here} other{They are here}}"
}
"""
PROPERTIES = """# a comment = here
! and another
menu.open = Open the \\
            file \\u00e9
menu.count:It isn''t {0} files
key\\ with\\ spaces   Text of it\\nand a second line
nothing
"""
STRINGS = """/* a comment; "with" = "things"; */
"menu.open" = "Open %@ \\"files\\"";
// another
key = "Text\\nand more";
"""
ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<!-- a comment -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="a">It\\'s <b>my</b> <xliff:g id="n">%1$d</xliff:g> &amp; bag\\nnext
        line</string>
    <string name="b" translatable="false">Stays</string>
    <string name="c"><![CDATA[<b>Bold</b> text]]></string>
    <string name="d">"Quoted  text"</string>
    <plurals name="p"><item quantity="one">%d bag</item><item quantity="other">%d bags</item></plurals>
    <string-array name="l"><item>first</item></string-array>
    <color name="x">#fff</color>
</resources>
"""
YAML = """# a comment
en:
  plain: Some text # behind it
  folded: runs over
    two lines
  double: "A \\"quoted\\" text"
  single: 'It''s here'
  block: |
    First line
      indented line

    last line
  long: >-
    A paragraph over
    two lines

    and another
  list: [one thing, 'other', 3, true, "x"]
  anchor: &a !!str Text with anchor
  again: *a
  tagged: !thing stays
"""

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml."


def packed(members: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name, text in members.items():
            stored = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            target.writestr(zipfile.ZipInfo(name), text, stored)
    return out.getvalue()


def docx(body: str, **more: str) -> bytes:
    """A Word document of this body; `more` are other parts, such as footnotes."""
    parts = {"document": f"<w:document {W}><w:body>{body}</w:body></w:document>"}
    parts |= {name: f"<w:{name} {W}>{text}</w:{name}>" for name, text in more.items()}
    kinds = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_TYPES}{kind}+xml"/>'
        for name in parts
        for kind in ("document.main" if name == "document" else name,)
    )
    declared = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'
    types = f'{declared}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{kinds}</Types>'
    members: dict[str, str | bytes] = {
        "[Content_Types].xml": types,
        "word/media/image1.png": bytes(range(256)),
    }
    return packed(members | {f"word/{name}.xml": declared + text for name, text in parts.items()})


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def run(text: str, properties: str = "") -> str:
    own = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{own}<w:t xml:space="preserve">{text}</w:t></w:r>'


BOX = "<w:r><w:pict><w:txbxContent>" + paragraph(run("Text in a box")) + "</w:txbxContent></w:pict></w:r>"
NOTE = '<w:r><w:rPr><w:rStyle w:val="Mark"/></w:rPr><w:footnoteReference w:id="2"/></w:r>'
FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE </w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>7</w:t></w:r>'
    '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
)
DOCX = docx(
    paragraph(
        '<w:pPr><w:pStyle w:val="Title"/></w:pPr>', run("The "), run("old", "<w:b/>"), run(" station"), NOTE,
        BOX, run(" closes &amp; more."),
    )
    + paragraph(
        run("A li"), '<w:proofErr w:type="spellStart"/>', run("nk ", '<w:lang w:val="en-US"/>'),
        '<w:hyperlink w:anchor="x">', run("is here", '<w:rStyle w:val="Hyperlink"/>'), "</w:hyperlink>",
        run(" on page "), FIELD, run("."),
    )
    + paragraph('<w:r w:rsidR="1"><w:t>First</w:t><w:br/><w:t>second</w:t><w:tab/><w:t>third</w:t></w:r>')
    + "<w:tbl><w:tr><w:tc>" + paragraph(run("A cell")) + "</w:tc></w:tr></w:tbl>"
    + paragraph('<w:bookmarkStart w:id="1" w:name="b"/>', run("A heading"), '<w:bookmarkEnd w:id="1"/>')
    + paragraph(
        '<w:del w:id="3"><w:r><w:delText>gone</w:delText></w:r></w:del>',
        '<w:ins w:id="4">', run("New text"), "</w:ins>",
    ),
    footnotes='<w:footnote w:id="2">' + paragraph("<w:r><w:footnoteRef/></w:r>", run("It")) + "</w:footnote>",
    comments='<w:comment w:id="0">' + paragraph(run("A comment.")) + "</w:comment>",
)  # fmt: skip

_ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full}:1.0"'
    for name, full in (("office", "office"), ("text", "text"), ("style", "style"), ("draw", "drawing"))
)


def odt(body: str, styles: str = "", header: str = "") -> bytes:
    declared = '<?xml version="1.0" encoding="UTF-8"?>\n'
    office = f'{_ODF} xmlns:officeooo="http://openoffice.org/2009/office"'
    return packed(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "Pictures/a.png": bytes(range(256)),
            "content.xml": f"{declared}<office:document-content {office}><office:automatic-styles>{styles}"
            f"</office:automatic-styles><office:body><office:text>{body}</office:text></office:body>"
            "</office:document-content>",
            "styles.xml": f"{declared}<office:document-styles {office}><office:master-styles>"
            f"<style:header>{header}</style:header></office:master-styles></office:document-styles>",
        }
    )


SILENT = (
    '<style:style style:name="T9" style:family="text">'
    '<style:text-properties officeooo:rsid="001"/></style:style>'
)
ODT = odt(
    '<text:h text:outline-level="1">The <text:span text:style-name="T1">old</text:span> station</text:h>'
    '<text:p>A no<text:span text:style-name="T9">te</text:span><text:note text:id="n"><text:note-citation>1'
    "</text:note-citation><text:note-body><text:p>Text of it.</text:p></text:note-body></text:note>, and "
    '<text:span text:style-name="T1">bo</text:span><text:span text:style-name="T1">ld</text:span> on page '
    "<text:page-number>7</text:page-number>.</text:p>"
    "<text:p>First line<text:line-break/>second<text:tab/>third &amp; last</text:p>"
    "<text:p><draw:frame><draw:text-box><text:p>In a frame</text:p></draw:text-box></draw:frame></text:p>",
    SILENT,
    "<text:p>A header</text:p>",
)

FILES: dict[str, tuple[Format, bytes]] = {
    "html": (html.FORMAT, HTML.encode()),
    "markdown": (markdown.FORMAT, MARKDOWN.encode()),
    "srt": (subtitles.SRT, SRT.encode()),
    "vtt": (subtitles.VTT, VTT.encode()),
    "json": (strings.JSON, JSON.encode()),
    "arb": (strings.ARB, ARB.encode()),
    "properties": (strings.PROPERTIES, PROPERTIES.encode()),
    "strings": (strings.STRINGS, STRINGS.encode()),
    "android": (android.FORMAT, ANDROID.encode()),
    "yaml": (yaml.FORMAT, YAML.encode()),
    "docx": (word.FORMAT, DOCX),
    "odt": (opendocument.FORMAT, ODT),
}
TEXTUAL = [name for name in FILES if name not in ("docx", "odt")]


def texts(opened: Opened) -> list[str]:
    return [segment.block.view().text for segment in opened.segments]


def result(segment: Segment, translate: Callable[[str], str]) -> Result:
    view = segment.block.view()
    return Result(text=segment.block.place(view, translate(view.text)))


def translated(opened: Opened, translate: Callable[[str], str], language: str | None = None) -> bytes:
    return opened.write([result(each, translate) for each in opened.segments], language)


def loud(text: str) -> str:
    """A translation that can be told from its source, and leaves placeholders alone."""
    kept = re.compile(r"(\[X\d+X\]|\{\{.*?\}\}|\{\w+\}|%\d?\$?[sd@]|https?://\S+)")
    return "".join(each if i % 2 else each.upper() for i, each in enumerate(kept.split(text)))
