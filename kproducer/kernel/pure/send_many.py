"""RowSender: the fast path of ``send_many``, which the pure kernel does not have."""

from __future__ import annotations

from array import array
from typing import Any

from kproducer.kernel.pure.append import TopicSlots


class RowSender:
    """Leaves every row to the caller; see ``native/_send_many.pyx`` for the arguments."""

    __slots__ = ()

    def __init__(self, owners: dict[Any, int], ignores_keys: bool, small_size: int) -> None:
        pass

    def send(
        self,
        slots: TopicSlots,
        partition_count: int,
        values: list[Any],
        keys: list[Any] | None,
        headers: list[Any] | None,
        partitions: list[Any] | None,
        timestamps_ms: list[Any] | None,
        start: int,
        now_ms: int,
        first_row: int,
        *columns: array[int],
    ) -> int:
        """Return the first row that the caller has to send: ``start``."""
        return start
