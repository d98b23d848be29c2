"""What is known about a batch: every pair of state and event, and what each error says about an append."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.transactions.delivery_knowledge import (
    AttemptEnd,
    Knowledge,
    attempt_end,
    knowledge_after,
)
from kproducer.errors import DisconnectedError, KafkaError, Outcome, RequestTimeoutError
from kproducer.errors.broker_errors import error_for_code

DOUBTFUL_ENDS = {AttemptEnd.NO_ANSWER, AttemptEnd.MAYBE_APPENDED}


@given(st.lists(st.sampled_from(AttemptEnd), max_size=8))
def test_the_state_says_what_the_whole_history_says(ends: list[AttemptEnd]) -> None:
    """An oracle that looks at all attempts at once."""
    knowledge = Knowledge.NEVER_SENT
    for end in ends:
        knowledge = knowledge_after(knowledge, end)
        if knowledge is Knowledge.WRITTEN:
            break
    if AttemptEnd.DUPLICATE in ends:
        wanted = Knowledge.WRITTEN
    elif any(end in DOUBTFUL_ENDS for end in ends):
        wanted = Knowledge.UNKNOWN
    elif any(end is not AttemptEnd.NOT_TRANSMITTED for end in ends):
        wanted = Knowledge.REJECTED
    else:
        wanted = Knowledge.NEVER_SENT
    assert knowledge is wanted


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (45, AttemptEnd.OUT_OF_ORDER),
        (46, AttemptEnd.DUPLICATE),
        (59, AttemptEnd.UNKNOWN_PRODUCER_ID),
        # DelayedProduce: the leader has appended and waits for replicas.
        *((code, AttemptEnd.MAYBE_APPENDED) for code in (-1, 3, 6, 7, 13, 20, 56, 137, 32767)),
        # ReplicaManager.appendRecords: before the append.
        *((code, AttemptEnd.REJECTED) for code in (2, 5, 10, 17, 19, 21, 29, 32, 47, 48, 76, 87, 100, 120)),
    ],
)
def test_what_an_error_code_says_about_an_append(code: int, end: AttemptEnd) -> None:
    assert attempt_end(error_for_code(code)) is end


@pytest.mark.parametrize("error", [DisconnectedError("x"), RequestTimeoutError("x"), KafkaError("x")])
def test_without_an_answer_the_batch_may_have_been_written(error: KafkaError) -> None:
    assert attempt_end(error) is AttemptEnd.NO_ANSWER


@pytest.mark.parametrize("error", [DisconnectedError("x"), error_for_code(35), KafkaError("x")])
def test_a_request_that_did_not_leave_says_nothing(error: KafkaError) -> None:
    assert attempt_end(error.with_outcome(Outcome.NOT_SENT)) is AttemptEnd.NOT_TRANSMITTED


def test_outcomes_for_the_application() -> None:
    outcomes = {knowledge: knowledge.outcome for knowledge in Knowledge}
    assert outcomes == {
        Knowledge.NEVER_SENT: Outcome.NOT_SENT,
        Knowledge.REJECTED: Outcome.REJECTED,
        Knowledge.UNKNOWN: Outcome.UNKNOWN,
        Knowledge.WRITTEN: None,
    }
