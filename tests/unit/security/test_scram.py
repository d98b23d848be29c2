"""SCRAM against scramp's server, RFC 7677's example, and servers that lie."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramMechanism as PeerMechanism

from kproducer._core.security.scram import SCRAM_MECHANISMS, ScramConversation, ScramMechanism
from kproducer.errors import AuthenticationError

PASSWORD = "pencil"
#: Passwords that SASLprep leaves as they are: scramp applies it, Kafka does not.
PASSWORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)
USERS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)


def scramp_server(name: str, user: str, password: str, iterations: int = 4096):
    mechanism = PeerMechanism(name)
    stored = mechanism.make_auth_info(password, iteration_count=iterations)

    def lookup(asked: str):
        if asked != user:
            raise AssertionError(f"asked for {asked!r}")
        return stored

    return mechanism.make_server(lookup)


def answer(conversation: ScramConversation, message: str) -> bytes | None:
    return conversation.answer(message.encode())


def begun(**others) -> tuple[ScramConversation, str]:
    """A conversation whose first message was sent, and its nonce."""
    conversation = ScramMechanism(
        "SCRAM-SHA-256", "user", PASSWORD, new_nonce=lambda: "abc", **others
    ).begin()
    conversation.first_message()
    return conversation, "abc"


# -- what succeeds -----------------------------------------------------------------------------------------


@given(st.sampled_from(SCRAM_MECHANISMS), USERS, PASSWORDS)
def test_scramps_server_accepts_us_and_we_accept_it(name, user, password):
    server = scramp_server(name, user, password)
    conversation = ScramMechanism(name, user, password).begin()
    server.set_client_first(conversation.first_message().decode())
    final = answer(conversation, server.get_server_first())
    assert final is not None
    server.set_client_final(final.decode())
    assert answer(conversation, server.get_server_final()) is None


def test_the_example_of_rfc_7677():
    mechanism = ScramMechanism("SCRAM-SHA-256", "user", PASSWORD, new_nonce=lambda: "rOprNGfwEbeRWgbNEkqO")
    conversation = mechanism.begin()
    assert conversation.first_message() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = answer(conversation, f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    assert answer(conversation, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_a_delegation_token_says_so():
    mechanism = ScramMechanism("SCRAM-SHA-512", "id", "hmac", True, new_nonce=lambda: "abc")
    assert mechanism.begin().first_message() == b"n,,n=id,r=abc,tokenauth=true"
    assert mechanism.identity == "delegation token 'id'"


def test_separators_in_user_names_are_escaped():
    mechanism = ScramMechanism("SCRAM-SHA-256", "a=b,c", PASSWORD, new_nonce=lambda: "abc")
    assert mechanism.begin().first_message() == b"n,,n=a=3Db=2Cc,r=abc"


def test_every_conversation_has_its_own_nonce():
    mechanism = ScramMechanism("SCRAM-SHA-256", "user", PASSWORD)
    assert len({mechanism.begin().first_message() for _ in range(100)}) == 100


def test_no_repr_shows_the_password():
    mechanism = ScramMechanism("SCRAM-SHA-256", "user", PASSWORD)
    assert PASSWORD not in repr(mechanism) + repr(mechanism.begin())


# -- servers that lie --------------------------------------------------------------------------------------

SALT = base64.b64encode(b"salt" * 4).decode()


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (f"r=abd123,s={SALT},i=4096", "nonce"),
        (f"r=ab,s={SALT},i=4096", "nonce"),
        (f"r=abc,s={SALT},i=4096", "nonce"),
        (f"r=abc1,s={SALT},i=4095", "4095 iterations"),
        (f"r=abc1,s={SALT},i=1", "1 iterations"),
        (f"r=abc1,s={SALT},i=1000001", "1000001 iterations"),
        (f"r=abc1,s={SALT},i=9999999999", "9999999999 iterations"),
        (f"r=abc1,s={SALT},i=99999999999999999999", "not a valid"),
        (f"r=abc1,s={SALT},i=-4096", "not a valid"),
        (f"r=abc1,s={SALT},i=04096", "not a valid"),
        (f"r=abc1,s={SALT},i=\u0664\u0660\u0669\u0666", "not a valid"),
        (f"r=abc1,s={SALT}", "not a valid"),
        ("r=abc1,s=,i=4096", "not a valid"),
        ("r=abc1,s=A,i=4096", "base64"),
        ("r=abc1,s=$$$$,i=4096", "not a valid"),
        (f"m=unknown,r=abc1,s={SALT},i=4096", "not a valid"),
        (f"s={SALT},r=abc1,i=4096", "not a valid"),
        ("e=unknown-user", "refuses: unknown-user"),
        ("e=\x1b[31mred", r"refuses: \\x1b\[31mred"),
        ("", "not a valid"),
        ("v=AAAA", "not a valid"),
    ],
)
def test_a_first_message_that_is_not_acceptable(message, complaint):
    conversation, _ = begun()
    with pytest.raises(AuthenticationError, match=complaint):
        answer(conversation, message)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("v=" + base64.b64encode(bytes(32)).decode(), "signature is wrong"),
        ("v=" + base64.b64encode(b"short").decode(), "signature is wrong"),
        ("v=A", "base64"),
        ("v=", "not a valid"),
        ("e=invalid-proof", "refuses: invalid-proof"),
        ("", "not a valid"),
        ("x=1", "not a valid"),
    ],
)
def test_a_final_message_that_is_not_acceptable(message, complaint):
    conversation, nonce = begun()
    answer(conversation, f"r={nonce}server,s={SALT},i=4096")
    with pytest.raises(AuthenticationError, match=complaint) as caught:
        answer(conversation, message)
    assert PASSWORD not in str(caught.value)


def test_a_server_without_the_password_is_found_out():
    server = scramp_server("SCRAM-SHA-256", "user", "another password")
    conversation = ScramMechanism("SCRAM-SHA-256", "user", PASSWORD).begin()
    server.set_client_first(conversation.first_message().decode())
    answer(conversation, server.get_server_first())
    with pytest.raises(AuthenticationError, match="signature is wrong"):
        answer(conversation, "v=" + base64.b64encode(b"x" * 32).decode())


def test_bytes_that_are_no_text_and_messages_without_end():
    conversation, _ = begun()
    for message in (b"\xff", b"r=abc" + b"x" * 100_000):
        with pytest.raises(AuthenticationError):
            conversation.answer(message)


_PIECES = st.sampled_from(
    ["r=", "abc", "s=", SALT, "i=", "4096", "100", ",", "v=", "e=", "=", "n", "\0", "\n", "m=x,", "\u20ac"]
)


@given(st.one_of(st.binary(max_size=200), st.lists(_PIECES, max_size=12).map(lambda p: "".join(p).encode())))
def test_any_bytes_are_answered_or_refused(message):
    conversation, _ = begun()
    try:
        reply = conversation.answer(message)
    except AuthenticationError:
        return
    assert reply is not None
    assert reply.startswith(b"c=biws,r=abc")
    # Nobody but who knows the password can end the conversation with success.
    with pytest.raises(AuthenticationError):
        conversation.answer(message)


@given(st.binary(max_size=100))
def test_no_bytes_but_the_signature_end_the_conversation(message):
    conversation, nonce = begun()
    answer(conversation, f"r={nonce}server,s={SALT},i=4096")
    with pytest.raises(AuthenticationError):
        conversation.answer(message)
