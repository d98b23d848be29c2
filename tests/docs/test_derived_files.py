"""Files that repeat a table of the package are up to date: `make generate` would not change them."""

from __future__ import annotations

import pytest

from codegen.from_tables import ROOT, derived_files


@pytest.mark.parametrize(("name", "text"), derived_files().items())
def test_a_derived_file_is_up_to_date(name: str, text: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == text
