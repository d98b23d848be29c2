"""The version question finds a version of itself that the broker knows, however the broker says no."""

from __future__ import annotations

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kproducer_messages import ApiVersionsResponse

from kproducer._core.client.api_versions import ApiVersionsExchange, sanitized_software_text
from kproducer.errors import BrokerError, DisconnectedError, RemoteProtocolError
from kproducer.errors.broker_errors import (
    InvalidRequestError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
)
from kproducer.errors.internal_errors import CorrelationIdMismatchError
from tests.support.units.client_harness import api_versions_response

UNSUPPORTED = 35
HEADER = struct.pack(">i", 7)


def refusal(body_version: int, ranges: dict[int, tuple[int, int]]) -> bytes:
    return HEADER + api_versions_response(ranges, error_code=UNSUPPORTED).encode(body_version)


def answer(exchange: ApiVersionsExchange, version: int, payload: bytes) -> object:
    try:
        return exchange.on_answer("b:9092", version, 7, payload)
    except BrokerError as error:
        return error


@pytest.mark.parametrize("asked", [3, 4])
@pytest.mark.parametrize("newest", [0, 1, 2])
def test_a_refusal_with_a_range_is_followed(asked: int, newest: int) -> None:
    payload = refusal(0, {0: (0, 9), 18: (0, newest), 3: (0, 5)})
    assert answer(ApiVersionsExchange(), asked, payload) == newest


@pytest.mark.parametrize("body_version", [1, 2, 3, 4])
def test_a_refusal_in_another_body_version_leads_to_a_lower_version(body_version: int) -> None:
    payload = refusal(body_version, {0: (0, 9), 18: (0, 2), 3: (0, 5)})
    assert answer(ApiVersionsExchange(), 4, payload) in (0, 2)


@pytest.mark.parametrize("asked", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "payload",
    [
        HEADER + struct.pack(">h", UNSUPPORTED),
        refusal(0, {}),
        refusal(3, {}),
        refusal(0, {0: (0, 9)}),
        HEADER + struct.pack(">h", UNSUPPORTED) + b"\xff" * 40,
        HEADER + struct.pack(">hi", UNSUPPORTED, 2**31 - 1),
        # librdkafka's mock cluster counts its array wrongly.
        bytes.fromhex("00000007 0023 01 0012 0000 0002 00000000"),
    ],
    ids=["bare", "v0 empty", "v3 empty", "no range for it", "garbage", "huge count", "miscounted"],
)
def test_a_refusal_without_a_range_leads_to_version_0(asked: int, payload: bytes) -> None:
    assert answer(ApiVersionsExchange(), asked, payload) == 0


def test_a_refusal_of_version_0_ends_it_with_both_ranges_named() -> None:
    error = answer(ApiVersionsExchange(), 0, refusal(0, {18: (5, 9)}))
    assert isinstance(error, UnsupportedVersionError)
    assert "b:9092" in str(error)
    assert "5 to 9" in str(error)
    assert "0 to 5" in str(error)


def test_a_broker_that_offers_what_it_refuses_is_asked_lower_and_never_twice() -> None:
    exchange = ApiVersionsExchange()
    asked = [4]
    while isinstance(again := answer(exchange, asked[-1], refusal(0, {18: (0, 4)})), int):
        asked.append(again)
    assert asked == [4, 3, 2, 1, 0]
    assert isinstance(again, UnsupportedVersionError)


@given(asked=st.integers(0, 4), body=st.binary(max_size=60))
def test_any_bytes_give_a_lower_version_an_error_or_a_protocol_error(asked: int, body: bytes) -> None:
    payload = HEADER + struct.pack(">h", UNSUPPORTED) + body
    result = answer(ApiVersionsExchange(), asked, payload)
    assert isinstance(result, UnsupportedVersionError) if asked == 0 else 0 <= result < asked  # type: ignore[operator]


