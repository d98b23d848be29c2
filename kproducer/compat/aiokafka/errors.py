"""The errors of aiokafka that a producer raises: aiokafka's own classes if it is installed, else stand-ins.

Every error of ``AIOKafkaProducer`` is both: the class here, and the class of ``kproducer`` with its
``outcome``. So ``except`` clauses for ``aiokafka.errors`` continue to work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kproducer import errors as ours
from kproducer.errors.broker_errors import InvalidProducerEpochError

if TYPE_CHECKING:
    _theirs: Any
    IS_INSTALLED: bool
else:
    try:
        from aiokafka import errors as _theirs
    except ImportError:
        _theirs = None
    IS_INSTALLED = _theirs is not None


def _own(name: str, *bases: type[Exception]) -> Any:
    """aiokafka's class of this name, or one that stands for it."""
    if IS_INSTALLED:
        return getattr(_theirs, name)
    return type(name, bases or (KafkaError,), {"__module__": __name__, "__doc__": "As in aiokafka.errors."})


KafkaError: Any = _own("KafkaError", RuntimeError)
BrokerResponseError: Any = _own("BrokerResponseError")
AuthenticationFailedError: Any = _own("AuthenticationFailedError")
IllegalOperation: Any = _own("IllegalOperation")
KafkaConnectionError: Any = _own("KafkaConnectionError")
KafkaTimeoutError: Any = _own("KafkaTimeoutError")
MessageSizeTooLargeError: Any = _own("MessageSizeTooLargeError", BrokerResponseError)
ProducerClosed: Any = _own("ProducerClosed")
ProducerFenced: Any = _own("ProducerFenced")
RequestTimedOutError: Any = _own("RequestTimedOutError", BrokerResponseError)
TopicAuthorizationFailedError: Any = _own("TopicAuthorizationFailedError", BrokerResponseError)
UnknownTopicOrPartitionError: Any = _own("UnknownTopicOrPartitionError", BrokerResponseError)

#: kproducer's errors and their counterparts in aiokafka. The first that fits decides.
_COUNTERPARTS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Any], ...] = (
    (ours.FencedError, ProducerFenced),
    (InvalidProducerEpochError, ProducerFenced),
    (ours.ProducerClosedError, ProducerClosed),
    (ours.RecordTooLargeError, MessageSizeTooLargeError),
    (ours.MetadataTimeoutError, UnknownTopicOrPartitionError),
    ((ours.DeliveryTimeoutError, ours.RequestTimeoutError), RequestTimedOutError),
    (ours.KafkaTimeoutError, KafkaTimeoutError),
    (ours.IllegalStateError, IllegalOperation),
    (ours.SslAuthenticationError, KafkaConnectionError),
    (ours.AuthenticationError, AuthenticationFailedError),
    (ours.NetworkError, KafkaConnectionError),
)


#: Classes that were made with two bases, by these bases: kproducer's error and aiokafka's.
_both: dict[tuple[Any, Any], Any] = {}


def as_aiokafka(error: ours.KafkaError) -> Exception:
    """The same error, which is also an aiokafka error."""
    given: Exception = error
    if isinstance(given, KafkaError):
        return error
    counterpart = next((theirs for kind, theirs in _COUNTERPARTS if isinstance(error, kind)), KafkaError)
    # For a record that was retried for too long, aiokafka reports the last error.
    source = error.__cause__ if isinstance(error, ours.DeliveryTimeoutError) else error
    is_general = counterpart in (KafkaError, RequestTimedOutError)
    if is_general and isinstance(source, ours.BrokerError) and IS_INSTALLED:
        counterpart = _theirs.for_code(source.code)
    return _made(error, counterpart)


def _made(error: ours.KafkaError, counterpart: Any) -> Exception:
    bases = type(error), counterpart
    if bases not in _both:
        _both[bases] = type(counterpart.__name__, bases, {"__module__": __name__})
    kind = _both[bases]
    made: Exception = kind.__new__(kind, *error.args)
    made.args = error.args
    made.__dict__.update(error.__dict__)
    made.__cause__ = error
    return made


@contextlib.contextmanager
def aiokafka_errors() -> Iterator[None]:
    """Within this block, errors of kproducer become errors of aiokafka, too."""
    try:
        yield
    except ours.KafkaError as error:
        raise as_aiokafka(error) from error
