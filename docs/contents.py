"""Writes docs/contents.md: for each row of contents.toml its equation, the files, and the tests that state
it.

python docs/contents.py            check that contents.md is up to date
python docs/contents.py --write    write it
"""

import ast
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "contents.md"


def marked_tests() -> dict[str, list[tuple[str, str]]]:
    """For each row, the tests (file, name) that carry its mark."""
    found = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for row in _rows(node):
                    found[row].append((path.relative_to(ROOT).as_posix(), node.name))
    return found


def _rows(test: ast.FunctionDef) -> list[str]:
    marks = [mark for mark in test.decorator_list if ast.unparse(mark).startswith("pytest.mark.spec(")]
    return [argument.value for mark in marks for argument in mark.args]


def problems() -> list[str]:
    """Rows without a test, marks without a row, files that do not exist."""
    found, rows = marked_tests(), {row["number"]: row for row in all_rows()}
    missing = [f"row {n} has no test" for n, row in rows.items() if n not in found and not row.get("open")]
    unknown = [
        f"{tests[0]} is marked for row {n}, which is not in contents.toml"
        for n, tests in found.items()
        if n not in rows
    ]
    gone = [
        f"row {n} names {file}, which does not exist"
        for n, row in rows.items()
        for file in row["files"]
        if not (ROOT / "src" / "regard" / file).exists()
    ]
    return missing + unknown + gone


def sections() -> list[dict]:
    return tomllib.loads((ROOT / "docs" / "contents.toml").read_text(encoding="utf-8"))["section"]


def all_rows() -> list[dict]:
    return [row for section in sections() for row in section["row"]]


def page() -> str:
    found = marked_tests()
    lines = [
        "# Contents: equation, file, test",
        "",
        "Written by `make docs` from docs/contents.toml and the marks on the tests. Every fact below is held",
        "by tests whose names say it; *open* rows are promised and not yet built whole.",
    ]
    for section in sections():
        lines += [
            "",
            f"## {section['title']}",
            "",
            "| | what | fact | files | tests |",
            "|---|---|---|---|---|",
        ]
        for row in section["row"]:
            files = "<br>".join(f"[{file}](../src/regard/{file})" for file in row["files"])
            tests = "<br>".join(
                f"[{_sentence(name)}](../{file})" for file, name in found.get(row["number"], [])
            )
            if row.get("open"):
                tests = f"*open*<br>{tests}" if tests else "*open*"
            equation = row["equation"].replace("|", "\\|")
            lines.append(f"| {row['number']} | {row['what']} | `{equation}` | {files} | {tests} |")
    return "\n".join(lines) + "\n"


def _sentence(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def main() -> int:
    if found := problems():
        print("\n".join(found))
        return 1
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        print("docs/contents.md is out of date: run make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
