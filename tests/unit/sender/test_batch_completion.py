"""Retries, failures, splits and expiry: what becomes of a batch, and what is said about it."""

from __future__ import annotations

import pytest

from kproducer import (
    AuthenticationError,
    DeliveryTimeoutError,
    DisconnectedError,
    Outcome,
    RecordTooLargeError,
    RequestTimeoutError,
    TopicPartition,
)
from kproducer.errors import KafkaError, LocalProtocolError
from kproducer.errors.broker_errors import ERRORS_BY_CODE
from tests.support.units.scripted_client import result
from tests.support.units.sender_bench import Bench, error_of, initialized_manager

#: Codes that the producer tries again, and those that fail the batch at once.
RETRIED = [2, 3, 5, 6, 7, 9, 13, 19, 20, 56, 74, 75, 100, 103]
FAILED = [-1, 1, 8, 17, 18, 21, 29, 31, 32, 35, 42, 43, 44, 45, 47, 53, 76, 87, 90]


@pytest.mark.parametrize("code", RETRIED)
def test_retriable_errors_are_tried_again(code: int) -> None:
    bench = Bench()
    future = bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, code)
    bench.step()
    assert not future.done()
    assert bench.metadata.update_requested is ERRORS_BY_CODE[code].refreshes_metadata
    bench.client.answer_all(bench.step_one(bench.retry_delay()), bench.clock.now_ms, base_offset=3)
    bench.step()
    assert future.result(0).offset == 3
    assert len(bench.deliveries) == 1
    assert bench.sender.metrics.retries.total == 1
    bench.assert_clean()


@pytest.mark.parametrize("code", FAILED)
def test_other_errors_fail_the_batch_and_no_other(code: int) -> None:
    bench = Bench()
    future, other = bench.send(0), bench.send(2)
    sent = bench.step_one()
    bench.client.answer(sent, bench.clock.now_ms, ("t", result(0, code)), ("t", result(2)))
    bench.step()
    error = error_of(future)
    assert type(error) is ERRORS_BY_CODE[code]
    assert error.outcome is (Outcome.UNKNOWN if code == -1 else Outcome.REJECTED)
    assert other.result(0).offset == 0
    assert bench.step(bench.retry_delay()) == []
    bench.assert_clean()


def test_a_failure_says_where_when_and_at_which_attempt() -> None:
    bench = Bench(retries=1)
    future = bench.send(1)
    bench.client.answer_all(bench.step_one(), bench.clock.advance(7), 19)
    bench.step()
    bench.client.answer_all(bench.step_one(bench.retry_delay()), bench.clock.now_ms, 19, message="too few")
    bench.step()
    error = error_of(future)
    for words in (
        "NOT_ENOUGH_REPLICAS",
        "too few",
        "t-1",
        "b1:9092 (id 1)",
        "Produce v12",
        "attempt 2",
        "ms",
        "retries=1",
    ):
        assert words in str(error)
    assert error.broker_message == "too few"  # type: ignore[attr-defined]


def test_a_failure_says_whether_there_was_an_answer_and_whether_anything_was_sent() -> None:
    """An answer that never came is not "answered", and what was not sent has no version."""
    texts = {}
    for how in ("answered", "timed out", "disconnected", "no version", "not encoded"):
        bench = Bench(retries=0)
        future = bench.send()
        sent = bench.step_one()
        now_ms = bench.clock.advance(7)
        if how == "answered":
            bench.client.answer_all(sent, now_ms, 19)
        elif how == "timed out":
            bench.client.answer_with(sent, now_ms, disconnected=True, error=RequestTimeoutError("late"))
        elif how == "disconnected":
            bench.client.disconnect(sent, now_ms, DisconnectedError("reset by peer"))
        elif how == "no version":
            bench.client.refuse_version(sent, now_ms)
        else:
            bench.client.answer_with(sent, now_ms, error=LocalProtocolError("does not fit"))
        bench.step()
        texts[how] = str(error_of(future))
        bench.assert_clean()
    assert "Produce v12 to b0:9092 (id 0), attempt 1, answered after 7 ms" in texts["answered"]
    for how in ("timed out", "disconnected"):
        assert "Produce v12 to b0:9092 (id 0), attempt 1, no response after 7 ms" in texts[how]
        assert "answered" not in texts[how]
    for how in ("no version", "not encoded"):
        assert "Produce to b0:9092 (id 0), attempt 1, never sent" in texts[how]
        assert "answer" not in texts[how]
        assert "v12" not in texts[how]


