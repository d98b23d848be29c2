"""Wake-ups are never lost, never pile up and cost a system call only when somebody waits."""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

from kproducer._core.network import wakeup as wakeup_module
from kproducer._core.network.wakeup import Wakeup


def is_readable(wakeup: Wakeup) -> bool:
    return bool(select.select([wakeup.fileno()], [], [], 0)[0])


def interrupted(call: Callable[[], Any], at_line: int, interrupt: Callable[[], object]) -> tuple[Any, bool]:
    """Make ``call``, and ``interrupt`` before the given line that it runs. Returns whether it got there."""
    lines = count()
    reached = False

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal reached
        if frame.f_code.co_filename != wakeup_module.__file__:
            return None
        if event == "line" and next(lines) == at_line:
            reached = True
            sys.settrace(None)
            interrupt()
            sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), reached
    finally:
        sys.settrace(before)


def test_a_signal_before_the_wait_makes_it_not_block_and_writes_nothing() -> None:
    wakeup = Wakeup()
    wakeup.signal()
    assert not is_readable(wakeup)
    assert not wakeup.begin_wait()
    wakeup.end_wait()
    assert wakeup.begin_wait()
    wakeup.close()


def test_a_signal_during_the_wait_makes_the_descriptor_readable_until_it_is_cleared() -> None:
    wakeup = Wakeup()
    assert wakeup.begin_wait()
    wakeup.signal()
    assert is_readable(wakeup)
    wakeup.clear()
    wakeup.end_wait()
    assert not is_readable(wakeup)
    wakeup.close()


def test_a_million_signals_never_block_and_count_as_one() -> None:
    wakeup = Wakeup()
    assert wakeup.begin_wait()
    for _ in range(1_000_000):
        wakeup.signal()
    wakeup.clear()
    wakeup.end_wait()
    assert not is_readable(wakeup)
    assert wakeup.begin_wait()
    wakeup.close()


def test_a_forked_child_is_not_stopped_by_a_lock_that_the_parent_held() -> None:
    wakeup = Wakeup()
    wakeup._lock.acquire()
    wakeup.release_after_fork()
    wakeup.signal()


def test_signals_after_close_do_nothing() -> None:
    wakeup = Wakeup()
    assert wakeup.begin_wait()
    wakeup.close()
    wakeup.close()
    wakeup.signal()


def test_a_finalizer_may_signal_while_its_own_thread_is_inside() -> None:
    """The garbage collector runs finalizers between any two steps, under the lock too."""
    wakeup = Wakeup()
    signalled = threading.Event()

    def interrupted() -> None:
        with wakeup._lock:
            wakeup.signal()
        signalled.set()

    threading.Thread(target=interrupted, daemon=True).start()
    assert signalled.wait(60)
    assert not wakeup.begin_wait()
    wakeup.end_wait()
    wakeup.close()


def test_no_signal_is_lost_between_any_two_steps_of_the_other_thread() -> None:
    """The two flags are not changed under one lock: their order alone prevents a lost wake-up."""
    for at_line in count():
        wakeup = Wakeup()
        may_block, is_reached = interrupted(wakeup.begin_wait, at_line, wakeup.signal)
        assert not is_reached or not may_block or is_readable(wakeup)
        wakeup.close()
        if not is_reached:
            break
    assert at_line >= 2
    for at_line in count():
        wakeup = Wakeup()
        waits: list[bool] = []
        _, is_reached = interrupted(wakeup.signal, at_line, lambda: waits.append(wakeup.begin_wait()))  # noqa: B023
        assert not is_reached or not waits[0] or is_readable(wakeup)
        wakeup.close()
        if not is_reached:
            break
    assert at_line >= 4


def test_a_signal_at_the_end_of_a_wait_does_not_stop_later_ones() -> None:
    for at_line in count():
        wakeup = Wakeup()
        wakeup.begin_wait()
        _, is_reached = interrupted(wakeup.end_wait, at_line, wakeup.signal)
        if wakeup.begin_wait() and not is_readable(wakeup):
            wakeup.signal()
            assert is_readable(wakeup)
        wakeup.close()
        if not is_reached:
            break
    assert at_line >= 2


def test_an_interrupted_signal_keeps_none_back_that_comes_later() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    for at_line in count():
        wakeup = Wakeup()
        wakeup.begin_wait()
        try:
            _, reached = interrupted(wakeup.signal, at_line, interrupt)
        except KeyboardInterrupt:
            reached = True
        wakeup.signal()
        assert is_readable(wakeup)
        wakeup.close()
        if not reached:
            break
    assert at_line > 5
