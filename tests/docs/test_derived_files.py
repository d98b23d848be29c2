"""Files that repeat a table of the package are up to date: `make generate` would not change them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from codegen.from_tables import ROOT, derived_files


@pytest.mark.parametrize(("name", "text"), derived_files().items())
def test_a_derived_file_is_up_to_date(name: str, text: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/performance.md"])
def test_the_text_of_a_plot_has_its_figures(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    plots = re.findall(r": (kproducer [^]]+)\]\((?:docs/)?(images/\w+\.svg)\)", text)
    assert plots
    for figures, name in plots:
        svg = (ROOT / "docs" / name).read_text(encoding="utf-8")
        clients, values = (re.findall(rf'class="{kind}".*>(.+)</text>', svg) for kind in ("label", "value"))
        assert figures == ", ".join(
            f"{client} {value if value.endswith('ms') else _in_thousands(value)}"
            for client, value in zip(clients, values, strict=True)
        )


def _in_thousands(number: str) -> str:
    return f"{round(int(number.replace(',', '')), -3):,}"


def test_the_generator_needs_none_of_the_extras() -> None:
    """`make generate` installs little."""
    extras = ("pyspark", "pyarrow", "httpx", "numpy", "pandas")
    program = f"import sys; sys.modules |= dict.fromkeys({extras!r}); import codegen.from_tables"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