def test_no_retry_starts_before_its_backoff() -> None:
    bench = Bench(retry_backoff_ms=1000, retry_backoff_max_ms=1000)
    bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, 7)
    bench.step()
    assert bench.step(790) == []
    assert 0 < bench.client.poll_timeouts[-1] <= 410
    assert len(bench.step(410)) == 1


def test_retries_come_to_an_end() -> None:
    bench = Bench(retries=2)
    future = bench.send()
    for _ in range(3):
        bench.client.answer_all(bench.step_one(bench.retry_delay()), bench.clock.now_ms, 19)
        bench.step()
    assert error_of(future).outcome is Outcome.REJECTED
    assert bench.step(bench.retry_delay()) == []
    bench.assert_clean()


def test_a_lost_connection_is_retried_and_may_have_written() -> None:
    bench = Bench(retries=1)
    future = bench.send()
    sent = bench.step_one()
    bench.client.disconnect(sent, bench.clock.now_ms, DisconnectedError("reset by peer"))
    bench.step()
    assert bench.metadata.update_requested
    # A refusal of the second attempt does not take back what the first may have written.
    bench.client.answer_all(bench.step_one(bench.retry_delay()), bench.clock.now_ms, 19)
    bench.step()
    assert error_of(future).outcome is Outcome.UNKNOWN


def test_a_request_timeout_is_retried_and_named() -> None:
    bench = Bench(retries=0)
    future = bench.send()
    bench.client.answer_with(
        bench.step_one(), bench.clock.now_ms, disconnected=True, error=RequestTimeoutError("late")
    )
    bench.step()
    error = error_of(future)
    assert isinstance(error, RequestTimeoutError)
    assert "request_timeout_ms=30000" in str(error)
    assert error.outcome is Outcome.UNKNOWN


def test_a_broker_without_a_common_version_fails_the_batch_at_once() -> None:
    bench = Bench()
    future = bench.send()
    bench.client.refuse_version(bench.step_one(), bench.clock.now_ms)
    bench.step()
    error = error_of(future)
    assert "0-2" in str(error)
    assert error.outcome is Outcome.NOT_SENT
    bench.assert_clean()


def test_an_error_that_is_not_tried_again_because_of_the_transaction_blames_no_timeout() -> None:
    manager = initialized_manager("tx")
    bench = Bench(transactions=manager)
    future = bench.send()
    sent = bench.step_one()
    with manager.state_machine.lock:
        manager.state_machine.fail_for_good(KafkaError("fenced"))
    bench.client.answer_all(sent, bench.clock.now_ms, 74)
    bench.step()
    error = error_of(future)
    assert type(error) is ERRORS_BY_CODE[74]
    assert "failed permanently" in str(error)
    assert "delivery_timeout_ms" not in str(error)


def test_a_codec_that_the_broker_does_not_know_is_named() -> None:
    bench = Bench(compression_type="lz4")
    future = bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, 76)
    bench.step()
    assert "compression_type=lz4" in str(error_of(future))


