"""What a file is, by the ending of its name: lines, a table, or something that is not read. Imports no torch.

.csv .tsv .jsonl .ndjson    a table; so are .csv.gz and the like
.json .srt .pdf ...         refused by name: read as lines, their keys and timestamps would become text
all others                  a text a line
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.config import ConfigError, check_choices
from regard.text import DataError, Origin
from regard.text.charsets import check_encoding, check_separator
from regard.text.files import COMPRESSED

Format = Literal["lines", "csv", "tsv", "jsonl"]

TABLES: dict[str, Format] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
CALLED: dict[Format, str] = {"csv": "a CSV table", "tsv": "a TSV table", "jsonl": "a table in JSON lines"}
REFUSED = {
    ".json": "a JSON document",
    ".yaml": "a YAML document",
    ".yml": "a YAML document",
    ".srt": "SubRip subtitles",
    ".vtt": "WebVTT subtitles",
    ".po": "a gettext catalogue",
    ".pot": "a gettext template",
    ".xlf": "XLIFF",
    ".xliff": "XLIFF",
    ".tmx": "a translation memory (TMX)",
    ".sgm": "SGML",
    ".sgml": "SGML",
    ".html": "a web page (HTML)",
    ".htm": "a web page (HTML)",
    ".xml": "XML",
    ".pdf": "a PDF document",
    ".doc": "a Word document",
    ".docx": "a Word document",
    ".rtf": "a rich text document",
    ".odt": "an OpenDocument text",
    ".ods": "an OpenDocument spreadsheet",
    ".xls": "an Excel workbook",
    ".xlsx": "an Excel workbook",
    ".pptx": "a PowerPoint presentation",
    ".epub": "an e-book (EPUB)",
    ".parquet": "a Parquet table",
    ".arrow": "an Arrow table",
}
INSTEAD = "convert it to one sentence a line, CSV or JSONL"
ONE_A_LINE = "write its text to a .txt file, a text a line"
JUDGED = "give JSON lines, a TSV file of ids and texts, or a .txt file, a text a line"
LINES_ALL_THE_SAME = "; or read it as plain lines all the same with --format lines"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileOptions:
    """How files are read, as options of the prompt say."""

    format: Format | None = None
    """How files are read: a text a line, or as a table; unless given, as their names tell."""
    column: str | None = None
    """Of a table: the column of the text, its name or its number from 0. Unless given, it is called text or
    sentence, or is the only one."""
    second: str | None = None
    """Of a table: the column of the other text, for a model of pairs; of questions, the context."""
    separator: str | None = None
    """Between the cells of CSV, unless it is a comma, and of TSV, unless it is a tab."""
    encoding: str = "utf-8"
    """Of the files, as Python calls it: utf-8, cp1252, utf-16, ... What is written is always UTF-8."""
    header: bool = True
    """Whether the first row of CSV and TSV names the columns."""

    def __post_init__(self) -> None:
        check_choices(self)
        try:
            object.__setattr__(self, "separator", check_separator(self.separator, "--separator "))
            check_encoding(self.encoding, "--encoding ")
        except ValueError as error:
            raise ConfigError(str(error)) from error


AS_NAMED = FileOptions()
"""Where nothing is said."""


def ending(file: str | Path) -> str:
    """Of a name, under that of its compression; in small letters."""
    path = Path(file)
    return (path.with_suffix("") if path.suffix in COMPRESSED else path).suffix.lower()


def format_of(file: str, wanted: Format | None = None) -> Format:
    """How a file is read: as it is wanted or, unless that is said, as its name tells; "-" as lines."""
    if wanted is not None:
        return wanted
    if file == "-":
        return "lines"
    refuse(file)
    return TABLES.get(ending(file), "lines")


def refuse(file: str, remedy: str = INSTEAD + LINES_ALL_THE_SAME) -> None:
    """Raise for a file that is neither lines nor a table."""
    if (what := REFUSED.get(ending(file))) is not None:
        raise DataError(Origin(file), f"{what} is not read here", remedy=remedy)


def only_lines(file: str | Path, *tables: Format, remedy: str = ONE_A_LINE) -> None:
    """Raise for a file that is not lines, where nothing else is read but such `tables`."""
    refuse(str(file), remedy)
    form = TABLES.get(ending(file))
    if form is not None and form not in tables:
        raise DataError(Origin(str(file)), f"{CALLED[form]} is not read here", remedy=remedy)
