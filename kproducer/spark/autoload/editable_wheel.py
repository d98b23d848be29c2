"""Makes editable installs show ``pyspark_kproducer`` to Spark. For setuptools, while building.

Spark lists the modules on ``sys.path``; setuptools' editable installs answer imports through a finder that
cannot be listed. So one more ``.pth`` file puts the folder of that one module onto ``sys.path``. Ordinary
wheels contain the module itself and need nothing of this. Source: setuptools' ``editable_wheel`` command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from setuptools.command.editable_wheel import editable_wheel

_LISTED_FOLDER = Path("kproducer", "spark", "autoload")


class EditableWheel(editable_wheel):  # type: ignore[misc]  # setuptools is untyped
    """The usual command, and a ``.pth`` file."""

    def _select_strategy(self, name: str, tag: str, build_lib: Any) -> Any:
        # The one place where setuptools lets a wheel's content be added to.
        strategy = super()._select_strategy(name, tag, build_lib)
        return _WithPathFile(strategy, f"__editable__.{name}.spark.pth", Path(self.project_dir).resolve())


class _WithPathFile:
    """A strategy of setuptools that writes one file more."""

    def __init__(self, strategy: Any, file_name: str, project_folder: Path) -> None:
        self._strategy = strategy
        self._file_name = file_name
        self._folder = project_folder / _LISTED_FOLDER

    def __call__(self, wheel: Any, files: list[str], mapping: Mapping[str, str]) -> None:
        self._strategy(wheel, files, mapping)
        wheel.writestr(self._file_name, f"{self._folder}\n")

    def __enter__(self) -> _WithPathFile:
        self._strategy.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._strategy.__exit__(kind, error, trace)
