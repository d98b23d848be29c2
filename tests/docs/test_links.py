"""Links in Markdown files lead to files and headings that exist, if they are of this repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests/README.md"]
    if "_build" not in path.parts
]
#: Links with the whole address of a file; its commit or branch does not matter.
OWN_FILE = re.compile(r"https://github\.com/kproducer/kproducer/(?:blob|tree|raw|edit)/[^/]+/")
#: Reads what GitHub reads, with GitHub's anchors of headings.
MARKDOWN = MarkdownIt("commonmark").enable("table").use(anchors_plugin, max_level=6)


def tokens(path: Path) -> Iterator[Token]:
    for token in MARKDOWN.parse(path.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


@cache
def anchors(path: Path) -> frozenset[str]:
    """Anchors of headings and of HTML elements."""
    found = {str(token.attrGet("id")) for token in tokens(path) if token.type == "heading_open"}
    for token in tokens(path):
        if token.type in ("html_block", "html_inline"):
            found.update(re.findall(r'\b(?:id|name)="([^"]+)"', token.content))
    return frozenset(found)


def links(path: Path) -> list[str]:
    targets = [token.attrGet("href") or token.attrGet("src") for token in tokens(path)]
    return [unquote(str(target)) for target in targets if target]


def mistake(page: Path, link: str) -> str | None:
    """What is wrong with a link; ``None`` for a good one, and for an external one."""
    if OWN_FILE.match(link):
        name, folder = OWN_FILE.sub("", link), ROOT
    elif re.match(r"[a-z]+:", link):
        return None
    else:
        name, folder = link, page.parent
    name, _, anchor = name.partition("#")
    target = (folder / name).resolve() if name else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return f"{link}: there is no such file in the repository"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"{link}: there is no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_linked_file_and_heading_exists(page: Path) -> None:
    assert [found for link in links(page) if (found := mistake(page, link))] == []


def test_links_are_found_in_every_important_page() -> None:
    names = ("README.md", "CONTRIBUTING.md", "docs/security.md", "docs/architecture.md")
    assert [name for name in names if not links(ROOT / name)] == []


@pytest.mark.parametrize(
    "link",
    [
        "missing.md",
        "docs/security.md#missing",
        "#missing",
        "../outside.md",
        "https://github.com/kproducer/kproducer/blob/main/docs/missing.md",
        "https://github.com/kproducer/kproducer/blob/v1/docs/security.md#missing",
    ],
)
def test_a_wrong_link_is_noticed(link: str) -> None:
    assert mistake(ROOT / "README.md", link)


@pytest.mark.parametrize(
    "link",
    [
        "docs/security.md#names-in-other-clients",
        "#when-not-to-use-it",
        "docs",
        "https://github.com/kproducer/kproducer/tree/main/docs",
        "https://github.com/kproducer/kproducer/issues",
        "https://example.org/missing.md",
    ],
)
def test_a_right_link_is_accepted(link: str) -> None:
    assert mistake(ROOT / "README.md", link) is None
