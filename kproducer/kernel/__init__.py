"""The innermost byte work, behind one small interface: encode a record, finish a batch, checksum, hash.

A kernel knows no policy: compress or not, split, retry. There are two with the same names, signatures,
results and errors: ``pure`` in Python, and ``native``, compiled, which takes from the other one what C would
not make faster. ``KPRODUCER_KERNEL`` chooses: ``auto`` (the default: native if it can be imported), ``pure``
or ``native``. Nothing outside of this package imports a twin.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import TYPE_CHECKING

from kproducer.errors import ConfigError
from kproducer.kernel.pure.batch_v2 import record_size_upper_bound, write_batch_header

__all__ = [
    "IMPLEMENTATION",
    "AppendSlot",
    "BatchOutcome",
    "BatchWriter",
    "Deliveries",
    "FastSend",
    "RecordAppender",
    "RecordFuture",
    "RowSender",
    "StickyPartition",
    "TopicSlots",
    "fast_done",
    "fast_exception",
    "fast_result",
    "fast_send",
    "partition_for_key",
    "record_size_upper_bound",
    "write_batch_header",
]


def _choose() -> str:
    """Return the kernel that ``KPRODUCER_KERNEL`` asks for.

    Raises:
        ConfigError: the variable names no kernel, or one that this installation does not have.
    """
    wanted = os.environ.get("KPRODUCER_KERNEL", "auto")
    if wanted not in ("auto", "pure", "native"):
        raise ConfigError(f"KPRODUCER_KERNEL={wanted!r} is none of auto, pure, native")
    log = logging.getLogger(__name__)
    if wanted == "pure":
        return "pure"
    try:
        importlib.import_module("kproducer.kernel.native.twin")
    except Exception as error:  # what was compiled for another Python may raise anything
        if wanted == "native":
            raise ConfigError(
                f"KPRODUCER_KERNEL=native: the native kernel cannot be imported: {error}"
            ) from error
        log.debug("kernel: pure, because the native one cannot be imported: %s", error)
        return "pure"
    log.debug("kernel: native")
    return "native"


#: Which twin is in use.
IMPLEMENTATION = _choose()

if TYPE_CHECKING or IMPLEMENTATION == "pure":
    from kproducer.kernel.pure import (
        AppendSlot,
        BatchOutcome,
        BatchWriter,
        Deliveries,
        FastSend,
        RecordAppender,
        RecordFuture,
        RowSender,
        StickyPartition,
        TopicSlots,
        fast_done,
        fast_exception,
        fast_result,
        fast_send,
    )
    from kproducer.kernel.pure.murmur2 import partition_for_key
else:
    from kproducer.kernel.native.twin import (
        AppendSlot,
        BatchOutcome,
        BatchWriter,
        Deliveries,
        FastSend,
        RecordAppender,
        RecordFuture,
        RowSender,
        StickyPartition,
        TopicSlots,
        fast_done,
        fast_exception,
        fast_result,
        fast_send,
        partition_for_key,
    )
