"""Refuses interpreters that run without the global interpreter lock. Imported before everything else.

The fast path takes no lock because the GIL makes its steps atomic; without a GIL records would be lost or
torn, silently. Source: PEP 703, ``sys._is_gil_enabled`` (CPython 3.13 and later).
"""

from __future__ import annotations

import sys
from collections.abc import Callable


def refuse_without_gil() -> None:
    """Return where the GIL is on.

    Raises:
        ImportError: it is off.
    """
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    if is_enabled is not None and not is_enabled():
        raise ImportError(
            "kproducer does not run on a free-threaded Python yet: switch the GIL on with PYTHON_GIL=1 in "
            "the environment (or python -X gil=1), or use the ordinary build of this Python version"
        )


refuse_without_gil()
