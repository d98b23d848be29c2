"""FastSend: the reference of ``native/_fast_send.pyx``. It leaves every record to the general path.

Why transactions open and close it: docs/decisions/0032-fast-path-gate.md
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])


class FastSend:
    """Appends records that need nothing but an open batch with room.

    Args:
        future_type: a subclass of ``RecordFuture``.
        wall_ms: milliseconds since the epoch, for records without a timestamp: a function, or the capsule
            ``runtime.clock.WALL_MS`` of a C function.
    """

    __slots__ = ()

    def __init__(self, future_type: type[Any], wall_ms: object) -> None:
        pass

    def leave_compression(self) -> None:
        """Never compress a full batch: the callers must not be blocked."""

    def configure(self, *, takes_arguments: bool, ignores_keys: bool, small_size: int) -> None:
        """Set what depends on the settings. Once, before ``open``.

        Args:
            takes_arguments: the arguments of ``send`` need no serializer and no interceptor.
            ignores_keys: keys do not decide on partitions.
            small_size: key, value and headers of so many bytes together cannot exceed any limit.
        """

    def accept_callbacks_of(self, code: object) -> None:
        """Take records whose delivery callback is a function or method with this code object.

        Records with callbacks of other code are declined.
        """

    def open(self, topics: Mapping[str, Any]) -> None:
        """Handle records from now on.

        Args:
            topics: the ``TopicSlots`` by topic; other threads may add topics.
        """

    def close(self) -> None:
        """Decline every record from now on."""

    def slots_of(self, topic: str) -> Any:
        """The topic's ``TopicSlots``; ``None``: records for it take the general path at present."""
        return None

    def try_send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Any,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: Callable[[Any, Any], object] | None,
    ) -> Any:
        """The record's future; ``None``: declined, nothing has changed. No argument makes it raise."""
        return None


def fast_send(hinted: _Method) -> _Method:
    """The method that ``hinted`` wraps. A keyword that it does not have is left to ``hinted`` to refuse."""
    general = cast(Any, hinted).__wrapped__

    @functools.wraps(hinted)
    def send(
        self: Any,
        topic: Any,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: Any = None,
        timestamp_ms: Any = None,
        on_delivery: Any = None,
        **unknown: Any,
    ) -> Any:
        if unknown:
            return hinted(self, topic, **unknown)
        return general(self, topic, value, key, headers, partition, timestamp_ms, on_delivery)

    return cast(_Method, send)
