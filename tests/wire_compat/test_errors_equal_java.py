"""Broker errors have the codes, names and classes of Kafka's Java client, and transactions treat them alike.

Source: KIP-1050, which groups the errors of transactions by what a client has to do.
docs/internals/transactions.md has the comparison.
"""

from __future__ import annotations

import pytest

from kproducer._core.transactions.coordinator_requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    Reaction,
    TxnOffsetCommit,
)
from kproducer.errors import (
    AbortTransactionError,
    AuthenticationError,
    AuthorizationError,
    InvalidMetadataError,
    RetriableError,
)
from kproducer.errors.broker_errors import ERROR_TABLE, ERRORS_BY_CODE
from tests.support.kafka.kafka_facts import kafka_facts

pytestmark = pytest.mark.kafka

REQUESTS = (FindCoordinator, InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn)
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 15, 16
#: The same class says for all errors what the caller can do.
SAME_MEANING = {
    RetriableError: "RetriableException",
    InvalidMetadataError: "InvalidMetadataException",
    AuthenticationError: "AuthenticationException",
    AuthorizationError: "AuthorizationException",
    AbortTransactionError: "TransactionAbortableException",
}
#: KIP-1050's "application recoverable": the producer has to be replaced. The codes of groups and 49 need not
#: be: after an abort, the member joins its group again, or the producer gets another epoch.
NEW_PRODUCER = {47, 90}
ABORT_SUFFICES = {22, 25, 49, 82}


def codes_of(java_class: str) -> set[int]:
    return {error.code for error in kafka_facts().errors.values() if java_class in error.classes}


def reactions_to(code: int) -> set[Reaction]:
    """How each request to a coordinator treats an error code in its response."""
    return {request.reaction_to(request.__new__(request), code) for request in REQUESTS}


def test_codes_and_names_are_those_of_java() -> None:
    assert {row[0]: row[1] for row in ERROR_TABLE} == {
        error.code: error.name for error in kafka_facts().errors.values()
    }


@pytest.mark.parametrize("ours", SAME_MEANING, ids=lambda each: each.__name__)
def test_base_classes_have_the_same_errors_as_in_java(ours: type) -> None:
    assert {code for code, each in ERRORS_BY_CODE.items() if issubclass(each, ours)} == codes_of(
        SAME_MEANING[ours]
    )


def test_errors_that_need_a_refresh_refresh_metadata_or_look_the_coordinator_up() -> None:
    of_coordinators = codes_of("RefreshRetriableException") - codes_of("InvalidMetadataException")
    assert of_coordinators == {COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR}
    for code in of_coordinators:
        # A look-up goes to any broker, so there is none to look up.
        assert reactions_to(code) - {Reaction.RETRY} == {Reaction.RELOCATE}
        assert FindCoordinator.reaction_to(FindCoordinator.__new__(FindCoordinator), code) is Reaction.RETRY


def test_retriable_errors_never_end_a_transaction() -> None:
    for code in codes_of("RetriableException"):
        assert reactions_to(code) <= {Reaction.RETRY, Reaction.RELOCATE}, code


def test_abortable_errors_abort_the_transaction() -> None:
    for code in codes_of("TransactionAbortableException"):
        # Before there is a transaction, only the call fails.
        assert reactions_to(code) == {Reaction.ABORT, Reaction.FAIL_CALL}


def test_application_recoverable_errors_replace_the_producer_or_abort() -> None:
    assert codes_of("ApplicationRecoverableException") == NEW_PRODUCER | ABORT_SUFFICES
    for code in NEW_PRODUCER:
        assert reactions_to(code) <= {Reaction.FENCED, Reaction.FATAL}
    for code in ABORT_SUFFICES:
        assert TxnOffsetCommit.reaction_to(TxnOffsetCommit.__new__(TxnOffsetCommit), code) is Reaction.ABORT


def test_errors_of_the_configuration_are_never_retried() -> None:
    for code in codes_of("InvalidConfigurationException"):
        assert reactions_to(code) <= {Reaction.ABORT, Reaction.FAIL_CALL, Reaction.FATAL}, code
