"""The requests to coordinators: versions, building, parsing, and what each error code means.

Each class is a ``RequestBuilder`` for the network client. It parses its own response and has its own table of
``Reaction`` by error code; a code that is not in the table is retried if Kafka's own error table calls it
retriable, and is fatal otherwise. Requests are values: two that ask for the same are equal. Message modules
are imported when the first request is built, because most producers are idempotent and never use
transactions.
Source: KIP-98, KIP-360, KIP-447, KIP-588, KIP-654, KIP-699, KIP-709, KIP-890, KIP-939, KIP-1050; Kafka's
``TransactionManager`` and its handlers. Comments name the deviations.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import kproducer_messages as messages

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.api_versions import NodeApiVersions
from kproducer._core.client.send_builder import build_request
from kproducer._core.transactions.partition_sequences import ProducerIdAndEpoch
from kproducer._core.transactions.transaction_arguments import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.errors.broker_errors import UnsupportedVersionError, error_for_code
from kproducer.types import Node, TopicPartition

_COORDINATOR_NOT_AVAILABLE: Final = 15
_UNKNOWN_SERVER_ERROR: Final = -1
#: From this version on a producer may ask for the epoch after the one it has (KIP-360).
EPOCH_RAISED_SINCE: Final = 3
#: From this version on a producer may have transactions without a timeout (KIP-939). Not stable in Kafka 4.4.
TWO_PHASE_COMMIT_SINCE: Final = 6
_COORDINATOR_LIST_SINCE: Final = 4
_MEMBER_SINCE: Final = 3


#: Transactional id, producer id and epoch, and transaction version.
TransactionIdentity: TypeAlias = tuple[str, ProducerIdAndEpoch, int]


class CoordinatorKind(enum.IntEnum):
    """What a broker coordinates, with FindCoordinator's numbers."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator(NamedTuple):
    """The coordinator of a group or of a transactional id, whichever broker that is at present."""

    kind: CoordinatorKind
    key: str

    def __str__(self) -> str:
        whose = "group" if self.kind is CoordinatorKind.GROUP else "producer"
        return f"the coordinator of {whose} {self.key!r}"


class Reaction(enum.IntEnum):
    """What to do about an error code. If a response has several, the highest reaction counts."""

    DONE = 0
    #: Send the same request again after a pause.
    RETRY = 1
    #: Look the coordinator up, then send the same request again.
    RELOCATE = 2
    #: The transaction has to be aborted; the producer stays usable.
    ABORT = 3
    #: This call has failed and may be made again.
    FAIL_CALL = 4
    #: The producer has failed and has to be closed.
    FATAL = 5
    #: Like FATAL; another producer has the transactional id now.
    FENCED = 6


_COORDINATOR_CODES: Final = {
    15: Reaction.RELOCATE,  # COORDINATOR_NOT_AVAILABLE
    16: Reaction.RELOCATE,  # NOT_COORDINATOR
    47: Reaction.FENCED,  # INVALID_PRODUCER_EPOCH: coordinators before 2.7 return it instead of 90
    90: Reaction.FENCED,  # PRODUCER_FENCED
    120: Reaction.ABORT,  # TRANSACTION_ABORTABLE
}

#: The coordinator has forgotten the transactional id (transactional.id.expiration.ms), or the producer id:
#: INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID.
_FORGOTTEN_CODES: Final = {49: Reaction.ABORT, 59: Reaction.ABORT}

#: Error codes of Produce responses that end the producer; any other failure ends the transaction only.
#: INVALID_PRODUCER_EPOCH is not among them: a leader may return it where the coordinator would not (KIP-588).
FATAL_PRODUCE_CODES: Final = frozenset({31, 53, 90})


class Result(NamedTuple):
    """What a response says about the request, or about one of the things that it asked for.

    Attributes:
        code: the error code; 0: no error.
        value: what was asked for. FindCoordinator: the broker. InitProducerId and EndTxn: the producer id and
            epoch. OffsetFetch: the committed position, or ``None``.
        message: the broker's text for an error.
    """

    code: int
    value: Any = None
    message: str | None = None


#: The result for a partition, group or coordinator that the response does not mention.
_MISSING: Final = Result(_UNKNOWN_SERVER_ERROR)


