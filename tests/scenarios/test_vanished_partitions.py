"""Topics that lose partitions or temporarily have none: new records go to existing partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pytest

from kproducer import KafkaProducer, MetadataTimeoutError, RecordMetadata
from kproducer.testing.fakebroker import FakeCluster, Reply, RequestContext
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.support.waiting import wait_until

METADATA = 3
HOURS_MS = 3_600_000
KEYS = [b"key-%d" % number for number in range(40)]

Futures = list[Future[RecordMetadata]]
SendAll = Callable[..., Futures]


def by_send(
    kafka: KafkaProducer, count: int, *, keyed: bool = False, partition: int | None = None
) -> Futures:
    keys = KEYS if keyed else [None] * count
    return [kafka.send("t", b"v", key=key, partition=partition) for key in keys[:count]]


def by_send_many(
    kafka: KafkaProducer, count: int, *, keyed: bool = False, partition: int | None = None
) -> Futures:
    partitions = None if partition is None else [partition] * count
    return list(
        kafka.send_many("t", [b"v"] * count, keys=KEYS[:count] if keyed else None, partitions=partitions)
    )


def by_send_arrow(
    kafka: KafkaProducer, count: int, *, keyed: bool = False, partition: int | None = None
) -> Futures:
    columns: dict[str, Any] = {"value": pa.array([b"v"] * count, pa.binary())}
    if keyed:
        columns["key"] = pa.array(KEYS[:count], pa.binary())
    return list(kafka.send_arrow("t", pa.table(columns), key="key" if keyed else None, partition=partition))


every_way = pytest.mark.parametrize("send_all", [by_send, by_send_many, by_send_arrow])


def recreate(cluster: FakeCluster, kafka: KafkaProducer, partitions: int) -> None:
    """Recreate the topic with another partition count, and wait until the I/O thread has noticed it."""
    cluster.recreate_topic("t", partitions)
    engine = kafka._lifecycle.engine
    assert engine is not None
    metadata = engine.metadata
    metadata.request_update("requested by the test")
    metadata.request_update_for_new_topics()  # resets the backoff
    engine.sender.wakeup()
    wait_until(lambda: metadata.snapshot.partition_count("t") == partitions)
    asked = len(cluster.requests(METADATA))
    metadata.request_update("queues were processed before this update")
    metadata.request_update_for_new_topics()
    engine.sender.wakeup()
    cluster.wait_for_requests(METADATA, asked + 1)


def tables(cluster: FakeCluster, kafka: KafkaProducer, *, count: int, partitions: int) -> Iterator[pa.Table]:
    """Tables with one row per key; after the first, the topic gets another partition count."""
    for turn in range(count):
        if turn == 1:
            kafka.flush()
            recreate(cluster, kafka, partitions)
        yield pa.table({"key": pa.array(KEYS, pa.binary()), "value": pa.array(KEYS, pa.binary())})


@pytest.fixture
def cluster(stage: Stage) -> FakeCluster:
    return stage.cluster(topics={"t": 8})


@every_way
def test_new_records_go_to_partitions_that_exist(
    stage: Stage, cluster: FakeCluster, send_all: SendAll
) -> None:
    kafka = stage.producer(cluster, linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS).kafka
    while True:  # until a partition that will vanish has an open batch
        send_all(kafka, 1)
        sticky = kafka._lifecycle.engine.accumulator.queues.slots["t"].sticky  # type: ignore[union-attr]
        assert sticky is not None
        if sticky.partition > 0:
            break
        kafka.flush()
    recreate(cluster, kafka, 1)
    futures = send_all(kafka, 100) + send_all(kafka, len(KEYS), keyed=True)
    futures += send_all(kafka, 1, partition=0)
    # flush() would wait for the record whose partition has vanished.
    kafka._lifecycle.engine.accumulator.begin_flush(object())  # type: ignore[union-attr]
    kafka._lifecycle.engine.sender.wakeup()  # type: ignore[union-attr]
    assert {future.result(PATIENCE_S).partition for future in futures} == {0}
    stage.producers.clear()
    with pytest.raises(Exception, match="not acknowledged"):
        kafka.close(timeout=0.1)


def test_a_stream_continues_after_partitions_vanish(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster).kafka

    result = kafka.send_arrow("t", tables(cluster, kafka, count=3, partitions=2), key="key")
    kafka.flush()
    partitions = [future.result(PATIENCE_S).partition for future in result]
    assert max(partitions[: len(KEYS)]) > 1
    assert set(partitions[len(KEYS) :]) == {0, 1}


def test_a_stream_uses_new_partitions(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 1})
    kafka = stage.producer(cluster).kafka

    result = kafka.send_arrow("t", tables(cluster, kafka, count=2, partitions=8), key="key")
    kafka.flush()
    assert len({future.result(PATIENCE_S).partition for future in result}) > 1


# -- no partitions at all ----------------------------------------------------------------------------------


def name_no_partitions(context: RequestContext) -> Reply:
    answer = context.apply()
    for topic in answer.topics:
        topic.partitions.clear()
    return Reply(answer)


CASES: list[dict[str, Any]] = [{}, {"keyed": True}, {"partition": 3}]


@every_way
@pytest.mark.parametrize("how", CASES)
def test_a_topic_without_partitions_is_waited_for(
    stage: Stage, cluster: FakeCluster, send_all: SendAll, how: dict[str, Any]
) -> None:
    cluster.control(METADATA, name_no_partitions, times=3)
    kafka = stage.producer(cluster).kafka
    for future in send_all(kafka, 20, **how):
        assert future.result(PATIENCE_S).offset >= 0
    assert len(cluster.requests(METADATA)) > 3


@every_way
@pytest.mark.parametrize("how", CASES)
def test_the_timeout_error_names_a_topic_without_partitions(
    stage: Stage, cluster: FakeCluster, send_all: SendAll, how: dict[str, Any]
) -> None:
    cluster.control(METADATA, name_no_partitions, times=None)
    kafka = stage.producer(cluster, max_block_ms=100).kafka
    while len(cluster.requests(METADATA)) < 2:  # after the second request the first response is known
        with pytest.raises(MetadataTimeoutError):
            kafka.partitions_for("t")
    with pytest.raises(MetadataTimeoutError, match=r"'t' is not known .*LEADER_NOT_AVAILABLE"):
        send_all(kafka, 2, **how)


@every_way
@pytest.mark.parametrize("keyed", [False, True])
def test_a_topic_that_loses_all_partitions_for_a_while(
    stage: Stage, cluster: FakeCluster, send_all: SendAll, keyed: bool
) -> None:
    kafka = stage.producer(cluster).kafka
    send_all(kafka, 20, keyed=keyed)
    kafka.flush()
    control = cluster.control(METADATA, name_no_partitions, times=None)
    metadata = kafka._lifecycle.engine.metadata  # type: ignore[union-attr]
    metadata.request_update("requested by the test")
    kafka._lifecycle.engine.sender.wakeup()  # type: ignore[union-attr]
    wait_until(lambda: not metadata.snapshot.partition_count("t"))
    control.remove()
    for future in send_all(kafka, 20, keyed=keyed):
        assert future.result(PATIENCE_S).offset >= 0
