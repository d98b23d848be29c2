"""Random faults against idempotent producers, from a seed; afterwards the logs are compared with the results.

Like ``make idempotence-chaos``, but within the process and in seconds: responses are lost or forged, with and
without the append, brokers restart cleanly and uncleanly, leaders move, a topic is recreated, producer ids
expire, ``max.message.bytes`` changes. A seed determines the settings and the faults, but not the timing of
the threads, so reproducing a failure may take several runs. ``KPRODUCER_IDEMPOTENCE_SEEDS=100:150`` runs
other seeds.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from kproducer.testing.fakebroker import RequestContext, Silence, faults
from kproducer.testing.fakebroker.actions import Action, Handler
from kproducer.testing.fakebroker.faults import Forgery
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.support.chaos.idempotence_ledger import Checker, Lane, Verdict

PRODUCE = 0
_BROKERS = 3
#: The second topic is deleted and recreated now and then.
_TOPICS = {"kept": 3, "remade": 2}
_STEPS = 60
_DEFAULT_LIMIT = 1_000_000
_REJECTED_FOR_NOW = (3, 5, 6, 7, 19)
_REJECTED_FOR_GOOD = (10, 29, 32, 87)
_APPENDED_ALL_THE_SAME = (7, 20)
_first, _last = map(int, os.environ.get("KPRODUCER_IDEMPOTENCE_SEEDS", "0:10").split(":"))


def _settings(rng: random.Random) -> dict[str, Any]:
    return {
        "batch_size": rng.choice([0, 0, 150, 1000, 16_384, 200_000]),
        "linger_ms": rng.choice([0, 0, 1, 5]),
        "max_in_flight_requests_per_connection": rng.choice([1, 2, 4, 5, 5]),
        "compression_type": rng.choice(["none", "none", "none", "lz4"]),
        "retry_backoff_ms": rng.choice([1, 5, 20]),
        "request_timeout_ms": 200,
        "retries": rng.choice([3, 2_147_483_647, 2_147_483_647]),
        "delivery_timeout_ms": rng.choice([600, 2000, 2000]),
        "max_block_ms": 3000,
        "metadata_max_age_ms": rng.choice([50, 5000]),
    }


class _Faults:
    """Faults of the brokers in Produce requests.

    Attributes:
        rate: probability of a forged response for a partition.
        withholding: batches are appended, but not answered before the connection ends.
        rejects_next: partitions whose next batch is rejected without being appended.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.rate = rng.choice([0.0, 0.05, 0.2])
        self._for_good = rng.choice([0.0, 0.2, 0.4])
        self._lost_rate = rng.choice([0.0, 0.02, 0.1])
        self.withholding = False
        self._silent_connections: set[int] = set()
        self.rejects_next: set[tuple[str, int]] = set()
        self._forge = faults.forge_produce(self._forgery)
        self._losses: list[Handler] = [
            faults.close_before(),
            faults.close_after(),
            faults.close_after(reset=True),
            faults.close_after(),
            faults.stall_after(),
        ]

    def __call__(self, context: RequestContext) -> Action | None:
        is_produce, number = context.api_key == PRODUCE, context.connection.number
        if self.withholding and is_produce:
            self._silent_connections.add(number)
        if number in self._silent_connections:
            if is_produce:
                context.apply()
            return Silence()
        if not is_produce:
            return None
        if self._rng.random() < self._lost_rate:
            return self._rng.choice(self._losses)(context)
        return self._forge(context)

    def _forgery(self, topic: str, partition: int) -> Forgery | None:
        if (topic, partition) in self.rejects_next:
            self.rejects_next.remove((topic, partition))
            return Forgery(self._rng.choice(_REJECTED_FOR_NOW))
        if self._rng.random() >= self.rate:
            return None
        chance = self._rng.random()
        if chance < self._for_good:
            return Forgery(self._rng.choice(_REJECTED_FOR_GOOD))
        if chance < self._for_good + (1 - self._for_good) / 2:
            return Forgery(self._rng.choice(_REJECTED_FOR_NOW))
        return Forgery(self._rng.choice(_APPENDED_ALL_THE_SAME), appended=True)


