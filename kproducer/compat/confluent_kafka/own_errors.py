"""``KafkaError`` and ``KafkaException`` for programs without confluent-kafka: the same methods."""

from __future__ import annotations

from typing import Any

from kproducer.compat.confluent_kafka.error_codes import code_names

_NAMES = code_names()


class KafkaError:
    """An error: a code, and what it is about. Immutable; compares by code.

    Args:
        error: librdkafka's code: negative for its own ones, otherwise that of brokers.
        reason: what happened.
        fatal: the producer cannot be used any more.
        retriable: the same call may succeed.
        txn_requires_abort: the transaction has to be aborted.
    """

    def __init__(
        self,
        error: int,
        reason: str | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        if not isinstance(error, int):
            raise TypeError(f"{type(error).__name__!r} object cannot be interpreted as an integer")
        self._code = error
        self._reason = reason
        self._fatal = fatal
        self._retriable = retriable
        self._txn_requires_abort = txn_requires_abort

    def code(self) -> int:
        """The code; the constants of this class have names for them."""
        return self._code

    def name(self) -> str:
        """The name of the code."""
        return _NAMES.get(self._code, f"ERR_{self._code}?")

    def str(self) -> str:
        """What happened."""
        return self._reason if self._reason is not None else self.name()

    def fatal(self) -> bool:
        """Whether the producer cannot be used any more."""
        return self._fatal

    def retriable(self) -> bool:
        """Whether the same call may succeed."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """Whether the transaction has to be aborted."""
        return self._txn_requires_abort

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, KafkaError)):
            return self._code == (other if isinstance(other, int) else other._code)
        return NotImplemented

    def __hash__(self) -> int:
        return self._code

    def __repr__(self) -> Any:
        return f'KafkaError{{code={self.name()},val={self._code},str="{self.str()}"}}'

    __str__ = __repr__


for _code, _name in _NAMES.items():
    setattr(KafkaError, _name, _code)


class KafkaException(Exception):  # noqa: N818  # confluent-kafka's name
    """Raised by calls; ``args[0]`` is a ``KafkaError``."""
