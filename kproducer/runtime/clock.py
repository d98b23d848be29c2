"""The only reader of time. Everything else takes ``now_ms`` as an argument or a ``Clock``.

``monotonic_ms`` is for deadlines and never goes back; ``wall_ms`` is for record timestamps.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

#: A monotonic time that never comes. Fits a signed 64-bit integer, as native code has them.
NEVER_MS: Final = 2**63 - 1


class Clock(Protocol):
    """Where the time comes from; tests bring a clock of their own."""

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
