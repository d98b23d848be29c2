"""The error table: complete, unique, and with the flags of Kafka's own table."""

from __future__ import annotations

import importlib
import inspect
import pickle
import warnings

import pytest

from kproducer import errors
from kproducer.errors import broker_errors

NEWEST_CODE = 136

# Java's classes below InvalidMetadataException, and those below RetriableException only.
JAVA_INVALID_METADATA = {3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103}
JAVA_OTHER_RETRIABLE = {2, 7, 14, 15, 16, 19, 20, 41, 51, 70, 71, 75, 78, 88, 89, 106, 122, 123, 133}

# kafka-python keeps names that Kafka has since changed, or shortens them.
RENAMED_BY_PEER = {
    -1: "UNKNOWN",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}


def peer_table() -> dict[int, str]:
    """kafka-python's table: code to name, an independent transcription of Kafka's."""
    with warnings.catch_warnings():
        # Importing kafka-python warns about an importlib function it uses; none of our business.
        warnings.simplefilter("ignore", DeprecationWarning)
        peer = importlib.import_module("kafka.errors")
    return {
        cls.errno: cls.message
        for cls in vars(peer).values()
        if inspect.isclass(cls) and issubclass(cls, peer.KafkaError) and getattr(cls, "errno", None)
    }


def test_every_code_from_minus_one_to_the_newest_has_a_class() -> None:
    assert set(broker_errors.ERRORS_BY_CODE) == {-1, *range(1, NEWEST_CODE + 1)}


def test_codes_and_names_are_unique() -> None:
    classes = broker_errors.ERRORS_BY_CODE.values()
    assert len({cls.code for cls in classes}) == len({cls.name for cls in classes}) == len(classes)


def test_names_equal_those_of_an_independent_table() -> None:
    peers = peer_table()
    assert len(peers) > 120
    ours = {code: broker_errors.ERRORS_BY_CODE[code].name for code in peers}
    assert {code: RENAMED_BY_PEER.get(code, name) for code, name in ours.items()} == peers


def test_flags_equal_those_of_java() -> None:
    classes = broker_errors.ERRORS_BY_CODE
    assert {code for code, cls in classes.items() if cls.refreshes_metadata} == JAVA_INVALID_METADATA
    assert {code for code, cls in classes.items() if cls.retriable} == (
        JAVA_INVALID_METADATA | JAVA_OTHER_RETRIABLE
    )


@pytest.mark.parametrize("code", sorted(broker_errors.ERRORS_BY_CODE))
def test_flags_and_base_classes_say_the_same(code: int) -> None:
    error = broker_errors.error_for_code(code)
    assert isinstance(error, errors.RetriableError) is error.retriable
    assert isinstance(error, errors.InvalidMetadataError) is error.refreshes_metadata


def test_errors_that_always_mean_the_same_for_a_transaction_say_so_by_their_base_class() -> None:
    assert isinstance(broker_errors.error_for_code(90), errors.FencedError)
    assert issubclass(errors.FencedError, errors.FatalProducerError)
    assert isinstance(broker_errors.error_for_code(120), errors.AbortTransactionError)
    # INVALID_PRODUCER_EPOCH means the one or the other, depending on who answers.
    assert not isinstance(
        broker_errors.error_for_code(47), (errors.FatalProducerError, errors.AbortTransactionError)
    )


@pytest.mark.parametrize("code", [137, 999, 32767, -2, -195])
def test_unknown_code_gives_an_error_that_keeps_the_number(code: int) -> None:
    error = broker_errors.error_for_code(code, "from the future")
    assert isinstance(error, broker_errors.UnknownServerError)
    assert error.code == code
    assert str(code) in str(error)
    assert "from the future" in str(error)
    assert not error.retriable


def test_success_is_not_an_error() -> None:
    with pytest.raises(ValueError, match="success"):
        broker_errors.error_for_code(0)


def test_broker_text_wins_over_ours_and_ours_fills_in() -> None:
    with_text = broker_errors.error_for_code(87, "record 3 has no key")
    without = broker_errors.error_for_code(87)
    assert str(with_text) == "INVALID_RECORD (code 87): record 3 has no key"
    assert with_text.broker_message == "record 3 has no key"
    assert without.broker_message is None
    assert without.description in str(without)


def test_size_and_permission_errors_share_a_base_with_local_ones() -> None:
    assert isinstance(broker_errors.error_for_code(10), errors.RecordTooLargeError)
    assert isinstance(broker_errors.error_for_code(29), errors.AuthorizationError)
    assert isinstance(broker_errors.error_for_code(58), errors.AuthenticationError)


@pytest.mark.parametrize("code", [6, 10, 999])
def test_errors_survive_pickling(code: int) -> None:
    error = broker_errors.error_for_code(code, "text").with_outcome(errors.Outcome.REJECTED)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.code, copy.outcome) == (str(error), error.code, errors.Outcome.REJECTED)


def test_every_class_can_be_imported_by_its_name_and_says_what_it_means() -> None:
    for error_class in broker_errors.ERRORS_BY_CODE.values():
        assert getattr(broker_errors, error_class.__name__) is error_class
        assert error_class.__module__ == broker_errors.__name__
        assert error_class.description == error_class.__doc__
        assert error_class.description.endswith(".")
    assert broker_errors.ERRORS_BY_CODE[6].__name__ == "NotLeaderOrFollowerError"
    assert broker_errors.ERRORS_BY_CODE[13].__name__ == "NetworkExceptionError"
    assert broker_errors.ERRORS_BY_CODE[17].__name__ == "InvalidTopicError"


def test_the_module_lists_classes_that_nobody_has_used_yet() -> None:
    names = {error_class.__name__ for error_class in broker_errors.ERRORS_BY_CODE.values()}
    assert names < set(dir(broker_errors))
    star: dict[str, object] = {}
    exec("from kproducer.errors.broker_errors import *", star)
    assert names < set(star)
    with pytest.raises(AttributeError, match="NoSuchError"):
        broker_errors.NoSuchError  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="NoSuchError"):
        exec("from kproducer.errors.broker_errors import NoSuchError")
