"""The Sender's rounds where batches are numbered: what a failed batch changes is acted on at once.

The clock stands still and poll blocks for nobody: the timeout that it was given says how long it would have.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kproducer import AbortTransactionError, DeliveryTimeoutError, Outcome, TransactionAbortedError
from kproducer._core.accumulator.producer_batch import ProducerBatch
from tests.support.units.scripted_client import SentRequest
from tests.support.units.sender_bench import Bench, error_of, initialized_manager

NOT_ENOUGH_REPLICAS = 19


def deliver_one(bench: Bench) -> None:
    bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms)
    bench.step()


def test_the_other_records_of_a_transaction_fail_at_once_after_one_has_expired() -> None:
    bench = Bench(transactions=initialized_manager("tx"), delivery_timeout_ms=40_000, batch_size=0)
    bench.client.ready_nodes = set()
    late = bench.send(0)
    bench.step()
    bench.clock.advance(20_000)
    other = bench.send(1)
    bench.step()
    bench.step(20_000)
    assert isinstance(error_of(late), DeliveryTimeoutError)
    assert bench.client.poll_timeouts[-1] == 0
    bench.step()
    assert isinstance(error_of(other), AbortTransactionError)
    bench.step()
    assert bench.client.poll_timeouts[-1] > 0


@pytest.mark.parametrize("transactional_id", [None, "tx"])
def test_a_request_that_cannot_be_made_is_acted_on_at_once(transactional_id: str | None) -> None:
    bench = Bench(transactions=initialized_manager(transactional_id), batch_size=0)
    deliver_one(bench)
    failed = bench.send()
    bench.client.fail_send = ValueError("boom")
    bench.step()
    assert "boom" in str(error_of(failed))
    assert bench.client.poll_timeouts[-1] == 0


# -- the numbers that go out ---------------------------------------------------------------------------

LOST = -2


def number_of(sent: SentRequest) -> tuple[int, int]:
    """Epoch and base sequence of the only batch of a request."""
    ((data,),) = [topic.partition_data for topic in sent.message.topic_data]
    epoch, sequence = struct.unpack_from(">hi", bytes(data.records), 51)
    return epoch, sequence


def answer(bench: Bench, sent: SentRequest, code: int) -> None:
    if code == LOST:
        bench.client.disconnect(sent, bench.clock.now_ms)
    else:
        bench.client.answer_all(sent, bench.clock.now_ms, code)


def sent_soon(bench: Bench) -> SentRequest:
    """The next request; the first rounds may only deal with what has happened."""
    for _ in range(3):
        for sent in bench.step(bench.retry_delay()):
            return sent
    raise AssertionError("nothing is sent any more")


def test_the_next_number_after_a_request_that_could_not_be_made() -> None:
    bench = Bench(transactions=initialized_manager(), batch_size=0)
    deliver_one(bench)
    failed = bench.send()
    bench.client.fail_send = ValueError("boom")
    bench.step()
    assert error_of(failed).outcome is Outcome.NOT_SENT
    bench.client.fail_send = None
    bench.send()
    assert number_of(sent_soon(bench)) == (1, 0)


def test_the_next_number_after_a_batch_that_could_not_be_finished(monkeypatch: Any) -> None:
    bench = Bench(transactions=initialized_manager(), batch_size=0)
    deliver_one(bench)
    failed = bench.send()

    def boom(batch: ProducerBatch) -> Any:
        raise MemoryError("boom")

    with monkeypatch.context() as patch:
        patch.setattr(ProducerBatch, "records", boom)
        bench.step()
    assert error_of(failed).outcome is Outcome.NOT_SENT
    bench.send()
    assert number_of(sent_soon(bench)) == (1, 0)


@pytest.mark.parametrize("code", [0, 6])
def test_a_bug_while_an_answer_is_dealt_with_does_not_hold_up_the_partition(
    code: int, monkeypatch: Any
) -> None:
    bench = Bench(transactions=initialized_manager(), batch_size=0)
    deliver_one(bench)
    failed = bench.send()
    sent = bench.step_one()
    where = bench.transactions.sequences if bench.transactions and code == 0 else bench.metadata

    def boom(*args: Any) -> None:
        raise ValueError("boom")

    with monkeypatch.context() as patch:
        patch.setattr(where, "succeeded" if code == 0 else "request_update", boom)
        answer(bench, sent, code)
        bench.step()
    assert error_of(failed).outcome is Outcome.UNKNOWN
    later = bench.send(value=b"later")
    sent = sent_soon(bench)
    assert number_of(sent) == (1, 0)
    answer(bench, sent, 0)
    bench.step()
    assert later.exception(0) is None
    bench.assert_clean()


def test_an_abort_does_not_wait_for_numbered_batches_that_were_given_up() -> None:
    bench = Bench(transactions=initialized_manager("tx"), batch_size=0, retry_backoff_ms=60_000)
    manager = bench.transactions
    assert manager is not None
    given_up = bench.send()
    answer(bench, bench.step_one(), NOT_ENOUGH_REPLICAS)
    bench.step()
    manager.state_machine.begin_abort()
    assert not manager.protocol.next_request(bench.clock.now_ms)
    bench.accumulator.abort_undrained_batches(TransactionAbortedError("aborted"), sent_too=True)
    assert error_of(given_up).outcome is Outcome.REJECTED
    assert manager.protocol.next_request(bench.clock.now_ms)
