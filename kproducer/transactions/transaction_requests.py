"""The requests to coordinators: what to ask whom, in which versions, and how to read the answers.

Each class is a ``RequestBuilder`` for the network client and reads its own answer into an ``Answer``. What an
answer means is not known here. Modules of messages are imported when the first is built: most producers are
idempotent and no more. Source: KIP-98, KIP-360, KIP-447, KIP-699, KIP-890.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import kproducer_messages as messages

from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.protocol.registry import ApiKey
from kproducer.transactions.consumer_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.transactions.producer_id_and_epoch import NO_PRODUCER, ProducerIdAndEpoch
from kproducer.types import Node, TopicPartition

_COORDINATOR_NOT_AVAILABLE: Final = 15
_UNKNOWN_SERVER_ERROR: Final = -1
_SEVERAL_KEYS_SINCE: Final = 4
_MEMBER_SINCE: Final = 3
#: From this version on a producer may ask for the next epoch of the one it has (KIP-360).
EPOCH_RAISED_SINCE: Final = 3


class CoordinatorKind(enum.IntEnum):
    """What a broker coordinates, as FindCoordinator numbers it."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator(NamedTuple):
    """Whom a request has to go to, whichever broker that is at present."""

    kind: CoordinatorKind
    key: str

    def __str__(self) -> str:
        return (
            f"the coordinator of {'group' if self.kind is CoordinatorKind.GROUP else 'producer'} {self.key!r}"
        )


class Answer(NamedTuple):
    """An answer as far as anybody looks at it.

    Attributes:
        codes: error code by what it is about; ``None`` for the request as a whole.
        producer: the id and epoch that came with it.
        node: the coordinator that it names.
        message: the broker's text for an error.
    """

    codes: Mapping[TopicPartition | None, int]
    producer: ProducerIdAndEpoch = NO_PRODUCER
    node: Node | None = None
    message: str | None = None


class TransactionRequest:
    """Base of all of them.

    Attributes:
        api_key, oldest_version, latest_version: see ``RequestBuilder``.
        coordinator: whom it must go to; None: any broker.
    """

    api_key: ApiKey
    oldest_version = 0
    latest_version = 0
    coordinator: Coordinator | None = None

    def build(self, version: int) -> Any:
        """The message."""
        raise NotImplementedError

    def parse(self, body: Any) -> Answer:
        """Read the answer; most have one code and no more."""
        return Answer({None: body.error_code})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coordinator or 'any broker'})"


class FindCoordinator(TransactionRequest):
    """Which broker is it?"""

    api_key = ApiKey.FIND_COORDINATOR
    latest_version = 6

    def __init__(self, wanted: Coordinator) -> None:
        self.wanted = wanted
        # Version 0 knows groups only.
        self.oldest_version = 0 if wanted.kind is CoordinatorKind.GROUP else 1

    def build(self, version: int) -> messages.FindCoordinatorRequest:
        kind, key = self.wanted
        if version >= _SEVERAL_KEYS_SINCE:
            return messages.FindCoordinatorRequest(key_type=kind.value, coordinator_keys=[key])
        return messages.FindCoordinatorRequest(key=key, key_type=kind.value)

    def parse(self, body: Any) -> Answer:
        found = body
        if body.coordinators:
            found = next((entry for entry in body.coordinators if entry.key == self.wanted.key), None)
        if found is None or (found.error_code == 0 and not (found.node_id >= 0 and found.host)):
            return Answer({None: _COORDINATOR_NOT_AVAILABLE}, message="the answer names no coordinator")
        node = Node(found.node_id, found.host, found.port) if found.error_code == 0 else None
        return Answer({None: found.error_code}, node=node, message=found.error_message)

    def __repr__(self) -> str:
        return f"FindCoordinator({self.wanted})"


class InitProducerId(TransactionRequest):
    """A producer id and epoch, please; with ``current``: the epoch after that one."""

    api_key = ApiKey.INIT_PRODUCER_ID
    # 6 is for two-phase commit and not stable yet.
    latest_version = 5

    def __init__(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        current: ProducerIdAndEpoch = NO_PRODUCER,
    ) -> None:
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._current = current
        self.oldest_version = EPOCH_RAISED_SINCE if current.is_valid else 0
        if transactional_id is not None:
            self.coordinator = Coordinator(CoordinatorKind.TRANSACTION, transactional_id)

    def build(self, version: int) -> messages.InitProducerIdRequest:
        message = messages.InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        if version >= EPOCH_RAISED_SINCE:
            message.producer_id, message.producer_epoch = self._current
        return message

    def parse(self, body: Any) -> Answer:
        producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
        if body.error_code == 0 and not (producer.producer_id >= 0 and producer.epoch >= 0):
            return Answer({None: _UNKNOWN_SERVER_ERROR}, message=f"the broker gave us {producer}")
        return Answer({None: body.error_code}, producer)