class _Run:
    """One producer, one cluster, one seed."""

    def __init__(self, stage: Stage, seed: int, way: str) -> None:
        self._rng = rng = random.Random(seed)
        self._way = way
        self.settings = _settings(rng)
        self._cluster = stage.cluster(_BROKERS, topics=_TOPICS)
        self._faults = _Faults(random.Random(seed + 1))
        self._kafka = stage.producer(self._cluster, **self.settings).kafka
        self._lanes = {topic: Lane(topic, topic, may_vanish=topic == "remade") for topic in _TOPICS}
        self._sent: list[tuple[Lane, int, Any]] = []
        self._disturbances = rng.sample(
            [
                self._restart,
                self._lose_answers_and_restart,
                self._lose_answers_and_lower_the_limit,
                self._move_leader,
                self._remake,
                self._expire,
                self._limit,
            ],
            rng.randint(1, 7),
        )

    def run(self) -> Verdict:
        """Send under faults, end the faults, wait for the results, and compare them with the logs."""
        scripted = self._cluster.control(None, self._faults, times=None)
        disturbing = self._rng.choice([0.05, 0.15, 0.3])
        for _ in range(_STEPS):
            self._send()
            if self._rng.random() < disturbing:
                self._rng.choice(self._disturbances)()
            if self._rng.random() < 0.2:
                time.sleep(self._rng.choice([0.001, 0.01]))
        scripted.remove()
        self._cluster.topics["kept"].options.max_message_bytes = _DEFAULT_LIMIT
        self._send()
        self._kafka.close(PATIENCE_S)
        for lane, number, future in self._sent:
            error = future.exception(0)
            lane.settle(number, future.result(0) if error is None else error)
        return self._verdict()

    def _verdict(self) -> Verdict:
        checker = Checker(self._lanes.values())
        for topic in self._cluster.all_topics():
            for partition in topic.partitions:
                checker.read(
                    topic.name, partition.index, [(r.offset, r.value or b"") for r in partition.records]
                )
        return checker.judge()

    # -- sending ------------------------------------------------------------------------------------------

    def _send(self) -> None:
        topic = self._rng.choice(list(_TOPICS))
        lane = self._lanes[topic]
        count = self._rng.choice([1, 2, 6, 20])
        first = lane.add(count)
        sizes = [self._rng.choice([0, 0, 50, 300, 2000]) for _ in range(count)]
        values = [lane.value(first + index, size) for index, size in enumerate(sizes)]
        partitions = [self._rng.randrange(_TOPICS[topic]) for _ in range(count)]
        if self._rng.random() < 0.5:
            partitions = partitions[:1] * count
        for index, future in enumerate(self._futures(topic, values, partitions)):
            self._sent.append((lane, first + index, future))

    def _futures(self, topic: str, values: list[bytes], partitions: list[int]) -> Iterator[Any]:
        if self._way == "send":
            for value, partition in zip(values, partitions, strict=True):
                yield self._kafka.send(topic, value, partition=partition)
        elif self._way == "send_many":
            yield from self._kafka.send_many(topic, values, partitions=partitions)
        else:
            table = pa.table({"value": pa.array(values, pa.binary()), "to": pa.array(partitions, pa.int32())})
            yield from self._kafka.send_arrow(topic, table, value="value", partition="to")

    # -- faults -------------------------------------------------------------------------------------------

    def _restart(self) -> None:
        self._restart_one(self._rng.randint(1, _BROKERS))

    def _restart_one(self, broker_id: int) -> None:
        if self._rng.random() < 0.7:
            self._cluster.restart_cleanly(broker_id)
        else:
            self._cluster.kill(broker_id, reset=self._rng.random() < 0.5)
            self._cluster.restart(broker_id)

    def _withhold_answers(self) -> None:
        """Send records that are appended (unless requests in flight prevent it), but not answered."""
        self._faults.withholding = True
        for _ in range(self._rng.randint(1, 6)):
            self._send()
        time.sleep(self._rng.choice([0.005, 0.02]))

    def _lose_answers_and_restart(self) -> None:
        self._withhold_answers()
        for broker_id in range(1, _BROKERS + 1):
            self._restart_one(broker_id)
        self._faults.withholding = False

    def _lose_answers_and_lower_the_limit(self) -> None:
        self._withhold_answers()
        self._limit()
        for broker_id in range(1, _BROKERS + 1):
            self._cluster.drop_connections(broker_id)
        self._faults.withholding = False

    def _move_leader(self) -> None:
        topic = self._rng.choice(list(_TOPICS))
        partition = self._rng.randrange(_TOPICS[topic])
        with self._cluster.log.changed:
            self._cluster.move_leader(topic, partition, self._rng.randint(1, _BROKERS))
            if self._rng.random() < 0.3:
                # The new leader was just restarted.
                self._cluster.topics[topic].partitions[partition].producers.reload_snapshot()

    def _remake(self) -> None:
        self._cluster.recreate_topic("remade")
        self._begin_with_rejections("remade")

    def _expire(self) -> None:
        """Expire ids of idle producers only: others could not know which batches were written."""
        rate, self._faults.rate = self._faults.rate, 0.0
        self._kafka.flush(PATIENCE_S)
        with self._cluster.log.changed:
            for topic in self._cluster.topics.values():
                for partition in topic.partitions:
                    partition.producers.forget()
        self._faults.rate = rate
        self._begin_with_rejections(*_TOPICS)

    def _begin_with_rejections(self, *topics: str) -> None:
        """The leader has no producer state, rejects the first batch, and would accept the second one."""
        if self._rng.random() < 0.5:
            self._faults.rejects_next |= {(topic, p) for topic in topics for p in range(_TOPICS[topic])}
        for _ in range(self._rng.randint(1, 4)):
            self._send()

    def _limit(self) -> None:
        limit = self._rng.choice([400, 1500, _DEFAULT_LIMIT])
        self._cluster.topics["kept"].options.max_message_bytes = limit


def _seeds(way: str, ways: Sequence[str] = ("send", "send_many", "send_arrow")) -> list[int]:
    return [seed * len(ways) + ways.index(way) for seed in range(_first, _last)]


def _check(stage: Stage, seed: int, way: str) -> None:
    run = _Run(stage, seed, way)
    verdict = run.run()
    assert verdict.is_good, "\n".join([str(verdict), *verdict.examples, str(run.settings)])


@pytest.mark.parametrize("seed", _seeds("send"))
def test_send(stage: Stage, seed: int) -> None:
    _check(stage, seed, "send")


@pytest.mark.parametrize("seed", _seeds("send_many"))
def test_send_many(stage: Stage, seed: int) -> None:
    _check(stage, seed, "send_many")


@pytest.mark.parametrize("seed", _seeds("send_arrow"))
def test_send_arrow(stage: Stage, seed: int) -> None:
    _check(stage, seed, "send_arrow")
