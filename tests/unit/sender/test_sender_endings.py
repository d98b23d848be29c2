"""How the loop ends, and what is said of records that were late, split, or caught in the middle of it."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from kproducer import Outcome, ProducerClosedError
from kproducer.errors import DeliveryTimeoutError, RequestTimeoutError
from tests.support.units.sender_bench import Bench, error_of

PATIENCE_S = 60.0
NOT_ENOUGH_REPLICAS = 19


def run_to_the_end(bench: Bench) -> None:
    thread = threading.Thread(target=bench.sender.run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_batch_that_is_late_when_its_node_comes_back_is_not_sent_any_more() -> None:
    """A record that fails and is sent all the same is written twice if the application sends it again."""
    bench = Bench(delivery_timeout_ms=30_000)
    bench.client.ready_nodes = set()
    future = bench.send()
    assert bench.step() == []
    bench.client.ready_nodes = None
    assert bench.step(30_000) == []
    error = error_of(future)
    assert isinstance(error, DeliveryTimeoutError)
    assert error.outcome is Outcome.NOT_SENT
    bench.assert_clean()


def test_closing_does_not_wait_for_the_answer_to_what_has_failed_already() -> None:
    """A broker may throttle for days; everybody has been told by then."""
    bench = Bench(delivery_timeout_ms=30_000)
    future = bench.send()
    bench.step_one()
    bench.step(30_000)
    assert error_of(future).outcome is Outcome.UNKNOWN
    assert bench.accumulator.incomplete_count == 1
    bench.sender.initiate_close()
    run_to_the_end(bench)
    bench.assert_clean()
    assert bench.sender.records_lost == 0


def test_the_expiry_of_the_last_batch_ends_a_closing_loop() -> None:
    """It ends no poll: until the next metadata update the loop would sleep."""
    bench = Bench(delivery_timeout_ms=30_000)
    future = bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, NOT_ENOUGH_REPLICAS)
    bench.client.ready_nodes = set()
    bench.sender.initiate_close()
    bench.step()
    assert bench.client.poll_timeouts[-1] > 0
    bench.step(30_000)
    assert error_of(future).outcome is Outcome.REJECTED
    assert bench.client.poll_timeouts[-1] == 0


def test_a_loop_that_dies_while_it_resolves_a_batch_still_fails_the_others(monkeypatch: Any) -> None:
    bench = Bench()
    first, second = bench.send(0), bench.send(1)
    (one, _) = bench.step()
    bench.client.answer_all(one, bench.clock.now_ms)

    def die(batch: Any) -> None:
        monkeypatch.undo()
        raise SystemExit("in the middle")

    monkeypatch.setattr(bench.accumulator, "deallocate", die)
    run_to_the_end(bench)
    assert first.result(0).offset == 0
    error = error_of(second)
    assert isinstance(error, ProducerClosedError)
    assert "in the middle" in str(error)
    bench.assert_clean()


def test_parts_of_a_batch_that_may_have_been_written_do_not_claim_otherwise() -> None:
    bench = Bench(linger_ms=5)
    futures = [bench.send(value=b"x" * 50) for _ in range(2)]
    unanswered = bench.step_one(5)
    bench.client.answer_with(
        unanswered, bench.clock.now_ms, disconnected=True, error=RequestTimeoutError("late")
    )
    bench.step()
    refused = bench.step_one(bench.retry_delay())
    bench.client.answer_all(refused, bench.clock.now_ms, 10)
    bench.client.ready_nodes = set()
    bench.step()
    assert bench.sender.metrics.splits.total == 1
    bench.sender.force_close()
    run_to_the_end(bench)
    assert [error_of(future).outcome for future in futures] == [Outcome.UNKNOWN] * 2


def test_the_garbage_collector_may_end_a_producer_in_the_middle_of_anything() -> None:
    """It runs finalizers on any thread, inside of any lock; waiting for one that is held hangs for ever."""
    bench = Bench()
    future = bench.send()
    wakeups: list[bool] = []
    bench.client.wakeup = lambda: wakeups.append(True)  # type: ignore[method-assign]
    returned = threading.Event()

    def collect() -> None:
        queues = bench.accumulator.queues.all_queues()
        held = [queue.lock for queue in queues]
        held += [bench.pool.lock, bench.sender._closing._cond]  # type: ignore[attr-defined]
        for lock in held:
            lock.acquire()
        assert bench.accumulator.incomplete_record_count == 1
        bench.sender.end_when_done()
        returned.set()
        for lock in held:
            lock.release()

    threading.Thread(target=collect, daemon=True).start()
    assert returned.wait(PATIENCE_S)
    assert wakeups

    def answer() -> None:
        for sent in bench.client.unanswered():
            bench.client.answer_all(sent, bench.clock.now_ms)

    bench.client.on_poll = answer
    run_to_the_end(bench)
    assert future.result(0).offset == 0
    assert bench.accumulator.queues.is_closed


def test_who_waits_for_metadata_is_told_at_once_that_the_producer_is_being_closed() -> None:
    """Records that cannot be delivered may keep the loop going for minutes."""
    bench = Bench()
    bench.client.ready_nodes = set()
    bench.send()
    bench.step()
    told: list[object] = []
    fatal_count = bench.metadata.begin_wait()
    bench.metadata.add_listener(lambda: told.append(None))
    bench.sender.initiate_close()
    assert told
    with pytest.raises(ProducerClosedError):
        bench.metadata.has_update(bench.metadata.update_version, fatal_count)
    bench.sender.force_close()
    run_to_the_end(bench)


def test_futures_are_completed_before_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A handler may block until the futures are done."""
    bench = Bench()
    future = bench.send()
    done_when_logged: dict[str, bool] = {}

    class Watching(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            done_when_logged[record.getMessage()] = future.done()

    def die() -> None:
        raise SystemExit("in the loop")

    bench.client.on_poll = die
    handler = Watching(logging.ERROR)
    logging.getLogger("kproducer").addHandler(handler)
    try:
        run_to_the_end(bench)
    finally:
        logging.getLogger("kproducer").removeHandler(handler)
    assert len(done_when_logged) == 2, done_when_logged
    assert all(done_when_logged.values())
    assert "in the loop" in str(error_of(future))