class CoordinatorRequest:
    """Base of all requests here.

    Attributes:
        api_key, oldest_version, latest_version: see ``RequestBuilder``.
        reactions: what error codes mean.
        coordinator: where the request has to go; ``None``: to any broker.
        is_moot_after_abort: whether nobody needs the response once an abort has begun.
    """

    api_key: ApiKey
    oldest_version = 0
    latest_version = 0
    reactions: ClassVar[Mapping[int, Reaction]] = {}
    coordinator: Coordinator | None = None
    is_moot_after_abort = False

    def build(self, version: int) -> Any:
        """The message."""
        raise NotImplementedError

    def build_frame(self, version: int, correlation_id: int, client_id: str | None) -> list[memoryview]:
        """See ``RequestBuilder``."""
        return build_request(self.api_key, version, correlation_id, client_id, self.build(version))

    def parse(self, body: Any) -> dict[Any, Result]:
        """The results in the response, by coordinator, partition or group; ``None``: of the whole request."""
        return {None: Result(body.error_code)}

    def reaction_to(self, code: int) -> Reaction:
        """What an error code in the response means."""
        if code == 0:
            return Reaction.DONE
        otherwise = Reaction.RETRY if error_for_code(code).retriable else Reaction.FATAL
        return self.reactions.get(code, otherwise)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coordinator or 'any broker'})"


class FindCoordinator(CoordinatorRequest):
    """Asks which broker coordinates a group, or a transactional id.

    Attributes:
        wanted: what to look up.
    """

    api_key = ApiKey.FIND_COORDINATOR
    latest_version = 6
    reactions: ClassVar = {
        30: Reaction.ABORT,  # GROUP_AUTHORIZATION_FAILED: the transaction may continue without these offsets
        120: Reaction.ABORT,
    }

    def __init__(self, wanted: Coordinator) -> None:
        self.wanted = wanted
        self.is_moot_after_abort = wanted.kind is CoordinatorKind.GROUP
        # Version 0 finds the coordinators of groups only.
        self.oldest_version = 0 if wanted.kind is CoordinatorKind.GROUP else 1

    def build(self, version: int) -> messages.FindCoordinatorRequest:
        kind, key = self.wanted
        if version >= _COORDINATOR_LIST_SINCE:
            return messages.FindCoordinatorRequest(key_type=kind.value, coordinator_keys=[key])
        return messages.FindCoordinatorRequest(key=key, key_type=kind.value)

    def parse(self, body: Any) -> dict[Any, Result]:
        """A coordinator that the response leaves out, or names no broker for, is not available."""
        found = body
        if body.coordinators:
            found = next((each for each in body.coordinators if each.key == self.wanted.key), None)
        if found is None or (found.error_code == 0 and not (found.node_id >= 0 and found.host)):
            message = "the response names no coordinator"
            return {self.wanted: Result(_COORDINATOR_NOT_AVAILABLE, message=message)}
        node = Node(found.node_id, found.host, found.port)
        return {self.wanted: Result(found.error_code, node, found.error_message)}

    def __repr__(self) -> str:
        return f"FindCoordinator({self.wanted})"