class _OfTransaction(TransactionRequest):
    """What belongs to one transaction of one producer."""

    def __init__(self, transactional_id: str, producer: ProducerIdAndEpoch) -> None:
        self._transactional_id = transactional_id
        self._producer = producer
        self.coordinator = Coordinator(CoordinatorKind.TRANSACTION, transactional_id)


class AddPartitionsToTxn(_OfTransaction):
    """These partitions will be written to (protocol 1 only)."""

    api_key = ApiKey.ADD_PARTITIONS_TO_TXN
    # What comes after is between brokers.
    latest_version = 3

    def __init__(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> None:
        super().__init__(transactional_id, producer)
        self.partitions = frozenset(partitions)

    def build(self, version: int) -> messages.AddPartitionsToTxnRequest:
        from kproducer_messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic

        numbers: dict[str, list[int]] = defaultdict(list)
        for topic, number in sorted(self.partitions):
            numbers[topic].append(number)
        return messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=of_topic)
                for topic, of_topic in numbers.items()
            ],
        )

    def parse(self, body: Any) -> Answer:
        codes: dict[TopicPartition | None, int] = dict.fromkeys(self.partitions, _UNKNOWN_SERVER_ERROR)
        for topic in body.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                place = TopicPartition(topic.name, result.partition_index)
                if place in codes:
                    codes[place] = result.partition_error_code
        return Answer(codes)


class AddOffsetsToTxn(_OfTransaction):
    """Offsets of this group will be written (protocol 1 only)."""

    api_key = ApiKey.ADD_OFFSETS_TO_TXN
    latest_version = 4

    def __init__(self, transactional_id: str, producer: ProducerIdAndEpoch, group_id: str) -> None:
        super().__init__(transactional_id, producer)
        self.group_id = group_id

    def build(self, version: int) -> messages.AddOffsetsToTxnRequest:
        return messages.AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            group_id=self.group_id,
        )


class TxnOffsetCommit(_OfTransaction):
    """The group has read so far, if the transaction is committed. Goes to the group's coordinator."""

    api_key = ApiKey.TXN_OFFSET_COMMIT

    def __init__(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        group: ConsumerGroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        transaction_version: int,
    ) -> None:
        super().__init__(transactional_id, producer)
        self.coordinator = Coordinator(CoordinatorKind.GROUP, group.group_id)
        # From 5 on the broker adds the group to the transaction; 6 has topic ids, which nobody here knows.
        self.oldest_version, self.latest_version = (5, 5) if transaction_version >= 2 else (0, 4)
        self._group = group
        self._offsets = dict(offsets)

    def build(self, version: int) -> messages.TxnOffsetCommitRequest:
        from kproducer_messages.txn_offset_commit_request import (
            TxnOffsetCommitRequestPartition,
            TxnOffsetCommitRequestTopic,
        )

        group = self._group
        if version < _MEMBER_SINCE and group.names_a_member:
            raise UnsupportedVersionError(
                f"TxnOffsetCommit v{version}: this broker cannot check the member of group {group.group_id}; "
                "brokers from 2.5 on can (KIP-447)"
            )
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (name, number), position in sorted(self._offsets.items()):
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
            transactional_id=self._transactional_id,
            group_id=group.group_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            topics=list(topics.values()),
        )
        if version >= _MEMBER_SINCE:
            message.generation_id_or_member_epoch = group.generation_id
            message.member_id = group.member_id
            message.group_instance_id = group.group_instance_id
        return message

    def parse(self, body: Any) -> Answer:
        codes: dict[TopicPartition | None, int] = dict.fromkeys(self._offsets, _UNKNOWN_SERVER_ERROR)
        for topic in body.topics:
            for result in topic.partitions:
                place = TopicPartition(topic.name, result.partition_index)
                if place in codes:
                    codes[place] = result.error_code
        return Answer(codes)


class EndTxn(_OfTransaction):
    """Commit, or abort."""

    api_key = ApiKey.END_TXN

    def __init__(
        self, transactional_id: str, producer: ProducerIdAndEpoch, commit: bool, transaction_version: int
    ) -> None:
        super().__init__(transactional_id, producer)
        # From 5 on each end raises the epoch.
        self.oldest_version, self.latest_version = (5, 5) if transaction_version >= 2 else (0, 4)
        self.is_commit = commit

    def build(self, version: int) -> messages.EndTxnRequest:
        return messages.EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            committed=self.is_commit,
        )

    def parse(self, body: Any) -> Answer:
        return Answer({None: body.error_code}, ProducerIdAndEpoch(body.producer_id, body.producer_epoch))
