"""FutureRecordMetadata keeps the promises of concurrent.futures.Future without its cost."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata, ProduceRequestResult
from kproducer._core.kernel import Deliveries
from kproducer.errors import KafkaError, KafkaTimeoutError, Outcome, ProducerClosedError
from kproducer.types import RecordMetadata, TopicPartition

TP = TopicPartition("topic", 3)


def make(count: int = 1) -> tuple[ProduceRequestResult, list[FutureRecordMetadata]]:
    result = ProduceRequestResult(TP)
    return result, [result.future(i, 1000 + i, 5, -1) for i in range(count)]


def finish(
    result: ProduceRequestResult,
    base_offset: int = 100,
    error: KafkaError | None = None,
    record_errors: Callable[[int], KafkaError] | None = None,
    on_delivery: Any = None,
    count: int = 0,
) -> bool:
    if not result.settle(base_offset if error is None else -1, -1, error, record_errors):
        return False
    deliveries = Deliveries()
    for index in range(count):
        deliveries.add(on_delivery, index, 1000 + index, 5, -1)
    result.release(deliveries)
    return True


def finish_soon(result: ProduceRequestResult, started: threading.Event, **how: Any) -> threading.Thread:
    def run() -> None:
        started.wait(30)
        finish(result, **how)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


class BoomError(KafkaError):
    pass


def test_success_resolves_every_record_to_its_own_metadata() -> None:
    result, futures = make(3)
    assert [f.done() for f in futures] == [False] * 3
    assert finish(result)
    assert [f.result(0) for f in futures] == [
        RecordMetadata("topic", 3, 100 + i, 1000 + i, 5, -1) for i in range(3)
    ]
    assert futures[0].get(timeout=0) == futures[0].result()
    assert futures[0].exception(0) is None


def test_log_append_time_replaces_the_timestamp_and_unknown_offset_stays_unknown() -> None:
    result, futures = make(2)
    assert result.settle(-1, 777, None, None)
    result.release()
    assert [(f.result().offset, f.result().timestamp_ms) for f in futures] == [(-1, 777), (-1, 777)]


def test_failure_is_raised_by_every_future_without_piling_up_frames() -> None:
    result, futures = make(2)
    finish(result, error=BoomError("no"))
    depths = []
    for future in futures * 3:
        with pytest.raises(BoomError) as caught:
            future.result(0)
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1
    assert isinstance(futures[0].exception(), BoomError)


def test_each_record_may_have_an_error_of_its_own() -> None:
    result, futures = make(2)
    finish(result, error=BoomError("batch"), record_errors=lambda index: BoomError(f"record {index}"))
    assert [str(f.exception()) for f in futures] == ["record 0", "record 1"]


def test_only_the_first_outcome_counts() -> None:
    result, futures = make()
    assert finish(result, base_offset=1)
    assert not finish(result, base_offset=2)
    assert not finish(result, error=BoomError("late"))
    assert futures[0].result(0).offset == 1


def test_result_times_out_and_can_be_asked_again() -> None:
    result, futures = make()
    for call in (futures[0].result, futures[0].get, futures[0].exception):
        with pytest.raises(KafkaTimeoutError, match="may still be delivered") as raised:
            call(timeout=0.001)
        assert isinstance(raised.value, TimeoutError)
        assert isinstance(raised.value, concurrent.futures.TimeoutError), "on Python 3.10 another class"
        assert raised.value.outcome is Outcome.UNKNOWN
    finish(result)
    assert futures[0].result(timeout=0).offset == 100


def test_result_blocks_until_done_in_many_threads() -> None:
    result, futures = make(4)
    barrier = threading.Barrier(9)
    got: list[int] = []

    def wait(future: FutureRecordMetadata) -> None:
        barrier.wait(30)
        got.append(future.result(30).offset)

    threads = [threading.Thread(target=wait, args=(f,), daemon=True) for f in futures * 2]
    for thread in threads:
        thread.start()
    barrier.wait(30)
    finish(result)
    for thread in threads:
        thread.join(30)
    assert sorted(got) == [100, 100, 101, 101, 102, 102, 103, 103]


def test_cancel_is_refused_and_nobody_else_can_complete_it() -> None:
    result, futures = make()
    future = futures[0]
    assert future.cancel() is False
    assert not future.cancelled()
    assert not future.running()
    for attempt in (
        lambda: future.set_result(RecordMetadata("x", 0, 0, 0, 0, 0)),
        lambda: future.set_exception(BoomError()),
        future.set_running_or_notify_cancel,
    ):
        with pytest.raises(concurrent.futures.InvalidStateError):
            attempt()
    assert "pending" in repr(future)
    finish(result)
    assert future.result(0).offset == 100
    assert "offset=100" in repr(future)


def test_done_callbacks_early_late_and_raising(caplog: pytest.LogCaptureFixture) -> None:
    result, futures = make(2)
    calls: list[tuple[str, int]] = []

    def bad(_: object) -> None:
        raise ValueError("bad callback")

    futures[1].add_done_callback(lambda f: calls.append(("second", f.result(0).offset)))
    futures[0].add_done_callback(bad)
    futures[0].add_done_callback(lambda f: calls.append(("first", f.result(0).offset)))
    with caplog.at_level(logging.ERROR):
        finish(result)
    assert "bad callback" in caplog.text
    assert calls == [("first", 100), ("second", 101)]
    futures[0].add_done_callback(lambda f: calls.append(("late", f.result(0).offset)))
    assert calls[-1] == ("late", 100)


def test_no_callback_is_lost_when_adding_races_with_completion() -> None:
    for _ in range(200):
        result, futures = make(1)
        barrier = threading.Barrier(2)
        calls: list[int] = []

        def add(
            future: FutureRecordMetadata = futures[0], barrier: Any = barrier, calls: Any = calls
        ) -> None:
            barrier.wait(30)
            future.add_done_callback(lambda f: calls.append(f.result(0).offset))

        thread = threading.Thread(target=add)
        thread.start()
        barrier.wait(30)
        finish(result)
        thread.join(30)
        assert calls == [100]


def test_delivery_callbacks_run_in_order_before_anybody_is_woken(caplog: pytest.LogCaptureFixture) -> None:
    result, futures = make(3)
    seen: list[object] = []

    def deliver(metadata: RecordMetadata, error: KafkaError | None) -> None:
        index = metadata.offset - 100
        # Its own future is readable from inside, while others still see it as pending.
        outside = concurrent.futures.ThreadPoolExecutor(1)
        seen.append((index, futures[index].result(0).offset, outside.submit(futures[index].done).result(30)))
        outside.shutdown()
        if index == 1:
            raise SystemExit("callback trouble")

    with caplog.at_level(logging.ERROR):
        finish(result, on_delivery=deliver, count=3)
    assert seen == [(0, 100, False), (1, 101, False), (2, 102, False)]
    assert len(caplog.records) == 1
    assert all(f.done() for f in futures)


def test_delivery_callback_of_a_failed_record_gets_metadata_and_error() -> None:
    result, _ = make(1)
    got: list[tuple[RecordMetadata, KafkaError]] = []
    finish(result, error=BoomError("x"), on_delivery=lambda m, e: got.append((m, e)), count=1)
    ((metadata, error),) = got
    assert metadata == RecordMetadata("topic", 3, -1, 1000, 5, -1)
    assert (type(error), str(error)) == (BoomError, "x")


def test_wait_and_as_completed_over_several_batches() -> None:
    batches = [make(3) for _ in range(4)]
    futures = [f for _, some in batches for f in some]
    finish(batches[0][0])
    done, pending = concurrent.futures.wait(futures, timeout=0)
    assert done == set(batches[0][1])
    assert len(pending) == 9
    started = threading.Event()
    threads = [finish_soon(result, started) for result, _ in batches[1:3]]
    threads.append(finish_soon(batches[3][0], started, error=BoomError("x")))
    started.set()
    done, pending = concurrent.futures.wait(futures, timeout=30)
    assert (len(done), len(pending)) == (12, 0)
    assert set(concurrent.futures.as_completed(futures, timeout=30)) == set(futures)
    for thread in threads:
        thread.join(30)


def test_wait_for_first_exception_and_first_completed() -> None:
    (good, good_futures), (bad, bad_futures) = make(1), make(1)
    started = threading.Event()
    thread = finish_soon(bad, started, error=BoomError("x"))
    started.set()
    done, pending = concurrent.futures.wait(
        good_futures + bad_futures, 30, return_when=concurrent.futures.FIRST_EXCEPTION
    )
    assert done == set(bad_futures)
    assert pending == set(good_futures)
    finish(good)
    thread.join(30)
    done, _ = concurrent.futures.wait(good_futures, 0, return_when=concurrent.futures.FIRST_COMPLETED)
    assert done == set(good_futures)


def test_waiting_threads_with_crossed_sets_do_not_deadlock() -> None:
    batches = [make(20) for _ in range(2)]
    first, second = batches[0][1], batches[1][1]
    barrier = threading.Barrier(5)
    counts: list[int] = []

    def run(futures: list[FutureRecordMetadata]) -> None:
        barrier.wait(30)
        for _ in range(20):
            concurrent.futures.wait(futures, timeout=0)
        counts.append(len(concurrent.futures.wait(futures, timeout=30).done))

    threads = [
        threading.Thread(target=run, args=(futures,), daemon=True)
        for futures in (first + second, second + first, first[::-1] + second, second[::2] + first)
    ]
    for thread in threads:
        thread.start()
    barrier.wait(30)
    for result, _ in batches:
        finish(result)
    for thread in threads:
        thread.join(30)
    assert sorted(counts) == [30, 40, 40, 40]


def test_awaitable_in_any_event_loop() -> None:
    result, futures = make(3)
    started = threading.Event()
    thread = finish_soon(result, started)

    async def use() -> list[int]:
        async def one(future: FutureRecordMetadata) -> int:
            return (await future).offset

        tasks = [asyncio.ensure_future(one(f)) for f in futures]
        await asyncio.sleep(0)
        started.set()
        offsets = list(await asyncio.gather(*tasks))
        offsets.append((await futures[0]).offset)
        wrapped = await asyncio.wrap_future(futures[1])
        return [*offsets, wrapped.offset]

    assert asyncio.run(use()) == [100, 101, 102, 100, 101]
    thread.join(30)


def test_await_raises_the_error_and_survives_a_cancelled_task() -> None:
    result, futures = make(2)

    async def use() -> None:
        cancelled = asyncio.ensure_future(asyncio.wrap_future(futures[0]))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert not futures[0].cancelled()
        waiting = asyncio.wrap_future(futures[1])
        finish(result, error=BoomError("x"))
        with pytest.raises(BoomError):
            await waiting
        with pytest.raises(BoomError):
            await futures[1]

    asyncio.run(use())


def test_split_redirects_futures_waiters_and_callbacks() -> None:
    result, futures = make(5)
    parts = [ProduceRequestResult(TP), ProduceRequestResult(TP)]
    calls: list[tuple[int, int]] = []
    for i, future in enumerate(futures):
        future.add_done_callback(lambda f, i=i: calls.append((i, f.result(0).offset)))  # type: ignore[misc]
    got: list[int] = []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        got.append(futures[4].result(30).offset)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    waiting.wait(30)
    assert result.split_into([0, 2], parts)
    assert not finish(result, error=BoomError("the whole cannot end any more"))
    assert not futures[0].done()
    finish(parts[1], base_offset=500)
    thread.join(30)
    assert got == [502]
    assert futures[2].result(0).offset == 500
    with pytest.raises(TimeoutError):
        futures[1].result(0)
    smaller = [ProduceRequestResult(TP), ProduceRequestResult(TP)]
    assert parts[0].split_into([0, 1], smaller)
    finish(smaller[0], base_offset=10)
    finish(smaller[1], error=BoomError("x"))
    assert futures[0].result(0).offset == 10
    assert isinstance(futures[1].exception(0), BoomError)
    assert [i for i, _ in calls[:4]] == [2, 3, 4, 0]
    assert result.leaves() == [*smaller, parts[1]]


def test_settled_result_is_not_split() -> None:
    result, futures = make(2)
    finish(result)
    assert not result.split_into([0], [ProduceRequestResult(TP)])
    assert futures[1].result(0).offset == 101


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_is_not_stuck_on_a_lock_that_a_parent_thread_held() -> None:
    result, futures = make(1)
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with FutureRecordMetadata._condition:
            held.set()
            leave.wait(30)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    held.wait(30)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            result.abandon_after_fork(ProducerClosedError("the parent's"))
            mine, my_futures = make(1)
            finish(mine)
            if isinstance(futures[0].exception(0), ProducerClosedError) and my_futures[0].result(0):
                code = 0
        finally:
            os._exit(code)
    leave.set()
    thread.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not futures[0].done()


def test_callbacks_that_all_raise_are_one_traceback_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    result, _ = make(50)

    def wrong(metadata: RecordMetadata, error: KafkaError | None) -> None:
        raise TypeError("of the application")

    finish(result, on_delivery=wrong, count=50)
    assert len([record for record in caplog.records if record.exc_info]) == 1
    assert "of the application" in caplog.text
    assert "50 delivery callbacks for one batch" in caplog.text


def test_callbacks_that_cannot_be_called_are_one_line_with_the_signature(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """``send`` refuses functions; it does not look into other callables."""
    unique = type("Unique", (), {"method": classmethod(lambda cls, metadata: None)})
    for _ in range(3):
        result, _ = make(2)
        finish(result, on_delivery=unique.method, count=2)
    (record,) = (each for each in caplog.records if "called with (metadata, error)" in each.getMessage())
    assert "takes 2 positional arguments but 3 were given" in record.getMessage()
    assert not [each for each in caplog.records if each.exc_info]
    assert "traceback" not in caplog.text


def test_a_future_is_not_pickled() -> None:
    """The copy would never be completed: a thread that waits for it would wait for ever."""
    _, (future,) = make()
    with pytest.raises(TypeError, match=r"Send its result\(\)"):
        pickle.dumps(future)


def test_asyncio_wait_says_what_it_takes_instead_of_waiting_for_ever() -> None:
    result, futures = make(2)

    async def wait() -> None:
        asyncio.get_running_loop().call_later(0.01, finish, result)
        done, _ = await asyncio.wait([asyncio.wrap_future(future) for future in futures], timeout=30)
        assert len(done) == 2

    asyncio.run(wait())
    if sys.version_info < (3, 11):
        return  # wraps awaitables by itself
    _, futures = make(2)

    async def wait_wrongly() -> None:
        await asyncio.wait(futures, timeout=30)

    with pytest.raises(TypeError, match=r"asyncio.wrap_future"):
        asyncio.run(wait_wrongly())


class _InterruptedLock:
    """Stands for the lock of a waiting thread whose user presses Ctrl-C, before or after it is released."""

    def __init__(self, before: Callable[[], object]) -> None:
        self._before = before
        self.is_released = False

    def acquire(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            self._before()
            raise KeyboardInterrupt
        return True

    def release(self) -> None:
        assert not self.is_released
        self.is_released = True


@pytest.mark.parametrize("done_meanwhile", [False, True])
def test_a_wait_that_ends_early_leaves_nothing_behind(
    done_meanwhile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, (future,) = make()
    with pytest.raises(TimeoutError):
        future.result(0)
    assert result._listeners == []

    def before() -> None:
        if done_meanwhile:
            finish(result)

    monkeypatch.setattr(
        "kproducer._core.accumulator.future_record_metadata.threading.Lock", lambda: _InterruptedLock(before)
    )
    with pytest.raises(KeyboardInterrupt):
        future.result()
    assert result._listeners == []
    monkeypatch.undo()
    assert done_meanwhile or finish(result)
    assert future.result(0).offset == 100
