"""Coverage: which entries of the producer's tables a simulation has reached.

The tables are those of docs/internals/transactions.md (events and states of a batch; decisions) and the
transitions of ``transaction_state``; the error codes are those that ``random_plans`` makes brokers return.
``ALL`` lists every entry. In compiled code ``decide`` is called directly, so decisions are counted only where
the sources run (``KPRODUCER_INTERPRETED=1``); without them, ``ALL`` has none.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kproducer._core.sender import produce_responses
from kproducer._core.transactions import sequence_tracker, transaction_protocol
from kproducer._core.transactions.delivery_knowledge import (
    AttemptEnd,
    Knowledge,
    Verdict,
    decide,
    knowledge_after,
)
from kproducer._core.transactions.sequence_tracker import SequenceTracker
from kproducer._core.transactions.transaction_state import LEGAL_TRANSITIONS, TransactionState
from kproducer._core.transactions.transaction_state_machine import TransactionStateMachine
from tests.simulation import lanes
from tests.simulation.codes import CODES

#: Whether ``decide`` can be watched.
COUNTS_DECISIONS = isinstance(SequenceTracker.verdict, FunctionType)


def _event(end: AttemptEnd, before: Knowledge) -> str:
    return f"event {end.name} in {before.name}"


def _decision(
    verdict: Verdict, knowledge: Knowledge, end: AttemptEnd, is_first: bool, is_passed: bool, is_tx: bool
) -> str:
    case = ""
    if end is AttemptEnd.OUT_OF_ORDER and not is_first:
        case = ", not first"
    elif end in (AttemptEnd.OUT_OF_ORDER, AttemptEnd.UNKNOWN_PRODUCER_ID) and knowledge is Knowledge.REJECTED:
        case = ", in a transaction" if is_tx else ", passed" if is_passed else ""
    return f"decision {end.name}, then {knowledge.name}{case}: {verdict.name}"


def _transition(before: TransactionState, after: TransactionState) -> str:
    return f"transition {before.name} -> {after.name}"


def _code(request: str, code: int) -> str:
    return f"{request} {code}"


def _all_decisions() -> set[str]:
    found = set()
    flags = itertools.product((False, True), repeat=4)
    for end, before, (retriable, first, passed, tx) in itertools.product(AttemptEnd, _BEFORE, tuple(flags)):
        after = knowledge_after(before, end)
        if end in _RETRIABLE and retriable is not _RETRIABLE[end]:
            continue
        if end is AttemptEnd.OUT_OF_ORDER and not first and after is Knowledge.UNKNOWN:
            continue  # it was sent before, so it goes first
        verdict = decide(
            after, end, retriable=retriable, is_first=first, is_passed=passed, is_transactional=tx
        )
        found.add(_decision(verdict, after, end, first, passed, tx))
    return found


_BEFORE = (Knowledge.NEVER_SENT, Knowledge.REJECTED, Knowledge.UNKNOWN)

#: Whether the errors with these meanings are retriable; of the others, some are.
_RETRIABLE = {AttemptEnd.NOT_TRANSMITTED: False, AttemptEnd.NO_ANSWER: True}

#: Every entry of every table.
ALL: frozenset[str] = frozenset(
    {_event(end, before) for end, before in itertools.product(AttemptEnd, _BEFORE)}
    | (_all_decisions() if COUNTS_DECISIONS else set())
    | {_transition(before, after) for before, legal in LEGAL_TRANSITIONS.items() for after in legal}
    | {_code(request, code) for request, codes in CODES.items() for code in codes}
    | lanes.ALL
)


def missing(reached: Counter[str]) -> list[str]:
    """The entries that were not reached."""
    return sorted(ALL - reached.keys())


def recording(reached: Counter[str]) -> list[tuple[Any, dict[str, Callable[..., Any]]]]:
    """What to replace, by object and name, so that ``reached`` counts the entries that are reached."""
    original_severity = transaction_protocol._severity
    original_enter = TransactionStateMachine._enter
    original_error_for_code = produce_responses.error_for_code

    def record_event(before: Knowledge, end: AttemptEnd) -> Knowledge:
        reached[_event(end, before)] += 1
        return knowledge_after(before, end)

    def record_decision(knowledge: Knowledge, end: AttemptEnd, **flags: bool) -> Verdict:
        verdict = decide(knowledge, end, **flags)
        first, passed, tx = flags["is_first"], flags["is_passed"], flags["is_transactional"]
        reached[_decision(verdict, knowledge, end, first, passed, tx)] += 1
        return verdict

    def record_transition(state_machine: TransactionStateMachine, state: TransactionState) -> None:
        reached[_transition(state_machine.state, state)] += 1
        original_enter(state_machine, state)

    def record_produce_code(code: int, *rest: Any) -> Any:
        reached[_code("Produce", code)] += 1
        return original_error_for_code(code, *rest)

    def record_coordinator_code(request: Any, code: int) -> Any:
        if code:
            reached[_code(type(request).__name__, code)] += 1
        return original_severity(request, code)

    replaced: list[tuple[Any, dict[str, Callable[..., Any]]]] = [
        (produce_responses, {"knowledge_after": record_event, "error_for_code": record_produce_code}),
        (transaction_protocol, {"_severity": record_coordinator_code}),
        (TransactionStateMachine, {"_enter": record_transition}),
    ]
    if COUNTS_DECISIONS:
        replaced.append((sequence_tracker, {"decide": record_decision}))
    return replaced
