"""The site: every link and anchor leads somewhere, every page is in the navigation, and reading it fetches
nothing from elsewhere."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FRONT = [
    path for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md") if path.exists()
]
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")


def prose(path: Path) -> str:
    """Without blocks of code, and code in the line."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"``.+?``|`[^`\n]+`", "code", text)


def links(path: Path) -> list[str]:
    return [link for link in LINK.findall(prose(path)) if not re.match(r"[a-z]+:", link)]


def slugs(heading: str) -> set[str]:
    """How the site spells the anchor of a heading, and how code hosts do."""
    plain = re.sub(r"[^\w\s-]", "", re.sub(r"[`*]|\]\([^)]*\)", "", heading)).strip().lower()
    return {re.sub(r"[-\s]+", "-", plain), re.sub(r"\s", "-", plain)}


def anchors(path: Path) -> set[str]:
    """Those that are the same on the site and on a code host."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = [slugs(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {slug for own in found if len(own) == 1 for slug in own}


@pytest.mark.parametrize("path", [*FRONT, *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_anchors_lead_somewhere(path):
    lost = []
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


def named(nav: list) -> Iterator[str]:
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from named(value) if isinstance(value, list) else [value]


def test_the_navigation_lists_every_page_once():
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(named(config["nav"])) == [path.relative_to(DOCS).as_posix() for path in PAGES]


def test_no_page_is_an_orphan():
    """From the README, links lead to each."""
    found, ahead = set(), [ROOT / "README.md"]
    while ahead:
        path = ahead.pop()
        if path in found or path.suffix != ".md":
            continue
        found.add(path)
        ahead += [(path.parent / link.partition("#")[0]).resolve() for link in links(path)]
    assert [path.relative_to(ROOT).as_posix() for path in PAGES if path not in found] == []


def test_every_picture_is_shown():
    shown = {(path.parent / link).resolve() for path in [*FRONT, *PAGES] for link in links(path)}
    assert [path.name for path in sorted((DOCS / "pictures").iterdir()) if path.resolve() not in shown] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` builds it, warnings being errors."""
    if find_spec("zensical") is None:
        pytest.skip("zensical is not installed: make setup")
    folder = tmp_path_factory.mktemp("site")
    for path in [*FRONT, ROOT / "zensical.toml"]:
        shutil.copy(path, folder)
    shutil.copytree(DOCS, folder / "docs")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder / "site"


def test_the_site_has_each_page_and_finds_its_words(site):
    for path in PAGES:
        assert (site / path.relative_to(DOCS).with_suffix(".html")).exists()
    assert "Multi30k" in (site / "search.json").read_text(encoding="utf-8")


def test_reading_the_site_needs_no_network(site):
    fetched = re.compile(
        r"<(?:script|link|img|iframe|source|video)\b[^>]*?\b(?:src|href)=\"?(?:https?:)?//[^\s>]+"
    )
    for path in site.rglob("*.html"):
        assert fetched.findall(path.read_text(encoding="utf-8")) == [], path.name
    for path in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?https?:|@import", path.read_text(encoding="utf-8")) == [], path.name


def test_version_and_changes_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)[
        1
    ]
    changed = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert project["version"] == cited == changed


@pytest.mark.parametrize("name", ["README.md", "docs/results.md"])
def test_the_recipes_that_results_name_are_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for recipe in re.findall(
        r"([\w-]+)\.toml", text.partition("## Results" if name == "README.md" else "# ")[2]
    ):
        assert (ROOT / "recipes" / f"{recipe}.toml").exists(), recipe


def test_the_speed_rows_of_the_readme_are_those_of_the_reports():
    """Each figure stands in docs/speed.md, in a table of the benchmark that the row names."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (DOCS / "speed.md").read_text(encoding="utf-8")
    sections = {
        part.partition("`regard bench ")[2].partition("`")[0]: part for part in page.split("\n## ")[1:]
    }
    rows = re.findall(
        r"^\| .* \| ([\d,.]+) \| ([\d,.]+) \(.*?\) \| ([\d.]+) \| `(.*?)` \|$", readme, re.MULTILINE
    )
    assert len(rows) == 6
    for ours, theirs, ratio, benchmark in rows:
        assert f"| {ours} | {theirs} | {ratio} |" in sections[benchmark]