def test_with_one_request_in_flight_the_order_survives_a_retry() -> None:
    bench = Bench(max_in_flight_requests_per_connection=1, batch_size=0)
    bench.client.max_in_flight = 1
    for value in (b"1", b"2", b"3"):
        bench.send(value=value)
    order = []
    codes = iter([7, 0, 0, 7, 0])
    for _ in range(12):
        for sent in bench.step(bench.retry_delay()):
            (records,) = [p.records for t in sent.message.topic_data for p in t.partition_data]
            assert records is not None
            code = next(codes)
            if not code:
                order.append(bytes(records)[-2:-1])
            bench.client.answer_all(sent, bench.clock.now_ms, code)
    assert order == [b"1", b"2", b"3"]
    bench.assert_clean()


def test_muted_order_keeps_the_second_batch_back_when_the_first_expires() -> None:
    bench = Bench(
        max_in_flight_requests_per_connection=1,
        batch_size=0,
        delivery_timeout_ms=2000,
        request_timeout_ms=1500,
    )
    first = bench.send(value=b"1")
    sent = bench.step_one()
    bench.clock.advance(1000)
    second = bench.send(value=b"2")
    assert bench.step(1000) == []
    assert isinstance(error_of(first), DeliveryTimeoutError)
    assert not second.done()
    bench.client.disconnect(sent, bench.clock.now_ms)
    bench.step()
    assert len(bench.step()) == 1


def test_an_expired_batch_in_flight_keeps_its_memory_until_the_request_is_over() -> None:
    bench = Bench(delivery_timeout_ms=30000, request_timeout_ms=30000)
    future = bench.send()
    sent = bench.step_one()
    bench.step(30000)
    error = error_of(future)
    assert error.outcome is Outcome.UNKNOWN
    assert "waiting for the response of broker b0:9092" in str(error)
    assert bench.pool.available_bytes < bench.config.buffer_memory
    bench.client.answer_all(sent, bench.clock.now_ms)
    bench.step()
    assert len(bench.deliveries) == 1
    bench.assert_clean()


@pytest.mark.parametrize("code", [0, 7, 10, 87])
def test_an_expired_batch_is_neither_split_nor_sent_again(code: int) -> None:
    bench = Bench(delivery_timeout_ms=30000, linger_ms=0)
    futures = [bench.send(), bench.send()]
    sent = bench.step_one()
    bench.step(30000)
    assert all(f.done() for f in futures)
    bench.client.answer_all(sent, bench.clock.now_ms, code)
    bench.step()
    assert bench.step(bench.retry_delay()) == []
    assert len(bench.deliveries) == 2
    bench.assert_clean()


def test_a_queued_batch_that_expires_says_what_it_waited_for() -> None:
    bench = Bench(delivery_timeout_ms=30000)
    bench.learn(leaders={0: -1}, epoch=2)
    leaderless = bench.send(0)
    bench.client.ready_nodes = {0}
    bench.client.errors[1] = "connection refused"
    unreachable = bench.send(1)
    fine = bench.send(2)
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms)
    bench.step()
    bench.step(30000)
    assert "no leader is known for t-0" in str(error_of(leaderless))
    assert "connection refused" in str(error_of(unreachable))
    for future in (leaderless, unreachable):
        assert error_of(future).outcome is Outcome.NOT_SENT
        assert "delivery_timeout_ms=30000" in str(error_of(future))
    assert fine.result(0)
    bench.assert_clean()


def test_a_batch_that_was_refused_and_then_expires_is_known_to_be_refused() -> None:
    bench = Bench(delivery_timeout_ms=30000)
    future = bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, 19)
    bench.step()
    bench.client.ready_nodes = set()
    bench.step(30000)
    error = error_of(future)
    assert "NOT_ENOUGH_REPLICAS" in str(error)
    assert error.outcome is Outcome.REJECTED


