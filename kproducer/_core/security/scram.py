"""SCRAM-SHA-256 and SCRAM-SHA-512: both sides prove that they know the password, and neither sends it.

Sans I/O: a ``ScramConversation`` turns the broker's messages into ours. The result of each, also of a
malformed one, is a message, success or an AuthenticationError.

User name and password are used as they are. RFC 5802 asks for SASLprep, but Kafka's brokers and its tools
that store passwords do without: a normalized password would be a wrong one.
Source: RFC 5802, RFC 7677, KIP-84, KIP-48 (delegation tokens); Kafka class ``ScramSaslClient``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

import attrs

from kproducer._core.security.sasl_mechanisms import SaslMechanism, shown_text
from kproducer.errors import AuthenticationError, printable

#: RFC 7677 and Kafka: fewer iterations make a stolen verifier too easy to crack.
LEAST_ITERATIONS = 4096
#: Kafka allows 16384. This many take about half a second of the I/O thread.
MOST_ITERATIONS = 1_000_000
#: Kafka's messages have about 100 characters.
_LONGEST_MESSAGE_BYTES = 16_384

_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SCRAM_MECHANISMS = tuple(_DIGESTS)

#: How the first message begins: no channel binding, no authorization identity.
_GS2_HEADER = "n,,"
_CHANNEL_BINDING = base64.b64encode(_GS2_HEADER.encode()).decode()

_SERVER_FIRST = re.compile(
    r"r=([\x21-\x2B\x2D-\x7E]+),s=([A-Za-z0-9+/]+=*),i=([1-9][0-9]{0,9})(,.*)?", re.DOTALL
)
_SERVER_FINAL = re.compile(r"(?:v=([A-Za-z0-9+/]+=*)|e=([^,]+))(,.*)?", re.DOTALL)


def _new_nonce() -> str:
    return secrets.token_urlsafe(24)


@attrs.frozen
class ScramMechanism(SaslMechanism):
    """The credentials of one user.

    Attributes:
        name: SCRAM-SHA-256 or SCRAM-SHA-512.
        username, password: or id and HMAC of a delegation token.
        is_delegation_token: whether they are.
        new_nonce: returns a text that cannot be guessed.
        identity: who authenticates, in words, for messages.
    """

    name: str
    username: str
    password: str = attrs.field(repr=False)
    is_delegation_token: bool = False
    new_nonce: Callable[[], str] = _new_nonce

    @property
    def identity(self) -> str:
        return f"{'delegation token' if self.is_delegation_token else 'user'} {printable(self.username)!r}"

    def begin(self, host: str = "") -> ScramConversation:
        """Begin an authentication."""
        return ScramConversation(self)


class ScramConversation:
    """One authentication. Not thread-safe."""

    __slots__ = ("_digest", "_first_bare", "_mechanism", "_nonce", "_server_signature")

    def __init__(self, mechanism: ScramMechanism) -> None:
        self._mechanism = mechanism
        self._digest = _DIGESTS[mechanism.name]
        self._nonce = mechanism.new_nonce()
        name = mechanism.username.replace("=", "=3D").replace(",", "=2C")
        token_mark = ",tokenauth=true" if mechanism.is_delegation_token else ""
        self._first_bare = f"n={name},r={self._nonce}{token_mark}"
        #: The signature that the broker's final message must have; ``None`` before our proof was sent.
        self._server_signature: bytes | None = None

    def first_message(self) -> bytes:
        """The first message to the broker."""
        return (_GS2_HEADER + self._first_bare).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Our answer to the broker's message; ``None``: both sides have proved themselves.

        Raises AuthenticationError: the broker refuses us, cannot prove that it knows the password, or its
        message is not valid.
        """
        if len(challenge) > _LONGEST_MESSAGE_BYTES:
            raise self._failure(f"the broker's message has {len(challenge)} bytes")
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise self._failure("the broker's message is not UTF-8") from None
        if self._server_signature is None:
            return self._prove(text)
        self._verify(text)
        return None

    def _prove(self, server_first: str) -> bytes:
        if server_first.startswith("e="):
            raise self._failure(f"the broker refuses: {shown_text(server_first[2:])}")
        match = _SERVER_FIRST.fullmatch(server_first)
        if match is None:
            # This also refuses a mandatory extension ("m="), which RFC 5802 reserves.
            raise self._failure("the broker's first message is not a valid SCRAM message")
        nonce, salt_text, iterations = match[1], match[2], int(match[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise self._failure("the broker's nonce does not extend ours: its message may be a replay")
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise self._failure(
                f"the broker asks for {iterations} iterations; only {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
                " are accepted"
            )
        try:
            salt = base64.b64decode(salt_text, validate=True)
        except binascii.Error:
            raise self._failure("the salt in the broker's first message is not valid base64") from None
        final_without_proof = f"c={_CHANNEL_BINDING},r={nonce}"
        signed = f"{self._first_bare},{server_first},{final_without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self._digest, self._mechanism.password.encode(), salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._digest, client_key).digest()
        client_signature = self._hmac(stored_key, signed)
        proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{final_without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, server_final: str) -> None:
        match = _SERVER_FINAL.fullmatch(server_final)
        if match is None:
            raise self._failure("the broker's final message is not a valid SCRAM message")
        if match[2] is not None:
            raise self._failure(f"the broker refuses: {shown_text(match[2])}")
        try:
            signature = base64.b64decode(match[1], validate=True)
        except binascii.Error:
            raise self._failure("the broker's signature is not valid base64") from None
        assert self._server_signature is not None
        if not hmac.compare_digest(signature, self._server_signature):
            raise self._failure(
                "the broker's signature is wrong: it does not know the password, so it may not be the broker"
                " that it claims to be"
            )

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)

    def _failure(self, reason: str) -> AuthenticationError:
        return AuthenticationError(f"{self._mechanism.name}: {reason}")
