"""Latencies as numbers with three digits, as percentiles and as a histogram of text.

Every line fits into 80 columns.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

#: Upper bounds of the histogram's rows, in milliseconds: 1, 2 and 5 µs, and so on up to 5000 s.
_BOUNDS_MS: Final = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)]
_BAR_COLUMNS: Final = 40


def three_digits(value: float) -> str:
    """A number of at least 0 with three significant digits: ``0.0123``, ``2.24``, ``81.2``, ``1,230,000``."""
    rounded = float(f"{value:.3g}")
    decimals = max(2 - math.floor(math.log10(rounded)), 0) if rounded else 0
    return f"{rounded:,.{decimals}f}"


def duration(ms: float) -> str:
    """A time with three significant digits: ``812 µs``, ``4.50 ms``, ``2.24 s``."""
    value, unit = _in_unit(float(f"{ms:.3g}"))  # rounded before the unit is chosen: 999.9 ms are 1.00 s
    return f"{three_digits(value)} {unit}"


def _in_unit(ms: float) -> tuple[float, str]:
    if ms < 1:
        return ms * 1000, "µs"
    return (ms, "ms") if ms < 1000 else (ms / 1000, "s")


def percentile(ascending: Sequence[float], percent: float) -> float:
    """The smallest value that at least ``percent`` of the values do not exceed."""
    rank = -int(-len(ascending) * percent // 100)
    return ascending[min(max(rank, 1), len(ascending)) - 1]


def latency_figures(latencies_ms: Iterable[float], percents: Iterable[float]) -> dict[str, float]:
    """Percentiles as ``p50`` and ``p99.9``, average and maximum, in milliseconds; none of no latencies."""
    ascending = sorted(latencies_ms)
    if not ascending:
        return {}
    return {
        "average": round(sum(ascending) / len(ascending), 3),
        **{f"p{each:g}": round(percentile(ascending, each), 3) for each in percents},
        "maximum": round(ascending[-1], 3),
    }


def histogram(latencies_ms: Iterable[float]) -> list[dict[str, Any]]:
    """How many latencies are in each row: up to ``up_to_ms``, and above the row before.

    Rows without latencies are included between others only.
    """
    counts = Counter(min(bisect_left(_BOUNDS_MS, each), len(_BOUNDS_MS) - 1) for each in latencies_ms)
    return [
        {"up_to_ms": _BOUNDS_MS[row], "records": counts[row]}
        for row in range(min(counts, default=0), max(counts, default=-1) + 1)
    ]


def histogram_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A histogram as text."""
    total = sum(row["records"] for row in rows)
    most = max(row["records"] for row in rows)
    yield f"{'up to':>8} {'timed':>11} {'share':>8}"
    for row in rows:
        value, unit = _in_unit(row["up_to_ms"])
        count = row["records"]
        bar = "#" * math.ceil(count * _BAR_COLUMNS / most)
        yield f"{f'{value:g} {unit}':>8} {count:>11,} {count / total:>8.1%}  {bar}".rstrip()
