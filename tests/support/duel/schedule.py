"""The faults of a duel, as a pure function of the seed: every client gets the same list."""

from __future__ import annotations

import random
from typing import NamedTuple

NODES = (1, 2, 3)
PARTITIONS = 6

LEADER_MOVED, KILLED, FROZEN, RESTARTED = "leader moved", "killed", "frozen", "restarted"
#: One at a time; the next one waits until all replicas are in sync again.
BROKER_FAULTS = (LEADER_MOVED, KILLED, FROZEN, RESTARTED)
PRODUCE_RESPONSE_LOST, END_RESPONSE_LOST, END_LATE = (
    "Produce response lost",
    "EndTxn response lost",
    "EndTxn late",
)
#: On the connections of both producers: each applies to the first request or response after its time, except
#: those that are overdue when another one of the kind takes place.
CONNECTION_FAULTS = (PRODUCE_RESPONSE_LOST, END_RESPONSE_LOST, END_LATE)

_BROKER_FAULT_SECONDS = 12.0
_CONNECTION_FAULT_SECONDS = {PRODUCE_RESPONSE_LOST: 1.5, END_RESPONSE_LOST: 5.0, END_LATE: 5.0}
#: How long a fault lasts; of a late EndTxn: after which time it reaches the broker.
#: In runs of ``_LONG_RUN_SECONDS`` or more, the first freeze is longer than most clients wait for a response.
_LONG_FREEZE_SECONDS, _LONG_RUN_SECONDS = 35.0, 100.0
_DURATIONS = {KILLED: (0.0, 3.0), FROZEN: (1.0, 8.0), RESTARTED: (0.0, 3.0), END_LATE: (0.2, 1.5)}


class Fault(NamedTuple):
    """One fault.

    Attributes:
        at: seconds after the start; a fault of a broker begins later if the one before lasts until then.
        kind: one of ``BROKER_FAULTS`` or ``CONNECTION_FAULTS``.
        node: the broker; of a moved leader, the new one. 0 for faults of connections.
        partition: of a moved leader, in each topic.
        seconds: how long it lasts.
    """

    at: float
    kind: str
    node: int = 0
    partition: int = 0
    seconds: float = 0.0


def schedule(seed: int, seconds: float) -> list[Fault]:
    """All faults of a run in order of time; each kind at least once."""
    chance = random.Random(seed)
    faults = _broker_faults(chance, seconds)
    for kind, period in _CONNECTION_FAULT_SECONDS.items():
        count = max(1, int(seconds / period))
        for at in _times(chance, count, seconds):
            faults.append(Fault(at, kind, seconds=_duration(chance, kind)))
    return sorted(faults)


def _broker_faults(chance: random.Random, seconds: float) -> list[Fault]:
    count = max(len(BROKER_FAULTS), int(seconds / _BROKER_FAULT_SECONDS))
    faults: list[Fault] = []
    deck: list[str] = []
    for at in _times(chance, count, seconds):
        deck = deck or chance.sample(BROKER_FAULTS, len(BROKER_FAULTS))
        kind = deck.pop()
        node, partition = chance.choice(NODES), chance.randrange(PARTITIONS)
        is_long = (
            kind == FROZEN and seconds >= _LONG_RUN_SECONDS and kind not in {each.kind for each in faults}
        )
        lasts = _LONG_FREEZE_SECONDS if is_long else _duration(chance, kind)
        faults.append(Fault(at, kind, node, partition, lasts))
    return faults


def _times(chance: random.Random, count: int, seconds: float) -> list[float]:
    """One time in each of ``count`` parts of the run."""
    part = seconds / count
    return [round((number + chance.random()) * part, 3) for number in range(count)]


def _duration(chance: random.Random, kind: str) -> float:
    return round(chance.uniform(*_DURATIONS[kind]), 3) if kind in _DURATIONS else 0.0
