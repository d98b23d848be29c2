"""PLAIN and OAUTHBEARER: their messages, and what they refuse."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.security.oauth_tokens import OAuthToken
from kproducer._core.security.sasl_mechanisms import OAuthBearerMechanism, PlainMechanism
from kproducer.errors import AuthenticationError

TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."


class FixedToken:
    """A ``TokenSource`` with one token."""

    def __init__(self, token: OAuthToken | None) -> None:
        self.token = token

    def current(self) -> OAuthToken | None:
        return self.token


def bearer(value: str = TOKEN, **extensions: str) -> OAuthBearerMechanism:
    return OAuthBearerMechanism(FixedToken(OAuthToken(value, time.time() + 60, extensions)))


def test_plain_sends_user_and_password():
    conversation = PlainMechanism("\u00e4lice", "se cret").begin()
    assert conversation.first_message() == "\0\u00e4lice\0se cret".encode()
    assert conversation.answer(b"") is None


def test_a_token_is_sent_with_its_extensions():
    mechanism = bearer(logicalCluster="lkc-1")
    mechanism = OAuthBearerMechanism(mechanism._tokens, {"logicalCluster": "other", "pool": "p"})
    conversation = mechanism.begin()
    assert conversation.first_message() == (
        f"n,,\x01auth=Bearer {TOKEN}\x01logicalCluster=lkc-1\x01pool=p\x01\x01".encode()
    )
    assert conversation.answer(b"") is None


def test_without_a_token_there_is_no_conversation_yet():
    assert OAuthBearerMechanism(FixedToken(None)).begin() is None


@pytest.mark.parametrize("value", ["", "two words", "a\x01b", "a\nb", "=abc", "t\u00f6ken"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(value):
    with pytest.raises(AuthenticationError) as caught:
        bearer(value).begin()
    assert not value or value not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("auth", "x"), ("a1", "x"), ("", "x"), ("a", ""), ("a", "x\x01y")]
)
def test_an_extension_that_cannot_be_sent_is_refused(name, value):
    with pytest.raises(AuthenticationError, match="SASL extension"):
        bearer(**{name: value}).begin()


def test_a_refusal_is_acknowledged_so_that_the_broker_says_why():
    conversation = bearer().begin()
    conversation.first_message()
    assert conversation.answer(b'{"status":"invalid_token\x1b"}') == b"\x01"
    with pytest.raises(AuthenticationError, match=r'the token: {"status":"invalid_token\\x1b"}'):
        conversation.answer(b"")


@given(st.binary(min_size=1, max_size=1000), st.binary(max_size=1000))
def test_after_any_complaint_nothing_is_a_success(complaint, second):
    conversation = bearer().begin()
    assert conversation.answer(complaint) == b"\x01"
    with pytest.raises(AuthenticationError) as caught:
        conversation.answer(second)
    assert str(caught.value).isprintable()


def test_no_repr_shows_a_secret():
    plain = PlainMechanism("alice", "hunter2")
    assert "hunter2" not in repr(plain) + repr(plain.begin())
    mechanism = bearer()
    assert TOKEN not in repr(mechanism) + repr(mechanism.begin()) + repr(mechanism._tokens.token)
