"""All exceptions, with one branch of the tree for each action that a caller can take.

    KafkaError
    |-- ConfigError                  fix the setting (raised before anything starts)
    |-- SerializationError           fix the record
    |   `-- SchemaRegistryError      ... or what the schema registry says
    |-- InvalidArgumentError         fix the call
    |-- RecordTooLargeError          make the record smaller, or raise the limit in the message
    |-- IllegalStateError            fix the calling code
    |   `-- ProducerClosedError
    |-- PurgedError                  purge() has given up the record
    |-- SendManyError                some records of a send_many() failed; see its failures
    |-- BatchRejectedError           send the record again; another record of its batch was refused
    |-- AbortTransactionError        abort the transaction, then begin another
    |-- TransactionAbortedError      the transaction was aborted; consumers do not read its records
    |-- FatalProducerError           close the producer and create a new one
    |   |-- FencedError              ... and find what else uses its transactional id
    |   `-- BootstrapResolutionError ... after fixing bootstrap_servers or the name service
    |-- LocalProtocolError           a request was not valid; nothing was sent
    |-- RemoteProtocolError          the peer's response was not valid
    |   `-- IncompleteResponseError  (a RetriableError too)
    |-- RetriableError               retry: the same call may succeed later
    |   `-- InvalidMetadataError     ... after a metadata refresh
    |       `-- NetworkError         a connection failed
    |           |-- DisconnectedError
    |           `-- NoBrokersAvailableError
    |-- AuthenticationError          fix the credentials; not retriable
    |   `-- SslAuthenticationError   ... or certificates
    |-- AuthorizationError           grant the permission; not retriable
    |-- KafkaTimeoutError            also a built-in TimeoutError; names stage, broker, cause, setting
    |   |-- MetadataTimeoutError
    |   |-- BufferExhaustedError
    |   |-- RequestTimeoutError      (a RetriableError too)
    |   |-- DeliveryTimeoutError
    |   |-- ResultTimeoutError       wait again: the record may still be delivered
    |   `-- CloseTimeoutError
    `-- BrokerError                  a broker's error code (kproducer.errors.broker_errors)

This package is the lowest layer: it imports no other package of kproducer.
Source of the retriable and invalid-metadata flags: Apache Kafka's ``Errors`` table.
"""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self

if sys.version_info >= (3, 11):
    _FuturesTimeoutError = TimeoutError
else:
    from concurrent.futures import TimeoutError as _FuturesTimeoutError


def printable(text: str) -> str:
    r"""Escape every character that is not printable, as Python literals do: ``\n``, ``\x1b``, ``\u202e``.

    For text from brokers (messages, host names, racks, the cluster id) in errors and logs. A line break in it
    would look like another log entry, and a terminal would execute an escape sequence. Spaces and letters of
    all languages stay; printable text is returned unchanged.
    """
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else ascii(each)[1:-1] for each in text])


class Outcome(enum.Enum):
    """What is known about a record whose delivery failed.

    ``NOT_SENT``: it was not sent, or certainly never reached a log.
    ``REJECTED``: a broker rejected it; it is not in the log.
    ``UNKNOWN``: it may have been written, for example because the response was lost.
    """

    NOT_SENT = "not_sent"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class KafkaError(Exception):
    """Base class of every error that this package raises.

    Attributes:
        retriable: whether a retry may succeed; the same for all errors of a class.
        refreshes_metadata: whether stale metadata is the likely cause; the same for all errors of a class.
        outcome: for a failed delivery, what is known about the record; otherwise ``None``.
    """

    retriable: ClassVar[bool] = False
    refreshes_metadata: ClassVar[bool] = False
    outcome: Outcome | None = None

    def copy(self) -> Self:
        """A copy of an error that several batches or readers share, for one of them.

        Raising an error attaches frames, which reference futures; the garbage collector does not traverse
        futures (``new_future`` in ``native/_completion.pyx``), so the shared error would leak the frames.
        """
        clone = self.__class__.__new__(self.__class__, *self.args)
        clone.__dict__.update(self.__dict__)
        if self.__cause__ is not None:
            clone.__cause__ = self.__cause__
        return clone

    def detached(self) -> Self:
        """A copy that refers to no frame, for what outlives the call that raised this error.

        Causes of other classes are left out: the text of the error names them.
        """
        clone = self.copy()
        cause = self.__cause__
        clone.__cause__ = cause.detached() if isinstance(cause, KafkaError) else None
        return clone

    def with_outcome(self, outcome: Outcome, cause: BaseException | None = None) -> Self:
        """Set ``outcome``, and the cause if one is given, and return this error."""
        self.outcome = outcome
        if cause is not None:
            self.__cause__ = cause
        return self


