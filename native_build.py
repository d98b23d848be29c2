"""Compiles the optional native core: every ``.pyx`` file of the packages becomes a module beside it.

setuptools calls ``NativeBuild`` (``pyproject.toml``); ``python native_build.py`` builds in place, as ``make
native`` does. If a module cannot be compiled (no compiler, no headers), the installation continues without it
and uses its pure twin; with ``KPRODUCER_REQUIRE_NATIVE=1`` that is an error.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext
from setuptools.errors import ExecError

#: The folders with sources, and the folder at which their dotted names start.
_SOURCES = {"kproducer": Path("."), "generated": Path("generated")}


class NativeBuild(build_ext):  # type: ignore[misc]  # setuptools is untyped
    """The usual command, for all existing sources, which tolerates modules that cannot be compiled."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.cython_c_in_temp = True
        self._broken: list[str] = []

    def finalize_options(self) -> None:
        # The list in pyproject.toml names one module, so that wheels are marked as platform-specific.
        found = _extensions()
        self.distribution.ext_modules = found or self.distribution.ext_modules
        super().finalize_options()
        self.extensions = found

    def build_extension(self, ext: setuptools.Extension) -> None:
        """Compile one module; on failure, remember it and continue with the next one."""
        try:
            super().build_extension(ext)
        except Exception as error:  # any error of Cython or the compiler
            self._broken.append(ext.name)
            self.warn(f"{ext.name} is left out, its pure twin is used instead: {error}")

    def run(self) -> None:
        """Compile all modules.

        Raises:
            ExecError: a module could not be compiled, and KPRODUCER_REQUIRE_NATIVE=1 requires all of them.
        """
        super().run()
        if self._broken and os.environ.get("KPRODUCER_REQUIRE_NATIVE") == "1":
            raise ExecError(f"not compiled: {', '.join(self._broken)}")


def _extensions() -> list[setuptools.Extension]:
    """Return a module for each source; none if the core cannot be used (PyPy, free-threaded builds)."""
    if os.environ.get("KPRODUCER_NATIVE") == "0":  # compiled later, as in `make setup`
        return []
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return []
    return [
        setuptools.Extension(
            ".".join(source.relative_to(root).with_suffix("").parts),
            [str(source)],
            depends=sorted(map(str, [*source.parent.glob("*.pxd"), *source.parent.glob("*.h")])),
            include_dirs=[str(source.parent)],
            # No processor-specific options: a wheel runs on other machines than the one that built it.
            extra_compile_args=[] if os.name == "nt" or "-O" in os.environ.get("CFLAGS", "") else ["-O3"],
            optional=True,
        )
        for folder, root in _SOURCES.items()
        for source in sorted(Path(folder).rglob("*.pyx"))
    ]


def main(arguments: list[str]) -> Any:
    """Build in place; one build at a time, because concurrent builds would write the same files."""
    os.chdir(Path(__file__).parent)
    os.environ["KPRODUCER_REQUIRE_NATIVE"] = "1"
    Path("build").mkdir(exist_ok=True)
    with open("build/.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return setuptools.setup(script_args=["--quiet", "build_ext", "--inplace", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
