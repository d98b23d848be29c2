"""Files that repeat a table of the package are up to date: `make generate` would not change them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from codegen.from_tables import ROOT, derived_files


@pytest.mark.parametrize(("name", "text"), derived_files().items())
def test_a_derived_file_is_up_to_date(name: str, text: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == text


def test_the_generator_needs_none_of_the_extras() -> None:
    """`make generate` installs little."""
    extras = ("pyspark", "pyarrow", "httpx", "numpy", "pandas")
    program = f"import sys; sys.modules |= dict.fromkeys({extras!r}); import codegen.from_tables"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
