"""Series: totals since the start, and the same within Java's sampled windows, at the cost of a few additions.

Java divides time into windows of ``metrics.sample.window.ms`` and computes means, maxima and rates of the
present window and of those before it, ``metrics.num.samples`` in all. So does this. The windows of all series
of a part begin at the same time, so that one division per request finds the window of all of them. (Differs
from Java, where those of each metric begin at its first event.)
Source: Kafka classes ``SampledStat``, ``Rate``, ``Meter``, ``Avg``, ``Max``.
"""

from __future__ import annotations

import math
from typing import Final

from kproducer._core.runtime.clock import Clock

#: Java's defaults of ``metrics.num.samples`` and ``metrics.sample.window.ms``.
NUM_SAMPLES: Final = 2
WINDOW_MS: Final = 30_000


class Windows:
    """The windows of one part, which begin when it is created.

    Args:
        clock: monotonic time.
        num_samples, window_ms: how many windows are looked at, the present one included, and their length.
    """

    def __init__(self, clock: Clock, num_samples: int = NUM_SAMPLES, window_ms: int = WINDOW_MS) -> None:
        # Fixed after construction.
        self._clock = clock
        self._num_samples = num_samples
        self._window_ms = window_ms
        self._started_ms = clock.monotonic_ms()

    def series(self) -> Series:
        """A new series over these windows."""
        return Series(self._num_samples)

    def at(self, now_ms: int) -> int:
        """The number of the window at a time, for ``Series.add``."""
        return (now_ms - self._started_ms) // self._window_ms

    def now(self) -> int:
        """The number of the present window, for events that are too rare to be given the time."""
        return self.at(self._clock.monotonic_ms())

    def seconds(self, now_ms: int) -> float:
        """What totals within the windows are divided by for rates per second: at least the whole windows
        before the present one, as in Java."""
        elapsed_ms = now_ms - self._started_ms
        window_ms, earlier = self._window_ms, self._num_samples - 1
        skipped = max(elapsed_ms // window_ms - earlier, 0)
        elapsed_ms -= skipped * window_ms
        missing = max(earlier - elapsed_ms // window_ms, 0)
        # At least a millisecond: a single window may have just begun.
        return max(elapsed_ms + missing * window_ms, 1) / 1000


class Series:
    """How many values there were, their sum and their maximum. Values are not negative.

    One thread adds, or several under a lock of theirs; any thread may read. A reader may see the count of a
    value whose sum it does not see yet.

    Args:
        num_samples: how many windows ``recent`` looks at.

    Attributes:
        count, total: number and sum of all values.
    """

    def __init__(self, num_samples: int = NUM_SAMPLES) -> None:
        self._num_samples = num_samples
        self.count = 0.0
        self.total = 0.0
        self._maximum = 0.0  # the maximum in _window
        self._window = 0
        #: The last windows with values, oldest first: number, count and total when the window began, and its
        #: maximum (not of the present window). The tuple is replaced as a whole.
        self._begun: tuple[tuple[int, float, float, float], ...] = ((0, 0.0, 0.0, 0.0),)

    def add(self, value: float, window: int) -> None:
        """Add one value. ``window``: its number in ``Windows``."""
        if window != self._window:
            self._begin_window(window)
        self.count += 1.0
        self.total += value
        if value > self._maximum:
            self._maximum = value

    def add_many(self, total: float, count: float, window: int) -> None:
        """Add so many values with this sum. Their maximum is not looked at."""
        if window != self._window:
            self._begin_window(window)
        self.count += count
        self.total += total

    def add_all(self, total: float, count: float, maximum: float, window: int) -> None:
        """Add so many values with this sum and this maximum."""
        self.add_many(total, count, window)
        if maximum > self._maximum:
            self._maximum = maximum

    def _begin_window(self, window: int) -> None:
        number, count, total, _ = self._begun[-1]
        ended = (number, count, total, self._maximum)
        begun = (*self._begun[:-1], ended)
        first = max(len(begun) - self._num_samples + 1, 0)
        self._begun = (*begun[first:], (window, self.count, self.total, 0.0))
        self._maximum = 0.0
        self._window = window

    def recent(self, window: int) -> Recent:
        """Count, sum and maximum within the windows of which ``window`` is the present one."""
        # These are read first: the count and total that are read later are never less than what a window
        # began with.
        begun, maximum = self._begun, self._maximum
        oldest = window - self._num_samples + 1
        if begun[-1][0] < oldest:
            return Recent(0.0, 0.0, 0.0)
        first: tuple[int, float, float, float] | None = None
        for each in begun:
            if each[0] >= oldest:
                first = first or each
                maximum = max(maximum, each[3])
        assert first is not None
        return Recent(self.count - first[1], self.total - first[2], maximum)


class Recent:
    """What a series, or several together, had within the windows.

    Attributes:
        count, total, maximum: of the values.
    """

    def __init__(self, count: float, total: float, maximum: float) -> None:
        self.count = count
        self.total = total
        self.maximum = maximum

    @property
    def mean(self) -> float:
        """NaN without values, as in Java."""
        return self.total / self.count if self.count else math.nan

    @property
    def largest(self) -> float:
        """NaN without values, as in Java."""
        return self.maximum if self.count else math.nan


def combined(parts: list[Recent]) -> Recent:
    """All values of several series."""
    return Recent(
        sum(part.count for part in parts),
        sum(part.total for part in parts),
        max((part.maximum for part in parts), default=0.0),
    )
