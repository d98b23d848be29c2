"""The reference kernel in plain Python. Reached through ``kproducer._core.kernel`` only.

A twin is a module with exactly these names; ``tests/unit/kernel`` holds each one to the same signatures.
"""

from __future__ import annotations

from kproducer._core.kernel.batch_header import record_size_upper_bound, write_batch_header
from kproducer._core.kernel.pure.append import (
    AppendSlot,
    RecordAppender,
    StickyPartition,
    TopicSlots,
)
from kproducer._core.kernel.pure.batch_v2 import BatchWriter, return_free_memory
from kproducer._core.kernel.pure.completion import (
    BatchOutcome,
    Deliveries,
    RecordFuture,
    fast_done,
    fast_exception,
    fast_result,
)
from kproducer._core.kernel.pure.fast_sender import FastSend, fast_send
from kproducer._core.kernel.pure.murmur2 import partition_for_key
from kproducer._core.kernel.pure.send_many import RowSender

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
    "return_free_memory",
    "write_batch_header",
]
