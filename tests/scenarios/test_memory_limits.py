"""``buffer_memory`` from outside: which callers wait, which are refused, and that all memory is returned."""

from __future__ import annotations

import random
import threading
import time

import pytest

from kproducer import BufferExhaustedError, MetadataTimeoutError
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios import internals
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE = 0
ONE_BATCH = {"buffer_memory": 16_384, "batch_size": 16_384}


def test_a_send_without_memory_fails_after_max_block(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    producer = stage.producer(cluster, max_block_ms=300, **ONE_BATCH).learn("t")
    first = producer.send()
    gate.wait_until_reached()
    started = time.monotonic()
    error = producer.failing_send()
    assert (time.monotonic() - started) * 1000 >= 295
    assert isinstance(error, BufferExhaustedError)
    assert producer.was_not_sent(error)
    assert "buffer_memory" in str(error)
    assert "max_block_ms" in str(error)
    gate.open()
    assert first.metadata().offset == 0
    assert producer.send().metadata().offset == 1


def test_waiting_callers_are_served_in_order(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    producer = stage.producer(cluster, max_block_ms=600_000, **ONE_BATCH)
    producer.send()
    gate.wait_until_reached()
    callers = []
    for index in range(4):
        caller = threading.Thread(target=producer.send, kwargs={"value": b"waiter-%d" % index + b"x" * 9000})
        caller.start()
        callers.append(caller)
        deadline = time.monotonic() + PATIENCE_S
        while internals.memory_waiters(producer.kafka) < index + 1:
            assert time.monotonic() < deadline
            time.sleep(0.001)  # no event signals that a thread has started to wait
    gate.open()
    for caller in callers:
        caller.join(PATIENCE_S)
    producer.kafka.flush(PATIENCE_S)
    values = [r.value[:8] for r in cluster.records("t")[1:] if r.value]
    assert values == [b"waiter-%d" % index for index in range(4)]


def test_eight_threads_share_a_buffer_that_is_too_small(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    producer = stage.producer(cluster, buffer_memory=32_768, batch_size=4096, linger_ms=1)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(40):
            producer.send(value=rng.randbytes(rng.randrange(1, 6000)))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)
    producer.kafka.flush(PATIENCE_S)
    assert sum(len(cluster.records("t", p)) for p in (0, 1)) == 320


@pytest.mark.parametrize("recovery", ["none", "rebootstrap"])
def test_a_dead_cluster_fills_the_buffer_and_no_more(
    stage: Stage, cluster: FakeCluster, recovery: str
) -> None:
    """With "rebootstrap", the topic's metadata is dropped when all brokers are gone, and sends wait."""
    producer = stage.producer(
        cluster,
        buffer_memory=65_536,
        batch_size=4096,
        max_block_ms=50,
        request_timeout_ms=1500,
        delivery_timeout_ms=1500,
        metadata_recovery_strategy=recovery,
    )
    producer.learn("t").send().metadata()
    cluster.kill(1)
    refusals: list[type] = []
    while len(refusals) < 3:
        assert len(producer.sent) <= 17, "more records were accepted than the buffer holds"
        try:
            producer.send(value=b"x" * 3000)
        except (BufferExhaustedError, MetadataTimeoutError) as error:
            refusals.append(type(error))
    if recovery == "none":
        assert set(refusals) == {BufferExhaustedError}
    cluster.restart(1)
    producer.kafka.flush(PATIENCE_S)
    assert producer.send_until_it_works().metadata().offset > 0
