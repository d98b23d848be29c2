"""The arguments of ``send_offsets_to_transaction``: from confluent-kafka's form to ours."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kproducer._core.transactions.transaction_arguments import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.errors import InvalidArgumentError
from kproducer.types import TopicPartition as OwnTopicPartition

#: How the bytes begin that ``Consumer.consumer_group_metadata`` returns. After it come the generation as a
#: native int32, group id and member id, a byte that is 1 if there is no group instance id, and that id. Each
#: text has a zero byte at its end.
#: Source: librdkafka's ``rd_kafka_consumer_group_metadata_write``.
_GROUP_METADATA_MAGIC = b"CGMDv2:"

if TYPE_CHECKING:

    class TopicPartition:
        """A partition and an offset in it."""

        def __init__(
            self, topic: str, partition: int = -1, offset: int = -1001, metadata: Any = None
        ) -> None: ...

else:
    try:
        from confluent_kafka import TopicPartition
    except ImportError:

        class TopicPartition:
            """A partition and an offset in it, for programs without confluent-kafka."""

            def __init__(self, topic, partition=-1, offset=-1001, metadata=None, leader_epoch=None):
                self.topic, self.partition, self.offset = topic, partition, offset
                self.metadata, self.leader_epoch, self.error = metadata, leader_epoch, None

            def __repr__(self):
                return f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset}}}"


def own_offsets(positions: Iterable[Any]) -> dict[OwnTopicPartition, OffsetAndMetadata]:
    """The offsets of confluent-kafka's ``TopicPartition`` objects.

    Without those of partitions that have no position yet: librdkafka, too, passes over negative offsets.
    """
    offsets: dict[OwnTopicPartition, OffsetAndMetadata] = {}
    for each in positions:
        if each.offset < 0:
            continue
        epoch = getattr(each, "leader_epoch", None)
        offsets[OwnTopicPartition(each.topic, each.partition)] = OffsetAndMetadata(
            each.offset, each.metadata or "", -1 if epoch is None else epoch
        )
    return offsets


def own_group_metadata(group: Any) -> ConsumerGroupMetadata:
    """What ``consumer_group_metadata()`` of a confluent-kafka consumer says, or one of ours as it is.

    Raises:
        InvalidArgumentError: it is neither, or of a version of librdkafka with another layout.
    """
    if isinstance(group, ConsumerGroupMetadata):
        return group
    if not isinstance(group, bytes) or not group.startswith(_GROUP_METADATA_MAGIC):
        raise InvalidArgumentError(
            "group_metadata: expected what consumer_group_metadata() of a confluent-kafka consumer returns "
            f"({_GROUP_METADATA_MAGIC.decode()}...), or a kproducer.ConsumerGroupMetadata, got "
            f"{type(group).__name__}; with another version of confluent-kafka, use the latter"
        )
    rest = group[len(_GROUP_METADATA_MAGIC) :]
    (generation,) = struct.unpack_from("=i", rest)
    group_id, member_id, instance = rest[4:].split(b"\0", 2)
    # A byte of 1 says that there is no instance id.
    instance_id = None if instance[:1] != b"" and instance[0] == 1 else instance.strip(b"\0").decode()
    return ConsumerGroupMetadata(group_id.decode(), generation, member_id.decode(), instance_id)
