"""The compiled kernel as a whole: the names of ``kproducer.kernel.pure``. Importing it needs them all.

Whatever runs once a batch, or never in a producer, is the pure twin's: C would not be noticed there.
"""

from __future__ import annotations

from kproducer.kernel.native import _append, _batch, _completion, _send_many
from kproducer.kernel.pure import RawRecord, RecordFormatError, crc32c, decode_records, write_batch_header
from kproducer.kernel.pure import RecordFuture as PureRecordFuture
from kproducer.kernel.pure import SendPath as PureSendPath

BatchOutcome = _completion.BatchOutcome
BatchWriter = _batch.BatchWriter
Deliveries = _completion.Deliveries
Lane = _append.Lane
RecordAppender = _append.RecordAppender
RecordFuture = _completion.RecordFuture
RowSender = _send_many.RowSender
SendPath = _append.SendPath
StickyChoice = _append.StickyChoice
StickyPartition = _append.StickyPartition
TopicLanes = _append.TopicLanes
murmur2 = _batch.murmur2
record_size_upper_bound = _batch.record_size_upper_bound
set_future_type = _completion.set_future_type

# help() shows it; it is written where editors and type checkers find it.
SendPath.send.__doc__ = PureSendPath.send.__doc__
for _name in ("done", "result", "exception"):
    getattr(RecordFuture, _name).__doc__ = getattr(PureRecordFuture, _name).__doc__

__all__ = [
    "BatchOutcome",
    "BatchWriter",
    "Deliveries",
    "Lane",
    "RawRecord",
    "RecordAppender",
    "RecordFormatError",
    "RecordFuture",
    "RowSender",
    "SendPath",
    "StickyChoice",
    "StickyPartition",
    "TopicLanes",
    "crc32c",
    "decode_records",
    "murmur2",
    "record_size_upper_bound",
    "set_future_type",
    "write_batch_header",
]
