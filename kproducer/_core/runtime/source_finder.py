"""SourceFinder: imports the Python source of modules that are also compiled.

mypyc compiles the modules on the way of a batch; ``build_tools/native_build.py`` lists them. Debuggers,
profilers and coverage tools see nothing of compiled code, and tests cannot replace its parts:
``KPRODUCER_INTERPRETED=1`` runs the sources, with the kernel that ``KPRODUCER_KERNEL`` chooses. The pure
kernel implies it, and so does a second interpreter in one process (mod_wsgi, uWSGI).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


class SourceFinder:
    """Finds ``x.py`` for a module of this package even if there is a compiled ``x`` beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        if package.partition(".")[0] == "kproducer":
            for folder in path or ():
                source = os.path.join(folder, f"{module}.py")
                if os.path.isfile(source):
                    return spec_from_file_location(name, source)
        return None


def _can_run_compiled() -> bool:
    """Whether this is the interpreter that compiled modules belong to.

    A process has one copy of their objects. Cython's modules refuse to be imported by a second interpreter,
    mypyc's do not; so this imports one of Cython's.
    """
    try:
        import_module("kproducer._core.runtime._native_clock")
    except Exception:  # what was compiled for another Python may raise anything
        return False
    return True


#: Whether the sources are run.
IS_INTERPRETED = (
    os.environ.get("KPRODUCER_INTERPRETED") == "1"
    or os.environ.get("KPRODUCER_KERNEL") == "pure"
    or not _can_run_compiled()
)
if IS_INTERPRETED:
    sys.meta_path.insert(0, SourceFinder)
