"""setuptools commands that decide what a distribution says about itself: its tag and its description.

``pyproject.toml`` names them. ``native_build.py`` has the command that compiles.
"""

from __future__ import annotations

import re
import shutil
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.egg_info import egg_info

#: A link or image of Markdown whose target is a file of the project or a heading of the README.
_RELATIVE_LINK = re.compile(r"(!?)(\[[^\]\n]*\])\((?![a-z]+:)([^)\s]+)\)")


class TaggedWheel(bdist_wheel):  # type: ignore[misc]  # setuptools is untyped
    """The usual command, which tags a wheel by its contents: ``py3-none-any`` if no module was compiled."""

    def run(self) -> None:
        if not self.skip_build:
            self._forget_earlier_build()
            self.run_command("build")
        built = Path(self.get_finalized_command("build").build_lib)
        if not any(path.name.endswith(tuple(EXTENSION_SUFFIXES)) for path in built.rglob("*")):
            self.root_is_pure = True
            self.distribution.ext_modules = []
        super().run()

    def _forget_earlier_build(self) -> None:
        """Delete what an earlier build copied: the wheel gets all that is there."""
        build = self.get_finalized_command("build")
        if Path(build.build_base).resolve() in Path(build.build_lib).resolve().parents:  # else it is not ours
            shutil.rmtree(build.build_lib, ignore_errors=True)


class DescribedMetadata(egg_info):  # type: ignore[misc]  # setuptools is untyped
    """The usual command; links in the long description also work outside of the repository."""

    def run(self) -> None:
        metadata = self.distribution.metadata
        source = metadata.project_urls["Source"]
        metadata.long_description = absolute_links(
            metadata.long_description, source, f"v{metadata.get_version()}"
        )
        super().run()


def absolute_links(markdown: str, source: str, tag: str) -> str:
    """Make the relative links of the README point to the files of ``tag`` in the repository ``source``."""

    def absolute(link: re.Match[str]) -> str:
        image, text, target = link.groups()
        path = f"README.md{target}" if target.startswith("#") else target
        return f"{image}{text}({source}/{'raw' if image else 'blob'}/{tag}/{path})"

    return _RELATIVE_LINK.sub(absolute, markdown)
