"""Wake-ups are never lost, never pile up and cost a system call only when somebody waits."""

from __future__ import annotations

import select
import threading

from kproducer.network.wakeup import Wakeup


def is_readable(wakeup: Wakeup) -> bool:
    return bool(select.select([wakeup.fileno()], [], [], 0)[0])


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
