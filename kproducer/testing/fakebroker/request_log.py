"""The requests that arrived at the fake cluster, in order, and waiting for them.

``RequestLog`` owns the cluster's only lock: handlers change state under it, tests read state under it,
and every change wakes the waiting tests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import attrs
from kproducer_messages import API_NAMES


@attrs.frozen
class LoggedRequest:
    """One request as it arrived.

    Attributes:
        number: position among all requests of the cluster.
        broker_id: the broker that received it.
        connection_id: of its connection; numbers are unique in a cluster.
        arrived_at_s: ``time.monotonic()`` when its last byte was read.
        frame_bytes: size without the 4-byte prefix.
        message: the decoded body, of a class of ``kproducer_messages``; ``None`` if it could not be decoded.
    """

    number: int
    broker_id: int
    connection_id: int
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    arrived_at_s: float
    frame_bytes: int
    message: Any

    @property
    def api(self) -> str:
        """The API's name in Kafka's protocol, such as ``Produce``."""
        return API_NAMES.get(self.api_key, str(self.api_key))

    def partitions(self) -> list[tuple[str, int]]:
        """(topic name, partition) of each partition in a Produce request below v13."""
        return [(topic.name, p.index) for topic in self.message.topic_data for p in topic.partition_data]

    def __str__(self) -> str:
        return (
            f"#{self.number} {self.api} v{self.api_version} broker {self.broker_id} "
            f"connection {self.connection_id} correlation {self.correlation_id}"
        )


class RequestLog:
    """Thread-safe list of requests that tests can wait for."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self._requests: list[LoggedRequest] = []

    def add(self, **fields: Any) -> LoggedRequest:
        with self.changed:
            request = LoggedRequest(number=len(self._requests), arrived_at_s=time.monotonic(), **fields)
            self._requests.append(request)
            self.changed.notify_all()
            return request

    def clear(self) -> None:
        with self.changed:
            self._requests.clear()

    def select(self, api_key: int | None = None, broker_id: int | None = None) -> list[LoggedRequest]:
        with self.changed:
            return [
                request
                for request in self._requests
                if api_key in (None, request.api_key) and broker_id in (None, request.broker_id)
            ]

    def wait_for(self, predicate: Callable[[], Any], timeout_s: float, what: str) -> Any:
        """Wait until ``predicate()`` is true (called under the lock) and return its value."""
        with self.changed:
            if self.changed.wait_for(predicate, timeout_s):
                return predicate()
            tail = "\n  ".join(str(request) for request in self._requests[-20:]) or "(no request)"
        raise AssertionError(f"not within {timeout_s} s: {what}; the last requests:\n  {tail}")
