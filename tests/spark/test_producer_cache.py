"""Producers of a Python worker: never closed under a user, closed when idle, not inherited."""

from __future__ import annotations

import math
import os
import pickle
import threading
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kproducer.spark.producer_cache import ProducerCache
from tests.spark.fake_producer import FakeProducer, close_idle

ONE = (("bootstrap.servers", "a:1"),)
TWO = (("bootstrap.servers", "b:1"),)


class HandTimer:
    """A timer that fires when the test says so."""

    def __init__(self, seconds, now_s, function):
        self.ends_s = now_s + seconds
        self.function = function
        self.daemon = False
        self.started = False

    def start(self):
        self.started = True


class Workbench:
    def __init__(self):
        self.now_s = 0.0
        self.producers: list[FakeProducer] = []
        self.timers: list[HandTimer] = []
        self.cache = ProducerCache(self._producer, self._timer, self._clock)

    def pass_time(self, seconds):
        """Fire the timers that end meanwhile, each at its time."""
        end_s = self.now_s + seconds
        while due := [each for each in self.timers if each.ends_s <= end_s]:
            first = min(due, key=lambda each: each.ends_s)
            self.timers.remove(first)
            self.now_s = first.ends_s
            first.function()
        self.now_s = end_s

    def _producer(self, given):
        self.producers.append(FakeProducer(given))
        return self.producers[-1]

    def _clock(self):
        return self.now_s

    def _timer(self, seconds, function):
        self.timers.append(HandTimer(seconds, self.now_s, function))
        return self.timers[-1]


@pytest.fixture
def bench() -> Workbench:
    return Workbench()


def test_other_settings_get_another_producer(bench):
    assert bench.cache.acquire(ONE, 1000).client is not bench.cache.acquire(TWO, 1000).client


def test_the_next_task_gets_the_producer_of_the_last_one(bench):
    first = bench.cache.acquire(ONE, 1000)
    first.release()
    second = bench.cache.acquire(ONE, 1000)
    assert second.client is first.client
    assert not bench.producers[0].closed_with


def test_two_tasks_get_two_and_a_third_gets_the_one_that_is_free(bench):
    first, second = bench.cache.acquire(ONE, 1000), bench.cache.acquire(ONE, 1000)
    assert first.client is not second.client
    assert bench.producers[0].settings == dict(ONE)
    second.release()
    assert len(bench.cache._idle) == 1
    third = bench.cache.acquire(ONE, 1000)
    assert third.client is second.client
    assert len(bench.producers) == 2
    first.release(discard=True)
    third.release()
    close_idle(bench.cache)
    assert [len(producer.closed_with) for producer in bench.producers] == [1, 1]


def test_an_idle_producer_is_closed_after_its_time(bench):
    bench.cache.acquire(ONE, 1500).release()
    timer = bench.timers[0]
    assert (timer.ends_s, timer.started, timer.daemon) == (1.5, True, True)
    bench.pass_time(1.5)
    assert len(bench.producers[0].closed_with) == 1
    assert len(bench.cache._idle) == 0
    assert not bench.timers


def test_a_timer_that_fires_during_a_task_closes_nothing(bench):
    bench.cache.acquire(ONE, 1000).release()
    lease = bench.cache.acquire(ONE, 1000)
    bench.pass_time(1)
    assert not bench.producers[0].closed_with
    lease.release()


def test_many_tasks_share_a_timer_and_the_time_begins_with_the_last_one(bench):
    for _ in range(5):
        bench.cache.acquire(ONE, 1000).release()
        bench.pass_time(0.125)
    assert len(bench.timers) == 1
    bench.pass_time(0.75)  # until 1.375 s; the last task ended at 0.5 s
    assert not bench.producers[0].closed_with
    bench.pass_time(0.125)
    assert len(bench.producers[0].closed_with) == 1


def test_a_shorter_time_is_not_delayed_by_a_longer_one(bench):
    bench.cache.acquire(ONE, 60_000).release()
    bench.cache.acquire(TWO, 1000).release()
    bench.pass_time(1)
    assert [len(producer.closed_with) for producer in bench.producers] == [0, 1]
    bench.pass_time(59)
    assert [len(producer.closed_with) for producer in bench.producers] == [1, 1]
    assert not bench.timers


def test_a_timer_that_fires_too_early_is_followed_by_another(bench):
    bench.cache.acquire(ONE, 1000).release()
    bench.now_s = 0.75
    bench.timers.pop().function()
    bench.pass_time(0.25)
    assert len(bench.producers[0].closed_with) == 1


def test_an_idle_time_of_zero_closes_at_once(bench):
    lease = bench.cache.acquire(ONE, 0)
    assert not bench.producers[0].closed_with
    lease.release()
    assert len(bench.producers[0].closed_with) == 1
    assert len(bench.cache._idle) == 0


