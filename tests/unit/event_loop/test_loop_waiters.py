"""LoopWaiters and LoopWakeup: an exception on the way keeps no later waiter from its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kproducer._core.event_loop.loop_waiters import LoopWaiters, SendFuture, waiters_of
from kproducer._core.event_loop.loop_wakeup import LoopWakeup
from kproducer._core.runtime import event_descriptor
from tests.support.interruption import interrupt_after


@pytest.fixture(params=["watched", "unwatched"], autouse=True)
def may_watch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether the loop can watch a descriptor. The event loops of Windows cannot."""
    if request.param == "unwatched":
        monkeypatch.setattr(event_descriptor, "_native_eventfd", None)
    elif event_descriptor._native_eventfd is None:
        pytest.skip("nothing is compiled")
    return request.param == "watched"


class Record:
    """What LoopWaiters sees of a record and of its batch. The errors are raised one after another."""

    parts = None

    def __init__(self, value: Any, *errors: BaseException) -> None:
        self._batch_result = self
        self._value, self._errors = value, list(errors)
        self.listeners: list[Callable[[], object]] = []

    def done(self) -> bool:
        return False

    def add_listener(self, listener: Callable[[], object]) -> bool:
        self.listeners.append(listener)
        return True

    def result(self) -> Any:
        if self._errors:
            raise self._errors.pop(0)
        return self._value


async def outcomes(records: list[Record]) -> list[Any]:
    waiters = LoopWaiters(asyncio.get_running_loop())
    futures = [SendFuture() for _ in records]
    for record, future in zip(records, futures, strict=True):
        waiters.add(record, future)  # type: ignore[arg-type]
    for record in records:
        record.listeners[0]()
    return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 30)


def test_an_error_is_the_outcome_of_one_waiter() -> None:
    error = ValueError("once")
    assert asyncio.run(outcomes([Record(1), Record(2, error), Record(3)])) == [1, error, 3]


def test_an_interrupt_loses_no_waiter() -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(outcomes([Record(1), Record(2, KeyboardInterrupt()), Record(3), Record(4)]))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    assert loop.run_until_complete(task) == [1, 2, 3, 4]
    loop.close()


@pytest.mark.parametrize(("error", "calls"), [(KeyboardInterrupt, 2), (ValueError, 1)])
def test_an_action_that_raises_loses_no_other(error: type[BaseException], calls: int) -> None:
    """One that was interrupted may not have done its work, and is called again."""
    done: list[int] = []
    attempts: list[int] = []

    def interrupt() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise error

    async def main() -> None:
        wakeup = LoopWakeup(asyncio.get_running_loop())
        wakeup.post(interrupt)
        wakeup.post(lambda: done.append(1))
        while not done:
            await asyncio.sleep(0.001)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: None)
    task = loop.create_task(asyncio.wait_for(main(), 30))
    with contextlib.suppress(KeyboardInterrupt):
        loop.run_until_complete(task)
    loop.run_until_complete(task)
    assert done == [1]
    assert len(attempts) == calls
    loop.close()


def test_an_interrupted_wake_up_of_the_loop_keeps_no_later_one_back() -> None:
    codes = {LoopWakeup.post.__code__, asyncio.BaseEventLoop.call_soon_threadsafe.__code__}
    for number in itertools.count(1):
        loop = asyncio.new_event_loop()
        wakeup = LoopWakeup(loop)
        done: list[int] = []
        post = functools.partial(wakeup.post, functools.partial(done.append, 1))
        interrupted = interrupt_after(number, codes, post, as_signals_do=True)
        wakeup.post(functools.partial(done.append, 2))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        assert done in ([1, 2], [2])
        if not interrupted:
            break
    assert number > 3


def test_an_interrupt_in_a_turn_holds_no_action_back(may_watch: bool) -> None:
    for number in itertools.count(1):
        loop = asyncio.new_event_loop()
        wakeup = LoopWakeup(loop)
        loop.run_until_complete(asyncio.sleep(0.001))
        done: set[int] = set()
        for action in range(70):  # two turns
            wakeup.post(functools.partial(done.add, action))

        def run(loop: asyncio.AbstractEventLoop = loop) -> None:
            loop.run_until_complete(asyncio.sleep(0.001))

        interrupted = interrupt_after(number, {LoopWakeup._run.__code__}, run, as_signals_do=True)
        if not may_watch:  # the loop forgets a call that is interrupted before its first line
            wakeup.post(list)
        run()
        loop.close()
        assert len(done) == 70
        if not interrupted:
            break
    assert number > 70


def test_an_interrupt_while_waiters_are_completed_loses_none() -> None:
    codes = {LoopWaiters._finish.__code__, LoopWaiters._complete_some.__code__}
    for number in itertools.count(1):
        loop = asyncio.new_event_loop()
        task = loop.create_task(outcomes([Record(1), Record(2)]))
        run = functools.partial(loop.run_until_complete, task)
        interrupted = interrupt_after(number, codes, run, as_signals_do=True)
        assert loop.run_until_complete(task) == [1, 2]
        loop.close()
        if not interrupted:
            break
    assert number > 3


def test_a_descriptor_that_the_application_closed_too_early_does_not_matter() -> None:
    """The loop believes that it watches the number, which the new descriptor gets."""

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        closed = os.eventfd(0)
        loop.add_reader(closed, list)
        os.close(closed)
        return await outcomes([Record(1)])

    assert asyncio.run(main()) == [1]


def test_a_wake_up_from_a_thread_keeps_the_interpreter_lock(may_watch: bool) -> None:
    """A busy thread would take it, and the caller, an I/O thread, would wait for a switch interval."""
    if not may_watch:
        pytest.skip("as call_soon_threadsafe does it")
    loop = asyncio.new_event_loop()
    wakeups = [LoopWakeup(loop) for _ in range(200)]
    loop.run_until_complete(asyncio.sleep(0.001))
    rounds, has_ended, interval_s = [0], threading.Event(), sys.getswitchinterval()

    def work() -> None:
        while not has_ended.is_set():
            rounds[0] += 1

    busy = threading.Thread(target=work)
    busy.start()
    try:
        sys.setswitchinterval(0.5)
        while not rounds[0]:
            has_ended.wait(0.001)
        before = rounds[0]
        for wakeup in wakeups:
            wakeup.post(list)
        assert rounds[0] == before
    finally:
        has_ended.set()
        sys.setswitchinterval(interval_s)
        busy.join()
        loop.close()


@pytest.mark.filterwarnings("ignore:unclosed event loop")
def test_the_descriptor_is_closed_with_the_loop_and_a_loop_that_is_not_closed_is_freed() -> None:
    async def main() -> LoopWaiters:
        return waiters_of(asyncio.get_running_loop())

    before = os.listdir("/proc/self/fd")
    kept = asyncio.run(main())
    assert os.listdir("/proc/self/fd") == before
    assert not kept.wakeup.post(list)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    unclosed = weakref.ref(loop)
    del loop
    gc.collect()
    assert unclosed() is None
