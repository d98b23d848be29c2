"""Ctrl-C may come between any two instructions of an append: what is in the batch stays sound.

The trace function raises after the n-th instruction, for every n: each place is tried, none by luck.
"""

from __future__ import annotations

import functools
import itertools

import pytest

from kproducer.errors import IllegalStateError
from kproducer.kernel import IMPLEMENTATION, BatchWriter, RecordAppender
from kproducer.producer.producer_batch import ProducerBatch
from kproducer.records.compression import Compression
from kproducer.records.record_batch import RecordBatch
from kproducer.records.record_batch_builder import RecordBatchBuilder
from kproducer.types import TopicPartition
from tests.support.interruption import interrupt_after

TS = 1_700_000_000_000
APPENDING = {
    ProducerBatch.try_append.__code__,
    RecordAppender.append.__code__,
    BatchWriter.append.__code__,
}


COMPRESSING = {
    RecordBatchBuilder.append_at_limit.__code__,
    RecordBatchBuilder._flush_chunk.__code__,
    RecordBatchBuilder._compress_chunk.__code__,
    RecordBatchBuilder.close_for_appends.__code__,
    RecordBatchBuilder.compress.__code__,
    RecordBatchBuilder._finish_records.__code__,
    RecordBatchBuilder._compressed_whole.__code__,
    RecordBatchBuilder._end_stream.__code__,
}


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
        act = functools.partial(batch.try_append, TS + 1, b"key", b"interrupted", None, None)
        interrupted = interrupt_after(instructions, APPENDING, act)
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


def test_an_interrupted_compression_is_either_sound_or_known_not_to_be() -> None:
    """A batch that says that it is broken is failed; one that lies would be refused by brokers."""
    refused: set[str] = set()
    sound = 0
    for instructions in itertools.count(1):
        builder = RecordBatchBuilder(bytearray(400), Compression.of("gzip"), None, 100_000, NoBuffers())
        builder._factor = 0.01  # as a topic that compresses well has it
        batch = ProducerBatch(TopicPartition("t", 0), builder, 0)
        values: list[bytes] = []

        def fill(batch: ProducerBatch = batch, values: list[bytes] = values) -> None:
            for _ in range(8):
                value = b"%0100d" % len(values)
                assert batch.try_append(TS, None, value, None, None) is not None
                values.append(value)
            batch.compress()

        interrupted = interrupt_after(instructions, COMPRESSING, fill)
        batch.try_append(TS, None, b"after", None, None)
        batch.close_for_appends()
        try:
            parsed = RecordBatch.parse(batch.records())
        except IllegalStateError as error:
            refused.add(str(error))
        else:
            sound += 1
            found = [record.value for record in parsed.records()]
            assert len(found) == parsed.record_count == batch.record_count
            # The record that was on its way may be there or not.
            assert [value for value in found if value != b"after"][: len(values)] == values
            assert len(found) <= len(values) + 2
        if not interrupted:
            break
    assert instructions > 200
    assert refused == {"its compression was interrupted"}
    assert sound


def test_a_batch_whose_sender_was_interrupted_while_it_compressed_is_compressed_anew() -> None:
    """Ctrl-C in the middle of send() must not fail records that were taken long before."""
    refused = sound = 0
    interrupted = True
    while interrupted:
        builder = RecordBatchBuilder(bytearray(4000), Compression.of("gzip"))
        batch = ProducerBatch(TopicPartition("t", 0), builder, 0)
        values = [b"%0100d" % number for number in range(20)]
        for value in values:
            assert batch.try_append(TS, None, value, None, None) is not None
        interrupted = interrupt_after(refused + sound + 1, COMPRESSING, batch.compress)
        if builder._is_broken:
            with pytest.raises(IllegalStateError, match="compression was interrupted"):
                batch.records()
            refused += 1
        else:
            assert [record.value for record in RecordBatch.parse(batch.records()).records()] == values
            sound += 1
    # Only once the compressed bytes are being put over the plain ones.
    assert refused < sound


class NoBuffers:
    """A pool that has nothing to spare."""

    def try_allocate(self, size_bytes: int) -> bytearray | None:
        return None

    def deallocate(self, buffer: bytearray) -> None:
        raise AssertionError("nothing was taken")
