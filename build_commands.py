"""setuptools commands that decide what a distribution says about itself.

``pyproject.toml`` names them. ``native_build.py`` has the command that compiles.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel


class TaggedWheel(bdist_wheel):  # type: ignore[misc]  # setuptools is untyped
    """The usual command, which tags a wheel by its contents: ``py3-none-any`` if no module was compiled."""

    def run(self) -> None:
        if not self.skip_build:
            self.run_command("build")
        built = Path(self.get_finalized_command("build").build_lib)
        if not any(path.name.endswith(tuple(EXTENSION_SUFFIXES)) for path in built.rglob("*")):
            self.root_is_pure = True
            self.distribution.ext_modules = []
        super().run()
