"""LogRepeats: lets the first of many like messages into the log, and later ones now and then, with a count.

A broker that is down for an hour gives thousands of equal errors; a log with all of them hides the rest.
Knows neither loggers nor messages. Source: ours.
"""

from __future__ import annotations

from collections.abc import Hashable

#: More kinds than this are not told apart for ever: the oldest is forgotten.
_MOST_KINDS = 256


class LogRepeats:
    """Decides which messages of a kind are logged. Not thread-safe.

    Args:
        quiet_ms: how long the next of the same kind is kept back.
    """

    __slots__ = ("_kinds", "_quiet_ms")

    def __init__(self, quiet_ms: int) -> None:
        self._quiet_ms = quiet_ms
        self._kinds: dict[Hashable, tuple[int, int]] = {}  # kind to (last let through, kept back since)

    def suffix(self, kind: Hashable, now_ms: int) -> str | None:
        """What to add to a message of this kind: how many were kept back; ``None``: keep this one back too.

        Args:
            kind: equal for messages that say the same.
            now_ms: monotonic.
        """
        last_ms, kept_back = self._kinds.pop(kind, (None, 0))
        if last_ms is not None and now_ms - last_ms < self._quiet_ms:
            self._kinds[kind] = (last_ms, kept_back + 1)
            return None
        while len(self._kinds) >= _MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = (now_ms, 0)
        return f" ({kept_back} more like this since the last such message)" if kept_back else ""
