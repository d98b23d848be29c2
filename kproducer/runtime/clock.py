"""The clocks, and the number of milliseconds that stands for "never".

Code that waits or measures takes ``now_ms`` as an argument, or a ``Clock``, so that tests can set the time.

``monotonic_ms`` is for deadlines and never goes back; ``wall_ms`` is for record timestamps.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

#: As a time or a delay in milliseconds: never. Larger than every deadline, and the largest ``int64``.
NEVER_MS: Final = 2**63 - 1


class Clock(Protocol):
    """A source of time; tests use a clock that they set themselves."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""


class SystemClock:
    """The operating system's clocks. Thread-safe."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
