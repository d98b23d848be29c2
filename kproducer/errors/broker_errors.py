"""One exception class for each Kafka error code, and the way from a code to its class.

Each class says its ``code``, Kafka's ``name`` and, as ``description``, its docstring. Whether a call may be
tried again, whether stale metadata is the likely cause, and what it means for a transaction wherever it comes
from, are base classes (``RetriableError``, ``InvalidMetadataError``, ``AbortTransactionError``,
``FencedError``), so ``except`` and ``isinstance`` work across local and broker errors alike.
Source: Apache Kafka's ``Errors`` table (codes, names, flags), up to code 133; the sentences are ours.
"""

from __future__ import annotations

from kproducer.errors import (
    AbortTransactionError,
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    FencedError,
    InvalidMetadataError,
    RecordTooLargeError,
    RetriableError,
)
from kproducer.errors import broker_errors_other as _other
from kproducer.errors.broker_errors_other import *  # noqa: F403


class UnknownServerError(BrokerError):
    """The broker ran into something it has no code for; its own log says more."""

    code, name = -1, "UNKNOWN_SERVER_ERROR"


class CorruptMessageError(BrokerError, RetriableError):
    """The broker found a record batch whose checksum, size or contents are not valid."""

    code, name = 2, "CORRUPT_MESSAGE"


class UnknownTopicOrPartitionError(BrokerError, InvalidMetadataError):
    """The broker does not host this topic or partition, or hides it from this user."""

    code, name = 3, "UNKNOWN_TOPIC_OR_PARTITION"


class LeaderNotAvailableError(BrokerError, InvalidMetadataError):
    """The partition has no leader at present; an election is under way."""

    code, name = 5, "LEADER_NOT_AVAILABLE"


class NotLeaderOrFollowerError(BrokerError, InvalidMetadataError):
    """The broker asked is not (or no longer) the partition's leader or one of its replicas."""

    code, name = 6, "NOT_LEADER_OR_FOLLOWER"


class RequestTimedOutError(BrokerError, RetriableError):
    """The broker gave up on the request, usually while it waited for replicas to follow."""

    code, name = 7, "REQUEST_TIMED_OUT"


class BrokerNotAvailableError(BrokerError):
    """The broker is not available."""

    code, name = 8, "BROKER_NOT_AVAILABLE"


class ReplicaNotAvailableError(BrokerError, InvalidMetadataError):
    """The broker has no usable replica of the partition."""

    code, name = 9, "REPLICA_NOT_AVAILABLE"


class MessageTooLargeError(BrokerError, RecordTooLargeError):
    """The batch is larger than the topic's max.message.bytes allows."""

    code, name = 10, "MESSAGE_TOO_LARGE"


class NetworkExceptionError(BrokerError, InvalidMetadataError):
    """The connection ended before the answer came."""

    code, name = 13, "NETWORK_EXCEPTION"


class CoordinatorLoadInProgressError(BrokerError, RetriableError):
    """The coordinator is still reading its state and cannot answer yet."""

    code, name = 14, "COORDINATOR_LOAD_IN_PROGRESS"


class CoordinatorNotAvailableError(BrokerError, RetriableError):
    """There is no coordinator at present."""

    code, name = 15, "COORDINATOR_NOT_AVAILABLE"


class NotCoordinatorError(BrokerError, RetriableError):
    """The broker asked is not the coordinator."""

    code, name = 16, "NOT_COORDINATOR"


class InvalidTopicError(BrokerError):
    """The topic name is not legal, or clients may not write to this topic."""

    code, name = 17, "INVALID_TOPIC_EXCEPTION"


class RecordListTooLargeError(BrokerError):
    """The batch does not fit into one log segment (segment.bytes)."""

    code, name = 18, "RECORD_LIST_TOO_LARGE"


