"""The installed version and the kernel in use: for bug reports, to check a deployment, and for a warning.

Source trees and installations without a compiler run the same code as Python, at a fraction of the speed.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from attrs import field, frozen

from kproducer._core import kernel
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.runtime.public_names import public
from kproducer._core.runtime.source_finder import IS_INTERPRETED
from kproducer.types import VERSION

_PACKAGES = (
    "kproducer._core.columns.native",
    "kproducer._core.kernel.native",
    "kproducer._core.network",
    "kproducer._core.runtime",
    "kproducer_messages",
)
#: The code of the Python modules that mypyc compiles: all of them, or none.
_CLIENT = "kproducer._core._compiled__mypyc"
#: Modules that need epoll. Elsewhere Python's selectors are used.
_LINUX_MODULE = "kproducer._core.network._native_channel_io"
_log = GuardedLogger(__name__)


@public
@frozen
class BuildInfo:
    """The result of ``build_info()``. ``print()`` shows it in several lines."""

    #: Version of the package.
    version: str
    #: The kernel in use, ``native`` (compiled) or ``pure``.
    kernel: str
    #: Why this kernel is in use.
    reason: str
    #: Whether the client around the kernel is ``compiled`` or ``interpreted``.
    client: str
    #: Compiled modules that can be imported, sorted.
    native_modules: tuple[str, ...] = field(repr=False)
    #: Compiled modules that cannot be imported, each with its import error; empty if all can be.
    missing_modules: tuple[str, ...]
    #: Implementation, version and machine, such as ``CPython 3.13.0 x86_64``.
    python: str
    #: Whether the checksum of batches uses processor instructions.
    crc32c_is_hardware: bool

    def __str__(self) -> str:
        checksum = "uses" if self.crc32c_is_hardware else "computed without"
        missing = f", {len(self.missing_modules)} missing" if self.missing_modules else ""
        lines = [
            f"kproducer {self.version}, {self.python}",
            f"kernel: {self.kernel} ({self.reason})",
            f"client: {self.client}",
            f"checksum: {checksum} processor instructions",
            f"compiled modules: {len(self.native_modules)} usable{missing}",
        ]
        return "\n".join([*lines, *(f"  {module}" for module in self.missing_modules)])


@public
def build_info() -> BuildInfo:
    """Describe this installation. Imports the modules that it reports; does not fail if one is missing."""
    present, missing = [], []
    for name in _expected_modules():
        try:
            importlib.import_module(name)
        except Exception as error:  # the import of a module for another Python or Cython may raise anything
            missing.append(f"{name}: {error}")
        else:
            present.append(name)
    return BuildInfo(
        version=VERSION,
        kernel=kernel.IMPLEMENTATION,
        reason=_reason(missing),
        client="interpreted" if IS_INTERPRETED or _CLIENT not in present else "compiled",
        native_modules=tuple(present),
        missing_modules=tuple(missing),
        python=f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}",
        crc32c_is_hardware=_crc32c_is_hardware(),
    )


@cache
def warn_without_native_core() -> None:
    """Warn, once per interpreter, that a producer runs Python code although nobody has requested that."""
    if os.environ.get("KPRODUCER_KERNEL") == "pure":
        return
    if kernel.IMPLEMENTATION == "pure":
        what, module, variable = (
            "the native core",
            "kproducer._core.kernel.native.twin",
            "KPRODUCER_KERNEL=pure",
        )
    elif not IS_INTERPRETED:
        what, module, variable = "a part of the native core", _CLIENT, "KPRODUCER_INTERPRETED=1"
    else:
        return
    try:
        importlib.import_module(module)
        reason = "it was compiled after this process had started"
    except Exception as error:  # see build_info
        reason = str(error)
    root = Path(__file__).parents[2]
    # Cython's and CPython's errors for a second one
    if "one interpreter per process" in reason or "loading in subinterpreters" in reason:
        remedy = (
            "import kproducer in only one interpreter of the process (mod_wsgi: WSGIApplicationGroup"
            " %{GLOBAL}; uWSGI: single-interpreter = true)"
        )
    elif (root / "build_tools" / "native_build.py").exists():
        remedy = (
            f"kproducer was imported from its source tree {root}: run `make native` there, or start Python"
            " elsewhere to use an installed kproducer"
        )
    else:
        remedy = "install kproducer again on a machine that has a C compiler and Python's headers"
    _log.warning(
        "This process uses slower Python code instead of %s (%s). To fix this: %s. With %s this is intended,"
        " and not logged",
        what,
        reason,
        remedy,
        variable,
    )


def _expected_modules() -> list[str]:
    """The names of this system's compiled modules. Cython's have stubs that are installed in any case."""
    names = [_CLIENT]
    for package in _PACKAGES:
        spec = find_spec(package)
        for folder in spec.submodule_search_locations or [] if spec else []:
            names += [f"{package}.{stub.stem}" for stub in Path(folder).glob("_*.pyi")]
    return sorted(name for name in names if sys.platform == "linux" or name != _LINUX_MODULE)


def _reason(missing: list[str]) -> str:
    wanted = os.environ.get("KPRODUCER_KERNEL", "auto")
    if wanted != "auto":
        return f"KPRODUCER_KERNEL={wanted}"
    if kernel.IMPLEMENTATION == "native":
        return "all of its modules are installed"
    count = f"{len(missing)} module{'s' if len(missing) > 1 else ''}"
    return f"the native core is not complete: {count} cannot be imported"


def _crc32c_is_hardware() -> bool:
    try:
        return bool(importlib.import_module("crc32c").hardware_based)
    except (ImportError, AttributeError):
        return False
