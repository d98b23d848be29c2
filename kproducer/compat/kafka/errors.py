"""``kafka.errors``: kafka-python's own classes if it is installed, otherwise classes with the same names.

Source: kafka-python 3.0 (hierarchy), Kafka's ``Errors`` table (codes).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from kproducer import errors as own
from kproducer.errors.broker_errors import ERROR_TABLE

if TYPE_CHECKING:
    from kproducer.compat.kafka.own_errors import KafkaConfigurationError, for_code
    from kproducer.compat.kafka.own_errors import KafkaError as KafkaError

    def __getattr__(name: str) -> Any: ...

else:
    try:
        # kafka-python uses a deprecated function when it is imported.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from kafka.errors import *  # noqa: F403
            from kafka.errors import KafkaConfigurationError, KafkaError, for_code
    except ImportError:
        from kproducer.compat.kafka.own_errors import *  # noqa: F403
        from kproducer.compat.kafka.own_errors import KafkaConfigurationError, KafkaError, for_code


class InvalidSettingError(KafkaConfigurationError, ValueError):
    """A setting is wrong: kafka-python raises one of the two, depending on the setting."""


#: The first class that fits decides.
_NAMES: list[tuple[type[own.KafkaError], str]] = [
    (own.RecordTooLargeError, "MessageSizeTooLargeError"),
    (own.TransactionAbortedError, "TransactionAbortedError"),
    (own.FencedError, "ProducerFencedError"),
    (own.IllegalStateError, "IllegalStateError"),
    (own.InvalidArgumentError, "IllegalArgumentError"),
    (own.AuthenticationError, "SaslAuthenticationFailedError"),
    (own.AuthorizationError, "AuthorizationError"),
    (own.NetworkError, "KafkaConnectionError"),
    (own.KafkaTimeoutError, "KafkaTimeoutError"),
    (own.RemoteProtocolError, "KafkaProtocolError"),
    (own.PurgedError, "Cancelled"),
]


def converted(error: own.KafkaError) -> KafkaError:
    """kafka-python's error for one of kproducer's, which is its ``__cause__``."""
    result = _class_of(error)(str(error))
    result.__cause__ = error
    return result


def _class_of(error: own.KafkaError) -> type[KafkaError]:
    if isinstance(error, own.AbortTransactionError) and isinstance(error.__cause__, own.KafkaError):
        return _class_of(error.__cause__)
    if isinstance(error, own.ConfigError):
        return InvalidSettingError
    if isinstance(error, own.BrokerError) and any(row[0] == error.code for row in ERROR_TABLE):
        return for_code(error.code)
    for error_class, name in _NAMES:
        if isinstance(error, error_class):
            found: type[KafkaError] = globals()[name]
            return found
    return KafkaError
