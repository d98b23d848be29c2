"""Plans that had findings, at their smallest."""

from __future__ import annotations

from tests.simulation.plan import AtTime, Caller, Plan
from tests.simulation.simulation import simulate


def test_a_partition_is_gone_when_its_leader_would_move() -> None:
    # faults move_leader ended with IndexError('list index out of range')
    plan = Plan(
        seed=0,
        callers=(Caller(steps=()), Caller(steps=())),
        faults=(
            AtTime(kind="fewer_partitions", at_s=0.0, topic="u"),
            AtTime(kind="move_leader", at_s=0.0, broker_id=2, topic="u", partition=1),
        ),
        topics={"u": 2},
        brokers=2,
        latency_ms=(1.0, 1.0),
        partial_rate=0.0,
        switch_rate=0.2,
    )
    assert not simulate(plan).findings
