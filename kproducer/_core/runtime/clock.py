"""The clocks, the number of milliseconds that stands for "never", and exponential backoff.

Code that waits or measures takes ``now_ms`` as an argument, or a ``Clock``, so that tests can set the time.

``monotonic_ms`` is for deadlines and never goes back; ``wall_ms`` is for record timestamps.
"""

from __future__ import annotations

import random as random_module
import time
from typing import Final, Protocol

try:
    # Not "from the module": the import rules see compiled modules only as members of their package.
    from kproducer._core.runtime import _native_clock
except ImportError:
    _native_clock = None  # type: ignore[assignment]

#: "Never", as a time or a delay in milliseconds: the largest ``int64``, larger than every deadline.
NEVER_MS: Final = 2**63 - 1


#: ``SystemClock.wall_ms`` as a C function in a capsule, for compiled code; ``None``: it was not compiled.
WALL_MS: Final[object | None] = None if _native_clock is None else _native_clock.WALL_MS


class Clock(Protocol):
    """A source of time; tests use a clock that they set themselves."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class SystemClock:
    """The operating system's clocks. Thread-safe."""

    __slots__ = ()

    #: The C function itself if it was compiled, without a method around it: it is read several times per
    #: request.
    monotonic_ms = staticmethod(_monotonic_ms if _native_clock is None else _native_clock.monotonic_ms)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    #: The C function itself: the pure kernel reads it for every record.
    wall_ns = staticmethod(time.time_ns)


class ExponentialBackoff:
    """The waits after repeated failures: doubled each time up to a maximum, times a random factor (KIP-580).

    The jitter keeps many clients from retrying at the same moment. Thread-safe. Source: Kafka class
    ``ExponentialBackoff``.

    Args:
        initial_ms: the wait after the first failure, before jitter.
        max_ms: the longest wait, jitter included. If it is below ``initial_ms``, every wait is at most that.
        random: source of the jitter; tests pass a seeded one.
    """

    MULTIPLIER: Final = 2
    #: A factor is drawn evenly from ``[1 - JITTER, 1 + JITTER]``.
    JITTER: Final = 0.2

    __slots__ = ("_initial_ms", "_max_ms", "_random")

    def __init__(self, initial_ms: int, max_ms: int, random: random_module.Random | None = None) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._random = random if random is not None else random_module.Random()

    def backoff_ms(self, attempts: int) -> int:
        """The wait in milliseconds after ``attempts`` earlier failures (0: this was the first)."""
        wait_ms: float = self._initial_ms
        # A loop instead of a power, which would overflow with a large exponent. It ends at the maximum.
        while attempts > 0 and 0 < wait_ms < self._max_ms:
            wait_ms *= self.MULTIPLIER
            attempts -= 1
        wait_ms = min(wait_ms, self._max_ms) * self._random.uniform(1 - self.JITTER, 1 + self.JITTER)
        return min(int(wait_ms), self._max_ms)