def test_too_large_a_batch_is_split_and_every_record_arrives_once() -> None:
    bench = Bench(linger_ms=5)
    futures = [bench.send(value=b"x" * 1000) for _ in range(8)]
    bench.client.answer_all(bench.step_one(5), bench.clock.now_ms, 10)
    bench.step()
    offset = 0
    for _ in range(40):
        for sent in bench.client.unanswered():
            (records,) = [p.records for t in sent.message.topic_data for p in t.partition_data]
            assert records is not None
            count = int.from_bytes(bytes(records[57:61]), "big")
            bench.client.answer_all(sent, bench.clock.now_ms, base_offset=offset)
            offset += count
        bench.step()
    assert [f.result(0).offset for f in futures] == list(range(8))
    assert bench.sender.metrics.splits.total == 1
    assert len(bench.deliveries) == 8
    bench.assert_clean()


def test_splitting_ends_at_a_record_that_is_too_large_by_itself() -> None:
    bench = Bench(linger_ms=5)
    futures = [bench.send(value=b"x" * 1000) for _ in range(4)]
    bench.clock.advance(5)
    for _ in range(60):
        for sent in bench.step():
            bench.client.answer_all(sent, bench.clock.now_ms, 10)
        if all(f.done() for f in futures):
            break
    for future in futures:
        error = error_of(future)
        assert isinstance(error, RecordTooLargeError)
        assert error.outcome is Outcome.REJECTED
    assert len(bench.deliveries) == 4
    bench.step()
    bench.assert_clean()


def test_an_outage_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Every record's future has its error; the log has one warning, and later one with a count."""
    bench = Bench()

    def fail_one() -> None:
        future = bench.send()
        bench.client.answer_all(bench.step_one(), bench.clock.now_ms, 17)
        bench.step()
        assert future.exception(0) is not None

    def warnings() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]

    for _ in range(20):
        fail_one()
    assert len(warnings()) == 1
    assert "1 records failed (rejected): INVALID_TOPIC_EXCEPTION" in warnings()[0]
    bench.clock.advance(60_000)
    fail_one()
    assert len(warnings()) == 2
    assert warnings()[1].endswith("(19 more like this since the last such message)")
    bench.assert_clean()


def test_a_refused_leader_fails_what_was_never_sent_to_it() -> None:
    bench = Bench()
    retried = bench.send(0)
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, RETRIED[0])
    bench.step()
    bench.client.ready_nodes = set()
    leaders = {p: bench.metadata.snapshot.leader_for(TopicPartition("t", p)) for p in range(4)}
    futures = {p: bench.send(p) for p in leaders}
    refused = leaders[0]
    assert refused is not None
    bench.client.refusals = {refused.id: AuthenticationError("wrong certificate")}
    bench.step()
    for partition, future in futures.items():
        assert future.done() is (leaders[partition] == refused)
    error = error_of(futures[0])
    assert type(error) is AuthenticationError
    assert error.outcome is Outcome.NOT_SENT
    assert not retried.done()
    assert bench.sender.metrics.record_error_total == sum(future.done() for future in futures.values())


def test_without_a_leader_batches_fail_once_no_broker_can_be_reached() -> None:
    bench = Bench()
    bench.client.ready_nodes = {1}
    future = bench.send(0)
    bench.learn(leaders={0: -1, 1: -1, 2: -1, 3: -1}, epoch=2)
    bench.client.refusals = {0: AuthenticationError("wrong certificate")}
    bench.step()
    assert not future.done()
    bench.client.ready_nodes = set()
    bench.client.refusals = {0: AuthenticationError("wrong certificate")}
    bench.step()
    assert type(error_of(future)) is AuthenticationError


def test_a_refusal_counts_although_the_coordinators_requests_connect_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(transactions=initialized_manager("tx"))
    bench.client.ready_nodes = set()
    futures = [bench.send(partition) for partition in range(4)]

    def connect_again(_: int) -> int:
        bench.client.refusals.clear()
        return 1000

    monkeypatch.setattr(bench.sender, "_advance_transactions", connect_again)
    bench.client.refusals = {node_id: AuthenticationError("wrong password") for node_id in (0, 1)}
    bench.step()
    assert all(type(error_of(future)) is AuthenticationError for future in futures)
