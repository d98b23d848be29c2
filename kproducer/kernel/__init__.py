"""The innermost byte work, behind one small interface: encode a record, finish a batch, checksum, hash.

A kernel knows no policy (compress or not, split, retry), no time and no I/O. There is one kernel now, the
pure Python one; a compiled twin may join it with the same names, signatures and errors.
``KPRODUCER_KERNEL`` chooses: ``auto`` (the default: the fastest there is), ``pure`` or ``native``.
Only this module may import ``kproducer.kernel.pure``.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from kproducer.errors import ConfigError
from kproducer.kernel.pure import (
    BatchWriter,
    RawRecord,
    RecordFormatError,
    crc32c,
    decode_records,
    murmur2,
    record_size_upper_bound,
    write_batch_header,
)

if TYPE_CHECKING:
    from kproducer.kernel.native._socket_io import SocketIo as NativeSocketIo

__all__ = [
    "IMPLEMENTATION",
    "BatchWriter",
    "RawRecord",
    "RecordFormatError",
    "SocketIo",
    "crc32c",
    "decode_records",
    "murmur2",
    "record_size_upper_bound",
    "write_batch_header",
]


def _choose() -> str:
    """Return the kernel that ``KPRODUCER_KERNEL`` asks for.

    Raises:
        ConfigError: the variable names no kernel, or one that this installation does not have.
    """
    wanted = os.environ.get("KPRODUCER_KERNEL", "auto")
    if wanted == "native":
        raise ConfigError("KPRODUCER_KERNEL=native: this installation has no native kernel; use auto or pure")
    if wanted not in ("auto", "pure"):
        raise ConfigError(f"KPRODUCER_KERNEL={wanted!r} is none of auto, pure, native")
    if wanted == "auto":
        logging.getLogger(__name__).debug("kernel: pure (KPRODUCER_KERNEL=auto)")
    return "pure"


#: Which twin is in use.
IMPLEMENTATION = _choose()


def _socket_io() -> type[NativeSocketIo] | None:
    if IMPLEMENTATION != "native":
        return None
    try:
        from kproducer.kernel.native._socket_io import SocketIo as native
    except ImportError:  # there is no epoll on this platform
        return None
    return native


#: All socket calls of a poll in one, without the interpreter lock; ``None``: the selector makes them itself.
SocketIo: type[NativeSocketIo] | None = _socket_io()
