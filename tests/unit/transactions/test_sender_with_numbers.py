"""The Sender's rounds where batches are numbered: what a failed batch changes is acted on at once.

The clock stands still and poll blocks for nobody: the timeout that it was given says how long it would have.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kproducer import AbortTransactionError, DeliveryTimeoutError, Outcome, TransactionAbortedError
from kproducer.accumulator.producer_batch import ProducerBatch
from tests.support.units.scripted_client import SentRequest
from tests.support.units.sender_bench import Bench, error_of, initialized_manager

NOT_ENOUGH_REPLICAS = 19
INVALID_RECORD = 87


def deliver_one(bench: Bench) -> None:
    bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms)
    bench.step()


def test_a_partition_goes_on_at_once_after_a_batch_has_expired_in_its_queue() -> None:
    """The sequence of the expired batch has to be given up first, which happens at the start of a round."""
    bench = Bench(
        transactions=initialized_manager(), delivery_timeout_ms=40_000, retry_backoff_ms=60_000, batch_size=0
    )
    deliver_one(bench)
    late = bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, NOT_ENOUGH_REPLICAS)
    bench.step()
    bench.clock.advance(20_000)
    later = bench.send(value=b"later")
    bench.step()
    bench.clock.advance(20_000)
    assert not late.done()
    assert bench.step() == []
    assert isinstance(error_of(late), DeliveryTimeoutError)
    assert bench.client.poll_timeouts[-1] == 0
    sent = bench.step_one()
    bench.client.answer_all(sent, bench.clock.now_ms)
    bench.step()
    assert later.result(0).partition == 0
    assert bench.client.poll_timeouts[-1] > 0


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


@pytest.mark.parametrize("max_in_flight", [1, 5])
@pytest.mark.parametrize(
    ("code", "number"),
    [
        (0, (0, 2)),
        (46, (0, 2)),
        (45, (1, 0)),
        (INVALID_RECORD, (1, 0)),
        (10, (1, 0)),
        (6, (1, 0)),
        (LOST, (1, 0)),
    ],
)
def test_the_next_number_after_a_late_answer(code: int, number: tuple[int, int], max_in_flight: int) -> None:
    """The batch has expired in flight: the partition waits for the end of its request, and then goes on."""
    bench = Bench(
        transactions=initialized_manager(),
        delivery_timeout_ms=30_000,
        batch_size=0,
        max_in_flight_requests_per_connection=max_in_flight,
    )
    deliver_one(bench)
    late = bench.send()
    sent = bench.step_one()
    assert number_of(sent) == (0, 1)
    bench.step(30_000)
    assert error_of(late).outcome is Outcome.UNKNOWN
    later = bench.send(value=b"later")
    assert bench.step() == []
    answer(bench, sent, code)
    bench.step()
    sent = sent_soon(bench)
    assert number_of(sent) == number
    answer(bench, sent, 0)
    bench.step()
    assert later.exception(0) is None
    bench.assert_clean()


@pytest.mark.parametrize(
    ("code", "number"),
    [(0, (0, 2)), (46, (0, 2)), (45, (1, 0)), (INVALID_RECORD, (1, 0)), (6, (0, 2)), (LOST, (0, 2))],
)
def test_the_number_of_a_batch_behind_one_that_is_answered_late(code: int, number: tuple[int, int]) -> None:
    """It keeps its number unless the late batch is certainly missing."""
    bench = Bench(transactions=initialized_manager(), delivery_timeout_ms=30_000, batch_size=0)
    deliver_one(bench)
    bench.send()
    first = bench.step_one()
    bench.clock.advance(500)
    behind = bench.send(value=b"behind")
    second = bench.step_one()
    assert number_of(second) == (0, 2)
    bench.step(29_500)
    assert not behind.done()
    answer(bench, first, code)
    answer(bench, second, NOT_ENOUGH_REPLICAS)
    bench.step()
    bench.step()
    sent = bench.step_one(400)
    assert number_of(sent) == number
    answer(bench, sent, 0)
    bench.step()
    assert behind.exception(0) is None
    bench.assert_clean()


@pytest.mark.parametrize(
    ("codes", "outcomes", "number"),
    [
        ((INVALID_RECORD, LOST, NOT_ENOUGH_REPLICAS), (Outcome.REJECTED, Outcome.UNKNOWN, None), (1, 0)),
        (
            (INVALID_RECORD, NOT_ENOUGH_REPLICAS, LOST),
            (Outcome.REJECTED, Outcome.REJECTED, Outcome.UNKNOWN),
            (1, 0),
        ),
    ],
)
def test_what_cannot_be_sent_again_leaves_the_queue(
    codes: tuple[int, ...], outcomes: tuple[Outcome | None, ...], number: tuple[int, int]
) -> None:
    bench = Bench(transactions=initialized_manager(), batch_size=0)
    deliver_one(bench)
    futures = [bench.send(value=b"%d" % code) for code in codes]
    sent = bench.step()
    assert len(sent) == len(codes)
    for request, code in zip(sent, codes, strict=True):
        answer(bench, request, code)
    bench.step()
    bench.step()
    futures.append(bench.send(value=b"next"))
    waiting = [sent_soon(bench)]
    assert number_of(waiting[0]) == number
    while waiting:
        answer(bench, waiting.pop(), 0)
        bench.step()
        bench.step()
        waiting += bench.client.unanswered()
    assert [None if f.exception(0) is None else error_of(f).outcome for f in futures] == [*outcomes, None]
    assert len(bench.deliveries) == 1 + len(futures)
    bench.assert_clean()


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
    manager.lifecycle.begin_abort()
    assert not manager.protocol.next_request(bench.clock.now_ms)
    bench.accumulator.abort_undrained_batches(TransactionAbortedError("aborted"), sent_too=True)
    assert error_of(given_up).outcome is Outcome.REJECTED
    assert manager.protocol.next_request(bench.clock.now_ms)
