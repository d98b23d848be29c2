"""Decisions: every page has the same parts and is listed, and code refers to pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "decisions"
INDEX = (FOLDER / "index.md").read_text(encoding="utf-8")
PAGES = sorted(FOLDER.glob("[0-9]*.md"))
SOURCES = [
    path
    for folder in ("kproducer", "build_tools", "codegen", "benchmarks", "tests", "examples", "docs")
    for suffix in ("py", "pyx", "pxd", "pyi")
    for path in (ROOT / folder).rglob(f"*.{suffix}")
] + [*ROOT.glob("*.py"), ROOT / "Makefile", ROOT / "pyproject.toml"]
PATH = re.compile(r"docs/decisions/[\w.-]*\w")
#: What does not lead to a page, such as "decision 22" or "DECISIONS.md".
VAGUE = re.compile(r"\bDECISIONS\b|\(decision \d|[Ss]ee decision \d")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_number_and_four_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.match(rf"# {int(page.stem[:4])}\. .+\n", text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences", "Rejected"]
    assert len(text.split()) <= 170


def test_the_index_lists_every_page_once_with_its_number() -> None:
    listed = re.findall(r"^- \[(\d+)\]\((\d+-[a-z0-9-]+\.md)\): .+$", INDEX, re.MULTILINE)
    assert sorted(name for _, name in listed) == [page.name for page in PAGES]
    assert [name for number, name in listed if int(name[:4]) != int(number)] == []
    assert len({name[:4] for _, name in listed}) == len(listed)


def test_references_in_code_name_pages_that_exist() -> None:
    named: set[str] = set()
    vague = []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if path.name != Path(__file__).name:
            named.update(PATH.findall(text))
            vague += [f"{path.relative_to(ROOT)}: {found}" for found in VAGUE.findall(text)]
    assert "docs/decisions/0022-no-lock-in-send.md" in named
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []
    assert vague == []
