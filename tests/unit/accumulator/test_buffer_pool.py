"""BufferPool: bounded, exact, first come first served, and nobody loses memory: free + taken = total."""

from __future__ import annotations

import random
import sys
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kproducer._core.accumulator import buffer_pool
from kproducer._core.accumulator.buffer_pool import KEPT_BYTES, BufferPool, Grant
from kproducer._core.runtime.clock import NEVER_MS, SystemClock
from kproducer.errors import BufferExhaustedError, ConfigError, IllegalStateError, ProducerClosedError
from tests.support.units.appending import take_memory
from tests.support.waiting import wait_until

CHUNK = 64


def make_pool(total_bytes: int = 4 * CHUNK) -> BufferPool:
    return BufferPool(total_bytes, CHUNK, SystemClock())


class Asker:
    """A thread that asks for a buffer and notes what came of it."""

    def __init__(self, pool: BufferPool, size: int, max_block_ms: float = 30_000) -> None:
        self.buffer: bytearray | None = None
        self.error: BaseException | None = None
        self._pool, self._size, self._max_block_ms = pool, size, max_block_ms
        queued_before = len(pool.waiters)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        wait_until(lambda: len(pool.waiters) > queued_before or not self.thread.is_alive())

    def _run(self) -> None:
        try:
            self.buffer = take_memory(self._pool, self._size, self._max_block_ms)
        except BaseException as error:
            self.error = error

    def join(self) -> Asker:
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self


def test_pooled_size_is_reused_and_accounted_exactly() -> None:
    pool = make_pool()
    buffer = take_memory(pool, CHUNK, 0)
    assert len(buffer) == CHUNK
    assert pool.available_bytes == 3 * CHUNK
    pool.deallocate(buffer)
    assert pool.available_bytes == 4 * CHUNK
    assert take_memory(pool, CHUNK, 0) is buffer
    odd = take_memory(pool, CHUNK + 1, 0)
    assert pool.available_bytes == 4 * CHUNK - 2 * CHUNK - 1
    pool.deallocate(odd)
    assert take_memory(pool, CHUNK + 1, 0) is not odd


def test_buffers_come_back_together_and_go_to_those_who_wait() -> None:
    pool = make_pool()
    taken = [take_memory(pool, CHUNK, 0) for _ in range(3)]
    odd = take_memory(pool, CHUNK - 1, 0)
    waiting = Grant(2 * CHUNK)
    notified: list[None] = []
    pool.request(waiting, lambda: notified.append(None) is None)
    assert waiting.gathered_bytes == 1
    pool.deallocate_all([odd, *taken])
    assert notified == [None]
    assert waiting.is_complete
    assert pool.available_bytes == 2 * CHUNK
    with pytest.raises(IllegalStateError, match="twice"):
        pool.deallocate_all([bytearray(CHUNK)] * 3)


def test_buffers_that_nobody_has_needed_for_a_while_are_freed() -> None:
    pool = BufferPool(64 * KEPT_BYTES, KEPT_BYTES, SystemClock())
    made = [take_memory(pool, KEPT_BYTES, 0) for _ in range(10)]
    references = sys.getrefcount(made[0]) + 1
    assert pool.trim(0) == NEVER_MS

    def give_back(buffers: list[bytearray]) -> None:
        for buffer in buffers:
            pool.deallocate(buffer)

    def kept() -> int:
        return [sys.getrefcount(buffer) > references for buffer in made].count(True)

    give_back(made)
    left_ms = pool.trim(1_000)
    assert kept() == 10  # all were in use since the last look
    give_back([take_memory(pool, KEPT_BYTES, 0) for _ in range(4)])
    assert pool.trim(1_000 + left_ms - 1) == 1
    assert kept() == 10
    pool.trim(1_000 + left_ms)
    assert kept() == 5
    assert pool.available_bytes == 64 * KEPT_BYTES
    pool.trim(1_000 + 2 * left_ms)
    assert kept() == 1
    assert pool.trim(1_000 + 3 * left_ms) == NEVER_MS


def test_memory_is_returned_to_the_system_after_the_last_buffers_were_freed_but_not_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    returned: list[int] = []
    now_ms = 0
    monkeypatch.setattr(buffer_pool, "return_free_memory", lambda: returned.append(now_ms))
    pool = BufferPool(64 * KEPT_BYTES, KEPT_BYTES, SystemClock())

    def burst(until_ms: int) -> None:
        nonlocal now_ms
        for buffer in [take_memory(pool, KEPT_BYTES, 0) for _ in range(12)]:
            pool.deallocate(buffer)
        while now_ms < until_ms:
            now_ms = min(now_ms + pool.trim(now_ms), until_ms)

    in_use = [take_memory(pool, KEPT_BYTES, 0) for _ in range(2)]
    burst(20_000)
    assert returned == []  # there is traffic
    for buffer in in_use:
        pool.deallocate(buffer)
    burst(40_000)
    (first_ms,) = returned
    burst(first_ms + 59_999)
    assert returned == [first_ms]
    burst(first_ms + 70_000)
    assert returned[0] + 60_000 <= returned[-1]


