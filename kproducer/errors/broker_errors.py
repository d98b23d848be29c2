"""The broker errors: one table row and one exception class per Kafka error code, and the class of a code.

Each class has the row's ``code``, Kafka's ``name`` and a ``description``, and is a subclass of ``BrokerError``.
The row's base class says what every such error means, wherever it comes from: whether the same call may succeed
later (``RetriableError``), also after a metadata refresh (``InvalidMetadataError``), and so on. ``except`` and
``isinstance`` therefore treat broker errors and local errors alike.
``broker_errors.pyi`` declares all of this for type checkers; ``make generate`` writes it.
Source: Apache Kafka's ``Errors`` table (codes, names, flags) of version 4.4, up to code 136; the descriptions are ours.
"""
# ruff: noqa: E501  # a row of the table stays on one line

from __future__ import annotations

from typing import Any, Final

from kproducer.errors import (
    AbortTransactionError,
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    FencedError,
    InvalidMetadataError,
    KafkaError,
    RecordTooLargeError,
    RetriableError,
)

# fmt: off
#: Code, Kafka's name, second base class if any, description.
ERROR_TABLE: Final[tuple[tuple[int, str, type[KafkaError] | None, str], ...]] = (
    (-1, "UNKNOWN_SERVER_ERROR", None, "The broker hit an unexpected error that has no code; see the broker's log."),
    (1, "OFFSET_OUT_OF_RANGE", None, "The requested offset is not in the partition's log."),
    (2, "CORRUPT_MESSAGE", RetriableError, "The broker found a record batch with an invalid checksum, size or contents."),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", InvalidMetadataError, "The broker does not host this topic or partition, or hides it from this user."),
    (4, "INVALID_FETCH_SIZE", None, "The requested fetch size is not valid."),
    (5, "LEADER_NOT_AVAILABLE", InvalidMetadataError, "The partition has no leader at present; an election is in progress."),
    (6, "NOT_LEADER_OR_FOLLOWER", InvalidMetadataError, "The broker is not (or no longer) the partition's leader, or one of its replicas."),
    (7, "REQUEST_TIMED_OUT", RetriableError, "The broker gave up on the request, usually while it waited for replicas."),
    (8, "BROKER_NOT_AVAILABLE", None, "The broker is not available."),
    (9, "REPLICA_NOT_AVAILABLE", InvalidMetadataError, "The broker has no usable replica of the partition."),
    (10, "MESSAGE_TOO_LARGE", RecordTooLargeError, "The batch is larger than the topic's max.message.bytes allows."),
    (11, "STALE_CONTROLLER_EPOCH", None, "The request carries the epoch of an earlier controller."),
    (12, "OFFSET_METADATA_TOO_LARGE", None, "The metadata string of an offset commit is too long."),
    (13, "NETWORK_EXCEPTION", InvalidMetadataError, "The connection closed before the broker answered."),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", RetriableError, "The coordinator is still loading its state."),
    (15, "COORDINATOR_NOT_AVAILABLE", RetriableError, "The coordinator is not available at present."),
    (16, "NOT_COORDINATOR", RetriableError, "The broker is not the coordinator."),
    (17, "INVALID_TOPIC_EXCEPTION", None, "The topic name is not valid, or clients may not write to this topic."),
    (18, "RECORD_LIST_TOO_LARGE", None, "The batch does not fit into one log segment (segment.bytes)."),
    (19, "NOT_ENOUGH_REPLICAS", RetriableError, "Fewer replicas are in sync than min.insync.replicas requires; nothing was written."),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", RetriableError, "The batch was written, but too few replicas were in sync afterwards (min.insync.replicas)."),
    (21, "INVALID_REQUIRED_ACKS", None, "The broker does not accept this acks value."),
    (22, "ILLEGAL_GENERATION", None, "The group has a newer generation."),
    (23, "INCONSISTENT_GROUP_PROTOCOL", None, "The member and the group have no protocol in common."),
    (24, "INVALID_GROUP_ID", None, "The group id is not valid."),
    (25, "UNKNOWN_MEMBER_ID", None, "The coordinator does not know this member."),
    (26, "INVALID_SESSION_TIMEOUT", None, "The session timeout is outside the range that the broker allows."),
    (27, "REBALANCE_IN_PROGRESS", None, "The group is rebalancing; the member must join again."),
    (28, "INVALID_COMMIT_OFFSET_SIZE", None, "The offset commit is larger than the broker allows."),
    (29, "TOPIC_AUTHORIZATION_FAILED", AuthorizationError, "This user is not authorized for the topic."),
    (30, "GROUP_AUTHORIZATION_FAILED", AuthorizationError, "This user is not authorized for the group."),
    (31, "CLUSTER_AUTHORIZATION_FAILED", AuthorizationError, "This user is not authorized for this operation on the cluster."),
    (32, "INVALID_TIMESTAMP", None, "A record's timestamp differs from the broker's time by more than the topic allows."),
    (33, "UNSUPPORTED_SASL_MECHANISM", AuthenticationError, "The broker does not support the requested SASL mechanism."),
    (34, "ILLEGAL_SASL_STATE", AuthenticationError, "The request is not valid in the present state of the SASL exchange."),
    (35, "UNSUPPORTED_VERSION", None, "The broker does not support this version of the API."),
    (36, "TOPIC_ALREADY_EXISTS", None, "A topic with this name already exists."),
    (37, "INVALID_PARTITIONS", None, "The number of partitions is not valid."),
    (38, "INVALID_REPLICATION_FACTOR", None, "The replication factor is not valid, or is larger than the number of brokers."),
    (39, "INVALID_REPLICA_ASSIGNMENT", None, "The assignment of replicas to brokers is not valid."),
    (40, "INVALID_CONFIG", None, "A setting of the topic or broker is not valid."),
    (41, "NOT_CONTROLLER", RetriableError, "The broker is not the controller."),
    (42, "INVALID_REQUEST", None, "The broker rejected the request as malformed or inconsistent; see the broker's log."),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", None, "The message format of the topic's log does not support this."),
    (44, "POLICY_VIOLATION", None, "The request violates a policy of the cluster."),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", None, "The batch's sequence number does not follow the last one that the broker has from this producer."),
    (46, "DUPLICATE_SEQUENCE_NUMBER", None, "The broker already has a batch with this sequence number."),
    (47, "INVALID_PRODUCER_EPOCH", None, "The producer's epoch is old: a newer producer took over, or its transaction timed out."),
    (48, "INVALID_TXN_STATE", None, "The transaction's state does not allow this operation."),
    (49, "INVALID_PRODUCER_ID_MAPPING", None, "The producer id does not belong (or no longer belongs) to this transactional id."),
    (50, "INVALID_TRANSACTION_TIMEOUT", None, "The transaction timeout exceeds the broker's transaction.max.timeout.ms."),
    (51, "CONCURRENT_TRANSACTIONS", RetriableError, "The coordinator is still completing an earlier operation of this transaction."),
    (52, "TRANSACTION_COORDINATOR_FENCED", None, "The transaction marker came from a coordinator that has been replaced."),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", AuthorizationError, "This user is not authorized for the transactional id."),
    (54, "SECURITY_DISABLED", None, "A security feature that the request needs is disabled on the cluster."),
    (55, "OPERATION_NOT_ATTEMPTED", None, "The broker did not attempt this part of the request because another part failed."),
    (56, "KAFKA_STORAGE_ERROR", InvalidMetadataError, "The broker cannot read or write the disk that holds the partition."),
    (57, "LOG_DIR_NOT_FOUND", None, "The broker does not have this log directory."),
    (58, "SASL_AUTHENTICATION_FAILED", AuthenticationError, "The broker rejected the SASL credentials."),
    (59, "UNKNOWN_PRODUCER_ID", None, "The broker no longer has any state of this producer id."),
    (60, "REASSIGNMENT_IN_PROGRESS", None, "A reassignment of the partition is in progress."),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", None, "Delegation tokens are disabled on the cluster."),
    (62, "DELEGATION_TOKEN_NOT_FOUND", None, "The delegation token does not exist."),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", None, "The delegation token belongs to another owner."),
    (64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", None, "Delegation tokens cannot be managed over this kind of connection."),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", AuthorizationError, "This user is not authorized for the delegation token."),
    (66, "DELEGATION_TOKEN_EXPIRED", None, "The delegation token has expired."),
    (67, "INVALID_PRINCIPAL_TYPE", None, "The principal type is not supported."),
    (68, "NON_EMPTY_GROUP", None, "The group is not empty."),
    (69, "GROUP_ID_NOT_FOUND", None, "The group does not exist."),
    (70, "FETCH_SESSION_ID_NOT_FOUND", RetriableError, "The broker does not have this fetch session."),
    (71, "INVALID_FETCH_SESSION_EPOCH", RetriableError, "The epoch of the fetch session is not valid."),
    (72, "LISTENER_NOT_FOUND", InvalidMetadataError, "The partition's leader has no listener that matches the one of this connection."),
    (73, "TOPIC_DELETION_DISABLED", None, "Topic deletion is disabled on the cluster."),
    (74, "FENCED_LEADER_EPOCH", InvalidMetadataError, "The request carries an older leader epoch than the broker's."),
    (75, "UNKNOWN_LEADER_EPOCH", RetriableError, "The request carries a newer leader epoch than the broker's."),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", None, "The broker or this API version does not support the compression codec."),
    (77, "STALE_BROKER_EPOCH", None, "The request carries an outdated broker epoch."),
    (78, "OFFSET_NOT_AVAILABLE", RetriableError, "The new leader does not yet know the committed end of its log."),
    (79, "MEMBER_ID_REQUIRED", None, "The member must join again with the member id that it was given."),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", InvalidMetadataError, "The partition's preferred leader is not available."),
    (81, "GROUP_MAX_SIZE_REACHED", None, "The group is full."),
    (82, "FENCED_INSTANCE_ID", None, "Another member has taken over this group.instance.id."),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", InvalidMetadataError, "None of the replicas that could lead the partition is available."),
    (84, "ELECTION_NOT_NEEDED", InvalidMetadataError, "The partition already has the right leader; no election is needed."),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", None, "No reassignment of the partition is in progress."),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", None, "The group is subscribed to the topic, so its offsets cannot be deleted."),
    (87, "INVALID_RECORD", None, "A record failed the broker's validation; it may be another record of the same batch."),
    (88, "UNSTABLE_OFFSET_COMMIT", RetriableError, "A transaction that wrote to the offset has not ended yet."),
    (89, "THROTTLING_QUOTA_EXCEEDED", RetriableError, "A quota is exceeded at present."),
    (90, "PRODUCER_FENCED", FencedError, "A newer producer with the same transactional id has taken over."),
    (91, "RESOURCE_NOT_FOUND", None, "The resource does not exist."),
    (92, "DUPLICATE_RESOURCE", None, "The request names the same resource twice."),
    (93, "UNACCEPTABLE_CREDENTIAL", None, "The credential does not meet the broker's requirements."),
    (94, "INCONSISTENT_VOTER_SET", None, "The voter sets of the request and of the quorum differ."),
    (95, "INVALID_UPDATE_VERSION", None, "The version of the update is not valid."),
    (96, "FEATURE_UPDATE_FAILED", None, "The finalized features could not be changed."),
    (97, "PRINCIPAL_DESERIALIZATION_FAILURE", None, "The principal of a forwarded request could not be decoded."),
    (98, "SNAPSHOT_NOT_FOUND", None, "The snapshot does not exist."),
    (99, "POSITION_OUT_OF_RANGE", None, "The position is outside the snapshot."),
    (100, "UNKNOWN_TOPIC_ID", InvalidMetadataError, "The broker does not know this topic id."),
    (101, "DUPLICATE_BROKER_REGISTRATION", None, "A broker with this id is already registered."),
    (102, "BROKER_ID_NOT_REGISTERED", None, "No broker with this id is registered."),
    (103, "INCONSISTENT_TOPIC_ID", InvalidMetadataError, "The topic id in the request does not match the one in the partition's log."),
    (104, "INCONSISTENT_CLUSTER_ID", None, "The cluster id in the request is not the cluster's."),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", None, "The coordinator does not know this transactional id."),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", RetriableError, "The fetch session mixes requests with and without topic ids."),
    (107, "INELIGIBLE_REPLICA", None, "The replica may not join the in-sync set."),
    (108, "NEW_LEADER_ELECTED", None, "The request to change the in-sync replicas led to the election of a new leader."),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", None, "The offset has moved to tiered storage."),
    (110, "FENCED_MEMBER_EPOCH", None, "The group coordinator has fenced this member's epoch."),
    (111, "UNRELEASED_INSTANCE_ID", None, "Another member still holds this group.instance.id."),
    (112, "UNSUPPORTED_ASSIGNOR", None, "The group cannot use this assignor."),
    (113, "STALE_MEMBER_EPOCH", None, "The request carries an outdated member epoch."),
    (114, "MISMATCHED_ENDPOINT_TYPE", None, "A broker received a request for controllers, or the other way round."),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", None, "The endpoint type is not supported."),
    (116, "UNKNOWN_CONTROLLER_ID", None, "No controller has this id."),
    (117, "UNKNOWN_SUBSCRIPTION_ID", None, "The telemetry subscription has changed."),
    (118, "TELEMETRY_TOO_LARGE", None, "The pushed telemetry is larger than the broker accepts."),
    (119, "INVALID_REGISTRATION", None, "The broker's registration is not valid."),
    (120, "TRANSACTION_ABORTABLE", AbortTransactionError, "The transaction cannot be committed; abort it and begin another."),
    (121, "INVALID_RECORD_STATE", None, "The state of the share group's record does not allow this."),
    (122, "SHARE_SESSION_NOT_FOUND", RetriableError, "The broker does not have this share session."),
    (123, "INVALID_SHARE_SESSION_EPOCH", RetriableError, "The epoch of the share session is wrong."),
    (124, "FENCED_STATE_EPOCH", None, "The share group's state has a newer epoch."),
    (125, "INVALID_VOTER_KEY", None, "The voter key does not match the replica's."),
    (126, "DUPLICATE_VOTER", None, "The voter is already in the voter set."),
    (127, "VOTER_NOT_FOUND", None, "The voter is not in the voter set."),
    (128, "INVALID_REGULAR_EXPRESSION", None, "The regular expression is not valid."),
    (129, "REBOOTSTRAP_REQUIRED", None, "The client's metadata is no longer usable; the client must bootstrap again."),
    (130, "STREAMS_INVALID_TOPOLOGY", None, "The streams topology is not valid."),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", None, "The epoch of the streams topology is not valid."),
    (132, "STREAMS_TOPOLOGY_FENCED", None, "The request carries an outdated epoch of the streams topology."),
    (133, "SHARE_SESSION_LIMIT_REACHED", RetriableError, "The broker accepts no more share sessions at present."),
    (134, "GROUP_DELETION_FAILED", None, "The group could not be deleted; the broker's message has the reason."),
    (135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", None, "The broker could not process the description of a streams topology; its message has the reason."),
    (136, "CONTROLLER_ID_NOT_REGISTERED", None, "No controller with this id is registered."),
)
# fmt: on


