"""Makes editable installs show ``pyspark_kproducer`` to Spark. For setuptools, at build time.

Spark lists the modules on ``sys.path``, but setuptools' editable installs answer imports through a finder
that cannot be listed. So an additional ``.pth`` file puts the folder of that one module onto ``sys.path``.
Ordinary wheels contain the module itself and do not need this. Source: setuptools' ``editable_wheel``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools.command.editable_wheel import editable_wheel

_LISTED_FOLDER = Path("kproducer", "spark", "autoload")


class EditableWheel(editable_wheel):  # type: ignore[misc]  # setuptools is untyped
    """The usual command, and a ``.pth`` file."""

    def _select_strategy(self, name: str, tag: str, build_lib: Any) -> Any:
        # A strategy writes the wheel's content; setuptools has no other way to add to it.
        strategy = super()._select_strategy(name, tag, build_lib)
        file_name = f"__editable__.{name}.spark.pth"
        folder = Path(self.project_dir).resolve() / _LISTED_FOLDER

        class WithPathFile(type(strategy)):  # type: ignore[misc]
            def __call__(self, wheel: Any, files: list[str], mapping: Mapping[str, str]) -> None:
                super().__call__(wheel, files, mapping)
                wheel.writestr(file_name, f"{folder}\n")

        strategy.__class__ = WithPathFile
        return strategy
