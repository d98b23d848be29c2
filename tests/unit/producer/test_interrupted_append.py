"""Ctrl-C may come between any two instructions of an append: what is in the batch stays sound.

The trace function raises after the n-th instruction, for every n: each place is tried, none by luck.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from kproducer.kernel import IMPLEMENTATION, BatchWriter, RecordAppender
from kproducer.producer.producer_batch import ProducerBatch
from kproducer.records.compression import Compression
from kproducer.records.record_batch import RecordBatch
from kproducer.records.record_batch_builder import RecordBatchBuilder
from kproducer.types import TopicPartition

TS = 1_700_000_000_000
APPENDING = {
    ProducerBatch.try_append.__code__,
    RecordAppender.append.__code__,
    BatchWriter.append.__code__,
}


def interrupt_after(instructions: int, batch: ProducerBatch, value: bytes) -> bool:
    """Append ``value``; whether the interruption came before the call was over."""
    left = instructions

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code not in APPENDING:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        batch.try_append(TS + 1, b"key", value, None, None)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("records_before", [0, 2])
def test_every_interruption_leaves_a_batch_that_brokers_accept(records_before: int) -> None:
    interrupted = True
    instructions = 0
    taken = lost = 0
    while interrupted:
        instructions += 1
        builder = RecordBatchBuilder(bytearray(2000), Compression.of("none"))
        batch = ProducerBatch(TopicPartition("t", 0), builder, 0)
        values = [b"before %d" % number for number in range(records_before)]
        for value in values:
            assert batch.try_append(TS, None, value, None, None) is not None
        interrupted = interrupt_after(instructions, batch, b"interrupted")
        future = batch.try_append(TS + 2, None, b"after", None, None)
        assert future is not None

        sent = [record.value for record in RecordBatch.parse(batch.records()).records()]
        assert sent in ([*values, b"after"], [*values, b"interrupted", b"after"])
        taken += len(sent) - len(values) - 1
        lost += len(sent) == len(values) + 1
        batch.complete(100, -1)
        assert future.result().offset == 100 + sent.index(b"after")
    # What is compiled cannot be interrupted, and has nothing that could be counted.
    assert instructions > (100 if IMPLEMENTATION == "pure" else 20)
    assert taken  # late interruptions find the record in the batch
    assert lost  # early ones do not
