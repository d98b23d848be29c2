"""Broker errors that a producer does not meet in its work: groups, administration, quorum, share, streams.

Kept so that every code a broker can send has a class of its own; import them from
``kproducer.errors.broker_errors``, which also documents the attributes.
Source: Apache Kafka's ``Errors`` table (codes, names, flags); the sentences are ours.
"""

from __future__ import annotations

from kproducer.errors import AuthorizationError, BrokerError, InvalidMetadataError, RetriableError


class OffsetOutOfRangeError(BrokerError):
    """The offset asked for is not in the partition's log."""

    code, name = 1, "OFFSET_OUT_OF_RANGE"


class InvalidFetchSizeError(BrokerError):
    """The fetch asked for an impossible number of bytes."""

    code, name = 4, "INVALID_FETCH_SIZE"


class StaleControllerEpochError(BrokerError):
    """The controller has moved to another broker since."""

    code, name = 11, "STALE_CONTROLLER_EPOCH"


class OffsetMetadataTooLargeError(BrokerError):
    """The text stored with a committed offset is too long."""

    code, name = 12, "OFFSET_METADATA_TOO_LARGE"


class IllegalGenerationError(BrokerError):
    """The group has moved on to another generation."""

    code, name = 22, "ILLEGAL_GENERATION"


class InconsistentGroupProtocolError(BrokerError):
    """The member's protocols and those of the group have nothing in common."""

    code, name = 23, "INCONSISTENT_GROUP_PROTOCOL"


class InvalidGroupIdError(BrokerError):
    """The group id is not legal."""

    code, name = 24, "INVALID_GROUP_ID"


class UnknownMemberIdError(BrokerError):
    """The coordinator does not know this member."""

    code, name = 25, "UNKNOWN_MEMBER_ID"


class InvalidSessionTimeoutError(BrokerError):
    """The session timeout lies outside the range the broker allows."""

    code, name = 26, "INVALID_SESSION_TIMEOUT"


class RebalanceInProgressError(BrokerError):
    """The group is being rebalanced; the member has to join again."""

    code, name = 27, "REBALANCE_IN_PROGRESS"


class InvalidCommitOffsetSizeError(BrokerError):
    """The offset commit is larger than the broker allows."""

    code, name = 28, "INVALID_COMMIT_OFFSET_SIZE"


class GroupAuthorizationFailedError(BrokerError, AuthorizationError):
    """This user may not use the group."""

    code, name = 30, "GROUP_AUTHORIZATION_FAILED"


class TopicAlreadyExistsError(BrokerError):
    """A topic of this name exists already."""

    code, name = 36, "TOPIC_ALREADY_EXISTS"


class InvalidPartitionsError(BrokerError):
    """The number of partitions is not valid."""

    code, name = 37, "INVALID_PARTITIONS"


class InvalidReplicationFactorError(BrokerError):
    """The replication factor is not valid, or there are too few brokers for it."""

    code, name = 38, "INVALID_REPLICATION_FACTOR"


class InvalidReplicaAssignmentError(BrokerError):
    """The assignment of replicas to brokers is not valid."""

    code, name = 39, "INVALID_REPLICA_ASSIGNMENT"


class InvalidConfigError(BrokerError):
    """A setting of the topic or broker is not valid."""

    code, name = 40, "INVALID_CONFIG"


class NotControllerError(BrokerError, RetriableError):
    """The broker asked is not the controller."""

    code, name = 41, "NOT_CONTROLLER"


class TransactionCoordinatorFencedError(BrokerError):
    """The coordinator that sent the marker is no longer in charge."""

    code, name = 52, "TRANSACTION_COORDINATOR_FENCED"


class SecurityDisabledError(BrokerError):
    """The cluster runs without the security feature that the request needs."""

    code, name = 54, "SECURITY_DISABLED"


class LogDirNotFoundError(BrokerError):
    """The broker has no such log directory."""

    code, name = 57, "LOG_DIR_NOT_FOUND"


class ReassignmentInProgressError(BrokerError):
    """The partition is being moved between brokers."""

    code, name = 60, "REASSIGNMENT_IN_PROGRESS"


class DelegationTokenAuthDisabledError(BrokerError):
    """The cluster has delegation tokens switched off."""

    code, name = 61, "DELEGATION_TOKEN_AUTH_DISABLED"


class DelegationTokenNotFoundError(BrokerError):
    """There is no such delegation token."""

    code, name = 62, "DELEGATION_TOKEN_NOT_FOUND"


class DelegationTokenOwnerMismatchError(BrokerError):
    """The delegation token belongs to somebody else."""

    code, name = 63, "DELEGATION_TOKEN_OWNER_MISMATCH"


class DelegationTokenRequestNotAllowedError(BrokerError):
    """Delegation tokens cannot be handled over this kind of connection."""

    code, name = 64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


