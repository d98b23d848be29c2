"""The compiled kernel as a whole: the names of ``kproducer.kernel.pure``. Importing it needs them all.

Whatever runs once a batch, or never in a producer, is the pure twin's: C would not be noticed there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast

from kproducer.kernel.native import _append, _batch, _completion, _fast_send, _send_many
from kproducer.kernel.pure import record_size_upper_bound, write_batch_header

_Method = TypeVar("_Method", bound=Callable[..., Any])

BatchOutcome = _completion.BatchOutcome
BatchWriter = _batch.BatchWriter
Deliveries = _completion.Deliveries
FastSend = _fast_send.FastSend
AppendSlot = _append.AppendSlot
RecordAppender = _append.RecordAppender
RecordFuture = _completion.RecordFuture
RowSender = _send_many.RowSender
StickyPartition = _append.StickyPartition
TopicSlots = _append.TopicSlots
partition_for_key = _batch.partition_for_key


def _documented(fast: Callable[[_Method], Callable[..., Any]]) -> Callable[[_Method], _Method]:
    """A decorator that keeps the name, the signature and the docstring of the method."""
    return lambda general: cast(_Method, update_wrapper(fast(general), general))


fast_done = _documented(_completion.fast_done)
fast_exception = _documented(_completion.fast_exception)
fast_result = _documented(_completion.fast_result)
fast_send = _documented(_fast_send.fast_send)

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
