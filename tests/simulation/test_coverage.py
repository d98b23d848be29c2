"""Simulations count what they reach, with compiled modules and with their sources."""

from __future__ import annotations

from tests.simulation import coverage
from tests.simulation.plan import Caller, OnRequest, Plan, Send
from tests.simulation.simulation import simulate


def test_what_a_simulation_reaches_is_counted() -> None:
    refused = OnRequest("refuse", 0, code=5)
    result = simulate(Plan(1, (Caller((Send(count=2),)),), (refused,)))
    assert result.findings == []
    reached = result.reached
    assert reached["Produce 5"] == 1
    assert reached["event REJECTED in NEVER_SENT"] == 1
    assert reached["transition INITIALIZING -> READY"] == 1
    decisions = {entry: count for entry, count in reached.items() if entry.startswith("decision")}
    assert decisions == ({"decision REJECTED, then REJECTED: RETRY": 1} if coverage.COUNTS_DECISIONS else {})


def test_all_is_every_entry_of_every_table() -> None:
    kinds = {entry.split()[0] for entry in coverage.ALL}
    assert {"event", "transition", "Produce", "EndTxn"} <= kinds
    assert len([entry for entry in coverage.ALL if entry.startswith("event")]) == 7 * 3
    assert ("decision" in kinds) == coverage.COUNTS_DECISIONS
