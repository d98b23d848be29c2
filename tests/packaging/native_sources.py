"""Whether the compiled modules of this checkout are up to date."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from native_build import native_sources

ROOT = Path(__file__).resolve().parents[2]


def stale_modules(root: Path = ROOT) -> list[str]:
    """Return the names of modules that are older than their sources (``make native`` compiles them)."""
    stale = []
    for name, source in native_sources(root).items():
        compiled = source.with_name(source.stem + EXTENSION_SUFFIXES[0])
        sources = [path for path in (source, source.with_suffix(".pxd")) if path.exists()]
        if compiled.exists() and compiled.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            stale.append(name)
    return stale
