"""The innermost byte work, behind one small interface: encode a record, finish a batch, checksum, hash.

A kernel knows no policy: compress or not, split, retry. There are two with the same names, signatures,
results and errors: ``pure`` in Python, and ``native``, compiled. They share what C would not make faster.
``KPRODUCER_KERNEL`` chooses: ``auto`` (the default: native if it can be imported), ``pure`` or ``native``.
Nothing outside of this package imports a twin (``make lint`` checks it), except
``kproducer._core.installation``, which reports why one cannot be imported. ``pure/__init__.py`` lists the
names. A compiler is optional: docs/decisions/0027-optional-native-core.md
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from kproducer.errors import ConfigError

if TYPE_CHECKING:
    from kproducer._core.kernel.pure import *

_wanted = os.environ.get("KPRODUCER_KERNEL", "auto")
if _wanted not in ("auto", "pure", "native"):
    raise ConfigError(f"KPRODUCER_KERNEL={_wanted!r} is none of auto, pure, native")
#: Which twin is in use. The other one is not imported.
IMPLEMENTATION = "pure" if _wanted == "pure" else "native"
if not TYPE_CHECKING and _wanted != "pure":
    _log = logging.getLogger("kproducer.kernel")
    try:
        from kproducer._core.kernel.native.twin import *
    except Exception as error:  # what was compiled for another Python may raise anything
        if _wanted == "native":
            raise ConfigError(
                f"KPRODUCER_KERNEL=native: the native kernel cannot be imported: {error}"
            ) from error
        _log.debug("kernel: pure, because the native one cannot be imported: %s", error)
        IMPLEMENTATION = "pure"
    else:
        _log.debug("kernel: native")
if not TYPE_CHECKING and IMPLEMENTATION == "pure":
    from kproducer._core.kernel.pure import *


def _data_plane() -> Any:
    if IMPLEMENTATION == "pure":
        return None
    # Not "from the module": the import rules see compiled modules only as members of their package.
    from kproducer._core.kernel.native import _lane

    return _lane


#: The compiled data plane (``native/plane.h``), which has no twin; ``None`` with the pure kernel.
data_plane = _data_plane()
