"""Imports that may happen while another thread forks: on the I/O thread, and in a first call of a method.

A child that is forked during an import could never import that module: the lock of the module would be held
by a thread that the child does not have.
"""

from __future__ import annotations

import importlib
import os
import threading
from typing import Any

#: Held during an import and during a fork.
_importing = threading.RLock()
os.register_at_fork(
    before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
)


def import_module(name: str) -> Any:
    """Import a module by its dotted name; forks wait until it is imported.

    Raises:
        ImportError: there is no such module, or it cannot be imported.
    """
    with _importing:
        return importlib.import_module(name)
