"""Many threads append while the sender retries, splits, expires and is closed: the promises hold throughout.

The client answers at random, from a seed; the interpreter switches threads as often as it can.
"""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kproducer.errors import KafkaError, Outcome, ProducerClosedError
from kproducer.testing.fakebroker.batch_check import read_batch
from kproducer.types import RecordMetadata
from tests.support.units.scripted_client import SentRequest, result
from tests.support.units.sender_bench import Bench

PARTITIONS = 3
CALLERS = 4
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class Sent:
    """One record: when its append began and ended, in ticks of a counter, and what became of it."""

    def __init__(self, value: bytes, began: int) -> None:
        self.value = value
        self.began = began
        self.ended = sys.maxsize
        self.outcomes: list[tuple[RecordMetadata, KafkaError | None]] = []
        self.future: Any = None


class Cluster:
    """Answers from a poll on. Everything it is sent is checked and, unless refused, written to a log."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.logs: dict[int, list[bytes]] = {p: [] for p in range(PARTITIONS)}
        self.is_calm = False
        bench.client.on_poll = self.poll

    def poll(self) -> None:
        bench, draw = self.bench, self.random
        bench.clock.advance(draw.choice((0, 1, 1, 5)))
        bench.client.ready_nodes = None if self.is_calm or draw.random() < 0.9 else {0}
        for sent in bench.client.unanswered():
            if self.is_calm or draw.random() < 0.7:
                self.answer(sent)

    def answer(self, sent: SentRequest) -> None:
        # Looked at as late as possible: this is when a buffer given away too early holds something else.
        parts = []
        fate = 1.0 if self.is_calm else self.random.random()
        for topic in sent.message.topic_data:
            for data in topic.partition_data:
                values = [bytes(record[3] or b"") for record in read_batch(data.records or b"").records]
                log = self.logs[data.index]
                base = len(log)
                if fate < 0.1:
                    parts.append(("t", result(data.index, 6)))
                elif fate < 0.15 and len(values) > 1:
                    parts.append(("t", result(data.index, 10)))
                else:
                    log += values
                    parts.append(("t", result(data.index, base_offset=base)))
        if 0.15 <= fate < 0.25:
            self.bench.client.disconnect(sent, self.bench.clock.now_ms)
        else:
            self.bench.client.answer(sent, self.bench.clock.now_ms, *parts)


def run(seed: int, *, records: int, close_early: bool, **settings: Any) -> tuple[Bench, Cluster, list[Sent]]:
    """All callers append ``records`` each, beside the sender; then it is closed."""
    bench = Bench(
        partition_count=PARTITIONS,
        batch_size=256,
        buffer_memory=2048,
        retry_backoff_ms=2,
        retry_backoff_max_ms=5,
        **settings,
    )
    cluster = Cluster(bench, seed)
    bench.client.max_in_flight = bench.config.max_in_flight_requests_per_connection
    ticks = itertools.count()
    everything: list[Sent] = []
    sender = threading.Thread(target=bench.sender.run, daemon=True)

    def call(number: int) -> None:
        draw = random.Random(seed * 100 + number)
        for index in range(records):
            value = b"%d/%d" % (number, index) + b"." * draw.randrange(80)
            sent = Sent(value, next(ticks))
            everything.append(sent)

            def told(metadata: RecordMetadata, error: KafkaError | None, sent: Sent = sent) -> None:
                sent.outcomes.append((metadata, error))

            partition = draw.randrange(-1, PARTITIONS)
            try:
                sent.future, wake = bench.accumulator.append(
                    "t",
                    partition,
                    1,
                    None,
                    value,
                    None,
                    told,
                    60_000,
                    bench.clock.now_ms,
                    bench.metadata.snapshot,
                )
            except ProducerClosedError:
                everything.remove(sent)
                return
            sent.ended = next(ticks)
            if wake:
                bench.sender.wakeup()

    callers = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(CALLERS)]
    for thread in (sender, *callers):
        thread.start()
    if close_early:
        while next(ticks) < records * CALLERS // 2:
            pass
        bench.sender.force_close()
    for caller in callers:
        caller.join(PATIENCE_S)
        assert not caller.is_alive()
    cluster.is_calm = True
    bench.sender.initiate_close()
    sender.join(PATIENCE_S)
    assert not sender.is_alive()
    return bench, cluster, everything


def check(bench: Bench, cluster: Cluster, everything: list[Sent]) -> None:
    bench.assert_clean()
    assert bench.sender.metrics.io_error_total == 0
    for sent in everything:
        assert len(sent.outcomes) == 1, sent.value
        assert sent.future.done()
        metadata, error = sent.outcomes[0]
        log = cluster.logs[metadata.partition]
        if error is None:
            assert log[metadata.offset] == sent.value
        elif error.outcome is not Outcome.UNKNOWN:
            assert sent.value not in log


def check_real_time_order(cluster: Cluster, everything: list[Sent]) -> None:
    """A record whose append was over before another's began lies before it."""
    by_place = {(s.outcomes[0][0].partition, s.outcomes[0][0].offset): s for s in everything}
    for partition in range(PARTITIONS):
        earliest_end = sys.maxsize
        for offset in reversed(range(len(cluster.logs[partition]))):
            sent = by_place.get((partition, offset))
            if sent is None:  # written by an attempt whose answer was lost, and again later
                continue
            assert sent.began < earliest_end, f"{sent.value!r} lies before one that was accepted earlier"
            earliest_end = min(earliest_end, sent.ended)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_mixed_up_or_told_twice(seed: int) -> None:
    check(*run(seed, records=250, close_early=False, linger_ms=3))


@pytest.mark.parametrize("seed", range(4))
def test_order_holds_across_threads_retries_and_splits_with_one_request_at_a_time(seed: int) -> None:
    bench, cluster, everything = run(
        seed, records=250, close_early=False, linger_ms=3, max_in_flight_requests_per_connection=1
    )
    check(bench, cluster, everything)
    assert bench.sender.metrics.splits.total > 0
    assert bench.sender.metrics.retries.total > 0
    check_real_time_order(cluster, everything)


@pytest.mark.parametrize("seed", range(4))
def test_records_that_expire_meanwhile_are_told_once_and_give_their_memory_back(seed: int) -> None:
    bench, cluster, everything = run(
        seed, records=250, close_early=False, linger_ms=1, request_timeout_ms=10, delivery_timeout_ms=12
    )
    check(bench, cluster, everything)
    assert any(sent.outcomes[0][1] is not None for sent in everything)


@pytest.mark.parametrize("seed", range(4))
def test_a_forced_close_in_the_middle_leaves_nobody_without_a_fate(seed: int) -> None:
    check(*run(seed, records=250, close_early=True, linger_ms=3))
