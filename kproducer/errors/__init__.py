"""The exception tree, with one branch for each thing a caller can do about a failure.

    KafkaError
    |-- ConfigError                  fix the configuration (raised before anything runs)
    |-- SerializationError           fix the record
    |-- InvalidArgumentError         fix the call
    |-- RecordTooLargeError          make the record smaller, or raise the limit that the message names
    |-- IllegalStateError            fix the calling code
    |   `-- ProducerClosedError
    |-- SendManyError                some records of a send_many() failed; its failures say which
    |-- BatchRejectedError           send the record again: others in its batch were at fault
    |-- AbortTransactionError        abort the transaction; the producer can then begin another
    |-- TransactionAbortedError      the transaction was aborted: none of its records will be read
    |-- FatalProducerError           close the producer and make a new one
    |   `-- FencedError              ... and ask who else uses its transactional id
    |-- LocalProtocolError           we would have written a wrong message; nothing was sent
    |-- RemoteProtocolError          the peer's bytes make no sense
    |   `-- IncompleteResponseError  (a RetriableError too)
    |-- RetriableError               the same call may succeed later
    |   `-- InvalidMetadataError     ... after a look at fresh metadata
    |       `-- NetworkError         connection trouble
    |           |-- DisconnectedError
    |           `-- NoBrokersAvailableError
    |-- AuthenticationError          wrong credentials; not retriable
    |-- AuthorizationError           valid credentials, but not allowed; not retriable
    |-- KafkaTimeoutError            also a builtin TimeoutError; names stage, broker, cause, setting
    |   |-- MetadataTimeoutError
    |   |-- BufferExhaustedError
    |   |-- RequestTimeoutError      (a RetriableError too)
    |   |-- DeliveryTimeoutError
    |   `-- CloseTimeoutError
    `-- BrokerError                  the broker answered with an error code (kproducer.errors.broker_errors)

This is the lowest module of the package: it imports nothing of ours.
Source of the retriable and invalid-metadata flags: Apache Kafka's ``Errors`` table.
"""

from __future__ import annotations

import enum
from typing import ClassVar

from kproducer.errors.foreign_text import printable


class Outcome(enum.Enum):
    """What is known about a record whose delivery failed.

    ``NOT_SENT``: no byte of it left this process, or it certainly never reached a log.
    ``REJECTED``: a broker refused it; it is not in the log.
    ``UNKNOWN``: it may have been written (for instance: the answer got lost).
    """

    NOT_SENT = "not_sent"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class KafkaError(Exception):
    """Root of every error this package raises.

    Attributes:
        retriable: whether the same operation may succeed when tried again (class-wide).
        refreshes_metadata: whether the cause is likely to be stale metadata (class-wide).
        outcome: for a failed delivery, what is known about the record; ``None`` elsewhere.
    """

    retriable: ClassVar[bool] = False
    refreshes_metadata: ClassVar[bool] = False
    outcome: Outcome | None = None

    def with_outcome(self, outcome: Outcome) -> KafkaError:
        """Note what is known about the record and return this same error."""
        self.outcome = outcome
        return self


class ConfigError(KafkaError, ValueError):
    """A setting is unknown, out of range, of the wrong type, or contradicts another."""


class SerializationError(KafkaError, ValueError):
    """A key, value or header could not be turned into bytes."""


class InvalidArgumentError(KafkaError, ValueError):
    """A call was made with an argument that makes no sense, such as a negative partition."""


class RecordTooLargeError(KafkaError, ValueError):
    """A record exceeds a size limit: ours (``max_request_size``, ``buffer_memory``) or the broker's."""


class IllegalStateError(KafkaError, RuntimeError):
    """The call is not legal in the object's present state."""


class ProducerClosedError(IllegalStateError):
    """The producer was closed before or while the call ran."""


class BatchRejectedError(KafkaError):
    """The record itself is fine, but the broker refused its batch because of other records in it."""


