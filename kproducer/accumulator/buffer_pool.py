"""BufferPool: the bound on the memory that records may wait in.

Hands out bytearrays; those of the few sizes that batches have while they grow are kept and handed out again.
Knows nothing of batches. Differs from Kafka, which keeps one size. Freed memory goes to the longest-waiting
thread first. Source: Kafka class ``BufferPool``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from kproducer.accumulator.owned_lock import OwnedLock
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import BufferExhaustedError, ConfigError, IllegalStateError, ProducerClosedError
from kproducer.metrics.windows import Windows
from kproducer.records.batch_sizing import buffer_sizes, largest_buffer_bytes
from kproducer.runtime.clock import Clock


class Grant:
    """What one call has taken from the pool so far, so that an interrupted call can return it.

    Guarded by the pool's lock, except waiting on ``wakeup``.

    Attributes:
        wanted_bytes: how much the call asked for.
        gathered_bytes: taken from the pool as a number of bytes, for which a buffer will be allocated.
        buffer: taken from the pool as it is.
        wakeup: set when a waiting call can continue; ``None``: no thread waits.
        notify: called, with the pool's lock held, when the grant can be collected; ``False``: nobody will.
        requested_ms: when the wait began (monotonic).
    """

    __slots__ = ("buffer", "gathered_bytes", "notify", "requested_ms", "wakeup", "wanted_bytes")

    def __init__(self, wanted_bytes: int, buffer: bytearray | None = None) -> None:
        self.wanted_bytes = wanted_bytes
        self.gathered_bytes = 0
        self.buffer = buffer
        self.wakeup: threading.Event | None = None
        self.notify: Callable[[], bool] | None = None
        self.requested_ms = 0

    @property
    def is_complete(self) -> bool:
        return self.buffer is not None or self.gathered_bytes == self.wanted_bytes


class BufferPool:
    """At most ``total_bytes`` of buffers at any time, first come first served. Thread-safe.

    Args:
        total_bytes: the bound (``buffer_memory``).
        largest_bytes: size of the largest buffers that are kept for reuse: those that batches grow to.
        clock: for the elapsed time in messages.
        windows: for the metrics; ``None``: Java's defaults.

    Attributes:
        sizes: of the buffers that are kept, largest first.
        lock: guards the pool. No lock is taken under it.
        waiters: the threads and event loops that wait, head first. Without the lock only a hint.
        windows: of the two series.
        waits: ms that each wait for memory took; guarded by the lock, read without it.
        exhausted: waits that ended without memory; likewise.
    """

    def __init__(
        self, total_bytes: int, largest_bytes: int, clock: Clock, windows: Windows | None = None
    ) -> None:
        # Fixed after construction.
        self.total_bytes = total_bytes
        self._clock = clock
        self.lock = OwnedLock()
        self.sizes = buffer_sizes(largest_bytes)[::-1]
        self.windows = windows = Windows(clock) if windows is None else windows
        self.waits = windows.series()
        self.exhausted = windows.series()
        # Guarded by lock.
        #: Free buffers by size; the keys are fixed, largest first.
        self._free: dict[int, list[bytearray]] = {size: [] for size in self.sizes}
        self._free_bytes = 0
        self._unpooled_bytes = total_bytes
        #: Only the head gathers memory, so small requests cannot starve a large one.
        self.waiters: deque[Grant] = deque()
        self._closed = False
        #: Called, without the lock, by each thread that begins to wait: batches that linger have to be sent
        #: now, and the I/O thread may be asleep until their linger is over. Set before the first use.
        self.on_wait: Callable[[], object] = lambda: None
        #: Whether the calling thread may wait: not the one that gives memory back. Set before the first use.
        self.may_wait: Callable[[], bool] = lambda: True

    @classmethod
    def of(cls, config: ProducerConfig, clock: Clock) -> BufferPool:
        """The pool for these settings. It keeps buffers up to the size that batches grow to."""
        largest_bytes = largest_buffer_bytes(config.batch_size, config.compression_type != "none")
        windows = Windows(clock, config.metrics_num_samples, config.metrics_sample_window_ms)
        return cls(config.buffer_memory, largest_bytes, clock, windows)

    @property
    def available_bytes(self) -> int:
        """Bytes that are neither handed out nor gathered for a waiter."""
        with self.lock:
            return self._available_locked()

    def allocate(self, size_bytes: int, max_block_ms: float) -> bytearray:
        """Take a buffer of exactly ``size_bytes``; its contents are arbitrary.

        Blocks while there is not enough memory or another thread has waited longer, up to ``max_block_ms``,
        or not at all: see ``may_wait``.

        Raises:
            ConfigError: ``size_bytes`` exceeds the whole pool.
            BufferExhaustedError: nothing came free in time.
            ProducerClosedError: the pool was closed before or meanwhile.
        """
        self._check_size(size_bytes)
        grant = Grant(size_bytes)
        try:
            with self.lock:
                if self._closed:
                    raise ProducerClosedError.before_call()
                if self.waiters or not self._take_locked(grant, size_bytes):
                    grant.wakeup = threading.Event()
                    self.waiters.append(grant)
                    self._hand_out_locked()
            if grant.wakeup is not None:
                self._wait(grant, grant.wakeup, max_block_ms)
            return _buffer_of(grant)
        except BaseException:
            self._give_back(grant)
            raise

    def request(self, size_bytes: int, notify: Callable[[], bool]) -> Grant:
        """Take a place in the queue of those who wait, and return at once.

        Args:
            size_bytes: as for ``allocate``.
            notify: called once, on any thread, when ``collect`` would succeed or the pool is closed. Must not
                raise, wait or take a lock. Returns ``False`` if nobody will call ``collect`` or
                ``withdraw``.

        Raises:
            ConfigError, ProducerClosedError: as ``allocate``.
        """
        self._check_size(size_bytes)
        grant = Grant(size_bytes)
        grant.notify = notify
        grant.requested_ms = self._clock.monotonic_ms()
        with self.lock:
            if self._closed:
                raise ProducerClosedError.before_call()
            self.waiters.append(grant)
            self._hand_out_locked()
        self.on_wait()
        return grant

    def collect(self, grant: Grant) -> bytearray:
        """Get the buffer of ``request``, or end the wait with the error of ``allocate``.

        Raises:
            BufferExhaustedError: the grant is not complete; it is withdrawn.
            ProducerClosedError: the pool was closed meanwhile.
        """
        try:
            self._end_wait(grant)
            buffer = _buffer_of(grant)
            grant.buffer, grant.gathered_bytes = None, 0
            return buffer
        except BaseException:
            self._give_back(grant)
            raise

    def withdraw(self, grant: Grant) -> None:
        """Give up what was requested. Does nothing after ``collect``."""
        self._give_back(grant)

    def withdraw_expired(self, grant: Grant) -> None:
        """Give up what was requested, because ``max_block_ms`` has passed.

        Raises:
            BufferExhaustedError, ProducerClosedError: always, as ``allocate``.
        """
        now_ms = self._clock.monotonic_ms()
        with self.lock:
            is_closed = self._closed
            available = self._available_locked()
            others = len(self.waiters) - (grant in self.waiters)
            self._count_wait_locked(grant, now_ms, is_exhausted=not is_closed)
        self._give_back(grant)
        if is_closed:
            raise ProducerClosedError("the producer was closed while a call waited for buffer memory")
        raise self._exhausted(grant, available, others)

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self.total_bytes:
            raise ConfigError(
                f"a batch buffer of {size_bytes} bytes exceeds buffer_memory={self.total_bytes}"
            )

    def try_allocate(self, size_bytes: int) -> bytearray | None:
        """Like ``allocate``, if no thread waits and as much again stays free; else ``None``.

        For code that must not wait (it holds a lock), and for growing batches, which must not make others
        wait.
        """
        buffer: bytearray | None = None
        grant: Grant | None = None
        try:
            with self.lock:
                if self.waiters or self._closed or self._unpooled_bytes + self._free_bytes < 2 * size_bytes:
                    return None
                buffers = self._free.get(size_bytes)
                if buffers:
                    buffer = buffers[-1]
                    del buffers[-1]
                    self._free_bytes -= size_bytes
                else:
                    grant = Grant(size_bytes)
                    self._take_locked(grant, size_bytes)
            return buffer if grant is None else _buffer_of(grant)
        except BaseException:
            if buffer is not None:
                self.deallocate(buffer)
            elif grant is not None:
                self._give_back(grant)
            raise

    def deallocate(self, buffer: bytearray) -> None:
        """Return a buffer obtained from ``allocate``. It must not be read or written afterwards.

        Raises:
            IllegalStateError: more would come back than was taken.
        """
        # The usual case, in few steps: of a size that is kept, and no thread waits for it.
        size_bytes = len(buffer)
        is_back = False
        try:
            with self.lock:
                buffers = self._free.get(size_bytes)
                free_bytes = self._free_bytes + size_bytes
                if (
                    buffers is not None
                    and not self.waiters
                    and self._unpooled_bytes + free_bytes <= self.total_bytes
                ):
                    self._free_bytes = free_bytes
                    buffers += (buffer,)
                    is_back = True
        finally:
            if not is_back:
                self._give_back(Grant(size_bytes, buffer=buffer))

    def close(self) -> None:
        """Make every waiting and later ``allocate`` raise; buffers may still come back. Idempotent."""
        with self.lock:
            self._closed = True
            for waiter in self.waiters:
                if waiter.wakeup is not None:
                    waiter.wakeup.set()
                if waiter.notify is not None:
                    waiter.notify()

    def _wait(self, grant: Grant, wakeup: threading.Event, max_block_ms: float) -> None:
        """Wait until the grant is complete; the caller gives it back if this raises."""
        grant.requested_ms = self._clock.monotonic_ms()
        self.on_wait()
        if self.may_wait():
            wakeup.wait(max(max_block_ms, 0) / 1000)
        self._end_wait(grant)

    def _end_wait(self, grant: Grant) -> None:
        now_ms = self._clock.monotonic_ms()
        with self.lock:
            closed = self._closed
            granted = grant.is_complete and not closed
            self._count_wait_locked(grant, now_ms, is_exhausted=not granted and not closed)
            if not granted:
                self._withdraw_locked(grant)
            available = self._available_locked()
            others = len(self.waiters)
        if closed:
            raise ProducerClosedError("the producer was closed while a call waited for buffer memory")
        if not granted:
            raise self._exhausted(grant, available, others)

    def _count_wait_locked(self, grant: Grant, now_ms: int, is_exhausted: bool) -> None:
        window = self.windows.at(now_ms)
        self.waits.add(float(now_ms - grant.requested_ms), window)
        if is_exhausted:
            self.exhausted.add(1.0, window)

    def _exhausted(self, grant: Grant, available: int, others: int) -> BufferExhaustedError:
        elapsed_ms = self._clock.monotonic_ms() - grant.requested_ms
        reason = "records are produced faster than the brokers accept them"
        if not self.may_wait():
            reason = (
                "a delivery callback cannot wait, because memory is freed on its thread; send on another one"
            )
        return BufferExhaustedError(
            f"could not allocate {grant.wanted_bytes} bytes of buffer memory within max_block_ms (waited"
            f" {elapsed_ms} ms): {available} of buffer_memory={self.total_bytes} bytes free,"
            f" {others} other callers waiting; {reason}"
        )

    # Nothing is called between changing the pool and recording it in the grant: Python runs signal handlers
    # at calls, and an exception there would leak the memory.

    def _hand_out_locked(self) -> None:
        """Serve waiters from the head on, as far as the free memory goes."""
        waiters = self.waiters
        while waiters and not self._closed:
            head = waiters[0]
            if not head.is_complete:
                if head.gathered_bytes == 0 and self._free.get(head.wanted_bytes):
                    self._take_free_locked(head)
                else:
                    self._free_up_locked(head.wanted_bytes - head.gathered_bytes)
                    taken = min(head.wanted_bytes - head.gathered_bytes, self._unpooled_bytes)
                    head.gathered_bytes += taken
                    self._unpooled_bytes -= taken
                if not head.is_complete:
                    return
            if head.wakeup is not None:
                head.wakeup.set()
            waiters.popleft()
            if head.notify is not None and not head.notify():
                # Its event loop was closed meanwhile: nobody will use the memory.
                self._return_locked(head)

    def _take_locked(self, grant: Grant, available_bytes: int) -> bool:
        """Complete a grant if so many bytes are available."""
        if self._available_locked() < available_bytes:
            return False
        if self._free.get(grant.wanted_bytes):
            self._take_free_locked(grant)
        else:
            self._free_up_locked(grant.wanted_bytes)
            grant.gathered_bytes = grant.wanted_bytes
            self._unpooled_bytes -= grant.wanted_bytes
        return True

    def _take_free_locked(self, grant: Grant) -> None:
        buffers = self._free[grant.wanted_bytes]
        grant.buffer = buffers[-1]
        del buffers[-1]
        self._free_bytes -= grant.wanted_bytes

    def _free_up_locked(self, size_bytes: int) -> None:
        """Drop pooled buffers until ``size_bytes`` are unpooled, or none is left."""
        for size, buffers in self._free.items():
            while self._unpooled_bytes < size_bytes and buffers:
                del buffers[-1]
                self._free_bytes -= size
                self._unpooled_bytes += size

    def _available_locked(self) -> int:
        return self._unpooled_bytes + self._free_bytes

    def _give_back(self, grant: Grant) -> None:
        try:
            with self.lock:
                self._withdraw_locked(grant)
        except BaseException:
            # Most likely Ctrl-C: what is not returned now would be lost.
            with self.lock:
                self._withdraw_locked(grant)
            raise

    def _withdraw_locked(self, grant: Grant) -> None:
        """Remove a grant from the queue and return its memory. Does nothing the second time."""
        if grant in self.waiters:
            self.waiters.remove(grant)
        self._return_locked(grant)
        self._hand_out_locked()

    def _return_locked(self, grant: Grant) -> None:
        if grant.buffer is not None:
            available = self._available_locked()
            if available + grant.wanted_bytes > self.total_bytes:
                raise IllegalStateError(
                    f"a buffer of {grant.wanted_bytes} bytes was returned twice, or never taken: {available}"
                    f" of {self.total_bytes} bytes are free"
                )
            if grant.wanted_bytes in self._free:
                self._free[grant.wanted_bytes] += (grant.buffer,)
                self._free_bytes += grant.wanted_bytes
            else:
                self._unpooled_bytes += grant.wanted_bytes
            grant.buffer = None
        self._unpooled_bytes += grant.gathered_bytes
        grant.gathered_bytes = 0


def _buffer_of(grant: Grant) -> bytearray:
    """Get the memory that was accounted for; without the lock, as zeroing it takes time."""
    return grant.buffer if grant.buffer is not None else bytearray(grant.wanted_bytes)