class DelegationTokenAuthorizationFailedError(BrokerError, AuthorizationError):
    """This user may not use the delegation token."""

    code, name = 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED"


class DelegationTokenExpiredError(BrokerError):
    """The delegation token is too old."""

    code, name = 66, "DELEGATION_TOKEN_EXPIRED"


class InvalidPrincipalTypeError(BrokerError):
    """The principal is of a kind that is not supported."""

    code, name = 67, "INVALID_PRINCIPAL_TYPE"


class NonEmptyGroupError(BrokerError):
    """The group still has members."""

    code, name = 68, "NON_EMPTY_GROUP"


class GroupIdNotFoundError(BrokerError):
    """There is no such group."""

    code, name = 69, "GROUP_ID_NOT_FOUND"


class FetchSessionIdNotFoundError(BrokerError, RetriableError):
    """The broker does not have this fetch session."""

    code, name = 70, "FETCH_SESSION_ID_NOT_FOUND"


class InvalidFetchSessionEpochError(BrokerError, RetriableError):
    """The epoch of the fetch session is wrong."""

    code, name = 71, "INVALID_FETCH_SESSION_EPOCH"


class TopicDeletionDisabledError(BrokerError):
    """The cluster does not allow topics to be deleted."""

    code, name = 73, "TOPIC_DELETION_DISABLED"


class StaleBrokerEpochError(BrokerError):
    """A broker's epoch is out of date."""

    code, name = 77, "STALE_BROKER_EPOCH"


class OffsetNotAvailableError(BrokerError, RetriableError):
    """The new leader does not yet know how far its log is committed."""

    code, name = 78, "OFFSET_NOT_AVAILABLE"


class MemberIdRequiredError(BrokerError):
    """The member has to join again with the id it was given."""

    code, name = 79, "MEMBER_ID_REQUIRED"


class PreferredLeaderNotAvailableError(BrokerError, InvalidMetadataError):
    """The partition's preferred leader is not available."""

    code, name = 80, "PREFERRED_LEADER_NOT_AVAILABLE"


class GroupMaxSizeReachedError(BrokerError):
    """The group is full."""

    code, name = 81, "GROUP_MAX_SIZE_REACHED"


class FencedInstanceIdError(BrokerError):
    """Another member has taken over this group.instance.id."""

    code, name = 82, "FENCED_INSTANCE_ID"


class EligibleLeadersNotAvailableError(BrokerError, InvalidMetadataError):
    """None of the replicas that may lead the partition is available."""

    code, name = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE"


class ElectionNotNeededError(BrokerError, InvalidMetadataError):
    """The partition's leader is already the right one."""

    code, name = 84, "ELECTION_NOT_NEEDED"


class NoReassignmentInProgressError(BrokerError):
    """The partition is not being moved."""

    code, name = 85, "NO_REASSIGNMENT_IN_PROGRESS"


class GroupSubscribedToTopicError(BrokerError):
    """The group still reads the topic, so its offsets cannot be deleted."""

    code, name = 86, "GROUP_SUBSCRIBED_TO_TOPIC"


class ResourceNotFoundError(BrokerError):
    """There is no such resource."""

    code, name = 91, "RESOURCE_NOT_FOUND"


class DuplicateResourceError(BrokerError):
    """The request names the same resource twice."""

    code, name = 92, "DUPLICATE_RESOURCE"


class UnacceptableCredentialError(BrokerError):
    """The credential to be stored does not meet the rules."""

    code, name = 93, "UNACCEPTABLE_CREDENTIAL"


class InconsistentVoterSetError(BrokerError):
    """The two sides disagree on who the voters of the quorum are."""

    code, name = 94, "INCONSISTENT_VOTER_SET"


class InvalidUpdateVersionError(BrokerError):
    """The version of the update is not valid."""

    code, name = 95, "INVALID_UPDATE_VERSION"


class FeatureUpdateFailedError(BrokerError):
    """The finalized features could not be changed."""

    code, name = 96, "FEATURE_UPDATE_FAILED"


class PrincipalDeserializationFailureError(BrokerError):
    """A forwarded request carried a principal that could not be read."""

    code, name = 97, "PRINCIPAL_DESERIALIZATION_FAILURE"


class SnapshotNotFoundError(BrokerError):
    """There is no such snapshot."""

    code, name = 98, "SNAPSHOT_NOT_FOUND"


class PositionOutOfRangeError(BrokerError):
    """The position lies outside the snapshot."""

    code, name = 99, "POSITION_OUT_OF_RANGE"


class DuplicateBrokerRegistrationError(BrokerError):
    """A broker with this id is registered already."""

    code, name = 101, "DUPLICATE_BROKER_REGISTRATION"


