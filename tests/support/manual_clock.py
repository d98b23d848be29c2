"""A clock that only advances when a test tells it to."""

from __future__ import annotations


class ManualClock:
    """Implements ``kproducer._core.runtime.clock.Clock``; both clocks advance together."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def advance(self, ms: int) -> int:
        """Advance by ``ms`` and return the new time."""
        self.now_ms += ms
        return self.now_ms
