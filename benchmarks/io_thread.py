"""The Python functions that take the I/O thread's time: cProfile on every thread that a client starts.

It uses the thread's CPU time, so waiting does not count. It slows calls down, so it has a separate run, and
functions with many calls appear larger than they are. Unlike ``cpu_samples`` it shows what the Python
interpreter executed.
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
    """Profile all threads that start and end within the block; ``result`` gets ``functions``."""
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
    """The functions with the largest own time."""
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
