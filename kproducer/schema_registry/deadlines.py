"""One deadline for all that a call does: several requests, their retries, and each step on the network.

The deadline belongs to the calling thread, so that no function between a look-up and a socket has to pass
it on. An inner deadline never ends later than the one around it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: When the present call has to end (monotonic s).
_ends_at_s: ContextVar[float] = ContextVar("kproducer_schema_registry_deadline", default=math.inf)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit what runs inside to this time, or to the deadline around it if that is earlier."""
    token = _ends_at_s.set(min(_ends_at_s.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends_at_s.reset(token)


def remaining_s() -> float:
    """Seconds until the call of this thread has to end; not above zero if it is too late."""
    return _ends_at_s.get() - time.monotonic()
