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


#: Codes and kafka-python's names of their classes.
_NAMES = """
    -1 UnknownError, 1 OffsetOutOfRangeError, 2 CorruptRecordError, 3 UnknownTopicOrPartitionError, 4
    InvalidFetchRequestError, 5 LeaderNotAvailableError, 6 NotLeaderForPartitionError, 7
    RequestTimedOutError, 8 BrokerNotAvailableError, 9 ReplicaNotAvailableError, 10
    MessageSizeTooLargeError, 11 StaleControllerEpochError, 12 OffsetMetadataTooLargeError, 13
    NetworkExceptionError, 14 CoordinatorLoadInProgressError, 15 CoordinatorNotAvailableError, 16
    NotCoordinatorError, 17 InvalidTopicError, 18 RecordListTooLargeError, 19 NotEnoughReplicasError, 20
    NotEnoughReplicasAfterAppendError, 21 InvalidRequiredAcksError, 22 IllegalGenerationError, 23
    InconsistentGroupProtocolError, 24 InvalidGroupIdError, 25 UnknownMemberIdError, 26
    InvalidSessionTimeoutError, 27 RebalanceInProgressError, 28 InvalidCommitOffsetSizeError, 29
    TopicAuthorizationFailedError, 30 GroupAuthorizationFailedError, 31 ClusterAuthorizationFailedError,
    32 InvalidTimestampError, 33 UnsupportedSaslMechanismError, 34 IllegalSaslStateError, 35
    UnsupportedVersionError, 36 TopicAlreadyExistsError, 37 InvalidPartitionsError, 38
    InvalidReplicationFactorError, 39 InvalidReplicationAssignmentError, 40 InvalidConfigurationError,
    41 NotControllerError, 42 InvalidRequestError, 43 UnsupportedForMessageFormatError, 44
    PolicyViolationError, 45 OutOfOrderSequenceNumberError, 46 DuplicateSequenceNumberError, 47
    InvalidProducerEpochError, 48 InvalidTxnStateError, 49 InvalidProducerIdMappingError, 50
    InvalidTransactionTimeoutError, 51 ConcurrentTransactionsError, 52
    TransactionCoordinatorFencedError, 53 TransactionalIdAuthorizationFailedError, 54
    SecurityDisabledError, 55 OperationNotAttemptedError, 56 KafkaStorageError, 57 LogDirNotFoundError,
    58 SaslAuthenticationFailedError, 59 UnknownProducerIdError, 60 ReassignmentInProgressError, 61
    DelegationTokenAuthDisabledError, 62 DelegationTokenNotFoundError, 63
    DelegationTokenOwnerMismatchError, 64 DelegationTokenRequestNotAllowedError, 65
    DelegationTokenAuthorizationFailedError, 66 DelegationTokenExpiredError, 67
    InvalidPrincipalTypeError, 68 NonEmptyGroupError, 69 GroupIdNotFoundError, 70
    FetchSessionIdNotFoundError, 71 InvalidFetchSessionEpochError, 72 ListenerNotFoundError, 73
    TopicDeletionDisabledError, 74 FencedLeaderEpochError, 75 UnknownLeaderEpochError, 76
    UnsupportedCompressionTypeError, 77 StaleBrokerEpochError, 78 OffsetNotAvailableError, 79
    MemberIdRequiredError, 80 PreferredLeaderNotAvailableError, 81 GroupMaxSizeReachedError, 82
    FencedInstanceIdError, 83 EligibleLeadersNotAvailableError, 84 ElectionNotNeededError, 85
    NoReassignmentInProgressError, 86 GroupSubscribedToTopicError, 87 InvalidRecordError, 88
    UnstableOffsetCommitError, 89 ThrottlingQuotaExceededError, 90 ProducerFencedError, 91
    ResourceNotFoundError, 92 DuplicateResourceError, 93 UnacceptableCredentialError, 94
    InconsistentVoterSetError, 95 InvalidUpdateVersionError, 96 FeatureUpdateFailedError, 97
    PrincipalDeserializationFailureError, 98 SnapshotNotFoundError, 99 PositionOutOfRangeError, 100
    UnknownTopicIdError, 101 DuplicateBrokerRegistrationError, 102 BrokerIdNotRegisteredError, 103
    InconsistentTopicIdError, 104 InconsistentClusterIdError, 105 TransactionalIdNotFoundError, 106
    FetchSessionTopicIdError, 107 IneligibleReplicaError, 108 NewLeaderElectedError, 109
    OffsetMovedToTieredStorageError, 110 FencedMemberEpochError, 111 UnreleasedInstanceIdError, 112
    UnsupportedAssignorError, 113 StaleMemberEpochError, 114 MismatchedEndpointTypeError, 115
    UnsupportedEndpointTypeError, 116 UnknownControllerIdError, 117 UnknownSubscriptionIdError, 118
    TelemetryTooLargeError, 119 InvalidRegistrationError, 120 TransactionAbortableError, 121
    InvalidRecordStateError, 122 ShareSessionNotFoundError, 123 InvalidShareSessionEpochError, 124
    FencedStateEpochError, 125 InvalidVoterKeyError, 126 DuplicateVoterError, 127 VoterNotFoundError
"""
#: Base classes of errors for which kafka-python's flags differ from Kafka's table, by code.
_OTHER_BASES: dict[int, tuple[type[KafkaError], ...]] = {
    2: (BrokerResponseError,),
    75: (InvalidMetadataError, BrokerResponseError),
}
_by_code: dict[int, type[BrokerResponseError]] = {}
for _row in _NAMES.split(","):
    _code, _name = _row.split()
    _found = next((row for row in ERROR_TABLE if row[0] == int(_code)), None)
    if _found is None:
        continue
    _bases: tuple[type[KafkaError], ...] = (BrokerResponseError,)
    if _name.endswith("AuthorizationFailedError"):
        _bases = (AuthorizationError,)
    elif _found[2] is not None and issubclass(_found[2], _OwnInvalidMetadataError):
        _bases = (InvalidMetadataError, BrokerResponseError)
    elif _found[2] is not None and issubclass(_found[2], _OwnRetriableError):
        _bases = (RetriableError, BrokerResponseError)
    _bases = _OTHER_BASES.get(int(_code), _bases)
    _attributes = {
        "errno": int(_code),
        "message": _found[1],
        "description": _found[3],
        "__module__": __name__,
    }
    _by_code[int(_code)] = globals()[_name] = type(_name, _bases, _attributes)


def for_code(code: int) -> type[BrokerResponseError]:
    """The class of a broker's error code."""
    return _by_code.get(code, UnrecognizedBrokerError)


__all__ = [
    name for name, value in globals().items() if isinstance(value, type) and issubclass(value, KafkaError)
]
__all__ += ["for_code"]
