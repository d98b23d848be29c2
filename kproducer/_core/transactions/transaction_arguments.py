"""The values that applications pass to the transactional methods, and their checks.

Source: KIP-447; Kafka classes ``OffsetAndMetadata``, ``ConsumerGroupMetadata``. ``PreparedTransaction`` is
our own (KIP-939 plans something similar).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kproducer._core.kernel.layout import INT16_MAX
from kproducer._core.runtime.arguments import checked_number, checked_text
from kproducer._core.runtime.public_names import public
from kproducer.errors import InvalidArgumentError
from kproducer.types import INT32_MAX, INT64_MAX, TopicPartition


@public
class OffsetAndMetadata(NamedTuple):
    """The offset at which a group continues to read. The order of the fields is that of kafka-python.

    Attributes:
        offset: of the next record to read.
        metadata: any text to be stored with the offset; brokers accept 4096 characters by default.
        leader_epoch: of the last record read; -1: not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@public
class ConsumerGroupMetadata(NamedTuple):
    """The consumer group, and the member of it that read the records.

    Without a member, the broker cannot detect that the partitions belong to another member now.

    Attributes:
        group_id: name of the group.
        generation_id: generation, or the member's epoch in groups of the newer protocol; -1: not checked.
        member_id: as the coordinator assigned it; empty: not checked.
        group_instance_id: the static name of the member, if it has one.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    @property
    def names_a_member(self) -> bool:
        """Whether the broker is to check the member, which needs brokers from 2.5 on."""
        return self.generation_id >= 0 or bool(self.member_id) or self.group_instance_id is not None


@public
class PreparedTransaction(NamedTuple):
    """A transaction whose records are all written, for another process to commit or abort. Can be pickled.

    Attributes:
        transactional_id: the producer's.
        producer_id: the producer id that its records have.
        epoch: the epoch that its records have.
        transaction_version: 1 or 2: how it has to be ended (KIP-890).
        is_empty: nothing was written, and no broker knows of it.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    transaction_version: int
    is_empty: bool = False


def checked_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A checked copy of ``offsets``.

    Raises:
        InvalidArgumentError: names the partition, the field and the value.
    """
    # Any: applications are rarely type-checked.
    given: Any = offsets
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            f"offsets must map kproducer.TopicPartition to kproducer.OffsetAndMetadata, not {given!r}"
        )
    return dict(_checked_offset(partition, position) for partition, position in given.items())


def _checked_offset(partition: Any, position: Any) -> tuple[TopicPartition, OffsetAndMetadata]:
    # Other libraries have pairs of their own for partitions.
    if not isinstance(partition, tuple) or len(partition) != 2:
        raise InvalidArgumentError(f"a partition must be a kproducer.TopicPartition, not {partition!r}")
    topic_partition = TopicPartition(
        checked_text(f"the topic of partition {partition!r}", partition[0], shortest=1),
        checked_number(f"the number of partition {partition!r}", partition[1], 0, INT32_MAX),
    )
    if not isinstance(position, OffsetAndMetadata):
        raise InvalidArgumentError(
            f"the offset of {topic_partition} must be a kproducer.OffsetAndMetadata, "
            f"not {type(position).__module__}.{type(position).__qualname__}: {position!r}"
        )
    if not isinstance(position.metadata, str):
        raise InvalidArgumentError(
            f"metadata of {topic_partition} must be a str, not {position.metadata!r}; "
            "the order is OffsetAndMetadata(offset, metadata, leader_epoch)"
        )
    return topic_partition, OffsetAndMetadata(
        checked_number(f"offset of {topic_partition}", position.offset, 0, INT64_MAX),
        checked_text(f"metadata of {topic_partition}", position.metadata),
        checked_number(f"leader_epoch of {topic_partition}", position.leader_epoch, -1, INT32_MAX),
    )


def checked_group(group: ConsumerGroupMetadata) -> ConsumerGroupMetadata:
    """A checked copy of ``group``.

    Raises:
        InvalidArgumentError: names the field and the value.
    """
    given: Any = group
    if not isinstance(given, ConsumerGroupMetadata):
        raise InvalidArgumentError(
            f"group_metadata must be a kproducer.ConsumerGroupMetadata(group_id), not {given!r}"
        )
    group_id = checked_text("group_id", given.group_id, shortest=1)
    instance_id = given.group_instance_id
    checked = ConsumerGroupMetadata(
        group_id,
        checked_number(f"generation_id of group {group_id!r}", given.generation_id, -1, INT32_MAX),
        checked_text(f"member_id of group {group_id!r}", given.member_id),
        None if instance_id is None else checked_text(f"group_instance_id of {group_id!r}", instance_id),
    )
    if checked.generation_id >= 0 and not checked.member_id:
        raise InvalidArgumentError(
            f"generation_id {checked.generation_id} of group {group_id!r} needs a member_id"
        )
    return checked


def checked_prepared(prepared: PreparedTransaction) -> PreparedTransaction:
    """``prepared`` itself. Raises InvalidArgumentError if ``prepare`` cannot have returned it."""
    given: Any = prepared
    if not isinstance(given, PreparedTransaction):
        raise InvalidArgumentError(
            f"prepared must be the PreparedTransaction that prepare() returned, not {given!r}"
        )
    checked_text(f"transactional_id of {given}", given.transactional_id, shortest=1)
    checked_number(f"producer_id of {given}", given.producer_id, 0, INT64_MAX)
    checked_number(f"epoch of {given}", given.epoch, 0, INT16_MAX)
    checked_number(f"transaction_version of {given}", given.transaction_version, 1, 2)
    return prepared
