"""Errors that the client itself tells apart; the application sees their base classes, or none of them.

Not in the modules that raise them: mypyc compiles those, and compiled subclasses of interpreted exceptions
cannot be copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kproducer.errors import DisconnectedError, IllegalStateError, RemoteProtocolError


class CorrelationIdMismatchError(RemoteProtocolError):
    """The response answers another request than the oldest one in flight."""


class IdleDisconnectError(DisconnectedError):
    """This client closed the connection because it was idle."""


class TlsListenerError(RemoteProtocolError):
    """The peer answered in TLS."""


class PendingOperationError(IllegalStateError):
    """Another transactional call has timed out and is not done yet."""


class WouldWaitError(Exception):
    """A send that must not wait would have to. It has changed nothing, and can be continued.

    Attributes:
        on_failure: to be called, the first one first, with the error if the record is given up.
    """

    def __init__(self) -> None:
        self.on_failure: list[Callable[[BaseException], object]] = []


class TopicNeededError(WouldWaitError):
    """The topic or the partition is not known yet, or earlier records wait for it.

    Args:
        topic, partition: what has to be known.
        resume: continues the send; what it takes and raises is the same as for the send.
    """

    def __init__(self, topic: str, partition: int | None, resume: Callable[..., Any]) -> None:
        super().__init__()
        self.topic, self.partition, self.resume = topic, partition, resume


class PreparationNeededError(WouldWaitError):
    """A serializer would block, because it is not prepared for the topic.

    Args:
        topic: of the record.
        prepare: prepares the serializers. Blocks, and raises what the record then fails with.
        resume: as of ``TopicNeededError``; it does not raise this again.
    """

    def __init__(self, topic: str, prepare: Callable[[], None], resume: Callable[..., Any]) -> None:
        super().__init__()
        self.topic, self.prepare, self.resume = topic, prepare, resume


class MemoryNeededError(WouldWaitError):
    """A new batch needs memory, and the pool has none to spare.

    Args:
        size_bytes: of the buffer.
        append: what ``RecordAccumulator.resume`` needs, besides the buffer.
    """

    def __init__(self, size_bytes: int, append: Any) -> None:
        super().__init__()
        self.size_bytes, self.append = size_bytes, append