class ConfigError(KafkaError, ValueError):
    """A setting is unknown, out of range or of the wrong type, or contradicts another setting.

    The text names the setting and what is expected, or the right name. Check files with ``kproducer
    config check FILE``.
    """


class SerializationError(KafkaError, ValueError):
    """A key, value or header could not be serialized.

    It is not bytes or ``str``, or the serializer raised ``__cause__``. Set a serializer, such as
    ``value_serializer=JsonSerializer()``.
    """


class SchemaRegistryError(SerializationError):
    """A schema registry could not be reached, or refused a request; the record was not sent.

    If ``is_temporary``, send the record again later; otherwise fix the schema, the permission or the
    setting that the text names.

    Attributes:
        url: the base URL, without credentials.
        http_status_code: of the response; -1 if there was none.
        error_code: the registry's code, for example 40401; -1 if there was none.
        error_message: the registry's text as received, or empty.
        is_temporary: the same call may succeed later: no response, or one of a registry in trouble.
    """

    def __init__(
        self,
        text: str,
        *,
        url: str = "",
        http_status_code: int = -1,
        error_code: int = -1,
        error_message: str = "",
        is_temporary: bool = False,
    ) -> None:
        super().__init__(text)
        self.url = url
        self.http_status_code = http_status_code
        self.error_code = error_code
        self.error_message = error_message
        self.is_temporary = is_temporary

    def with_text(self, text: str) -> Self:
        """The same error with another text."""
        other = self.copy()
        other.args = (text,)
        return other


class InvalidArgumentError(KafkaError, ValueError):
    """An argument of a call is not valid, for example a negative partition.

    Others: columns of different lengths, a callback with the parameters ``(err, msg)``. Fix the call.
    """


class RecordTooLargeError(KafkaError, ValueError):
    """A record exceeds a limit of the producer (``max_request_size``, ``buffer_memory``) or of the broker.

    Make the record smaller, or raise the setting that the text names and ``max.message.bytes`` of the
    topic.
    """


class IllegalStateError(KafkaError, RuntimeError):
    """The call is not allowed in the object's present state.

    For example ``flush()`` in a callback, ``send()`` outside of a transaction, ``close()`` in a signal
    handler. The text says why: fix the order of calls.
    """


class ProducerClosedError(IllegalStateError):
    """The producer was closed before or during the call.

    Outcome ``NOT_SENT``, or ``UNKNOWN`` if the record was sent. Also for records from before a fork, in
    the child. Close the producer after the last ``send()``, with a longer timeout.
    """

    @classmethod
    def before_call(cls) -> ProducerClosedError:
        """The error of a call that came after ``close``."""
        return cls("the producer is closed; close it after the last call, or create another one")


class BatchRejectedError(KafkaError):
    """The record is valid, but the broker rejected its batch because of another record.

    Outcome ``REJECTED``. Send it again.
    """


class PurgedError(KafkaError):
    """``purge`` has given up the record.

    Outcome ``NOT_SENT``, or ``UNKNOWN`` if it was in flight. After a purge, a transaction can only be
    aborted.
    """


class SendManyError(KafkaError):
    """Some records of a ``send_many`` were not delivered; the others may have been.

    Raised by ``result()`` of ``send_many`` and ``send_arrow``. ``failures`` says what to do for each
    record.

    Attributes:
        failures: (index, error) of each record that was not delivered, in order.
        outcome: what is known about these records; ``None`` if it differs between them.
    """

    failures: list[tuple[int, KafkaError]]


class AbortTransactionError(KafkaError):
    """The transaction cannot be committed: abort it, then begin another. ``__cause__`` is the reason.

    Call ``abort_transaction()``. ``with producer.transaction():`` aborts by itself.
    """


class TransactionAbortedError(KafkaError):
    """The application or the cluster aborted the transaction; transactional consumers skip its records.

    Send its records again in another transaction.
    """


class FatalProducerError(KafkaError):
    """The producer can no longer be used: close it and create another. ``__cause__`` is the reason."""


class FencedError(FatalProducerError):
    """Another producer with the same transactional id took over, or the cluster fenced the epoch.

    The transaction may also have taken longer than ``transaction_timeout_ms``. Give each instance a
    ``transactional_id`` of its own.
    """


class BootstrapResolutionError(FatalProducerError):
    """No name in ``bootstrap_servers`` was resolved within ``bootstrap_resolve_timeout_ms`` (KIP-909).

    The text has the failure of each name. Correct the names or the name service, and create another
    producer.
    """


class LocalProtocolError(KafkaError):
    """A request would have violated the protocol; nothing was sent.

    Most likely a bug: report it.
    """


class RemoteProtocolError(KafkaError):
    """The peer sent a response that is not valid.

    The other side is not a Kafka broker (wrong port?), or has a bug.
    """


