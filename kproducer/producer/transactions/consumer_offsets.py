"""What ``send_offsets_to_transaction`` takes: positions of a consumer group, and who speaks for the group.

Plain values. Source: KIP-447; Kafka classes ``OffsetAndMetadata``, ``ConsumerGroupMetadata``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kproducer.errors import InvalidArgumentError
from kproducer.types import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """Where a group shall read on.

    Attributes:
        offset: of the next record to read.
        leader_epoch: of the last record read; -1 when it is not known.
        metadata: any text the group wants to keep with the offset.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


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


def check_offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata) -> None:
    """Raise InvalidArgumentError for what no broker would take."""
    if not isinstance(group, ConsumerGroupMetadata):
        raise InvalidArgumentError(f"group_metadata must be a ConsumerGroupMetadata, not {group!r}")
    if not group.group_id:
        raise InvalidArgumentError("group_metadata needs a group_id")
    if group.generation_id >= 0 and not group.member_id:
        raise InvalidArgumentError(
            f"generation {group.generation_id} of group {group.group_id} needs a member_id"
        )
    for topic_partition, position in offsets.items():
        if not position.offset >= 0:
            raise InvalidArgumentError(f"offset {position.offset} of {topic_partition} is below 0")
