"""Which Python functions the I/O thread spends its time in: cProfile on every thread that a client starts.

By the thread's CPU time, so that waiting does not count. It slows calls down: its shares are of a run of
their own, and functions that call much look larger than they are. Says what ``cpu_samples`` cannot: what the
Python interpreter was busy with.
"""

from __future__ import annotations

import cProfile
import pstats
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TOP_FUNCTIONS = 15


@contextmanager
def profiled(result: dict[str, Any]) -> Iterator[None]:
    """Profile all threads that are started and ended within the block; ``result`` gets ``functions``."""
    profiles: list[cProfile.Profile] = []
    original = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        profile = cProfile.Profile(time.thread_time)
        profiles.append(profile)
        profile.runcall(original, thread)

    threading.Thread.run = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.run = original  # type: ignore[method-assign]
    result["functions"] = _functions(profiles)


def _functions(profiles: list[cProfile.Profile]) -> list[dict[str, Any]]:
    """The functions with the largest time of their own."""
    if not profiles:
        return []
    stats = pstats.Stats(*profiles).stats  # type: ignore[attr-defined]
    own = {place: (calls, seconds) for place, (_, calls, seconds, _, _) in stats.items()}
    total = sum(seconds for _, seconds in own.values()) or 1.0
    largest = sorted(own.items(), key=lambda item: -item[1][1])[:_TOP_FUNCTIONS]
    return [
        {"function": _name(place), "share": seconds / total, "calls": calls}
        for place, (calls, seconds) in largest
    ]


def _name(place: tuple[str, int, str]) -> str:
    file, _, function = place
    return function if file == "~" else f"{Path(file).stem}.{function}"
