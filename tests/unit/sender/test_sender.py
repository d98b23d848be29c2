"""Sender, stepped round by round over a scripted client and a clock that stands still."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kproducer import (
    KafkaError,
    Outcome,
    ProducerClosedError,
)
from kproducer._core.runtime.clock import NEVER_MS
from tests.support.units.appending import append_value
from tests.support.units.sender_bench import Bench, error_of


def test_one_request_for_each_node_with_all_its_partitions() -> None:
    bench = Bench()
    for partition in range(4):
        bench.send(partition)
    requests = bench.step()
    assert sorted((r.node_id, sorted(r.partitions)) for r in requests) == [
        (0, [("t", 0), ("t", 2)]),
        (1, [("t", 1), ("t", 3)]),
    ]
    message = requests[0].message
    assert (message.acks, message.timeout_ms) == (-1, 30000)


def test_batches_for_unknown_leaders_wait_and_metadata_is_asked_for() -> None:
    bench = Bench()
    bench.learn(leaders={0: -1}, epoch=2)
    version = bench.metadata.update_version
    future = bench.send()
    assert bench.step() == []
    assert bench.metadata.update_requested
    bench.learn(epoch=3)
    assert bench.metadata.update_version > version
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms)
    bench.step()
    assert future.result(0).offset == 0


def test_a_node_that_is_not_ready_does_not_hold_up_the_others() -> None:
    bench = Bench()
    bench.client.ready_nodes = {1}
    bench.client.poll_delay = 37
    waiting, going = bench.send(0), bench.send(1)
    sent = bench.step_one()
    assert sent.node_id == 1
    assert bench.client.poll_timeouts[-1] == 37
    bench.client.answer_all(sent, bench.clock.now_ms)
    bench.step()
    assert going.done()
    assert not waiting.done()
    bench.client.ready_nodes = None
    assert bench.step_one().node_id == 0


def test_after_an_expiry_the_poll_waits_again() -> None:
    bench = Bench(delivery_timeout_ms=30000)
    bench.client.ready_nodes = set()
    bench.client.poll_delay = 10_000_000
    bench.send()
    bench.step(29990)
    assert bench.client.poll_timeouts[-1] == 10
    bench.step(10)
    bench.step()
    assert bench.client.poll_timeouts[-1] > 1000


def test_an_idle_sender_polls_without_end() -> None:
    bench = Bench()
    bench.step()
    assert bench.client.poll_timeouts == [3_600_000]


def test_a_request_that_cannot_be_made_fails_its_batches_and_nothing_else() -> None:
    bench = Bench()
    bench.client.fail_send = ValueError("boom")
    future = bench.send()
    bench.step()
    error = error_of(future)
    assert "boom" in str(error)
    assert error.outcome is Outcome.NOT_SENT
    bench.client.fail_send = None
    bench.assert_clean()
    bench.send()
    assert len(bench.step()) == 1


def test_several_requests_for_a_busy_node_go_out_before_the_poll() -> None:
    bench = Bench(batch_size=0)
    for _ in range(4):
        bench.send()
    assert len(bench.step()) == 4
    assert len(bench.client.poll_timeouts) == 1


def test_a_partition_is_sent_again_while_its_node_has_room_only() -> None:
    bench = Bench(batch_size=0)
    bench.client.max_in_flight = 2
    for _ in range(4):
        bench.send()
    first, second = bench.step()
    bench.client.answer_all(first, bench.clock.now_ms)
    assert len(bench.step()) == 1
    bench.client.answer_all(second, bench.clock.now_ms)
    assert len(bench.step()) == 1
    assert bench.step() == []


def run_in_thread(bench: Bench) -> threading.Thread:
    thread = threading.Thread(target=bench.sender.run, daemon=True)
    thread.start()
    return thread


def test_run_survives_errors_counts_them_and_does_not_spin(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    calls = 0
    third_call = threading.Event()

    def fail() -> None:
        nonlocal calls
        calls += 1
        if calls >= 3:
            third_call.set()
        raise RuntimeError("a bug")

    bench.client.on_poll = fail
    thread = run_in_thread(bench)
    assert third_call.wait(60)
    bench.client.on_poll = None
    bench.sender.initiate_close()
    thread.join(60)
    assert not thread.is_alive()
    assert bench.client.closed
    assert bench.sender.metrics.io_error_total >= 3
    assert calls < 50
    assert "a bug" in caplog.text


def test_when_the_loop_ends_for_good_every_future_fails(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    future = bench.send()

    def end() -> None:
        raise SystemExit("no more")

    bench.client.on_poll = end
    thread = run_in_thread(bench)
    thread.join(60)
    error = error_of(future)
    assert isinstance(error, ProducerClosedError)
    assert "no more" in str(error)
    assert error.outcome is Outcome.UNKNOWN
    assert bench.client.closed
    with pytest.raises(ProducerClosedError):
        bench.send()
    bench.assert_clean()
    assert bench.sender.records_lost == 1
    assert "1 records were not delivered" in caplog.text


def test_force_close_fails_what_is_left_with_what_is_known_of_each() -> None:
    bench = Bench()
    bench.client.ready_nodes = {0}
    sent, unsent = bench.send(0), bench.send(1)
    bench.step()
    bench.sender.force_close()
    run_in_thread(bench).join(60)
    assert error_of(sent).outcome is Outcome.UNKNOWN
    assert error_of(unsent).outcome is Outcome.NOT_SENT
    assert bench.sender.records_lost == 2
    bench.assert_clean()


def test_a_callback_that_raises_hurts_nobody() -> None:
    bench = Bench(linger_ms=5)

    def explode(metadata: Any, error: KafkaError | None) -> None:
        raise ValueError("callback bug")

    snapshot = bench.metadata.snapshot
    first, _ = append_value(bench.accumulator, "t", 0, b"1", snapshot, on_delivery=explode)
    second = bench.send()
    bench.client.answer_all(bench.step_one(5), bench.clock.now_ms)
    bench.step()
    assert first.result(0).offset == 0
    assert second.result(0).offset == 1
    assert bench.sender.metrics.io_error_total == 0
    bench.assert_clean()


def test_while_it_waits_it_says_when_it_looks_again_and_while_it_looks_it_does_not() -> None:
    bench = Bench(linger_ms=10)
    bench.send()
    announced: list[int] = []
    looks: list[int] = []
    ready = bench.accumulator.ready_batches.ready

    def look(snapshot: Any, now_ms: int) -> Any:
        looks.append(bench.accumulator.next_look_ms)
        return ready(snapshot, now_ms)

    bench.accumulator.ready_batches.ready = look  # type: ignore[method-assign]
    bench.client.on_poll = lambda: announced.append(bench.accumulator.next_look_ms)
    bench.step()
    assert announced == [bench.clock.now_ms + 10]
    bench.step(10)
    assert set(looks) == {NEVER_MS}
