"""BufferPool: the bound on the memory that records may wait in.

Hands out bytearrays; those of the few sizes that batches have while they grow are kept and handed out again.
Knows nothing of batches. Differs from Kafka, which keeps one size, and for ever. Freed memory goes to the
longest-waiting thread first. Source: Kafka class ``BufferPool``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from kproducer._core.accumulator.owned_lock import OwnedLock
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.kernel import return_free_memory
from kproducer._core.metrics.windows import Windows
from kproducer._core.records.batch_sizing import buffer_sizes, largest_buffer_bytes
from kproducer._core.runtime.clock import NEVER_MS, Clock
from kproducer.errors import (
    BufferExhaustedError,
    ConfigError,
    IllegalStateError,
    ProducerClosedError,
)

#: How many bytes of free buffers are kept in any case, and how often unused ones are freed: touching 32 MiB
#: of new memory takes 30 ms, which bursts every second or two should not pay each time.
KEPT_BYTES: Final = 1 << 20
_TRIM_INTERVAL_MS: Final = 3_000
#: The C library keeps what is freed between other objects. It is asked to return it after as much as this was
#: freed, and not often: that takes 0.1 s in a large fragmented heap.
_MUCH_BYTES: Final = 8 << 20
_RETURN_INTERVAL_MS: Final = 60_000


def _will_collect() -> bool:
    return True


class Grant:
    """The place of one call in the queue for memory, and what it has taken so far: it can all be returned.

    Guarded by the pool's lock.

    Attributes:
        wanted_bytes: how much the call asked for.
        gathered_bytes: taken from the pool as a number of bytes, for which a buffer will be allocated.
        buffer: taken from the pool as it is.
        notify: called, with the pool's lock held, when the grant can be collected; ``False``: nobody will.
        requested_ms: when the wait began (monotonic); 0: it has not waited.
    """

    __slots__ = ("buffer", "gathered_bytes", "notify", "requested_ms", "wanted_bytes")

    def __init__(self, wanted_bytes: int, buffer: bytearray | None = None) -> None:
        self.wanted_bytes = wanted_bytes
        self.gathered_bytes = 0
        self.buffer = buffer
        self.notify: Callable[[], bool] = _will_collect
        self.requested_ms = 0

    @property
    def is_complete(self) -> bool:
        """Whether it can be collected."""
        return self.buffer is not None or self.gathered_bytes == self.wanted_bytes


class BufferPool:
    """At most ``total_bytes`` of buffers at any time, first come first served. Thread-safe.

    Args:
        total_bytes: the bound (``buffer_memory``).
        largest_bytes: size of the largest buffers that are kept for reuse: those that batches grow to.
        clock: for the elapsed time in messages.
        windows: for the metrics; ``None``: Java's defaults.
        on_wait: called, without the lock, by each thread that begins to wait: batches that linger have to be
            sent now, and the I/O thread may be asleep until their linger is over.
        may_wait: whether the calling thread may wait: not the one that gives memory back.

    Attributes:
        total_bytes, clock, on_wait, may_wait: as given.
        sizes: of the buffers that are kept, largest first.
        lock: guards the pool. No lock is taken under it.
        waiters: the threads and event loops that wait, head first. Without the lock only a hint.
        is_closed: no memory is handed out any more. Without the lock only a hint.
        windows: of the two series.
        waits: ms that each wait for memory took; guarded by the lock, read without it.
        exhausted: waits that ended without memory; likewise.
    """

    def __init__(
        self,
        total_bytes: int,
        largest_bytes: int,
        clock: Clock,
        windows: Windows | None = None,
        on_wait: Callable[[], object] = lambda: None,
        may_wait: Callable[[], bool] = lambda: True,
    ) -> None:
        # Fixed after construction.
        self.on_wait = on_wait
        self.may_wait = may_wait
        self.total_bytes = total_bytes
        self.clock = clock
        self.lock = OwnedLock()
        self.sizes = buffer_sizes(largest_bytes)[::-1]
        self.windows = windows = Windows(clock) if windows is None else windows
        self.waits = windows.series()
        self.exhausted = windows.series()
        # Guarded by lock.
        #: Free buffers by size; the keys are fixed, largest first.
        self._free: dict[int, list[bytearray]] = {size: [] for size in self.sizes}
        self._free_bytes = 0
        #: The least that `_free_bytes` was since the last `trim`.
        self._idle_bytes = 0
        self._unpooled_bytes = total_bytes
        #: Only the head gathers memory, so small requests cannot starve a large one.
        self.waiters: deque[Grant] = deque()
        self.is_closed = False
        # I/O thread only.
        self._trim_ms = 0
        self._return_ms = 0
        #: What ``trim`` has freed since it returned memory to the system.
        self._freed_bytes = 0

    @classmethod
    def of(
        cls,
        config: ProducerConfig,
        clock: Clock,
        on_wait: Callable[[], object] = lambda: None,
        may_wait: Callable[[], bool] = lambda: True,
    ) -> BufferPool:
        """The pool for these settings. It keeps buffers up to the size that batches grow to."""
        largest_bytes = largest_buffer_bytes(config.batch_size, config.compression_type != "none")
        windows = Windows(clock, config.metrics_num_samples, config.metrics_sample_window_ms)
        return cls(config.buffer_memory, largest_bytes, clock, windows, on_wait, may_wait)

    @property
    def available_bytes(self) -> int:
        """Bytes that are neither handed out nor gathered for a waiter."""
        with self.lock:
            return self._available_locked()

    def request(self, grant: Grant, notify: Callable[[], bool]) -> None:
        """Take a place in the queue of those who wait, and return at once.

        Args:
            grant: of the size that is wanted. The caller withdraws it if this raises.
            notify: called, on any thread, when ``collect`` would succeed or the pool is closed. Must not
                raise, wait or take a lock. Returns ``False`` if nobody will call ``collect`` or
                ``withdraw``.

        Raises:
            ConfigError: its size exceeds the whole pool.
            ProducerClosedError: the pool is closed.
        """
        if grant.wanted_bytes > self.total_bytes:
            raise ConfigError(
                f"a batch buffer of {grant.wanted_bytes} bytes exceeds buffer_memory={self.total_bytes}"
            )
        grant.notify = notify
        with self.lock:
            if self.is_closed:
                raise ProducerClosedError.before_call()
            self.waiters.append(grant)
            self._hand_out_locked()
            if grant.is_complete:
                return
        grant.requested_ms = self.clock.monotonic_ms()
        self.on_wait()

    def collect(self, grant: Grant) -> None:
        """Complete ``grant.buffer``, which has arbitrary contents. The grant is complete, or the pool closed.

        Raises:
            ProducerClosedError: the pool was closed meanwhile.
        """
        now_ms = self.clock.monotonic_ms()
        with self.lock:
            self._count_wait_locked(grant, now_ms, is_exhausted=False)
            is_closed = self.is_closed
        if is_closed:
            raise ProducerClosedError("the producer was closed while a call waited for buffer memory")
        _complete_buffer(grant)

    def withdraw(self, grant: Grant) -> None:
        """Return what the grant has, and its place in the queue. Idempotent."""
        try:
            with self.lock:
                self._withdraw_locked(grant)
        except BaseException:
            # Most likely Ctrl-C: what is not returned now would be lost.
            with self.lock:
                self._withdraw_locked(grant)
            raise

    def withdraw_expired(self, grant: Grant) -> BufferExhaustedError:
        """Give up what was requested: ``max_block_ms`` has passed. Returns the error for the caller."""
        now_ms = self.clock.monotonic_ms()
        others = len(self.waiters) - (grant in self.waiters)
        error = self.exhausted_error(grant.wanted_bytes, now_ms - grant.requested_ms, others)
        with self.lock:
            self._count_wait_locked(grant, now_ms, is_exhausted=True)
        self.withdraw(grant)
        return error

    def exhausted_error(self, wanted_bytes: int, waited_ms: int, others: int) -> BufferExhaustedError:
        """The error of a record that has waited for memory for too long.

        Args:
            wanted_bytes: 0: not known yet.
            waited_ms: since it began to wait.
            others: how many others wait.
        """
        reason = "records are produced faster than the brokers accept them"
        if not self.may_wait():
            reason = (
                "a delivery callback cannot wait, because memory is freed on its thread; send on another one"
            )
        what = f"{wanted_bytes} bytes of buffer memory" if wanted_bytes else "buffer memory"
        return BufferExhaustedError(
            f"could not allocate {what} within max_block_ms (waited {waited_ms} ms):"
            f" {self.available_bytes} of buffer_memory={self.total_bytes} bytes free,"
            f" {others} other callers waiting; {reason}"
        )

    def try_allocate(self, size_bytes: int) -> bytearray | None:
        """Take a buffer of exactly ``size_bytes``, if no thread waits and as much again stays free.

        For code that must not wait (it holds a lock), and for growing batches, which must not make others
        wait.
        """
        grant = Grant(size_bytes)
        try:
            with self.lock:
                if self.waiters or self.is_closed or self._available_locked() < 2 * size_bytes:
                    return None
                self._gather_locked(grant)
            _complete_buffer(grant)
            return grant.buffer
        except BaseException:
            self.withdraw(grant)
            raise

    def deallocate(self, buffer: bytearray) -> None:
        """Return a buffer. It must not be read or written afterwards.

        Raises:
            IllegalStateError: more would come back than was taken.
        """
        self.deallocate_all([buffer])

    def deallocate_all(self, buffers: list[bytearray]) -> None:
        """``deallocate`` for each of many, of which most have one record: the lock is taken once."""
        # The usual case, in few steps: of a size that is kept, and no thread waits for it.
        count_back = 0
        try:
            with self.lock:
                for buffer in buffers:
                    kept = self._free.get(len(buffer))
                    free_bytes = self._free_bytes + len(buffer)
                    if kept is None or self.waiters or self._unpooled_bytes + free_bytes > self.total_bytes:
                        break
                    self._free_bytes = free_bytes
                    kept += (buffer,)
                    count_back += 1
        finally:
            for buffer in buffers[count_back:]:
                self.withdraw(Grant(len(buffer), buffer=buffer))

    def trim(self, now_ms: int) -> int:
        """Free the buffers that nobody has needed for a while, largest first. I/O thread only.

        Returns:
            Milliseconds until the next call; ``NEVER_MS``: there is little to free.
        """
        if self._free_bytes > KEPT_BYTES and now_ms >= self._trim_ms:
            self._trim_ms = now_ms + _TRIM_INTERVAL_MS
            with self.lock:
                unused_bytes = max(self._idle_bytes - KEPT_BYTES, 0)
                self._free_up_locked(self._unpooled_bytes + unused_bytes)
                self._idle_bytes = self._free_bytes
            self._freed_bytes += unused_bytes
        if self._free_bytes > KEPT_BYTES:
            return self._trim_ms - now_ms
        if self._freed_bytes < _MUCH_BYTES or self.total_bytes - self.available_bytes > KEPT_BYTES:
            return NEVER_MS
        if now_ms >= self._return_ms:
            self._return_ms = now_ms + _RETURN_INTERVAL_MS
            self._freed_bytes = 0
            return_free_memory()
            return NEVER_MS
        return self._return_ms - now_ms

    def close(self) -> None:
        """End every wait, and refuse every later request; buffers may still come back. Idempotent."""
        with self.lock:
            self.is_closed = True
            for waiter in self.waiters:
                waiter.notify()

    def _count_wait_locked(self, grant: Grant, now_ms: int, is_exhausted: bool) -> None:
        if not grant.requested_ms:
            return
        window = self.windows.at(now_ms)
        self.waits.add(float(now_ms - grant.requested_ms), window)
        if is_exhausted:
            self.exhausted.add(1.0, window)

    # Nothing is called between changing the pool and recording it in the grant: Python runs signal handlers
    # at calls, and an exception there would leak the memory.

    def _hand_out_locked(self) -> None:
        """Serve waiters from the head on, as far as the free memory goes."""
        waiters = self.waiters
        while waiters and not self.is_closed:
            head = waiters[0]
            if not head.is_complete:
                self._gather_locked(head)
                if not head.is_complete:
                    return
            waiters.popleft()
            if not head.notify():
                # Its event loop was closed meanwhile: nobody will use the memory.
                self._return_locked(head)

    def _gather_locked(self, grant: Grant) -> None:
        """Take what a grant still lacks, as far as the free memory goes."""
        buffers = self._free.get(grant.wanted_bytes)
        if buffers and grant.gathered_bytes == 0:
            grant.buffer = buffers[-1]
            del buffers[-1]
            self._free_bytes -= grant.wanted_bytes
            self._note_free_locked()
            return
        self._free_up_locked(grant.wanted_bytes - grant.gathered_bytes)
        taken = min(grant.wanted_bytes - grant.gathered_bytes, self._unpooled_bytes)
        grant.gathered_bytes += taken
        self._unpooled_bytes -= taken

    def _free_up_locked(self, size_bytes: int) -> None:
        """Drop pooled buffers until ``size_bytes`` are unpooled, or none is left."""
        for size, buffers in self._free.items():
            while self._unpooled_bytes < size_bytes and buffers:
                del buffers[-1]
                self._free_bytes -= size
                self._unpooled_bytes += size
        self._note_free_locked()

    def _note_free_locked(self) -> None:
        self._idle_bytes = min(self._idle_bytes, self._free_bytes)

    def _available_locked(self) -> int:
        return self._unpooled_bytes + self._free_bytes

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


def _complete_buffer(grant: Grant) -> None:
    """Make a buffer of the bytes that were gathered; without the lock, as zeroing it takes time."""
    if grant.buffer is None:
        made = bytearray(grant.wanted_bytes)
        grant.buffer, grant.gathered_bytes = made, 0
