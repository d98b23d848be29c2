"""Pickles of public classes and of their objects name only what applications import.

So a pickle that one version wrote can be read by another one, in which other modules of ``_core`` exist.
"""

from __future__ import annotations

import pickle
from asyncio import CancelledError
from uuid import UUID

import pytest

import kproducer
from kproducer import (
    BuildInfo,
    CancelledSend,
    ClusterMetadata,
    ConsumerGroupMetadata,
    FloatSerializer,
    FlushResult,
    FutureRecordMetadata,
    IntegerSerializer,
    KafkaError,
    MetadataSnapshot,
    MetricSample,
    Node,
    OffsetAndMetadata,
    Outcome,
    PartitionInfo,
    PartitionMetadata,
    PreparedTransaction,
    ProducerConfig,
    ProducerHealth,
    ProducerRecord,
    RecordMetadata,
    TopicDescription,
    TopicMetadata,
    TopicPartition,
)

CLASSES = {name: value for name in kproducer.__all__ if isinstance(value := getattr(kproducer, name), type)}
#: Objects of these cannot be pickled, or are functions and dictionaries.
WITHOUT_PICKLES = {
    "AsyncKafkaProducer",
    "FutureRecordMetadata",
    "KafkaProducer",
    "Partitioner",
    "ProducerSettings",
    "SendFuture",
    "SendManyResult",
}
NODE = Node(1, "h", 9092)
OBJECTS = [
    NODE,
    Outcome.UNKNOWN,
    BuildInfo("1", "pure", "", "interpreted", (), (), "", False),
    CancelledSend(None, None),
    ClusterMetadata("c", 1, {1: NODE}, {}, NODE),
    ConsumerGroupMetadata("g", 1, "m"),
    FlushResult(1, 0),
    MetadataSnapshot(nodes={1: NODE}),
    MetricSample("producer-metrics", "record-send-total", {}, 1.0, "counter", "records"),
    OffsetAndMetadata(5),
    PartitionInfo("t", 0, NODE),
    PartitionMetadata(0, 1),
    PreparedTransaction("id", 1, 2, 2),
    ProducerConfig(bootstrap_servers=("h:9092",)),
    ProducerHealth(is_closed=True),
    ProducerRecord("t", b"v"),
    RecordMetadata("t", 0, 1, 2, 3, 4),
    TopicDescription("t", ()),
    TopicMetadata("t", UUID(int=1), (), ()),
    TopicPartition("t", 0),
    *(kind("text") for kind in CLASSES.values() if issubclass(kind, KafkaError)),
    *(
        each()
        for name, each in CLASSES.items()
        if name.endswith("Serializer") and name not in WITHOUT_PICKLES
    ),
]


@pytest.mark.parametrize("name", kproducer.__all__)
def test_a_pickle_of_a_public_name_can_be_read_after_modules_have_moved(name: str) -> None:
    value = getattr(kproducer, name)
    pickled = pickle.dumps(value)
    assert b"_core" not in pickled
    assert pickle.loads(pickled) == value


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_a_pickle_of_an_object_can_be_read_after_modules_have_moved(value: object) -> None:
    pickled = pickle.dumps(value)
    assert b"_core" not in pickled
    again = pickle.loads(pickled)
    assert type(again) is type(value)
    assert again == value or type(value).__eq__ is object.__eq__


def test_numbers_have_the_same_bytes_after_a_pickle() -> None:
    for width in (1, 2, 4, 8):
        assert pickle.loads(pickle.dumps(IntegerSerializer(width)))(-2) == IntegerSerializer(width)(-2)
    for width in (4, 8):
        assert pickle.loads(pickle.dumps(FloatSerializer(width)))(-2.5) == FloatSerializer(width)(-2.5)


def test_a_pickle_of_a_cancelled_send_has_its_outcome_but_no_record() -> None:
    report = CancelledSend("too late", FutureRecordMetadata.__new__(FutureRecordMetadata))
    error = pickle.loads(pickle.dumps(CancelledError(report)))
    again = CancelledSend.of(error)
    assert again == "too late"
    assert again is not None
    assert (again.outcome, again.record) == (Outcome.UNKNOWN, None)
    assert report.record is not None


def test_no_public_class_is_left_out() -> None:
    assert {type(each).__name__ for each in OBJECTS} == CLASSES.keys() - WITHOUT_PICKLES
