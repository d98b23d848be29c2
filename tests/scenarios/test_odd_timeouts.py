"""Every call with a timeout accepts any number of seconds, however large, and refuses other values."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kproducer import InvalidArgumentError, KafkaProducer, KafkaTimeoutError
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

LONG = [1e20, math.inf, 10**30, threading.TIMEOUT_MAX]

CALLS: dict[str, Callable[[KafkaProducer, Any], Any]] = {
    "future.result": lambda kafka, timeout: kafka.send("t", b"v").result(timeout),
    "future.exception": lambda kafka, timeout: kafka.send("t", b"v").exception(timeout),
    "send_many.result": lambda kafka, timeout: kafka.send_many("t", [b"v"]).result(timeout),
    "send_many.wait": lambda kafka, timeout: kafka.send_many("t", [b"v"]).wait(timeout),
    "send_many.offsets": lambda kafka, timeout: kafka.send_many("t", [b"v"]).offsets(timeout),
    "flush": lambda kafka, timeout: (kafka.send("t", b"v"), kafka.flush(timeout)),
    "close": lambda kafka, timeout: (kafka.send("t", b"v"), kafka.close(timeout)),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@every_call
@pytest.mark.parametrize("timeout", LONG, ids=str)
def test_a_long_timeout_waits(
    stage: Stage, cluster: FakeCluster, call: Callable[[KafkaProducer, Any], Any], timeout: Any
) -> None:
    # The records linger, so the call has to wait for them.
    kafka = stage.producer(cluster, linger_ms=100).kafka
    call(kafka, timeout)
    assert len(cluster.records("t")) == 1


@every_call
@pytest.mark.parametrize("timeout", [math.nan, "1", True], ids=str)
def test_values_that_are_not_numbers_are_refused(
    stage: Stage, cluster: FakeCluster, call: Callable[[KafkaProducer, Any], Any], timeout: Any
) -> None:
    kafka = stage.producer(cluster, linger_ms=500).kafka
    with pytest.raises(InvalidArgumentError, match="timeout"):
        call(kafka, timeout)


@every_call
def test_a_negative_timeout_does_not_wait(
    stage: Stage, cluster: FakeCluster, call: Callable[[KafkaProducer, Any], Any]
) -> None:
    kafka = stage.producer(cluster, linger_ms=60_000).kafka
    with contextlib.suppress(KafkaTimeoutError, TimeoutError):
        call(kafka, -1)


@pytest.mark.parametrize("timeout", [*LONG, math.nan], ids=str)
def test_the_calls_of_transactions(stage: Stage, cluster: FakeCluster, timeout: Any) -> None:
    kafka = stage.producer(cluster, transactional_id="tx").kafka
    calls: list[Callable[[], object]] = [
        lambda: kafka.init_transactions(timeout),
        lambda: kafka.commit_transaction(timeout),
        lambda: kafka.abort_transaction(timeout),
    ]
    for call in calls:
        if math.isnan(timeout):
            with pytest.raises(InvalidArgumentError, match="timeout"):
                call()
        else:
            call()
            kafka.begin_transaction()
            kafka.send("t", b"v")
    if not math.isnan(timeout):
        kafka.abort_transaction()


@pytest.mark.parametrize("partition", [2**31, 2**40, 10**30])
def test_huge_partition_numbers_are_refused(stage: Stage, cluster: FakeCluster, partition: int) -> None:
    kafka = stage.producer(cluster, max_block_ms=50).kafka
    result = kafka.send_many("t", [b"a", b"b"], partitions=[0, partition])
    assert list(result.partitions()) == [0, -1]
    assert result.wait(PATIENCE_S)
    assert result.failed_count == 1


def test_a_huge_delivery_timeout_expires_nothing(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(
        cluster, delivery_timeout_ms=2**31 - 1, request_timeout_ms=30_000, linger_ms=2**31 - 30_002
    )
    sent = producer.send()
    producer.kafka.flush(PATIENCE_S)
    assert sent.metadata().offset == 0
