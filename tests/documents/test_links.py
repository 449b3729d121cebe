"""Every link of the documents leads somewhere, and every page is two clicks from README.md."""

import os
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.pages import PAGES, ROOT, name_of

#: Pages that stand elsewhere, since GitHub looks for them there.
BESIDE = [ROOT / ".github" / name for name in ("CONTRIBUTING.md", "SECURITY.md")]
LONGEST_README = 300


@cache
def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[tuple[Path, str]]:
    """The files that it links to, with the anchors."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page)) + re.findall(r'(?:src|srcset|href)="([^"]+)"', prose(page))
    own = [target for target in found if not re.match(r"https?:|mailto:", target)]
    split = [target.partition("#") for target in own]
    return [(Path(os.path.normpath(page.parent / file)) if file else page, anchor) for file, _, anchor in split]


@cache
def anchors(page: Path) -> frozenset[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    dead = [f"{file.relative_to(ROOT)}#{anchor}" for file, anchor in links(page) if not leads(file, anchor)]
    assert dead == []


def leads(file: Path, anchor: str) -> bool:
    return file.exists() and (not anchor or anchor in anchors(file))


def test_each_page_is_two_clicks_from_the_readme() -> None:
    readme = ROOT / "README.md"
    first = {file for file, _ in links(readme)} | {readme}
    second = {file for page in first & set(PAGES) for file, _ in links(page)}
    assert [name_of(page) for page in [*PAGES, *BESIDE] if page not in first | second] == []


def test_each_page_leads_back_to_the_table_of_contents() -> None:
    contents = ROOT / "docs" / "README.md"
    assert [name_of(page) for page in PAGES[1:] if page != contents and contents not in {file for file, _ in links(page)}] == []


def test_the_readme_is_read_in_one_sitting() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST_README