def test_the_producer_of_a_failed_task_is_not_handed_out_again(bench):
    failed = bench.cache.acquire(ONE, 1000)
    failed.release(discard=True)
    assert bench.cache.acquire(ONE, 1000).client is not failed.client


def test_what_a_failed_task_left_behind_is_given_up_at_once(bench):
    bench.cache.acquire(ONE, 1000).release(discard=True)
    assert bench.producers[0].closed_with == [0.0]


def test_releasing_twice_counts_once(bench):
    first = bench.cache.acquire(ONE, 1000)
    first.release()
    second = bench.cache.acquire(ONE, 1000)
    first.release(discard=True)
    assert not second.client.closed_with
    assert len(bench.cache._idle) == 0


def test_a_producer_that_cannot_be_closed_hurts_no_task(bench, caplog):
    lease = bench.cache.acquire(ONE, 0)

    def fail(timeout=None):
        raise RuntimeError("no way")

    bench.producers[0].close = fail
    lease.release()
    assert "no way" in caplog.text


def test_settings_show_in_no_message_and_a_cache_is_not_picklable(bench, caplog):
    bench.cache.acquire((("client.id", "hunter2"),), 0).release()
    assert "hunter2" not in caplog.text + repr(bench.cache)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(bench.cache)


def test_a_real_timer_closes_an_idle_producer():
    closed = threading.Event()
    producer = FakeProducer()
    producer.close = lambda timeout=None: closed.set()
    ProducerCache(lambda given: producer).acquire(ONE, 1).release()
    assert closed.wait(30)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # threads are part of this test
def test_a_forked_child_starts_with_an_empty_cache_even_when_the_lock_was_held(bench):
    bench.cache.acquire(ONE, 1000)
    read_end, write_end = os.pipe()
    # Another thread of the parent may be in the middle of acquire() while this one forks.
    with bench.cache._lock:
        pid = os.fork()
        if pid == 0:
            fresh = len(bench.cache._idle) == 0
            lease = bench.cache.acquire(ONE, 0)
            fresh = fresh and lease.client is not bench.producers[0] and not bench.producers[0].closed_with
            os.write(write_end, b"fresh" if fresh else b"inherited")
            os._exit(0)
    deadline = time.monotonic() + 30
    os.set_blocking(read_end, False)
    answer = b""
    while not answer and time.monotonic() < deadline:
        try:
            answer = os.read(read_end, 100)
        except BlockingIOError:
            time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(read_end)
    os.close(write_end)
    assert answer == b"fresh"


def test_tasks_of_many_threads_never_hold_a_closed_producer():
    cache = ProducerCache(FakeProducer, threading.Timer)
    broken: list[str] = []

    def work(number: int) -> None:
        for turn in range(300):
            lease = cache.acquire(ONE, turn % 2)
            if lease.client.closed_with:
                broken.append(f"thread {number}, turn {turn}")
            lease.release(discard=turn % 50 == 0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not broken


class CacheMachine(RuleBasedStateMachine):
    """Any order of acquire, release, discard and timers keeps used producers open and closes each once."""

    def __init__(self):
        super().__init__()
        self.bench = Workbench()
        self.leases = []

    @rule(key=st.sampled_from([ONE, TWO]), idle_ms=st.sampled_from([0, 1000, 2500]))
    def acquire(self, key, idle_ms):
        self.leases.append(self.bench.cache.acquire(key, idle_ms))

    @rule(data=st.data(), discard=st.booleans())
    def release(self, data, discard):
        if self.leases:
            index = data.draw(st.integers(0, len(self.leases) - 1))
            self.leases.pop(index).release(discard=discard)

    @rule(seconds=st.sampled_from([0.25, 1, 3]))
    def pass_time(self, seconds):
        self.bench.pass_time(seconds)

    @invariant()
    def used_producers_are_open(self):
        assert all(not lease.client.closed_with for lease in self.leases)

    @invariant()
    def each_has_one_user(self):
        assert len({id(lease.client) for lease in self.leases}) == len(self.leases)

    @invariant()
    def what_is_idle_expires(self):
        ends_s = [timer.ends_s for timer in self.bench.timers]
        assert all(min(ends_s, default=math.inf) <= until_s for *_, until_s in self.bench.cache._idle)

    @invariant()
    def none_is_closed_twice(self):
        assert all(len(producer.closed_with) <= 1 for producer in self.bench.producers)

    def teardown(self):
        for lease in self.leases:
            lease.release()
        close_idle(self.bench.cache)
        assert all(len(producer.closed_with) == 1 for producer in self.bench.producers)


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
