"""What applications copy imports only public modules: examples, documentation and the benchmark's clients."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
#: For those who change kproducer.
INTERNALS = {
    "benchmarks/portable_session.py",  # what no application can choose
    "docs/architecture.md",
    "docs/codegen.md",
    "docs/codegen-layout.md",
    "docs/conf.py",
}
INTERNAL_FOLDERS = {"_build", "decisions", "internals"}


def test_nothing_that_applications_copy_names_an_internal_module() -> None:
    kinds = ("md", "rst", "py", "ipynb")
    paths = [
        path
        for kind in kinds
        for folder in ("docs", "examples")
        for path in (ROOT / folder).rglob(f"*.{kind}")
    ]
    paths += [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("benchmarks/*.py")]
    names = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if not INTERNAL_FOLDERS & {*path.parts}
    }
    assert len(names) > 80
    assert {name for name, text in names.items() if "kproducer._core" in text} <= INTERNALS
