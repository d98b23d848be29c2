"""docs/internals/transactions.md has the code's transition table and every state; invariants have tests."""

from __future__ import annotations

import re
from pathlib import Path

from kproducer._core.transactions.transaction_state import LEGAL_TRANSITIONS, TransactionState

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "transactions.md"


def test_the_diagram_has_the_legal_transitions_and_no_other() -> None:
    diagram = re.search(r"```mermaid\n(.*?)```", PAGE.read_text(), re.S)
    assert diagram is not None
    drawn = set(re.findall(r"^ +(\w+) --> (\w+)$", diagram[1], re.M))
    assert drawn == {
        (state.name, following.name) for state, others in LEGAL_TRANSITIONS.items() for following in others
    }
    assert "[*] --> UNINITIALIZED" in diagram[1]


def test_each_state_is_explained() -> None:
    table = PAGE.read_text().partition("| state | a caller may |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([A-Z_]+)`", table)) == {state.name for state in TransactionState}


def test_each_invariant_names_tests_that_exist() -> None:
    map_of_tests = (ROOT / "tests/README.md").read_text()
    table = map_of_tests.partition("| invariant | test |")[2].partition("\n\n")[0]
    rows = table.strip().splitlines()[1:]
    assert len(rows) >= 20
    for row in rows:
        module, *tests = re.findall(r"`([\w/]*test_[\w/.]+)`", row.rpartition(" | ")[2] or row)
        path = module if "/" in module else f"unit/transactions/{module}.py"
        source = (ROOT / "tests" / path).read_text()
        assert tests
        assert [name for name in tests if f"def {name}(" not in source] == []
