"""Waiting times that grow with each failure, with jitter so that many clients do not return at once.

Used for reconnects, request retries, metadata retries and the connection setup timeout. Knows nothing
about what failed. Source: KIP-580 and KIP-601; Kafka class ``ExponentialBackoff``.
"""

from __future__ import annotations

import random as random_module


class ExponentialBackoff:
    """``initial_ms * multiplier ** attempts``, capped, times a random factor. Thread-safe once built.

    Args:
        initial_ms: the wait after the first failure (``attempts == 0``), before jitter.
        multiplier: growth per further failure.
        max_ms: the longest wait ever returned, jitter included. Below ``initial_ms`` there is no growth
            and the wait is ``max_ms``.
        jitter: a factor is drawn evenly from ``[1 - jitter, 1 + jitter]``; 0 makes the waits exact.
        random: source of randomness; tests pass a seeded one.
    """

    __slots__ = ("_initial_ms", "_jitter", "_max_ms", "_multiplier", "_random")

    def __init__(
        self,
        initial_ms: int,
        multiplier: float,
        max_ms: int,
        jitter: float,
        random: random_module.Random | None = None,
    ) -> None:
        if initial_ms < 0 or max_ms < 0 or multiplier < 1 or not 0 <= jitter < 1:
            raise ValueError(
                f"bad backoff: initial_ms={initial_ms}, multiplier={multiplier},"
                f" max_ms={max_ms}, jitter={jitter}"
            )
        self._initial_ms = initial_ms
        self._multiplier = multiplier
        self._max_ms = max_ms
        self._jitter = jitter
        self._random = random if random is not None else random_module.Random()

    def backoff_ms(self, attempts: int) -> int:
        """The wait in milliseconds after ``attempts`` earlier failures (0 = this was the first)."""
        term: float = self._initial_ms
        ceiling = self._max_ms
        multiplier = self._multiplier
        # Repeated multiplication stops at the cap; a power of a large attempt count would overflow.
        if multiplier > 1 and term > 0:
            while attempts > 0 and term < ceiling:
                term *= multiplier
                attempts -= 1
        term = min(term, ceiling)
        if self._jitter:
            term *= self._random.uniform(1 - self._jitter, 1 + self._jitter)
        return min(int(term), ceiling)
