"""tests/README.md names files that exist, and every test file above the unit tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
MAP = (TESTS / "README.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", MAP))


def test_each_path_exists() -> None:
    assert [name for name in NAMED if not (TESTS / name).exists()] == []


def test_each_test_file_is_in_the_map() -> None:
    files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    folders = tuple(name for name in NAMED if re.fullmatch(r"(docs|packaging|testing|unit)/", name))
    assert sorted(name for name in files - NAMED if not name.startswith(folders)) == []