class SendManyError(KafkaError):
    """Records of one ``send_many`` were not delivered; others may have been.

    Attributes:
        failures: (index, error) of each record that was not delivered, in order.
        outcome: what is known of all of them; ``None`` where it differs.
    """

    failures: list[tuple[int, KafkaError]]


class AbortTransactionError(KafkaError):
    """The transaction cannot be committed: abort it, then begin another. ``__cause__`` says why."""


class TransactionAbortedError(KafkaError):
    """The transaction was aborted, by its application or by the cluster: none of its records will be read."""


class FatalProducerError(KafkaError):
    """This producer can do nothing any more: close it. A new one may go on. ``__cause__`` says why."""


class FencedError(FatalProducerError):
    """Another producer with the same transactional id has taken over, or the cluster took the epoch away."""


class LocalProtocolError(KafkaError):
    """We would have sent a message that the protocol forbids; nothing was sent."""


class RemoteProtocolError(KafkaError):
    """The peer sent bytes that are no valid answer."""


class RetriableError(KafkaError):
    """The same operation may succeed when tried again."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """Our view of the cluster is probably stale: fetch metadata, then try again."""

    refreshes_metadata = True


class IncompleteResponseError(RemoteProtocolError, RetriableError):
    """A broker's answer left out a partition that the request asked about."""


class NetworkError(InvalidMetadataError):
    """A connection could not be made or was lost."""


class DisconnectedError(NetworkError):
    """The connection closed while a request was in flight."""


class NoBrokersAvailableError(NetworkError):
    """No known broker can be reached."""


class AuthenticationError(KafkaError):
    """The broker refused the credentials, or the peer's identity could not be verified."""


class AuthorizationError(KafkaError):
    """The authenticated user may not do this."""


class KafkaTimeoutError(KafkaError, TimeoutError):
    """A deadline passed. The message names the stage, the broker, its last error and the setting."""


class MetadataTimeoutError(KafkaTimeoutError):
    """Topic metadata did not arrive within ``max_block_ms``."""


class BufferExhaustedError(KafkaTimeoutError):
    """No buffer memory came free within ``max_block_ms`` (see ``buffer_memory``)."""


class RequestTimeoutError(KafkaTimeoutError, RetriableError):
    """A broker did not answer within ``request_timeout_ms``."""


class DeliveryTimeoutError(KafkaTimeoutError):
    """A record was not acknowledged within ``delivery_timeout_ms``."""


class CloseTimeoutError(KafkaTimeoutError):
    """``close(timeout)`` ended with records that were not acknowledged."""


class BrokerError(KafkaError):
    """A broker answered with an error code. One subclass per code: ``kproducer.errors.broker_errors``.

    Attributes:
        code: Kafka's numeric error code.
        name: Kafka's name for it, for instance ``NOT_LEADER_OR_FOLLOWER``.
        description: our one-sentence explanation (a subclass's docstring), used when the broker sends no
            text of its own.
        broker_message: the broker's text as it came, or ``None``. What is not printable is written out in the
            error's own text.
    """

    code: int = -1
    name: str = "UNKNOWN_SERVER_ERROR"
    description: str = "The broker met an error it did not expect."

    def __init_subclass__(cls) -> None:
        # Docstrings are absent under -OO; the inherited description then has to do.
        if cls.__doc__:
            cls.description = cls.__doc__

    def __init__(self, message: str | None = None, context: str | None = None) -> None:
        where = f" [{context}]" if context else ""
        text = printable(message) if message else self.description
        super().__init__(f"{self.name} (code {self.code}): {text}{where}")
        self.broker_message = message

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_broker_error, (type(self), self.args, self.__dict__.copy())


def _rebuild_broker_error(
    error_class: type[BrokerError], args: tuple[object, ...], state: dict[str, object]
) -> BrokerError:
    # The constructor composes its text, so calling it again on unpickling would compose it twice.
    error = error_class.__new__(error_class, *args)
    error.args = args
    error.__dict__.update(state)
    return error