class NotEnoughReplicasError(BrokerError, RetriableError):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."""

    code, name = 19, "NOT_ENOUGH_REPLICAS"


class NotEnoughReplicasAfterAppendError(BrokerError, RetriableError):
    """The batch was written, but then too few replicas were in sync (min.insync.replicas)."""

    code, name = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"


class InvalidRequiredAcksError(BrokerError):
    """The broker does not know this acks value."""

    code, name = 21, "INVALID_REQUIRED_ACKS"


class TopicAuthorizationFailedError(BrokerError, AuthorizationError):
    """This user may not do this on the topic."""

    code, name = 29, "TOPIC_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailedError(BrokerError, AuthorizationError):
    """This user may not do this on the cluster."""

    code, name = 31, "CLUSTER_AUTHORIZATION_FAILED"


class InvalidTimestampError(BrokerError):
    """A record's timestamp is further from the broker's time than the topic allows."""

    code, name = 32, "INVALID_TIMESTAMP"


class UnsupportedSaslMechanismError(BrokerError):
    """The broker does not offer the SASL mechanism asked for."""

    code, name = 33, "UNSUPPORTED_SASL_MECHANISM"


class IllegalSaslStateError(BrokerError):
    """The request does not fit the state of the SASL exchange."""

    code, name = 34, "ILLEGAL_SASL_STATE"


class UnsupportedVersionError(BrokerError):
    """The broker does not know this version of the API."""

    code, name = 35, "UNSUPPORTED_VERSION"


class InvalidRequestError(BrokerError):
    """The broker could not make sense of the request; its log says why."""

    code, name = 42, "INVALID_REQUEST"


class UnsupportedForMessageFormatError(BrokerError):
    """The message format of the topic's log cannot do this."""

    code, name = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class PolicyViolationError(BrokerError):
    """A policy that the cluster's operators set forbids this."""

    code, name = 44, "POLICY_VIOLATION"


class OutOfOrderSequenceNumberError(BrokerError):
    """The batch does not follow the last one the broker has from this producer."""

    code, name = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequenceNumberError(BrokerError):
    """The broker already has a batch with this sequence number."""

    code, name = 46, "DUPLICATE_SEQUENCE_NUMBER"


class InvalidProducerEpochError(BrokerError):
    """The producer's epoch is old: a newer producer took over, or its transaction ran out."""

    code, name = 47, "INVALID_PRODUCER_EPOCH"


class InvalidTxnStateError(BrokerError):
    """The transaction's state does not allow this operation."""

    code, name = 48, "INVALID_TXN_STATE"


class InvalidProducerIdMappingError(BrokerError):
    """The producer id does not belong to this transactional id (any more)."""

    code, name = 49, "INVALID_PRODUCER_ID_MAPPING"


class InvalidTransactionTimeoutError(BrokerError):
    """The transaction timeout exceeds the broker's transaction.max.timeout.ms."""

    code, name = 50, "INVALID_TRANSACTION_TIMEOUT"


class ConcurrentTransactionsError(BrokerError, RetriableError):
    """The coordinator is still busy with the previous step of this transaction."""

    code, name = 51, "CONCURRENT_TRANSACTIONS"


class TransactionalIdAuthorizationFailedError(BrokerError, AuthorizationError):
    """This user may not use the transactional id."""

    code, name = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class OperationNotAttemptedError(BrokerError):
    """Another part of the same request failed, so this part was not tried."""

    code, name = 55, "OPERATION_NOT_ATTEMPTED"


class KafkaStorageError(BrokerError, InvalidMetadataError):
    """The broker cannot write to or read from the disk that holds the partition."""

    code, name = 56, "KAFKA_STORAGE_ERROR"


class SaslAuthenticationFailedError(BrokerError, AuthenticationError):
    """The broker refused the SASL credentials."""

    code, name = 58, "SASL_AUTHENTICATION_FAILED"


class UnknownProducerIdError(BrokerError):
    """The broker keeps no state of this producer id any more."""

    code, name = 59, "UNKNOWN_PRODUCER_ID"


