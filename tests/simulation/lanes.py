"""The lanes of the data plane in a simulation: on or off, and with hand-overs that have no reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from kproducer._core.engine import producer_engine
from kproducer._core.kernel import data_plane
from kproducer._core.sender import fast_lanes
from kproducer._core.sender.fast_lanes import FastLanes
from kproducer._core.sender.produce_requests import FIRST_VERSION_THAT_ADDS_PARTITIONS

#: What is counted of them.
ARMED, SETTLED, TAKEN_BACK = "lane: armed", "lane: settled", "lane: taken back with requests in flight"
IN_TRANSACTION, KEPT = "lane: settled in a transaction", "lane: kept for another transaction"
IN_VERSION_1, ADDED_AGAIN = "lane: settled in version 1", "lane: armed for the next transaction that adds it"
ALL = frozenset(
    {ARMED, SETTLED, TAKEN_BACK, IN_TRANSACTION, KEPT, IN_VERSION_1, ADDED_AGAIN}
    if data_plane is not None
    else ()
)


class _CountedLanes(FastLanes):
    def __init__(
        self, *arguments: Any, reached: Counter[str], takes_back: Callable[[], bool], **others: Any
    ) -> None:
        super().__init__(*arguments, takes_back=takes_back, **others)
        self._reached = reached
        self._epochs: dict[Any, int] = {}

    def _arm_partition(self, *arguments: Any) -> bool:
        is_done = super()._arm_partition(*arguments)
        self._reached[ARMED] += is_done
        return is_done

    def _look_for_added(self, transaction: Any) -> None:
        waiting = len(self._not_added)
        super()._look_for_added(transaction)
        self._reached[ADDED_AGAIN] += waiting - len(self._not_added)

    def _take_back(self, each: Any) -> None:
        self._reached[TAKEN_BACK] += bool(each.lane.in_flight)
        super()._take_back(each)

    def _count(self, each: Any, now_ms: int) -> None:
        self._reached[SETTLED] += int(each.lane.requests)
        if self._transactions is not None and each.lane.requests:
            self._reached[IN_TRANSACTION] += int(each.lane.requests)
            if each.lane.version < FIRST_VERSION_THAT_ADDS_PARTITIONS:
                self._reached[IN_VERSION_1] += int(each.lane.requests)
            epoch = self._transactions.sequences.producer.epoch
            self._reached[KEPT] += self._epochs.setdefault(each, epoch) != epoch
            self._epochs[each] = epoch
        super()._count(each, now_ms)


def choosing(
    hand_overs: float | None, draw: Callable[[], float], reached: Counter[str]
) -> list[tuple[Any, dict[str, Any]]]:
    """What to replace, by object and name.

    Args:
        hand_overs: how often everything is taken back, of the rounds of the I/O thread; ``None``: no lanes.
        draw: from 0 to 1.
        reached: counts.
    """
    if hand_overs is None:
        return [(producer_engine, {"new_lanes": lambda *_: None})]
    lanes = partial(_CountedLanes, reached=reached, takes_back=lambda: draw() < hand_overs)
    return [(fast_lanes, {"FastLanes": lanes})]
