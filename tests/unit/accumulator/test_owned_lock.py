"""A thread that would deadlock gets an error; every other one waits as for any lock."""

from __future__ import annotations

import itertools
import threading

import pytest

from kproducer._core.accumulator.owned_lock import OwnedLock
from kproducer.errors import IllegalStateError, Outcome
from tests.support.interruption import interrupt_after
from tests.support.units.accumulator_kit import Kit

PATIENCE_S = 30


def test_a_thread_that_takes_it_twice_gets_an_error_and_still_holds_it() -> None:
    lock = OwnedLock()
    with lock:
        with pytest.raises(IllegalStateError, match="would deadlock") as refused, lock:
            pass
        assert refused.value.outcome is Outcome.NOT_SENT
        assert lock.is_mine
    assert not lock.is_mine


def test_another_thread_waits() -> None:
    lock = OwnedLock()
    taken = threading.Event()

    def take() -> None:
        with lock:
            taken.set()

    thread = threading.Thread(target=take)
    with lock:
        thread.start()
        assert not taken.wait(0.2)
    assert taken.wait(PATIENCE_S)
    thread.join(PATIENCE_S)


def test_a_thread_that_holds_another_queue_is_refused_instead_of_waiting() -> None:
    """Two finalizers that want each other's queue would wait for ever."""
    kit = Kit()
    kit.append(0)
    kit.append(1)
    one, other = kit.accumulator.queues.all_queues()
    held, done = threading.Event(), threading.Event()

    def hold_the_other() -> None:
        with other.lock:
            held.set()
            done.wait(PATIENCE_S)

    thread = threading.Thread(target=hold_the_other)
    thread.start()
    assert held.wait(PATIENCE_S)
    try:
        with one.lock, pytest.raises(IllegalStateError):
            kit.append(1)
    finally:
        done.set()
        thread.join(PATIENCE_S)
    kit.append(1)


def test_ctrl_c_while_it_is_taken_leaves_it_free() -> None:
    lock = OwnedLock()

    def use() -> None:
        with lock:
            pass

    for number in itertools.count(1):
        interrupted = interrupt_after(number, {OwnedLock.__enter__.__code__}, use, as_signals_do=True)
        assert not lock.is_mine, f"after interruption {number}"
        if not interrupted:
            break
    assert number > 2