class RetriableError(KafkaError):
    """The same operation may succeed on a retry."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """The cluster metadata is probably stale: refresh it, then retry."""

    refreshes_metadata = True


class IncompleteResponseError(RemoteProtocolError, RetriableError):
    """A broker's response lacks a partition of the request."""


class NetworkError(InvalidMetadataError):
    """A connection could not be opened, or was lost.

    Retried until ``delivery_timeout_ms``; you see it as a cause. Check address, port, firewall and name
    service.
    """


class DisconnectedError(NetworkError):
    """The connection closed while a request was in flight.

    Retried; the outcome becomes ``UNKNOWN`` if no later attempt succeeds. Usual while brokers restart; if
    not, look at the broker's log.
    """


class NoBrokersAvailableError(NetworkError):
    """No known broker can be reached. Not raised; exists for ``except`` clauses written for kafka-python."""


class AuthenticationError(KafkaError):
    """The broker or a proxy rejected the credentials, or a certificate was not accepted.

    Raised at once, for records that were not sent yet (``NOT_SENT``). The text has the broker's words;
    docs/security.md lists them. The producer remains usable.

    Also raised if ``security_protocol`` does not fit the listener.
    """


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed: this client did not accept the broker's certificate, or the broker ours.

    The producer does not trust the broker's certificate, or the broker not this client's.
    docs/security.md has a table of messages.
    """


class AuthorizationError(KafkaError):
    """The authenticated user is not authorized for this operation.

    Have it granted; the producer remains usable, unless the error was fatal for a transaction.
    """


class KafkaTimeoutError(KafkaError, TimeoutError):
    """A deadline passed. The message names the stage, the broker, its last error and the setting.

    ``flush(timeout)`` and transactional calls continue in the background: the records may still be
    delivered, and the same transactional call waits again.
    """


class MetadataTimeoutError(KafkaTimeoutError):
    """Topic metadata did not arrive within ``max_block_ms``.

    Outcome ``NOT_SENT``. The text tells the cases apart: no broker answered (run ``kproducer doctor``),
    the topic does not exist (create it), the partition does not exist (correct the number).
    """


class BufferExhaustedError(KafkaTimeoutError):
    """No buffer memory became available within ``max_block_ms`` (see ``buffer_memory``).

    Outcome ``NOT_SENT``. Brokers accept less than you produce, or do not respond. Produce more slowly, or
    refuse the work; a larger buffer only helps with peaks.
    """


class RequestTimeoutError(KafkaTimeoutError, RetriableError):
    """A broker did not answer within ``request_timeout_ms``.

    Retried; you see it as a cause, or once retries are exhausted (``UNKNOWN``). The broker is overloaded
    or stuck, or the network drops packets.
    """


class DeliveryTimeoutError(KafkaTimeoutError):
    """A record was not acknowledged within ``delivery_timeout_ms``.

    The text says whether it was never sent, rejected each time or possibly written, the stage, the broker
    and the last error, which is also ``__cause__``. Fix that one; then act on ``outcome``.
    """


class ResultTimeoutError(KafkaTimeoutError, _FuturesTimeoutError):
    """The outcome was not known within the ``timeout`` of ``result()``; the record may still be delivered.

    Call ``result()`` again, and do not send the record again.

    Also a ``concurrent.futures.TimeoutError``, which on Python 3.10 is not the built-in ``TimeoutError``.
    """

    outcome = Outcome.UNKNOWN


class CloseTimeoutError(KafkaTimeoutError):
    """``close(timeout)`` timed out before all records were acknowledged.

    Their futures fail with ``ProducerClosedError``. Allow more time.
    """


class BrokerError(KafkaError):
    """A broker responded with an error code. ``kproducer.errors.broker_errors`` has one subclass per code.

    Retriable ones are retried until ``delivery_timeout_ms``; others fail at once. The outcome is
    ``REJECTED``, unless the table of codes says otherwise or an earlier attempt may have been written.

    Attributes:
        code: Kafka's numeric error code.
        name: Kafka's name of the code, for example ``NOT_LEADER_OR_FOLLOWER``.
        description: an explanation in one sentence, for the error's text if the broker sends no message.
        broker_message: the broker's message as received, or ``None``. The error's text has it with characters
            escaped that are not printable.
    """

    code: int = -1
    name: str = "UNKNOWN_SERVER_ERROR"
    description: str = "The broker hit an unexpected error."

    def __init__(self, message: str | None = None, context: str | None = None) -> None:
        where = f" [{context}]" if context else ""
        text = printable(message) if message else self.description
        super().__init__(f"{self.name} (code {self.code}): {text}{where}")
        self.broker_message = message

    def __reduce__(self) -> tuple[object, ...]:
        # The constructor builds the text from its arguments, so it cannot be called with the finished text.
        return type(self).__new__, (type(self), *self.args), self.__dict__.copy()
