"""Remembers the requests that expect no answer, to know answers to them from answers to nothing.

A broker must not answer ``acks=0``, but librdkafka's mock cluster does. Such an answer is harmless; any other
one that was not asked for means that the connection is out of step and has to end.
"""

from __future__ import annotations

from collections import deque

#: Per connection. A broker that keeps to the rules never answers, so the oldest ones are forgotten.
_REMEMBERED = 4096


class UnansweredRequests:
    """Correlation ids by connection. I/O thread only."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[str, deque[int]] = {}

    def add(self, node_id: str, correlation_id: int) -> None:
        """A request without answer was written."""
        ids = self._ids.get(node_id)
        if ids is None:
            ids = self._ids[node_id] = deque(maxlen=_REMEMBERED)
        ids.append(correlation_id)

    def take(self, node_id: str, payload: bytes) -> bool:
        """Whether the frame answers one of them. It is forgotten then, with the older ones."""
        ids = self._ids.get(node_id)
        if not ids or len(payload) < 4:
            return False
        correlation_id = int.from_bytes(payload[:4], "big")
        if correlation_id not in ids:
            return False
        while ids.popleft() != correlation_id:
            pass
        return True

    def clear(self, node_id: str) -> None:
        """The connection ended."""
        self._ids.pop(node_id, None)
