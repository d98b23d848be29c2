"""Any life of an accumulator: each future resolves once, partitions keep order, all memory comes back."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.runtime.clock import NEVER_MS
from kproducer.errors import BufferExhaustedError, KafkaError, ProducerClosedError
from kproducer.errors.broker_errors import NotLeaderOrFollowerError
from kproducer.testing.fakebroker.batch_check import read_batch
from kproducer.types import RecordMetadata
from tests.support.units.accumulator_kit import Kit, make_snapshot, partition_of

DELIVERY_TIMEOUT_MS = 1000


class AccumulatorMachine(RuleBasedStateMachine):
    """Plays callers, Sender and brokers at once; the log of each partition is a list."""

    @initialize(compression=st.sampled_from(["none", "gzip"]), in_order=st.booleans())
    def start(self, compression: str, in_order: bool) -> None:
        self.kit = Kit(
            make_snapshot([1, 1, 2]),
            batch_size=256,
            buffer_memory=2048,
            linger_ms=20,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=500,
            compression_type=compression,
        )
        #: As with one request in flight: a partition is muted while a batch of it is.
        self.in_order = in_order
        self.futures: list[FutureRecordMetadata] = []
        self.delivered: dict[int, int] = {}
        self.resolved_order: dict[int, list[int]] = {}
        self.in_flight: list[ProducerBatch] = []
        self.logs: dict[int, list[int]] = {0: [], 1: [], 2: []}

    # -- callers ---------------------------------------------------------------------------------------

    @rule(partition=st.integers(-1, 2), size=st.integers(8, 400))
    def append(self, partition: int, size: int) -> None:
        number = len(self.futures)

        def on_delivery(metadata: RecordMetadata, error: KafkaError | None) -> None:
            self.delivered[number] = self.delivered.get(number, 0) + 1
            if error is None:
                self.resolved_order.setdefault(metadata.partition, []).append(number)

        try:
            value = b"%08d" % number + b"." * (size - 8)
            self.futures.append(self.kit.append(partition, value, on_delivery=on_delivery))
        except BufferExhaustedError:
            pass

    @rule()
    def flush_without_waiting(self) -> None:
        self.kit.accumulator.begin_flush(self)
        self.kit.accumulator.await_completion(self.kit.accumulator.pending_records(), 0)
        self.kit.accumulator.end_flush(self)

    # -- Sender ----------------------------------------------------------------------------------------

    @rule(ms=st.integers(1, 400))
    def time_passes(self, ms: int) -> None:
        self.kit.clock.advance(ms)

    @rule(ms=st.integers(0, 400))
    def sleep_until_due(self, ms: int) -> None:
        result = self.kit.accumulator.ready_batches.ready(self.kit.snapshot, self.kit.now_ms)
        delay = result.next_ready_check_delay_ms
        assert delay > 0
        if delay != NEVER_MS:
            self.kit.clock.advance(delay)
            assert self.kit.ready_ids()

    @rule(max_size=st.integers(1, 2000))
    def drain(self, max_size: int) -> None:
        ready = self.kit.accumulator.ready_batches.ready(self.kit.snapshot, self.kit.now_ms).ready_nodes
        drained = self.kit.drain(*[n.id for n in ready], max_size=max_size) if ready else []
        assert bool(drained) == bool(ready)
        assert len({partition_of(b) for b in drained}) == len(drained)
        if not self.kit.accumulator.ready_batches.may_have_more():
            assert not self.kit.ready_ids()
        for batch in drained:
            self.in_flight.append(batch)
            if self.in_order:
                self.kit.accumulator.mute_partition(batch.topic_partition)

    @rule()
    def expire(self) -> None:
        now_ms = self.kit.now_ms
        for batch in self.kit.accumulator.queues.take_expired(now_ms):
            assert not batch.in_flight
            self._fail(batch)
        for batch in self.in_flight:
            if not batch.is_done and batch.has_reached_delivery_timeout(DELIVERY_TIMEOUT_MS, now_ms):
                self._fail(batch)
        for batch in self.kit.accumulator._incomplete.copy():
            assert batch.is_done or not batch.has_reached_delivery_timeout(DELIVERY_TIMEOUT_MS, now_ms)

    def _fail(self, batch: ProducerBatch) -> None:
        batch.complete(error=batch.delivery_timeout_error(DELIVERY_TIMEOUT_MS, self.kit.now_ms))
        self.kit.accumulator.deallocate(batch)

    # -- brokers ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), answer=st.sampled_from(["ok", "retry", "too large", "fail"]))
    def answer(self, data: st.DataObject, answer: str) -> None:
        batch = self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))
        accumulator = self.kit.accumulator
        numbers = [int((r.value or b"")[:8]) for r in read_batch(batch.records()).records]
        accumulator.request_done(batch)
        if not batch.is_done:
            log = self.logs[partition_of(batch)]
            if answer == "ok":
                batch.complete(len(log))
                log += numbers
            elif answer == "retry":
                accumulator.reenqueue(batch, self.kit.now_ms, NotLeaderOrFollowerError())
            elif answer == "too large" and batch.record_count > 1:
                assert accumulator.split_and_reenqueue(batch) > 1
            else:
                batch.complete(error=KafkaError("refused"))
            if answer != "retry":
                accumulator.deallocate(batch)
        if self.in_order:
            accumulator.unmute_partition(batch.topic_partition)

    # -- what always holds -----------------------------------------------------------------------------

    @invariant()
    def memory_is_accounted_for(self) -> None:
        if not hasattr(self, "kit"):
            return
        held = sum(
            len(b.builder.buffer)
            for b in self.kit.accumulator._incomplete.copy()
            if b.builder is not None and not b.is_split
        )
        assert self.kit.pool.available_bytes == self.kit.pool.total_bytes - held

    @invariant()
    def queues_are_active_exactly_when_they_hold_batches(self) -> None:
        if not hasattr(self, "kit"):
            return
        for queue in self.kit.accumulator.queues.all_queues():
            assert bool(queue.batches) == (queue in self.kit.accumulator.queues.active)
            orders = [b.order for b in queue.batches]
            assert orders == sorted(orders)

    @invariant()
    def a_done_future_was_delivered_once_and_tells_the_truth(self) -> None:
        if not hasattr(self, "kit"):
            return
        for number, future in enumerate(self.futures):
            assert self.delivered.get(number, 0) == int(future.done())
            if future.done() and future.exception(0) is None:
                metadata = future.result(0)
                assert self.logs[metadata.partition][metadata.offset] == number

    def teardown(self) -> None:
        if not hasattr(self, "kit"):
            return
        if self.in_order:
            for log in self.logs.values():
                assert log == sorted(log)
            for partition, order in self.resolved_order.items():
                assert order == self.logs[partition]
        self.kit.accumulator.close()
        self.kit.accumulator.abort_incomplete_batches(ProducerClosedError("closed"))
        self.kit.accumulator.release_all_in_flight()
        self.kit.assert_all_memory_is_back()
        assert all(future.done() for future in self.futures)
        assert self.delivered == dict.fromkeys(range(len(self.futures)), 1)


AccumulatorMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestAccumulatorMachine = AccumulatorMachine.TestCase
