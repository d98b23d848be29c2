"""Every batch of a Produce request gets one outcome, also from responses that make no sense."""

from __future__ import annotations

import pytest

from kproducer import (
    BatchRejectedError,
    Outcome,
    TopicPartition,
)
from kproducer.errors import IncompleteResponseError
from kproducer.errors.broker_errors import ERRORS_BY_CODE, InvalidRecordError, UnrecognizedCodeError
from tests.support.units.scripted_client import endpoint, result
from tests.support.units.sender_bench import Bench, error_of


def test_offsets_and_timestamps_come_from_the_response() -> None:
    bench = Bench(linger_ms=5)
    first, second = bench.send(), bench.send()
    sent = bench.step_one(advance_ms=5)
    bench.client.answer(sent, bench.clock.now_ms, ("t", result(0, base_offset=41)))
    bench.step()
    assert [f.result(0).offset for f in (first, second)] == [41, 42]
    assert first.result(0) == ("t", 0, 41, 1000, -1, 1)
    assert [error for _, error in bench.deliveries] == [None, None]
    bench.assert_clean()


def test_log_append_time_replaces_the_records_own() -> None:
    bench = Bench()
    future = bench.send()
    sent = bench.step_one()
    bench.client.answer(sent, bench.clock.now_ms, ("t", result(0, log_append_time_ms=777)))
    bench.step()
    assert future.result(0).timestamp_ms == 777


def test_an_unknown_code_fails_the_batch_and_keeps_its_number() -> None:
    bench = Bench()
    future = bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, 999)
    bench.step()
    error = error_of(future)
    assert isinstance(error, UnrecognizedCodeError)
    assert error.code == 999
    assert error.outcome is Outcome.UNKNOWN


def test_the_brokers_text_is_passed_on_and_ours_stands_in() -> None:
    bench = Bench()
    with_text, without = bench.send(0), bench.send(2)
    sent = bench.step_one()
    bench.client.answer(
        sent, bench.clock.now_ms, ("t", result(0, 44, message="house rule 7")), ("t", result(2, 44))
    )
    bench.step()
    assert "house rule 7" in str(error_of(with_text))
    assert ERRORS_BY_CODE[44].description in str(error_of(without))


def test_records_at_fault_get_their_text_and_the_innocent_are_told_so() -> None:
    bench = Bench(linger_ms=5)
    futures = [bench.send() for _ in range(4)]
    bench.client.answer(
        bench.step_one(5),
        bench.clock.now_ms,
        ("t", result(0, 87, message="bad records", record_errors={1: "no key", 2: None, 7: "?", -1: "?"})),
    )
    bench.step()
    innocent, own_text, common_text, last = [error_of(f) for f in futures]
    assert isinstance(own_text, InvalidRecordError)
    assert "no key" in str(own_text)
    assert isinstance(common_text, InvalidRecordError)
    assert "bad records" in str(common_text)
    assert isinstance(innocent, BatchRejectedError)
    assert isinstance(last, BatchRejectedError)
    assert {e.outcome for e in (innocent, own_text, common_text, last)} == {Outcome.REJECTED}
    # Asked again, each future has the same answer, and the callbacks were told the same.
    said = [repr(error) for error in (innocent, own_text, common_text, last)]
    assert [repr(error_of(future)) for future in futures] == said
    assert [repr(error) for _, error in bench.deliveries] == said


def test_a_partition_left_out_is_retried_and_extras_are_ignored() -> None:
    bench = Bench()
    named, omitted = bench.send(0), bench.send(2)
    sent = bench.step_one()
    bench.client.answer(
        sent,
        bench.clock.now_ms,
        ("t", result(0, base_offset=5)),
        ("t", result(0, 87, base_offset=9)),
        ("t", result(99, base_offset=1)),
        ("t", result(-7)),
        ("other", result(0)),
    )
    bench.step()
    assert named.result(0).offset == 5
    assert not omitted.done()
    retried = bench.step_one(bench.retry_delay())
    assert retried.partitions == [("t", 2)]
    bench.client.answer_all(retried, bench.clock.now_ms)
    bench.step()
    assert omitted.done()
    assert len(bench.deliveries) == 2
    bench.assert_clean()


def test_a_partition_left_out_for_ever_fails_as_an_incomplete_response() -> None:
    bench = Bench(retries=0)
    future = bench.send()
    bench.client.answer(bench.step_one(), bench.clock.now_ms)
    bench.step()
    assert isinstance(error_of(future), IncompleteResponseError)
    assert error_of(future).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("offset", [-1, -2, -(2**63)])
def test_an_impossible_offset_counts_as_unknown(offset: int) -> None:
    bench = Bench()
    future = bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, base_offset=offset)
    bench.step()
    assert future.result(0).offset == -1


def test_acks_0_completes_without_an_answer() -> None:
    bench = Bench(acks=0)
    future = bench.send()
    sent = bench.step_one()
    assert not sent.request.expect_response
    assert sent.message.acks == 0
    bench.client.answer_with(sent, bench.clock.now_ms)
    bench.step()
    assert future.result(0).offset == -1
    bench.assert_clean()


def test_a_named_new_leader_is_tried_at_once() -> None:
    bench = Bench()
    future = bench.send()
    sent = bench.step_one()
    assert sent.node_id == 0
    bench.client.answer(
        sent,
        bench.clock.now_ms,
        ("t", result(0, 6, leader=(7, 5))),
        node_endpoints=[endpoint(7)],
    )
    bench.step()
    retried = bench.step_one()
    assert retried.node_id == 7
    bench.client.answer_all(retried, bench.clock.now_ms)
    bench.step()
    assert future.done()


def test_a_named_leader_with_an_old_epoch_is_not_believed() -> None:
    bench = Bench()
    bench.learn(epoch=9)
    bench.send()
    bench.client.answer(
        bench.step_one(), bench.clock.now_ms, ("t", result(0, 6, leader=(1, 8))), node_endpoints=[endpoint(1)]
    )
    bench.step()
    assert bench.step() == []
    assert bench.metadata.snapshot.leader_for(TopicPartition("t", 0)).id == 0  # type: ignore[union-attr]