class ListenerNotFoundError(BrokerError, InvalidMetadataError):
    """The leader has no listener of the kind this client came in by."""

    code, name = 72, "LISTENER_NOT_FOUND"


class FencedLeaderEpochError(BrokerError, InvalidMetadataError):
    """The request named an older leader epoch than the broker knows."""

    code, name = 74, "FENCED_LEADER_EPOCH"


class UnknownLeaderEpochError(BrokerError, RetriableError):
    """The request named a newer leader epoch than the broker has heard of yet."""

    code, name = 75, "UNKNOWN_LEADER_EPOCH"


class UnsupportedCompressionTypeError(BrokerError):
    """The broker or the chosen API version does not know this compression codec."""

    code, name = 76, "UNSUPPORTED_COMPRESSION_TYPE"


class InvalidRecordError(BrokerError):
    """The broker's checks refused a record, or another record of its batch."""

    code, name = 87, "INVALID_RECORD"


class UnstableOffsetCommitError(BrokerError, RetriableError):
    """A transaction that wrote the offset has not ended yet."""

    code, name = 88, "UNSTABLE_OFFSET_COMMIT"


class ThrottlingQuotaExceededError(BrokerError, RetriableError):
    """A quota is used up for now."""

    code, name = 89, "THROTTLING_QUOTA_EXCEEDED"


class ProducerFencedError(BrokerError, FencedError):
    """A newer producer with the same transactional id has taken over."""

    code, name = 90, "PRODUCER_FENCED"


class UnknownTopicIdError(BrokerError, InvalidMetadataError):
    """The broker knows no topic with this id."""

    code, name = 100, "UNKNOWN_TOPIC_ID"


class InconsistentTopicIdError(BrokerError, InvalidMetadataError):
    """The topic id and the log of the partition do not belong together."""

    code, name = 103, "INCONSISTENT_TOPIC_ID"


class TransactionalIdNotFoundError(BrokerError):
    """The coordinator knows no such transactional id."""

    code, name = 105, "TRANSACTIONAL_ID_NOT_FOUND"


class TransactionAbortableError(BrokerError, AbortTransactionError):
    """The transaction cannot be committed; aborting it makes the producer usable again."""

    code, name = 120, "TRANSACTION_ABORTABLE"


class RebootstrapRequiredError(BrokerError):
    """The client's view of the cluster is useless; it has to start again from the bootstrap servers."""

    code, name = 129, "REBOOTSTRAP_REQUIRED"


class UnrecognizedCodeError(UnknownServerError):
    """The broker sent an error code that this version does not know."""

    def __init__(self, code: int, message: str | None = None, context: str | None = None) -> None:
        self.code = code
        self.name = f"UNRECOGNIZED_CODE_{code}"
        super().__init__(message, context)


#: Every class by its code. Read-only.
ERRORS_BY_CODE: dict[int, type[BrokerError]] = {
    candidate.code: candidate
    for candidate in (*vars(_other).values(), *list(globals().values()))
    if isinstance(candidate, type)
    and issubclass(candidate, BrokerError)
    and candidate not in (BrokerError, UnrecognizedCodeError)
}


def error_for_code(code: int, message: str | None = None, context: str | None = None) -> BrokerError:
    """Make the exception for a broker's error code.

    Args:
        code: the error code of a response; not 0, which means success.
        message: the broker's own text, if it sent one.
        context: what was asked of whom, for the text of the exception.

    Returns:
        An exception of the code's own class; ``UnrecognizedCodeError`` (which keeps the number, and like
        Java's unknown errors is not retriable) for a code we do not know. Never a ``KeyError``.

    Raises:
        ValueError: for code 0.
    """
    if code == 0:
        raise ValueError("error code 0 means success; there is no exception for it")
    error_class = ERRORS_BY_CODE.get(code)
    if error_class is None:
        return UnrecognizedCodeError(code, message, context)
    return error_class(message, context)
