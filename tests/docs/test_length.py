"""The documentation stays short enough to be read."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_WORDS = 45_000
#: The site shows these files of the root, too.
ROOT_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
#: Tables that the benchmark writes.
_MEASURED = re.compile(r"<!-- measured: .*?<!-- end -->", re.DOTALL)
#: What `make generate` writes says so in the first line.
_GENERATED = re.compile(r"<!-- Generated ")


def words_of(path: Path) -> int:
    """The words that people write and read: prose, tables and code, but nothing generated."""
    text = path.read_text(encoding="utf-8")
    return 0 if _GENERATED.match(text) else len(_MEASURED.sub("", text).split())


def test_the_documentation_has_at_most_as_many_words_as_a_short_book() -> None:
    pages = [page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts]
    counts = {page.relative_to(ROOT).as_posix(): words_of(page) for page in pages}
    counts |= {name: words_of(ROOT / name) for name in ROOT_PAGES}
    longest = dict(sorted(counts.items(), key=lambda item: -item[1])[:10])
    assert sum(counts.values()) <= MAX_WORDS, f"the longest pages: {longest}"
