"""OffsetFetch: what groups have committed for one partition; built and read, and not understood.

Source: KIP-98 (metadata), KIP-447 (``require_stable``, version 7), KIP-709 (several groups, version 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kproducer.protocol.registry import ApiKey
from kproducer.transactions.consumer_offsets import OffsetAndMetadata
from kproducer.types import TopicPartition

if TYPE_CHECKING:
    from kproducer_messages import OffsetFetchRequest

_STABLE_SINCE: Final = 7
_SEVERAL_GROUPS_SINCE: Final = 8
_UNKNOWN_SERVER_ERROR: Final = -1


class GroupAnswer(NamedTuple):
    """What the answer says of one group.

    Attributes:
        code: of the group, or else of the partition; 0: none.
        position: ``None``: nothing was committed.
    """

    code: int
    position: OffsetAndMetadata | None = None


class OffsetFetch:
    """A ``RequestBuilder``.

    Args:
        groups: several: brokers have to know version 8.
        topic_partition: the only one that is asked about.
        stable: only offsets that no open transaction can change any more.
    """

    api_key = ApiKey.OFFSET_FETCH
    # 10 has topic ids, which nobody here knows.
    latest_version = 9

    def __init__(self, groups: Sequence[str], topic_partition: TopicPartition, stable: bool = True) -> None:
        self._stable = stable
        self.groups = tuple(groups)
        self._topic_partition = topic_partition
        self.oldest_version = _STABLE_SINCE if len(self.groups) == 1 else _SEVERAL_GROUPS_SINCE

    def build(self, version: int) -> OffsetFetchRequest:
        from kproducer_messages.offset_fetch_request import (
            OffsetFetchRequest,
            OffsetFetchRequestGroup,
            OffsetFetchRequestTopic,
            OffsetFetchRequestTopics,
        )

        name, number = self._topic_partition
        if version < _SEVERAL_GROUPS_SINCE:
            topic = OffsetFetchRequestTopic(name=name, partition_indexes=[number])
            return OffsetFetchRequest(group_id=self.groups[0], topics=[topic], require_stable=self._stable)
        return OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group, topics=[OffsetFetchRequestTopics(name=name, partition_indexes=[number])]
                )
                for group in self.groups
            ],
            require_stable=self._stable,
        )

    def parse(self, body: Any) -> dict[str, GroupAnswer]:
        """By group, each that was asked for; what the answer leaves out has an error code."""
        answers = dict.fromkeys(self.groups, GroupAnswer(_UNKNOWN_SERVER_ERROR))
        if not body.groups and len(self.groups) == 1:
            answers[self.groups[0]] = self._read(body)
        for answer in body.groups:
            if answer.group_id in answers:
                answers[answer.group_id] = self._read(answer)
        return answers

    def _read(self, of_group: Any) -> GroupAnswer:
        if of_group.error_code:
            return GroupAnswer(of_group.error_code)
        name, number = self._topic_partition
        for topic in of_group.topics:
            for found in topic.partitions:
                if (topic.name, found.partition_index) != (name, number):
                    continue
                if found.error_code or found.committed_offset < 0:
                    return GroupAnswer(found.error_code)
                return GroupAnswer(
                    0,
                    OffsetAndMetadata(
                        found.committed_offset, found.metadata or "", found.committed_leader_epoch
                    ),
                )
        return GroupAnswer(_UNKNOWN_SERVER_ERROR)

    def __repr__(self) -> str:
        more = f" and {len(self.groups) - 1} others" if len(self.groups) > 1 else ""
        return f"OffsetFetch(group {self.groups[0]!r}{more}, {self._topic_partition})"