class InitProducerId(CoordinatorRequest):
    """Requests a producer id and epoch; with ``current``, the epoch after that one.

    Attributes:
        two_phase_commit: ask for transactions that do not time out, if the broker supports it.
    """

    api_key = ApiKey.INIT_PRODUCER_ID
    # Version 6 adds nothing but two-phase commit, and is not stable yet.
    latest_version = TWO_PHASE_COMMIT_SINCE - 1
    reactions: ClassVar = {
        **_COORDINATOR_CODES,
        # Permissions are often granted a moment too late: the application may ask again.
        31: Reaction.FAIL_CALL,  # CLUSTER_AUTHORIZATION_FAILED
        53: Reaction.FAIL_CALL,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        120: Reaction.FAIL_CALL,
    }

    def __init__(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        current: ProducerIdAndEpoch,
        two_phase_commit: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.two_phase_commit = two_phase_commit
        if two_phase_commit:
            self.latest_version = TWO_PHASE_COMMIT_SINCE
        self.timeout_ms = timeout_ms
        self.current = current
        self.oldest_version = EPOCH_RAISED_SINCE if current.is_valid else 0
        if transactional_id is not None:
            self.coordinator = Coordinator(CoordinatorKind.TRANSACTION, transactional_id)

    def build(self, version: int) -> messages.InitProducerIdRequest:
        message = messages.InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        if version >= EPOCH_RAISED_SINCE:
            message.producer_id, message.producer_epoch = self.current
        if version >= TWO_PHASE_COMMIT_SINCE:
            message.enable2_pc = self.two_phase_commit
        return message

    def parse(self, body: Any) -> dict[Any, Result]:
        producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
        if body.error_code == 0 and not producer.is_valid:
            return {None: Result(_UNKNOWN_SERVER_ERROR, message=f"the broker returned {producer}")}
        return {None: Result(body.error_code, producer)}


class _TransactionRequest(CoordinatorRequest):
    """A request that belongs to one transaction of one producer.

    Attributes:
        transactional_id, producer: of the producer.

    Transaction version 2 needs EndTxn 5, whose response has the next epoch, and TxnOffsetCommit 5, which adds
    the group to the transaction.
    """

    latest_version = 4
    is_moot_after_abort = True

    def __init__(self, identity: TransactionIdentity) -> None:
        self.transactional_id, self.producer, transaction_version = identity
        self.coordinator = Coordinator(CoordinatorKind.TRANSACTION, self.transactional_id)
        if transaction_version >= 2:
            # TxnOffsetCommit 6 needs topic ids.
            self.oldest_version = self.latest_version = 5

    def _identity(self, prefix: str = "") -> dict[str, Any]:
        """The fields that say whose transaction it is."""
        values = (self.transactional_id, *self.producer)
        names = ("transactional_id", "producer_id", "producer_epoch")
        return {prefix + name: value for name, value in zip(names, values, strict=True)}


class AddPartitionsToTxn(_TransactionRequest):
    """Adds partitions to the transaction (transaction version 1 only)."""

    api_key = ApiKey.ADD_PARTITIONS_TO_TXN
    # Later versions are for requests between brokers.
    latest_version = 3
    reactions: ClassVar = {
        **_COORDINATOR_CODES,
        **_FORGOTTEN_CODES,
        29: Reaction.ABORT,  # TOPIC_AUTHORIZATION_FAILED
        55: Reaction.ABORT,  # OPERATION_NOT_ATTEMPTED: because of another partition
        -1: Reaction.ABORT,
    }

    def __init__(self, identity: TransactionIdentity, partitions: frozenset[TopicPartition]) -> None:
        super().__init__(identity)
        self.partitions = partitions

    def build(self, version: int) -> messages.AddPartitionsToTxnRequest:
        from kproducer_messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic

        numbers: dict[str, list[int]] = defaultdict(list)
        for topic, number in sorted(self.partitions):
            numbers[topic].append(number)
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=of_it) for topic, of_it in numbers.items()]
        return messages.AddPartitionsToTxnRequest(
            **self._identity("v3_and_below_"), v3_and_below_topics=topics
        )

    def parse(self, body: Any) -> dict[Any, Result]:
        found = {
            (topic.name, result.partition_index): Result(result.partition_error_code)
            for topic in body.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        return {partition: found.get(partition, _MISSING) for partition in self.partitions}


class AddOffsetsToTxn(_TransactionRequest):
    """Adds a group's offsets partition to the transaction (transaction version 1 only)."""

    api_key = ApiKey.ADD_OFFSETS_TO_TXN
    reactions: ClassVar = {**_COORDINATOR_CODES, **_FORGOTTEN_CODES, 30: Reaction.ABORT}

    def __init__(self, identity: TransactionIdentity, group_id: str) -> None:
        super().__init__(identity)
        self.group_id = group_id

    def build(self, version: int) -> messages.AddOffsetsToTxnRequest:
        return messages.AddOffsetsToTxnRequest(**self._identity(), group_id=self.group_id)


class TxnOffsetCommit(_TransactionRequest):
    """Commits a group's offsets as part of the transaction. Goes to the group's coordinator."""

    api_key = ApiKey.TXN_OFFSET_COMMIT
    reactions: ClassVar = {
        **_COORDINATOR_CODES,
        # Kafka's client treats these two as fatal here. An abort recovers from them, as it does elsewhere.
        **_FORGOTTEN_CODES,
        12: Reaction.ABORT,  # OFFSET_METADATA_TOO_LARGE
        22: Reaction.ABORT,  # ILLEGAL_GENERATION
        25: Reaction.ABORT,  # UNKNOWN_MEMBER_ID
        27: Reaction.ABORT,  # REBALANCE_IN_PROGRESS
        29: Reaction.ABORT,
        30: Reaction.ABORT,
        69: Reaction.ABORT,  # GROUP_ID_NOT_FOUND
        82: Reaction.ABORT,  # FENCED_INSTANCE_ID
        113: Reaction.ABORT,  # STALE_MEMBER_EPOCH
    }

    def __init__(
        self,
        identity: TransactionIdentity,
        group: ConsumerGroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        super().__init__(identity)
        self.group = group
        self.offsets = offsets
        self.coordinator = Coordinator(CoordinatorKind.GROUP, group.group_id)

    def build(self, version: int) -> messages.TxnOffsetCommitRequest:
        from kproducer_messages.txn_offset_commit_request import (
            TxnOffsetCommitRequestPartition,
            TxnOffsetCommitRequestTopic,
        )

        group = self.group
        if version < _MEMBER_SINCE and group.names_a_member:
            raise UnsupportedVersionError(
                f"TxnOffsetCommit v{version}: this broker cannot check the member of group {group.group_id}; "
                "brokers from 2.5 on can (KIP-447)"
            )
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (name, number), position in sorted(self.offsets.items()):
            topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=position.offset,
                    committed_leader_epoch=position.leader_epoch,
                    committed_metadata=position.metadata,
                )
            )
        message = messages.TxnOffsetCommitRequest(
            **self._identity(), group_id=group.group_id, topics=list(topics.values())
        )
        if version >= _MEMBER_SINCE:
            message.generation_id_or_member_epoch = group.generation_id
            message.member_id = group.member_id
            message.group_instance_id = group.group_instance_id
        return message

    def parse(self, body: Any) -> dict[Any, Result]:
        found = {
            (topic.name, result.partition_index): Result(result.error_code)
            for topic in body.topics
            for result in topic.partitions
        }
        return {partition: found.get(partition, _MISSING) for partition in self.offsets}


