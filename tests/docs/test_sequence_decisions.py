"""The tables about batches in docs/internals/transactions.md agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

from kproducer._core.transactions.delivery_knowledge import AttemptEnd, Knowledge, knowledge_after

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "transactions.md").read_text()


def table_after(header: str) -> list[list[str]]:
    lines = PAGE.partition(header)[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_of_transitions_is_the_code_s() -> None:
    states = [Knowledge.NEVER_SENT, Knowledge.REJECTED, Knowledge.UNKNOWN]
    header = "| event \\ state | NEVER_SENT | REJECTED | UNKNOWN |"
    written = {
        (state, AttemptEnd[row[0]]): Knowledge[cell]
        for row in table_after(header)
        for state, cell in zip(states, row[1:], strict=True)
    }
    assert written == {(state, end): knowledge_after(state, end) for state in states for end in AttemptEnd}


def test_every_event_has_a_decision() -> None:
    rows = table_after("| event | state after it | decision |")
    named = {name for row in rows for name in re.findall(r"[A-Z_]{6,}", row[0])}
    assert named - {"UNKNOWN"} == {end.name for end in AttemptEnd}
