"""Random faults of all kinds at once, from a seed; afterwards the standing promises are checked.

Brokers die and return, leaders move, connections drop, responses are lost, late, truncated or wrong, and
several threads send. No particular result is expected: the promises of ``harness`` are the test.
``KPRODUCER_CHAOS_SEEDS=100:150`` runs other seeds.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kproducer import CloseTimeoutError, KafkaError
from kproducer.testing.fakebroker import FakeCluster, RequestContext, faults
from kproducer.testing.fakebroker.actions import Action, Handler
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S, WatchedProducer

PRODUCE, METADATA = 0, 3
_TOPICS = {"a": 1, "b": 3, "c": 6}
_SENDERS = 3
_EACH = 120
_first, _last = map(int, os.environ.get("KPRODUCER_CHAOS_SEEDS", "0:5").split(":"))


def _config(rng: random.Random) -> dict[str, Any]:
    in_flight = rng.choice([1, 1, 2, 5])
    return {
        "acks": rng.choice(["all", "all", 1, 0]),
        "linger_ms": rng.choice([0, 1, 5]),
        "batch_size": rng.choice([0, 200, 2000, 16_384]),
        "buffer_memory": rng.choice([40_000, 33_554_432]),
        "compression_type": rng.choice(["none", "none", "gzip", "lz4", "zstd", "snappy"]),
        "max_in_flight_requests_per_connection": in_flight,
        "max_block_ms": 4000,
        "request_timeout_ms": 300,
        "delivery_timeout_ms": rng.choice([1000, 6000]),
        "metadata_max_age_ms": rng.choice([100, 5000]),
        "retries": rng.choice([2, 2_147_483_647]),
        # Without idempotence, only one request in flight keeps the order when batches are retried.
        "ordered": in_flight == 1,
    }


def _faults(rng: random.Random, rate: float) -> Callable[[RequestContext], Action | None]:
    lock = threading.Lock()

    def decide(context: RequestContext) -> Action | None:
        with lock:
            if rng.random() > rate:
                return None
            kind = rng.randrange(9)
            code = rng.choice([2, 5, 6, 7, 10, 19, 20, 29, 56, 87])
        if kind < 3:
            return faults.refuse_produce(code)(context)
        makers: list[Callable[[], Handler]] = [
            faults.close_before,
            lambda: faults.close_before(reset=True),
            faults.close_after,
            faults.stall_after,
            lambda: faults.fragmented(3),
            faults.wrong_correlation_id,
        ]
        return makers[kind - 3]()(context)

    return decide


def _disturb(cluster: FakeCluster, rng: random.Random, done: threading.Event) -> None:
    """Inject faults at intervals until the senders are done, then end all faults."""
    while not done.wait(rng.uniform(0.005, 0.05)):
        broker_id = rng.choice([1, 2, 3])
        action = rng.randrange(5)
        if action == 0:
            topic = rng.choice(list(_TOPICS))
            cluster.move_leader(topic, rng.randrange(_TOPICS[topic]), rng.choice([1, 2, 3]))
        elif action == 1:
            cluster.drop_connections(broker_id, reset=rng.random() < 0.5)
        elif action == 2 and cluster.brokers[broker_id].up:
            cluster.kill(broker_id, reset=rng.random() < 0.5)
        elif action == 3 and not cluster.brokers[broker_id].up:
            cluster.restart(broker_id)
        elif action == 4:
            cluster.brokers[broker_id].listed_when_down = rng.random() < 0.5
    for broker in cluster.brokers.values():
        if not broker.up:
            cluster.restart(broker.node_id)


def _keep_sending(producer: WatchedProducer, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(_EACH):
        topic = rng.choice(list(_TOPICS))
        partition = rng.randrange(_TOPICS[topic]) if rng.random() < 0.5 else None
        key = b"k%d" % rng.randrange(20) if rng.random() < 0.3 else None
        size = rng.choice([5, 50, 50, 500, 5000])
        try:
            sent = producer.send(topic, rng.randbytes(size) + b"%d" % seed, key=key, partition=partition)
            if rng.random() < 0.1:
                sent.future.exception(PATIENCE_S)
            if rng.random() < 0.02:
                producer.kafka.flush(PATIENCE_S)
        except KafkaError:
            continue


@pytest.mark.parametrize("seed", range(_first, _last))
def test_every_promise_holds_under_random_faults(stage: Stage, seed: int) -> None:
    rng = random.Random(seed)
    cluster = stage.cluster(3, topics=_TOPICS)
    for name in _TOPICS:
        cluster.topics[name].options.max_message_bytes = rng.choice([3000, 1_000_000])
    scripted = cluster.control(
        PRODUCE, _faults(random.Random(seed + 1), rng.choice([0.02, 0.1, 0.3])), times=None
    )
    producer = stage.producer(cluster, **_config(rng))
    done = threading.Event()
    disturber = threading.Thread(target=_disturb, args=(cluster, random.Random(seed + 2), done))
    senders = [
        threading.Thread(target=_keep_sending, args=(producer, seed * 100 + number))
        for number in range(_SENDERS)
    ]
    for thread in [disturber, *senders]:
        thread.start()
    for thread in senders:
        thread.join(3 * PATIENCE_S)
    done.set()
    disturber.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in senders), "a send or a wait is stuck"
    scripted.remove()
    if rng.random() < 0.3:
        try:
            producer.close(rng.choice([0, 0.05]))
        except CloseTimeoutError:
            return
    else:
        producer.kafka.flush(PATIENCE_S)
        assert producer.send_until_it_works("a").future.done()