class BrokerIdNotRegisteredError(BrokerError):
    """No broker with this id is registered."""

    code, name = 102, "BROKER_ID_NOT_REGISTERED"


class InconsistentClusterIdError(BrokerError):
    """The request came with the id of another cluster."""

    code, name = 104, "INCONSISTENT_CLUSTER_ID"


class FetchSessionTopicIdError(BrokerError, RetriableError):
    """The fetch session mixes requests with and without topic ids."""

    code, name = 106, "FETCH_SESSION_TOPIC_ID_ERROR"


class IneligibleReplicaError(BrokerError):
    """The replica may not join the in-sync set."""

    code, name = 107, "INELIGIBLE_REPLICA"


class NewLeaderElectedError(BrokerError):
    """The change to the partition also moved its leadership."""

    code, name = 108, "NEW_LEADER_ELECTED"


class OffsetMovedToTieredStorageError(BrokerError):
    """The offset is in tiered storage and no longer on the broker's disk."""

    code, name = 109, "OFFSET_MOVED_TO_TIERED_STORAGE"


class FencedMemberEpochError(BrokerError):
    """The group coordinator has fenced this member's epoch."""

    code, name = 110, "FENCED_MEMBER_EPOCH"


class UnreleasedInstanceIdError(BrokerError):
    """Another member still holds this group.instance.id."""

    code, name = 111, "UNRELEASED_INSTANCE_ID"


class UnsupportedAssignorError(BrokerError):
    """The group cannot use this assignor."""

    code, name = 112, "UNSUPPORTED_ASSIGNOR"


class StaleMemberEpochError(BrokerError):
    """The member's epoch is out of date."""

    code, name = 113, "STALE_MEMBER_EPOCH"


class MismatchedEndpointTypeError(BrokerError):
    """A controller was asked what a broker should be asked, or the other way round."""

    code, name = 114, "MISMATCHED_ENDPOINT_TYPE"


class UnsupportedEndpointTypeError(BrokerError):
    """The kind of endpoint asked for is not supported."""

    code, name = 115, "UNSUPPORTED_ENDPOINT_TYPE"


class UnknownControllerIdError(BrokerError):
    """There is no controller with this id."""

    code, name = 116, "UNKNOWN_CONTROLLER_ID"


class UnknownSubscriptionIdError(BrokerError):
    """The telemetry subscription has changed."""

    code, name = 117, "UNKNOWN_SUBSCRIPTION_ID"


class TelemetryTooLargeError(BrokerError):
    """The telemetry pushed is larger than the broker accepts."""

    code, name = 118, "TELEMETRY_TOO_LARGE"


class InvalidRegistrationError(BrokerError):
    """The broker's registration is not valid."""

    code, name = 119, "INVALID_REGISTRATION"


class InvalidRecordStateError(BrokerError):
    """The share group's record is not in a state that allows this."""

    code, name = 121, "INVALID_RECORD_STATE"


class ShareSessionNotFoundError(BrokerError, RetriableError):
    """The broker does not have this share session."""

    code, name = 122, "SHARE_SESSION_NOT_FOUND"


class InvalidShareSessionEpochError(BrokerError, RetriableError):
    """The epoch of the share session is wrong."""

    code, name = 123, "INVALID_SHARE_SESSION_EPOCH"


class FencedStateEpochError(BrokerError):
    """The share group's state has moved on to another epoch."""

    code, name = 124, "FENCED_STATE_EPOCH"


class InvalidVoterKeyError(BrokerError):
    """The voter key is not that of the replica asked."""

    code, name = 125, "INVALID_VOTER_KEY"


class DuplicateVoterError(BrokerError):
    """The voter is in the voter set already."""

    code, name = 126, "DUPLICATE_VOTER"


class VoterNotFoundError(BrokerError):
    """The voter is not in the voter set."""

    code, name = 127, "VOTER_NOT_FOUND"


class InvalidRegularExpressionError(BrokerError):
    """The regular expression is not valid."""

    code, name = 128, "INVALID_REGULAR_EXPRESSION"


class StreamsInvalidTopologyError(BrokerError):
    """The streams topology is not valid."""

    code, name = 130, "STREAMS_INVALID_TOPOLOGY"


class StreamsInvalidTopologyEpochError(BrokerError):
    """The epoch of the streams topology is not valid."""

    code, name = 131, "STREAMS_INVALID_TOPOLOGY_EPOCH"


class StreamsTopologyFencedError(BrokerError):
    """The epoch of the streams topology is out of date."""

    code, name = 132, "STREAMS_TOPOLOGY_FENCED"


class ShareSessionLimitReachedError(BrokerError, RetriableError):
    """The broker has no room for another share session."""

    code, name = 133, "SHARE_SESSION_LIMIT_REACHED"
