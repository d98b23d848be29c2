"""The compiled modules for which this checkout has sources, and whether they are up to date."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def native_sources(root: Path = ROOT) -> dict[str, Path]:
    """Return each module's dotted name and its ``.pyx`` file, sorted by name."""
    found = {}
    for folder, start in (("kproducer", root), ("generated", root / "generated")):
        for source in (root / folder).rglob("*.pyx"):
            found[".".join(source.relative_to(start).with_suffix("").parts)] = source
    return dict(sorted(found.items()))


def stale_modules(root: Path = ROOT) -> list[str]:
    """Return the names of modules that are older than their sources (``make native`` compiles them)."""
    stale = []
    for name, source in native_sources(root).items():
        compiled = source.with_name(source.stem + EXTENSION_SUFFIXES[0])
        sources = [path for path in (source, source.with_suffix(".pxd")) if path.exists()]
        if compiled.exists() and compiled.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            stale.append(name)
    return stale
