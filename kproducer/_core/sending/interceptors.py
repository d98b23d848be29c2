"""ProducerInterceptors: the chain of user hooks around a record. A hook that fails is logged and ignored.

``on_send(record)`` may return a changed record, which the next one in the chain receives; ``None`` keeps it.
``on_acknowledgement(metadata, error)`` receives the outcome, on the I/O thread; ``close()`` is called once.
An interceptor may lack any of the three. Knows nothing of how records are sent. Source: KIP-42.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.runtime.public_names import public
from kproducer.types import RecordMetadata

_log = GuardedLogger(__name__)


@public
class ProducerRecord(NamedTuple):
    """What ``send`` was called with, as interceptors see it: before serialization.

    Attributes:
        topic: topic name.
        value: object for the value serializer.
        key: object for the key serializer.
        headers: as given to ``send``; ``None`` for none.
        partition: the explicit partition, or ``None``.
        timestamp_ms: the explicit time, or ``None`` for now.
    """

    topic: str
    value: Any = None
    key: Any = None
    headers: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptors:
    """A chain of interceptors, called in order. Thread-safe as far as the interceptors are.

    Source: Kafka class ``ProducerInterceptors``.
    """

    def __init__(self, interceptors: Iterable[Any]) -> None:
        chain = list(interceptors)
        self._send_hooks = _hooks(chain, "on_send")
        self._acknowledgement_hooks = _hooks(chain, "on_acknowledgement")
        self._close_hooks = _hooks(chain, "close")

    @property
    def has_send_hooks(self) -> bool:
        """Whether ``on_send`` would do anything."""
        return bool(self._send_hooks)

    def __bool__(self) -> bool:
        """Whether ``on_send`` or ``on_acknowledgement`` would do anything."""
        return bool(self._send_hooks or self._acknowledgement_hooks)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Let the chain see and change the record. Never raises because of a hook."""
        for hook in self._send_hooks:
            try:
                changed = hook(record)
            except Exception:
                _log.exception("interceptor %r failed in on_send for topic %r", hook, record.topic)
                continue
            if isinstance(changed, ProducerRecord):
                record = changed
            elif changed is not None:
                _log.error("interceptor %r returned %r from on_send, not a ProducerRecord", hook, changed)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Pass an outcome to the chain. Never raises because of a hook.

        Args:
            metadata: offset -1 if there is an error.
            error: a KafkaError from delivery, or what ``send`` raised; ``None`` on success.
        """
        _call_all(self._acknowledgement_hooks, "on_acknowledgement", metadata, error)

    def close(self) -> None:
        """Close every interceptor, even if another one raises."""
        _call_all(self._close_hooks, "close")


def _call_all(hooks: list[Callable[..., Any]], name: str, *arguments: Any) -> None:
    for hook in hooks:
        try:
            hook(*arguments)
        except Exception:
            _log.exception("interceptor %r failed in %s", hook, name)


def _hooks(chain: list[Any], name: str) -> list[Callable[..., Any]]:
    return [getattr(interceptor, name) for interceptor in chain if hasattr(interceptor, name)]
