"""Consumer group offsets: committed ones, and pending ones of open transactions. Pure state.

Source: Kafka's ``GroupMetadataManager``; KIP-98, KIP-447.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
FENCED_INSTANCE_ID = 82


class Position(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str | None


class Member(NamedTuple):
    member_id: str
    generation_id: int
    group_instance_id: str | None = None


@attrs.define
class Group:
    """One group. ``member`` is its only member; ``None``: members are not checked."""

    member: Member | None = None
    committed: dict[tuple[str, int], Position] = attrs.field(factory=dict)
    pending: dict[int, dict[tuple[str, int], Position]] = attrs.field(factory=dict)

    def refuses(self, member_id: str, generation_id: int, group_instance_id: str | None) -> int:
        """The error code for offsets committed by this member; 0: accepted."""
        if self.member is None or (not member_id and generation_id < 0 and group_instance_id is None):
            return 0
        if group_instance_id is not None and group_instance_id == self.member.group_instance_id:
            if member_id != self.member.member_id:
                return FENCED_INSTANCE_ID
        elif member_id != self.member.member_id:
            return UNKNOWN_MEMBER_ID
        return 0 if generation_id == self.member.generation_id else ILLEGAL_GENERATION

    def ended(self, producer_id: int, commit: bool) -> None:
        """Apply the end marker of a transaction."""
        positions = self.pending.pop(producer_id, {})
        if commit:
            self.committed.update(positions)