def _class_name(kafka_name: str) -> str:
    """``NOT_LEADER_OR_FOLLOWER`` is ``NotLeaderOrFollowerError``; ``Error`` and ``Exception`` at the end go."""
    words = kafka_name.removesuffix("_ERROR").split("_")
    if kafka_name == "INVALID_TOPIC_EXCEPTION":
        words.pop()
    return "".join(word.capitalize() for word in words) + "Error"


#: Rows by class name, and class names by code.
_ROWS: Final = {_class_name(row[1]): row for row in ERROR_TABLE}
_CLASS_NAMES: Final = {row[0]: name for name, row in _ROWS.items()}
__all__ = ["ERRORS_BY_CODE", "ERROR_TABLE", "UnrecognizedCodeError", "error_for_code", *_ROWS]  # noqa: F822


def __getattr__(name: str) -> Any:
    """Make a class, or ``ERRORS_BY_CODE`` with all of them, on first use: programs see few of them."""
    made: Any
    if name in _ROWS:
        code, kafka_name, base, description = _ROWS[name]
        facts = {"code": code, "name": kafka_name, "description": description, "__doc__": description}
        bases = (BrokerError,) if base is None else (BrokerError, base)
        made = type(name, bases, {**facts, "__module__": __name__})
    elif name == "ERRORS_BY_CODE":
        made = {code: _class_of(code) for code in _CLASS_NAMES}
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # setdefault, because another thread may have made the class meanwhile, and there must be only one of each
    # name.
    return globals().setdefault(name, made)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _class_of(code: int) -> type[BrokerError]:
    name = _CLASS_NAMES[code]
    return globals().get(name) or __getattr__(name)


class UnrecognizedCodeError(_class_of(-1)):
    """The broker sent an error code that this version does not know."""

    description = "The broker sent an error code that this version does not know."

    def __init__(self, code: int, message: str | None = None, context: str | None = None) -> None:
        self.code = code
        self.name = f"UNRECOGNIZED_CODE_{code}"
        super().__init__(message, context)


def error_for_code(code: int, message: str | None = None, context: str | None = None) -> BrokerError:
    """Make the exception for a broker's error code.

    Args:
        code: the error code of a response; not 0, which means success.
        message: the broker's own text, if it sent one.
        context: which request to which broker failed, for the text of the exception.

    Returns:
        An exception of the code's own class. For a code that this version does not know, an
        ``UnrecognizedCodeError``, which keeps the number and, like Java's unknown errors, is not retriable.

    Raises:
        ValueError: for code 0.
    """
    if code == 0:
        raise ValueError("error code 0 means success; there is no exception for it")
    if code not in _CLASS_NAMES:
        return UnrecognizedCodeError(code, message, context)
    return _class_of(code)(message, context)