def test_an_answer_without_error_is_the_result() -> None:
    payload = HEADER + api_versions_response({0: (0, 9)}).encode(4)
    result = ApiVersionsExchange().on_answer("b", 4, 7, payload)
    assert isinstance(result, ApiVersionsResponse)
    assert result.api_keys[0].max_version == 9


@pytest.mark.parametrize("payload", [b"", b"\0\0\0\7", HEADER + b"\0"])
def test_too_few_bytes_are_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="too short"):
        answer(ApiVersionsExchange(), 4, payload)


def test_another_correlation_id_is_a_protocol_error() -> None:
    with pytest.raises(CorrelationIdMismatchError):
        ApiVersionsExchange().on_answer("b", 4, 8, refusal(0, {}))


def test_a_truncated_answer_without_error_is_a_protocol_error() -> None:
    payload = HEADER + api_versions_response({0: (0, 9)}).encode(4)
    with pytest.raises(RemoteProtocolError):
        answer(ApiVersionsExchange(), 4, payload[:-3])


def test_another_error_ends_the_connection_and_the_next_question_is_an_older_one() -> None:
    exchange = ApiVersionsExchange()
    assert exchange.begin() == 5
    payload = HEADER + api_versions_response({}, error_code=42).encode(0)
    with pytest.raises(InvalidRequestError):
        exchange.on_answer("b:9092", 5, 7, payload)
    assert exchange.begin() == 3


def test_a_broker_that_is_not_the_intended_one_is_asked_in_the_same_version_again() -> None:
    """An older version would skip the check (KIP-1242)."""
    exchange = ApiVersionsExchange()
    assert exchange.begin() == 5
    payload = HEADER + api_versions_response({}, error_code=129).encode(5)
    with pytest.raises(RebootstrapRequiredError, match=r"b:9092 .*metadata_cluster_check_enable=False"):
        exchange.on_answer("b:9092", 5, 7, payload)
    assert exchange.begin() == 5


def test_a_broker_that_closes_the_connection_is_asked_lower_at_the_next_one() -> None:
    exchange = ApiVersionsExchange()
    asked = []
    errors = []
    for _ in range(3):
        asked.append(exchange.begin())
        errors.append(exchange.on_connection_lost("b:9092"))
    assert asked == [5, 3, 0]
    assert errors[:2] == [None, None]
    assert isinstance(errors[2], DisconnectedError)
    assert "b:9092" in str(errors[2])
    assert "TLS" in str(errors[2])
    # It still holds while the versions are tried again: a caller may give up at any time.
    assert exchange.begin() == 5
    assert str(exchange.on_connection_lost("b:9092")) == str(errors[2])
    version = exchange.begin()
    exchange.on_answer("b:9092", version, 7, HEADER + api_versions_response({}).encode(version))
    exchange.begin()
    assert exchange.on_connection_lost("b:9092") is None


def test_what_worked_is_remembered_until_a_connect_fails() -> None:
    exchange = ApiVersionsExchange()
    exchange.begin()
    exchange.on_connection_lost("b")
    version = exchange.begin()
    exchange.on_answer("b", version, 7, HEADER + api_versions_response({}).encode(version))
    assert exchange.on_connection_lost("b") is None  # lost later: says nothing about versions
    assert exchange.begin() == 3
    exchange.on_connection_failed()
    assert exchange.begin() == 5


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("kproducer", "kproducer"),
        ("1.2.3+local.build", "1.2.3-local.build"),
        ("-.dev.-", "dev"),
        ("na me/with:bad\nchars", "na-me-with-bad-chars"),
        ("", "unknown"),
        ("\u00e9\u00e9", "unknown"),
    ],
)
def test_illegal_characters_are_replaced(text: str, clean: str) -> None:
    assert sanitized_software_text(text) == clean


@given(st.text())
def test_whatever_the_name_the_broker_accepts_it(text: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", sanitized_software_text(text))
