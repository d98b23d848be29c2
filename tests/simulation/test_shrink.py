"""A plan with a finding shrinks to what the finding needs, and is printed as a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kproducer import Outcome
from tests.simulation.ledger import Ledger, Sent
from tests.simulation.plan import (
    AtTime,
    Caller,
    Flush,
    OnRequest,
    Plan,
    Send,
    Sleep,
    Transaction,
    record_count,
)
from tests.simulation.shrink import Shrunk, findings_of, kind_of, shrink

_LARGE = Plan(
    7,
    callers=(
        Caller((Send(count=12, size=200), Flush(), Send("u", None, 5, by="send_many"), Sleep(0.01))),
        Caller((Send(count=12, size=50, by="send_arrow"), Send(count=11)), uses_asyncio=True),
    ),
    faults=(
        AtTime("wall_clock", 0.01, seconds=1.5),
        OnRequest("late", 0, seconds=0.1),
        OnRequest("refuse", 1, 3, 5),
        AtTime("drop_connections", 0.05),
        OnRequest("refuse", 2, code=87),
        OnRequest("throttled", 3, seconds=0.1),
        AtTime("freeze", 0.002, seconds=0.1),
        OnRequest("fragmented", 5),
    ),
    settings={"linger_ms": 5, "batch_size": 300, "compression_type": "lz4", "buffer_memory": 20_000},
    topics={"t": 4, "u": 2},
    brokers=3,
    callbacks_raise=True,
    interceptors_raise=True,
)


@pytest.fixture
def _rejections_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Ledger._told

    def told(ledger: Ledger, sent: Sent) -> Iterator[str]:
        yield from right(ledger, sent)
        if sent.error is not None and sent.error.outcome is Outcome.REJECTED:
            yield f"{sent} is rejected: {sent.error!r}"

    monkeypatch.setattr(Ledger, "_told", told)


@pytest.mark.usefixtures("_rejections_are_wrong")
def test_only_the_fault_and_a_record_are_left() -> None:
    assert record_count(_LARGE) == 40
    findings = findings_of(_LARGE)
    assert findings

    shrunk = shrink(_LARGE, findings)

    assert shrunk.plan == Plan(
        shrunk.plan.seed,
        (Caller((Send(),)),),
        (OnRequest("refuse", 0, code=87),),
        latency_ms=(1.0, 1.0),
        partial_rate=0.0,
        switch_rate=0.0,
        hand_overs=None,
    )
    assert findings_of(shrunk.plan) == shrunk.findings
    with pytest.raises(AssertionError):
        _execute(shrunk)


def _execute(shrunk: Shrunk) -> None:
    names: dict[str, object] = {}
    exec(shrunk.as_test(), names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test()  # type: ignore[operator]


def test_the_printed_test_passes_once_the_cause_is_gone() -> None:
    plan = Plan(1, (Caller((Send(),)),), (OnRequest("refuse", 0, code=87),))
    _execute(Shrunk(plan, ["record 0 of caller 0 is rejected"], 1))


def test_a_transaction_stays_where_the_finding_needs_it() -> None:
    steps = (Transaction((Send(count=5), Flush(), Send()), with_offsets=True), Transaction((Send(),)))
    plan = Plan(
        1, (Caller(steps),), settings={"transactional_id": "tx", "linger_ms": 5}, topics={"t": 2, "u": 1}
    )

    def run(tried: Plan) -> list[str]:
        is_wrong = any(
            isinstance(step, Transaction) and step.with_offsets
            for caller in tried.callers
            for step in caller.steps
        )
        return ["the offsets are wrong"] if is_wrong else []

    shrunk = shrink(plan, ["the offsets are wrong"], run=run)

    assert shrunk.plan.callers == (Caller((Transaction((), with_offsets=True),)),)
    assert shrunk.plan.topics == {"t": 1}


def test_shrinking_ends() -> None:
    runs = 0

    def run(tried: Plan) -> list[str]:
        nonlocal runs
        runs += 1
        return ["wrong"] if tried == _LARGE else []

    assert shrink(_LARGE, ["wrong"], run=run, most_runs=50) == Shrunk(_LARGE, ["wrong"], 50)
    assert runs == 50


@pytest.mark.parametrize(
    ("finding", "kind"),
    [
        (
            "record 12 of caller 0: its future is open",
            "record # of caller #: its future is open",
        ),
        (
            "record 12 of caller 0 is written twice: [(('t', 0, 1), 4), (('t', 0, 1), 9)]",
            "record # of caller # is written twice",
        ),
        (
            """caller 1 ended with IllegalStateError("batch 4 of 't' is 'OPEN' (3 records)")""",
            "caller # ended with IllegalStateError",
        ),
        (
            "everybody waits: <main: the end of kproducer-io> after 12 steps, <fake: an event> after 3 steps",
            "everybody waits",
        ),
        ("the broker received: Produce 7 without acks", "the broker received: Produce # without acks"),
    ],
)
def test_findings_of_a_kind_differ_in_numbers_and_names_only(finding: str, kind: str) -> None:
    assert kind_of(finding) == kind


def test_transactions_keep_their_id() -> None:
    callers = (Caller((Transaction((Send(), Send())),)),)
    plan = Plan(1, callers, settings={"linger_ms": 5, "transactional_id": "tx"})

    def run(plan: Plan) -> list[str]:
        return ["wrong"] if any(isinstance(step, Transaction) for step in plan.callers[0].steps) else []

    assert shrink(plan, ["wrong"], run=run).plan.settings == {"transactional_id": "tx"}