class EndTxn(_TransactionRequest):
    """Commits or aborts the transaction.

    ``TransactionProtocol._handle_end_txn_error`` handles the codes whose meaning depends on the situation.
    """

    api_key = ApiKey.END_TXN
    is_moot_after_abort = False
    reactions: ClassVar = {**_COORDINATOR_CODES, **_FORGOTTEN_CODES}

    def __init__(self, identity: TransactionIdentity, is_commit: bool) -> None:
        super().__init__(identity)
        self.is_commit = is_commit

    def build(self, version: int) -> messages.EndTxnRequest:
        return messages.EndTxnRequest(**self._identity(), committed=self.is_commit)

    def parse(self, body: Any) -> dict[Any, Result]:
        producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
        return {None: Result(body.error_code, producer)}


class OffsetFetch(CoordinatorRequest):
    """Asks what a group has committed for one partition.

    Attributes:
        group: its name.
        topic_partition: the partition.
        stable: whether the broker refuses to answer while an open transaction may still change the offset.
    """

    api_key = ApiKey.OFFSET_FETCH
    # The first version with stable offsets. From version 8 on, requests and responses have lists of groups.
    oldest_version = latest_version = 7
    reactions: ClassVar = {
        15: Reaction.RELOCATE,
        16: Reaction.RELOCATE,
        69: Reaction.DONE,  # GROUP_ID_NOT_FOUND: a group that has committed nothing need not exist
    }

    def __init__(self, group: str, topic_partition: TopicPartition, stable: bool = True) -> None:
        self.group = group
        self.topic_partition = topic_partition
        self.stable = stable
        self.coordinator = Coordinator(CoordinatorKind.GROUP, group)

    def build(self, version: int) -> messages.OffsetFetchRequest:
        from kproducer_messages.offset_fetch_request import OffsetFetchRequestTopic

        name, number = self.topic_partition
        topic = OffsetFetchRequestTopic(name=name, partition_indexes=[number])
        return messages.OffsetFetchRequest(group_id=self.group, topics=[topic], require_stable=self.stable)

    def parse(self, body: Any) -> dict[Any, Result]:
        partitions = {
            (topic.name, each.partition_index): each for topic in body.topics for each in topic.partitions
        }
        found: Any = partitions.get(self.topic_partition)
        code = body.error_code or (_UNKNOWN_SERVER_ERROR if found is None else found.error_code)
        if code or found.committed_offset < 0:
            return {self.group: Result(code)}
        metadata, leader_epoch = found.metadata or "", found.committed_leader_epoch
        return {self.group: Result(0, OffsetAndMetadata(found.committed_offset, metadata, leader_epoch))}

    def __repr__(self) -> str:
        return f"OffsetFetch(group {self.group!r}, {self.topic_partition})"


#: What every broker needs for transaction version 2. A broker that was not upgraded yet would refuse batches.
_VERSION_2_APIS: Final = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}


def transaction_version(nodes: Sequence[NodeApiVersions]) -> int:
    """Which version of transactions the cluster has (KIP-890).

    2 if the newest finalized features say so and every connected broker has the APIs for it, else 1.
    Source: KIP-584; Kafka's ``TransactionManager.maybeUpdateTransactionV2Enabled``.
    """
    if not nodes:
        return 1
    newest = max(nodes, key=lambda node: node.finalized_features_epoch)
    if newest.finalized_features.get("transaction.version", 0) < 2:
        return 1
    apis = _VERSION_2_APIS.items()
    can_all = all(node.ranges.get(key, (0, -1))[1] >= needed for node in nodes for key, needed in apis)
    return 2 if can_all else 1
