"""Waiting for what other threads do, where they offer no event to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as ``condition()`` holds; after some 30 seconds without it: AssertionError."""
    pause = threading.Event()
    for _ in range(30_000):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("condition not met")