def test_pooled_buffers_make_room_for_a_large_one() -> None:
    pool = make_pool()
    for buffer in [take_memory(pool, CHUNK, 0) for _ in range(4)]:
        pool.deallocate(buffer)
    assert len(take_memory(pool, 4 * CHUNK, 0)) == 4 * CHUNK
    assert pool.available_bytes == 0


def test_more_than_total_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="buffer_memory=256"):
        take_memory(make_pool(), 4 * CHUNK + 1, 60_000)


def test_returning_twice_is_an_error() -> None:
    pool = make_pool()
    buffer = take_memory(pool, CHUNK, 0)
    pool.deallocate(buffer)
    with pytest.raises(IllegalStateError, match="returned twice"):
        pool.deallocate(buffer)


def test_timeout_names_the_settings_and_returns_what_was_gathered() -> None:
    pool = make_pool()
    held = [take_memory(pool, CHUNK, 0) for _ in range(3)]
    with pytest.raises(BufferExhaustedError, match=r"max_block_ms.*buffer_memory=256"):
        take_memory(pool, 2 * CHUNK, 5)
    assert len(pool.waiters) == 0
    assert pool.available_bytes == CHUNK
    for buffer in held:
        pool.deallocate(buffer)
    assert pool.available_bytes == 4 * CHUNK


def test_large_waiter_is_served_before_later_small_ones() -> None:
    pool = make_pool()
    held = [take_memory(pool, CHUNK, 0) for _ in range(4)]
    large = Asker(pool, 3 * CHUNK)
    small = Asker(pool, CHUNK)
    pool.deallocate(held.pop())
    pool.deallocate(held.pop())
    # Two chunks are free by count, but they belong to the large one.
    assert pool.available_bytes == 0
    assert small.thread.is_alive()
    assert large.thread.is_alive()
    pool.deallocate(held.pop())
    assert large.join().buffer is not None
    assert small.thread.is_alive()
    pool.deallocate(held.pop())
    assert small.join().buffer is not None


def test_newcomer_does_not_overtake_a_waiter() -> None:
    pool = make_pool()
    held = take_memory(pool, 3 * CHUNK, 0)
    waiter = Asker(pool, 2 * CHUNK)
    with pytest.raises(BufferExhaustedError):
        take_memory(pool, CHUNK, 0)
    pool.deallocate(held)
    assert waiter.join().buffer is not None
    assert pool.available_bytes == 2 * CHUNK


def test_waiter_that_gives_up_lets_the_next_one_proceed() -> None:
    pool = make_pool()
    held = take_memory(pool, 3 * CHUNK, 0)
    impatient = Asker(pool, 4 * CHUNK, max_block_ms=50)
    patient = Asker(pool, CHUNK)
    assert isinstance(impatient.join().error, BufferExhaustedError)
    assert patient.join().buffer is not None
    pool.deallocate(held)
    assert pool.available_bytes == 3 * CHUNK


def test_failed_allocation_of_memory_is_not_accounted() -> None:
    pool = BufferPool(1 << 62, CHUNK, SystemClock())
    with pytest.raises(MemoryError):
        take_memory(pool, 1 << 61, 0)
    assert pool.available_bytes == 1 << 62


def test_close_releases_waiters_and_refuses_newcomers() -> None:
    pool = make_pool()
    held = take_memory(pool, 4 * CHUNK, 0)
    waiters = [Asker(pool, CHUNK), Asker(pool, 4 * CHUNK)]
    pool.close()
    for waiter in waiters:
        assert isinstance(waiter.join().error, ProducerClosedError)
    with pytest.raises(ProducerClosedError):
        take_memory(pool, CHUNK, 60_000)
    pool.deallocate(held)
    assert pool.available_bytes == pool.total_bytes


def test_many_threads_leave_nothing_behind() -> None:
    pool = make_pool(20 * CHUNK)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(300):
                size = CHUNK if rng.random() < 0.5 else rng.randrange(1, 8 * CHUNK)
                buffer = take_memory(pool, size, 30_000)
                assert len(buffer) == size
                buffer[:1] = bytes([seed])
                assert buffer[0] == seed
                pool.deallocate(buffer)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert pool.available_bytes == pool.total_bytes
    assert len(pool.waiters) == 0


class PoolMachine(RuleBasedStateMachine):
    """Any sequence of takes, returns and give-ups keeps the accounts."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = make_pool(8 * CHUNK)
        self.taken: list[bytearray] = []

    @rule(size=st.one_of(st.just(CHUNK), st.integers(1, 8 * CHUNK)))
    def take(self, size: int) -> None:
        free = self.pool.total_bytes - sum(map(len, self.taken))
        if size <= free:
            buffer = take_memory(self.pool, size, 0)
            assert len(buffer) == size
            assert not any(buffer is other for other in self.taken)
            self.taken.append(buffer)
        else:
            with pytest.raises(BufferExhaustedError):
                take_memory(self.pool, size, 0)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        self.pool.deallocate(self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1))))

    @invariant()
    def accounts_are_exact(self) -> None:
        assert self.pool.available_bytes == self.pool.total_bytes - sum(map(len, self.taken))
        assert len(self.pool.waiters) == 0

    def teardown(self) -> None:
        for buffer in self.taken:
            self.pool.deallocate(buffer)
        assert self.pool.available_bytes == self.pool.total_bytes


PoolMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestPoolMachine = PoolMachine.TestCase
