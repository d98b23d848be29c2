"""The loop never sleeps while a batch could be sent, nor past a linger, a backoff or a delivery timeout."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kproducer.accumulator.partition_queue import PartitionQueue
from kproducer.errors import BufferExhaustedError
from kproducer.runtime.clock import NEVER_MS
from kproducer.types import Node
from tests.support.units.sender_bench import Bench, initialized_manager

PARTITIONS = 4
NOT_LEADER = 6
MESSAGE_TOO_LARGE = 10
INVALID_RECORD = 87


class SleepMachine(RuleBasedStateMachine):
    """Plays callers and brokers; looks at each poll whether the loop may sleep for as long as it wants to."""

    @initialize(
        idempotent=st.booleans(),
        linger_ms=st.sampled_from([0, 5, 50]),
        most_in_flight=st.sampled_from([1, 2, 5]),
        max_request_size=st.sampled_from([400, 100_000]),
        buffer_memory=st.sampled_from([8_000, 100_000]),
    )
    def start(
        self, idempotent: bool, linger_ms: int, most_in_flight: int, max_request_size: int, buffer_memory: int
    ) -> None:
        self.bench = Bench(
            partition_count=PARTITIONS,
            transactions=initialized_manager() if idempotent else None,
            random=Random(1),
            enable_idempotence=idempotent,
            linger_ms=linger_ms,
            max_in_flight_requests_per_connection=most_in_flight,
            max_request_size=max_request_size,
            buffer_memory=buffer_memory,
            batch_size=200,
            request_timeout_ms=1000,
            delivery_timeout_ms=2000,
        )
        self.bench.client.max_in_flight = most_in_flight
        self.bench.client.on_poll = self.check_poll
        self.bench.client.ready = self.is_ready  # type: ignore[method-assign]
        self.flush: object | None = None
        #: What another thread sends between the look at the queues and the drain: (partition, bytes).
        self.sent_meanwhile: list[tuple[int, int]] = []
        self.is_woken = False

    def is_ready(self, node: Node, now_ms: int) -> bool:
        while self.sent_meanwhile:
            self.append(*self.sent_meanwhile.pop())
        return self.bench.client.is_ready(node, now_ms)

    def append(self, partition: int, size: int) -> None:
        bench = self.bench
        snapshot, now_ms = bench.metadata.snapshot, bench.clock.now_ms
        try:
            _, wake = bench.accumulator.append(
                "t", partition, 1, None, b"x" * size, None, None, 0, now_ms, snapshot
            )
        except BufferExhaustedError:
            return
        self.is_woken = self.is_woken or wake

    def check_poll(self) -> None:
        bench = self.bench
        timeout_ms, now_ms = bench.client.poll_timeouts[-1], bench.clock.now_ms
        is_woken, self.is_woken = self.is_woken, False
        if timeout_ms <= 0 or is_woken:
            return
        for queue in bench.accumulator.queues.active:
            leader = bench.metadata.snapshot.leader_for(queue.topic_partition)
            at_ms = NEVER_MS if leader is None else self.sendable_ms(queue, now_ms)
            if at_ms <= now_ms:
                assert leader is not None
                assert not bench.client.is_ready(leader, now_ms)
                assert timeout_ms <= bench.client.poll_delay
            else:
                assert now_ms + timeout_ms <= at_ms
        assert now_ms + timeout_ms <= bench.accumulator.queues.next_expiry_ms
        assert now_ms + timeout_ms <= bench.sender.in_flight.next_expiry_ms

    def sendable_ms(self, queue: PartitionQueue, now_ms: int) -> int:
        """When the first batch may be sent, as far as no response, connection or caller changes that."""
        bench, batch = self.bench, queue.batches[0]
        manager = bench.transactions
        if queue.is_muted or not (manager is None or manager.may_drain(batch, now_ms)):
            return NEVER_MS
        if batch.is_backing_off(now_ms):
            return batch.retry_at_ms
        if len(queue.batches) > 1 or batch.is_full or self.flush is not None:
            return now_ms
        return batch.created_ms + bench.config.linger_ms

    # -- callers ---------------------------------------------------------------------------------------

    @rule(partition=st.integers(-1, PARTITIONS - 1), size=st.integers(1, 300), count=st.integers(1, 3))
    def send(self, partition: int, size: int, count: int) -> None:
        for _ in range(count):
            self.append(partition, size)

    @rule(partition=st.integers(-1, PARTITIONS - 1), size=st.integers(1, 300))
    def send_during_the_next_round(self, partition: int, size: int) -> None:
        self.sent_meanwhile.append((partition, size))

    @rule()
    def begin_or_end_flush(self) -> None:
        if self.flush is None:
            self.flush = object()
            self.bench.accumulator.begin_flush(self.flush)
        else:
            self.bench.accumulator.end_flush(self.flush)
            self.flush = None

    # -- the loop --------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([0, 0, 1, 5, 50, 150, 900]))
    def run_round(self, ms: int) -> None:
        self.bench.step(ms)

    @precondition(lambda self: self.bench.client.poll_timeouts)
    @rule()
    def sleep(self) -> None:
        self.bench.step(min(self.bench.client.poll_timeouts[-1], 5000))

    # -- brokers ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.bench.client.unanswered())
    @rule(at=st.integers(0, 9), code=st.sampled_from([0, 0, NOT_LEADER, MESSAGE_TOO_LARGE, INVALID_RECORD]))
    def answer(self, at: int, code: int) -> None:
        client = self.bench.client
        unanswered = client.unanswered()
        oldest = client.unanswered(unanswered[at % len(unanswered)].node_id)[0]
        client.answer_all(oldest, self.bench.clock.now_ms, code)

    @precondition(lambda self: self.bench.client.unanswered())
    @rule()
    def disconnect(self) -> None:
        client = self.bench.client
        for sent in client.unanswered(client.unanswered()[0].node_id):
            client.disconnect(sent, self.bench.clock.now_ms)

    @rule(ready=st.sampled_from([None, {0}, {1}, set()]))
    def connections_change(self, ready: set[int] | None) -> None:
        self.bench.client.ready_nodes = ready

    @rule(
        leaders=st.lists(st.integers(-1, 1), min_size=PARTITIONS, max_size=PARTITIONS),
        epoch=st.integers(1, 9),
    )
    def leaders_change(self, leaders: list[int], epoch: int) -> None:
        self.bench.learn(leaders=dict(enumerate(leaders)), epoch=epoch)


SleepMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSleepMachine = SleepMachine.TestCase
