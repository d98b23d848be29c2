"""What other threads see during an append or a hand-over: a commit or a flush waits for every record."""

from __future__ import annotations

import random
import sys
from types import FrameType
from typing import Any

import pytest

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.record_accumulator import Append, RecordAccumulator
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.transactions.partition_sequences import ProducerIdAndEpoch
from kproducer._core.transactions.transaction_manager import TransactionManager
from kproducer._core.transactions.transaction_state_machine import ProducerHooks
from kproducer.errors import IllegalStateError, KafkaError
from tests.support.manual_clock import ManualClock
from tests.support.units.accumulator_kit import TOPIC, Kit, make_snapshot


class Interrupting(ManualClock):
    """Has another thread commit when it is asked for the time, which is while a batch is begun."""

    manager: TransactionManager | None = None
    seen: list[bool]

    def monotonic_ms(self) -> int:
        if self.manager is not None:
            manager, self.manager = self.manager, None
            manager.state_machine.begin_commit()
            # What decides whether EndTxn is sent.
            self.seen.append(manager.state_machine.hooks.has_incomplete())
        return super().monotonic_ms()


def test_a_commit_waits_for_the_record_or_the_record_is_refused() -> None:
    config = ProducerConfig(bootstrap_servers=("b:1",), transactional_id="tx")
    clock = Interrupting(1_000_000)
    clock.seen = []
    manager = TransactionManager(
        "tx", config, ProducerHooks(has_incomplete=lambda: accumulator.incomplete_count > 0)
    )
    pool = BufferPool.of(config, clock)
    accumulator = RecordAccumulator(config, pool, clock, random=random.Random(1), transaction_manager=manager)
    life = manager.state_machine
    life.begin_initialize()
    life.initialized(ProducerIdAndEpoch(1, 0))
    life.begin_transaction()
    append = Append(TOPIC, 0, (1, None, b"v", None, None), make_snapshot([1]))
    append.transaction = life.check_send()
    clock.manager = manager
    with pytest.raises(IllegalStateError):
        accumulator.append(append)
    assert clock.seen == [False]
    assert accumulator.incomplete_count == 0
    assert pool.available_bytes == pool.total_bytes


class Fast:
    """A batch of a lane, as the accumulator sees it."""

    is_open = False
    is_begun = True
    send_count = 0
    successor: ProducerBatch | None = None
    compression_lock = compressed_records = None

    def __init__(self, batch: ProducerBatch) -> None:
        self.topic_partition, self.order = batch.topic_partition, batch.order[0]
        self.created_ms = self.closed_ms = batch.created_ms
        self.result = batch.result
        self.new_appender = lambda: batch.appender

    def hand_over(self, successor: ProducerBatch) -> None:
        self.successor = successor


@pytest.mark.skipif(
    not hasattr(RecordAccumulator.adopt, "__code__"), reason="other threads cannot run within compiled code"
)
def test_a_batch_that_is_taken_back_is_found_once_at_any_time() -> None:
    """By another thread: a commit, or a flush."""
    kit = Kit()
    future = kit.append()
    accumulator = kit.accumulator
    (batch,) = list(accumulator.incomplete)
    fast = Fast(batch)
    accumulator.incomplete.clear()
    accumulator.incomplete[fast] = fast
    found: list[list[Any]] = []

    def look(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is RecordAccumulator.adopt.__code__:
            sys.settrace(None)
            found.append(list(accumulator.pending_records()))
            sys.settrace(look)
            return look
        return None

    sys.settrace(look)
    try:
        accumulator.adopt(fast)
    finally:
        sys.settrace(None)
    assert len(found) > 5
    assert set(map(tuple, found)) == {(batch.result,)}
    assert not future.done()


def test_an_abort_waits_for_a_caller_that_takes_a_batch_back() -> None:
    kit = Kit()
    future = kit.append()
    accumulator = kit.accumulator
    (batch,) = list(accumulator.incomplete)
    fast = Fast(batch)
    del accumulator.incomplete[batch]
    accumulator.incomplete[fast] = fast
    error = KafkaError("aborted")
    with accumulator.queues.queue_of(batch.topic_partition).lock, pytest.raises(IllegalStateError):
        accumulator.abort_undrained_batches(error)  # would deadlock, as it is this thread that takes back
    accumulator.adopt(fast)
    accumulator.incomplete[fast] = fast  # as if the caller had not come to the end of ``adopt``
    accumulator.abort_undrained_batches(error)
    assert future.exception(0) is not None
    assert not accumulator.incomplete
