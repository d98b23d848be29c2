"""What ``send_offsets_to_transaction`` takes: positions of a consumer group, and who speaks for the group.

Plain values. Source: KIP-447; Kafka classes ``OffsetAndMetadata``, ``ConsumerGroupMetadata``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kproducer.errors import InvalidArgumentError
from kproducer.runtime.arguments import checked_number, checked_text
from kproducer.types import INT32_MAX, INT64_MAX, TopicPartition


class OffsetAndMetadata(NamedTuple):
    """The position at which a group continues to read. The order of the fields is that of kafka-python.

    Attributes:
        offset: of the next record to read.
        metadata: any text to be stored with the offset; brokers take 4096 characters by default.
        leader_epoch: of the last record read; -1: not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """The group, and the member that read the records.

    Without a member the broker cannot tell that the partitions belong to another member by now.

    Attributes:
        group_id: name of the group.
        generation_id: generation, or the member's epoch in groups of the newer protocol; -1: not checked.
        member_id: as the coordinator named it; empty: not checked.
        group_instance_id: the static name, if there is one.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    @property
    def names_a_member(self) -> bool:
        """Whether the broker is asked to check the member; needs brokers from 2.5 on."""
        return self.generation_id >= 0 or bool(self.member_id) or self.group_instance_id is not None


def checked_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A copy of ``offsets`` that can be sent.

    Raises:
        InvalidArgumentError: they cannot be sent; the text names the partition and the field.
    """
    # From here on nothing is what its type says: applications are rarely checked.
    given: Any = offsets
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(
            f"offsets must map kproducer.TopicPartition to kproducer.OffsetAndMetadata, not {given!r}"
        )
    return dict(_checked_offset(place, position) for place, position in given.items())


def _checked_offset(place: Any, position: Any) -> tuple[TopicPartition, OffsetAndMetadata]:
    # Other libraries name partitions with pairs of their own.
    if not isinstance(place, tuple) or len(place) != 2:
        raise InvalidArgumentError(f"a partition must be a kproducer.TopicPartition, not {place!r}")
    topic_partition = TopicPartition(
        checked_text(f"the topic of partition {place!r}", place[0], shortest=1),
        checked_number(f"the number of partition {place!r}", place[1], 0, INT32_MAX),
    )
    if not isinstance(position, OffsetAndMetadata):
        raise InvalidArgumentError(
            f"the position of {topic_partition} must be a kproducer.OffsetAndMetadata, "
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
    """A copy of ``group`` that can be sent.

    Raises:
        InvalidArgumentError: it cannot be sent; the text names the field.
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
