"""The reference kernel in plain Python. Reached through ``kproducer.kernel`` only.

A twin is a module with exactly these names; ``tests/unit/kernel`` holds each one to the same signatures.
"""

from __future__ import annotations

from kproducer.kernel.batch_header import record_size_upper_bound, write_batch_header
from kproducer.kernel.pure.append import (
    AppendSlot,
    RecordAppender,
    StickyPartition,
    TopicSlots,
)
from kproducer.kernel.pure.batch_v2 import BatchWriter
from kproducer.kernel.pure.completion import (
    BatchOutcome,
    Deliveries,
    RecordFuture,
    fast_done,
    fast_exception,
    fast_result,
)
from kproducer.kernel.pure.fast_sender import FastSend, fast_send
from kproducer.kernel.pure.murmur2 import partition_for_key
from kproducer.kernel.pure.send_many import RowSender

__all__ = [
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
