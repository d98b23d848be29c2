"""Every combination of faults for a few batches in flight to one partition; ``make simulate EXHAUSTIVE=1``.

A first record makes the producer known to the leader. Then some batches of two records follow, which are all
in flight at once if the producer may have so many requests in flight. Each of the next Produce requests, one
per batch, has one of ``ENDS``; with fewer requests in flight, these are also repetitions of earlier batches.
Somewhere among them, nothing else happens, or one of ``EVENTS``. More records at the end show that the
producer goes on. Nothing is random: threads are not interrupted, and the latency is constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from tests.simulation.plan import Caller, Flush, OnRequest, Plan, Send, Step, Transaction

#: How a Produce request can end.
ENDS = (
    None,  # answered
    OnRequest("refuse", 0, code=6),  # NOT_LEADER_OR_FOLLOWER, and not appended
    OnRequest("process_and_refuse", 0, code=7),  # REQUEST_TIMED_OUT, although appended
    OnRequest("close_after", 0),  # appended, and the response is lost
    OnRequest("close_before", 0),  # the request is lost
    OnRequest("refuse", 0, code=45),  # OUT_OF_ORDER_SEQUENCE_NUMBER, although it is in order
    OnRequest("refuse", 0, code=10),  # MESSAGE_TOO_LARGE
)
#: What happens to the leader after one of the requests.
EVENTS = ("then_restart", "then_move", "then_move_after_restart")
#: (is transactional, requests in flight).
PRODUCERS = tuple((transactional, most) for transactional in (False, True) for most in (1, 2, 5))
_SETTINGS: dict[str, Any] = {
    "batch_size": 200,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 2,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 2,
}
#: Two of these records fill a batch.
_BATCH = Send(size=60)


class Combinations:
    """All combinations, by number.

    Args:
        batches: how many are in flight; also the number of requests that have one of ``ENDS``.
        event_places: after which of these requests events happen, from 0.
    """

    def __init__(self, batches: int, event_places: Iterable[int]) -> None:
        self._batches = batches
        self._events = [None, *(OnRequest(kind, place + 1) for place in event_places for kind in EVENTS)]

    def __len__(self) -> int:
        return int(len(ENDS) ** self._batches) * len(self._events) * len(PRODUCERS)

    def __call__(self, number: int) -> Plan:
        """The plan of one combination."""
        number, producer = divmod(number, len(PRODUCERS))
        number, event = divmod(number, len(self._events))
        faults = [self._events[event]]
        for place in range(self._batches):
            number, end = divmod(number, len(ENDS))
            # The request with number 0 carries the first record.
            faults.append(end and attrs.evolve(ENDS[end], number=place + 1))
        transactional, most_in_flight = PRODUCERS[producer]
        settings = {**_SETTINGS, "max_in_flight_requests_per_connection": most_in_flight}
        sends: tuple[Send, ...] = (Send(waits=True), attrs.evolve(_BATCH, count=2 * self._batches))
        steps: tuple[Step, ...] = (*sends, Flush(), Send())
        if transactional:
            settings["transactional_id"] = "tx"
            steps = (Transaction(sends), Transaction((Send(),)))
        return Plan(
            0,
            (Caller(steps),),
            tuple(fault for fault in faults if fault),
            settings,
            brokers=2,
            latency_ms=(0.1, 0.1),
            partial_rate=0.0,
            switch_rate=0.0,
        )
