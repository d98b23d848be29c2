"""The classes of ``kafka.errors`` that a producer can raise, for programs without kafka-python."""

from __future__ import annotations

from kproducer.errors import InvalidMetadataError as _OwnInvalidMetadataError
from kproducer.errors import RetriableError as _OwnRetriableError
from kproducer.errors.broker_errors import ERROR_TABLE


class KafkaError(Exception):
    """Base class."""

    retriable = False
    invalid_metadata = False


class RetriableError(KafkaError):
    """The same call may succeed later."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """The metadata was stale."""

    invalid_metadata = True


class Cancelled(RetriableError):  # noqa: N818  # kafka-python's name
    """Given up by the application."""


class IllegalArgumentError(KafkaError):
    """An argument is wrong."""


class IllegalStateError(KafkaError):
    """The call is not allowed now."""


class KafkaConfigurationError(KafkaError):
    """A setting is wrong."""


class KafkaConnectionError(InvalidMetadataError):
    """A connection failed."""


class KafkaProtocolError(KafkaError):
    """A response was not valid."""


class KafkaTimeoutError(RetriableError):
    """Not done in time."""


class TransactionAbortedError(KafkaError):
    """The transaction was aborted."""


class BrokerResponseError(KafkaError):
    """An error code of a broker: ``errno``."""

    errno: int | None = None
    message: str | None = None
    description: str | None = None


class AuthorizationError(BrokerResponseError):
    """A permission is missing."""


class UnrecognizedBrokerError(BrokerResponseError):
    """A code that is not in the table."""


#: The last code that kafka-python knows.
_LAST_CODE = 127
#: kafka-python's names of codes that Kafka's ``Errors`` calls something else.
_OTHER_NAMES = {
    -1: "UnknownError",
    2: "CorruptRecordError",
    4: "InvalidFetchRequestError",
    6: "NotLeaderForPartitionError",
    10: "MessageSizeTooLargeError",
    17: "InvalidTopicError",
    39: "InvalidReplicationAssignmentError",
    40: "InvalidConfigurationError",
}
#: Base classes of errors for which kafka-python's flags differ from Kafka's table, by code.
_OTHER_BASES: dict[int, tuple[type[KafkaError], ...]] = {
    2: (BrokerResponseError,),
    75: (InvalidMetadataError, BrokerResponseError),
}
_by_code: dict[int, type[BrokerResponseError]] = {}
for _code, _kafka_name, _own_class, _description in ERROR_TABLE:
    if _code > _LAST_CODE:
        continue
    _name = _OTHER_NAMES.get(_code, _kafka_name.title().replace("_", "").removesuffix("Error") + "Error")
    _bases: tuple[type[KafkaError], ...] = (BrokerResponseError,)
    if _name.endswith("AuthorizationFailedError"):
        _bases = (AuthorizationError,)
    elif _own_class is not None and issubclass(_own_class, _OwnInvalidMetadataError):
        _bases = (InvalidMetadataError, BrokerResponseError)
    elif _own_class is not None and issubclass(_own_class, _OwnRetriableError):
        _bases = (RetriableError, BrokerResponseError)
    _attributes = {
        "errno": _code,
        "message": _kafka_name,
        "description": _description,
        "__module__": __name__,
    }
    _by_code[_code] = globals()[_name] = type(_name, _OTHER_BASES.get(_code, _bases), _attributes)


def for_code(code: int) -> type[BrokerResponseError]:
    """The class of a broker's error code."""
    return _by_code.get(code, UnrecognizedBrokerError)


__all__ = [
    name for name, value in globals().items() if isinstance(value, type) and issubclass(value, KafkaError)
]
__all__ += ["for_code"]
