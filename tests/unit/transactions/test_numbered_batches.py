"""What a number does to the bytes of a real batch: the header says it, and nothing else changes."""

from __future__ import annotations

import pytest

from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.records.compression import Compression, CompressionType
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer.testing.fakebroker.batch_check import read_batch
from kproducer.types import TopicPartition

TP = TopicPartition("t", 0)
VALUES = [b"value %d" % index for index in range(10)]


def make(codec: CompressionType = CompressionType.NONE) -> ProducerBatch:
    batch = ProducerBatch(TP, RecordBatchBuilder(bytearray(4096), Compression(codec)), 0)
    for value in VALUES:
        assert batch.try_append(1000, None, value, None, None) is not None
    return batch


def numbers(batch: ProducerBatch) -> tuple[int, int, int, bool]:
    read = read_batch(batch.records(), 12)
    assert [record.value for record in read.records] == VALUES
    found = read.producer_id, read.producer_epoch, read.base_sequence
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == found
    return *found, read.is_transactional


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_batch_is_numbered_and_renumbered(codec: CompressionType) -> None:
    batch = make(codec)
    batch.set_producer_state(7, 0, 5, False)
    assert numbers(batch) == (7, 0, 5, False)
    batch.set_producer_state(7, 1, 0, False)
    assert numbers(batch) == (7, 1, 0, False)


def test_it_may_be_renumbered_twice_before_it_is_sent_again() -> None:
    batch = make()
    batch.set_producer_state(7, 0, 5, True)
    assert numbers(batch) == (7, 0, 5, True)
    batch.set_producer_state(7, 1, 3, False)
    batch.set_producer_state(8, 0, 0, False)
    assert numbers(batch) == (8, 0, 0, False)


def test_a_batch_without_memory_only_notes_its_number() -> None:
    batch = make()
    batch.forget_memory()
    batch.set_producer_state(7, 1, 0, False)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 1, 0)
