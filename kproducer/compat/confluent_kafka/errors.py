"""``KafkaError`` and ``KafkaException``, and which of librdkafka's codes each error of kproducer gets.

If confluent-kafka is installed, both are its classes: ``except confluent_kafka.KafkaException`` catches what
this package raises, and the other way round.
Source: confluent-kafka's API reference; librdkafka's error codes; docs/decisions/0047-adapters.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer import errors as own
from kproducer.compat.confluent_kafka.error_codes import local_code
from kproducer.errors.internal_errors import PendingOperationError

if TYPE_CHECKING:
    from kproducer.compat.confluent_kafka.own_errors import KafkaError as KafkaError
    from kproducer.compat.confluent_kafka.own_errors import KafkaException as KafkaException
else:
    try:
        from confluent_kafka import KafkaError, KafkaException
    except ImportError:
        from kproducer.compat.confluent_kafka.own_errors import KafkaError, KafkaException


def new_error(name: str, reason: str, **flags: bool) -> KafkaError:
    """An error with one of librdkafka's own codes, such as ``_STATE``."""
    return KafkaError(local_code(name), reason, **flags)


class UnknownPartitionError(own.InvalidArgumentError):
    """The topic of a message does not have its partition. Only a delivery callback sees it."""


#: Names of librdkafka's codes for errors of records and of calls. The first class that fits decides.
_NAMES: list[tuple[type[own.KafkaError], str]] = [
    (own.DeliveryTimeoutError, "_MSG_TIMED_OUT"),
    (own.MetadataTimeoutError, "_MSG_TIMED_OUT"),
    (own.FencedError, "_FENCED"),
    (own.FatalProducerError, "_FATAL"),
    (own.ProducerClosedError, "_DESTROY"),
    (PendingOperationError, "_CONFLICT"),
    (own.IllegalStateError, "_STATE"),
    (own.ConfigError, "_INVALID_ARG"),
    (UnknownPartitionError, "_UNKNOWN_PARTITION"),
    (own.InvalidArgumentError, "_INVALID_ARG"),
    (own.SslAuthenticationError, "_SSL"),
    (own.AuthenticationError, "_AUTHENTICATION"),
    (own.NetworkError, "_TRANSPORT"),
    (own.KafkaTimeoutError, "_TIMED_OUT"),
    (own.RemoteProtocolError, "_BAD_MSG"),
]
_MESSAGE_TOO_LARGE_CODE = 10


def converted(error: own.KafkaError, prefix: str = "") -> KafkaError:
    """The ``KafkaError`` for an error of kproducer, with its text."""
    flags = {
        "fatal": isinstance(error, own.FatalProducerError),
        # A timeout is retriable: the call continues, and has to be made again until it has ended.
        "retriable": error.retriable
        or type(error) is own.KafkaTimeoutError
        or isinstance(error, PendingOperationError),
        "txn_requires_abort": isinstance(error, own.AbortTransactionError),
    }
    return KafkaError(_code_of(error), prefix + str(error), **flags)


def _code_of(error: own.KafkaError) -> int:
    if isinstance(error, own.AbortTransactionError) and isinstance(error.__cause__, own.KafkaError):
        return _code_of(error.__cause__)
    if isinstance(error, own.BrokerError):
        return error.code
    if isinstance(error, own.RecordTooLargeError):
        return _MESSAGE_TOO_LARGE_CODE
    if isinstance(error, (own.PurgedError, own.TransactionAbortedError)):
        in_queue = error.outcome is own.Outcome.NOT_SENT
        return local_code("_PURGE_QUEUE" if in_queue else "_PURGE_INFLIGHT")
    name = next((name for error_class, name in _NAMES if isinstance(error, error_class)), "_FAIL")
    return local_code(name)


def raised(error: own.KafkaError, prefix: str = "") -> KafkaException:
    """The exception to raise for an error of kproducer; raise it ``from`` that error."""
    return KafkaException(converted(error, prefix))
