"""What all SASL mechanisms have in common, and two of them, PLAIN and OAUTHBEARER, with one message each.

Sans I/O: a ``SaslMechanism`` holds the credentials, and begins one ``SaslConversation`` per authentication.
Secrets appear in messages to the broker and nowhere else: no repr and no error shows them.
Source: RFC 4616 (PLAIN), RFC 7628 (OAUTHBEARER), KIP-255 and KIP-342 (OAUTHBEARER in Kafka, extensions).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

import attrs

from kproducer._core.security.oauth_tokens import OAuthToken, TokenSource
from kproducer.errors import AuthenticationError, printable

_SEPARATOR = "\x01"
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
#: How much of a broker's text an error shows.
_SHOWN_CHARACTERS = 300


class SaslConversation(Protocol):
    """The client's side of one run of a mechanism."""

    def first_message(self) -> bytes:
        """The message to begin with."""

    def answer(self, challenge: bytes) -> bytes | None:
        """The next message; ``None``: authenticated. Raises AuthenticationError."""


class SaslMechanism(Protocol):
    """A mechanism with the credentials of one user.

    One whose ``begin`` may return ``None`` gets a function when it is made, and calls it, on any thread, when
    ``begin`` has something else to return.
    """

    @property
    def name(self) -> str:
        """As brokers call it: ``PLAIN``, ``SCRAM-SHA-256``."""

    @property
    def identity(self) -> str:
        """Who authenticates, in words, for messages."""

    def begin(self, host: str) -> SaslConversation | None:
        """Begin a conversation; ``None`` if the credentials are not available yet.

        Args:
            host: of the broker, as the client connects to it.

        Raises AuthenticationError if they could not be had, NetworkError if they cannot be asked for now.
        """

    def waits_for(self, host: str) -> str:
        """What ``begin`` waits for, in words; empty: for nothing. Any thread. Here: it never waits."""
        return ""

    def close(self) -> None:
        """Release what keeps the credentials fresh. Here: nothing does."""
        return None


def shown_text(text: str) -> str:
    """A broker's text for an error message: escaped and shortened."""
    return printable(text[:_SHOWN_CHARACTERS]) + ("..." if len(text) > _SHOWN_CHARACTERS else "")


@attrs.frozen
class PlainMechanism(SaslMechanism):
    """PLAIN: user name and password in clear text.

    Attributes:
        name: of the mechanism.
        identity: who authenticates, in words, for messages.
    """

    username: str
    password: str = attrs.field(repr=False)
    name: str = attrs.field(default="PLAIN", init=False)

    @property
    def identity(self) -> str:
        return f"user {printable(self.username)!r}"

    def begin(self, host: str = "") -> _PlainConversation:
        """Begin an authentication."""
        return _PlainConversation(self)


@attrs.frozen
class _PlainConversation:
    _mechanism: PlainMechanism

    def first_message(self) -> bytes:
        return f"\0{self._mechanism.username}\0{self._mechanism.password}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        # The broker has accepted the password. Kafka sends no bytes with that.
        return None


@attrs.frozen
class OAuthBearerMechanism:
    """OAUTHBEARER: a token that ``tokens`` keeps fresh.

    Attributes:
        extensions: SASL extensions for every authentication; those of a token come first.
        name, identity: as in ``PlainMechanism``.
    """

    _tokens: TokenSource
    extensions: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    name: str = attrs.field(default="OAUTHBEARER", init=False)
    identity: str = "the OAuth token"

    def begin(self, host: str = "") -> _OAuthBearerConversation | None:
        """Begin an authentication; ``None`` while the first token is being requested.

        Raises as ``TokenSource.current``.
        """
        token = self._tokens.current()
        if token is None:
            return None
        return _OAuthBearerConversation(_first_message(token, {**self.extensions, **token.extensions}))

    def waits_for(self, host: str = "") -> str:
        """As ``TokenSource.waits_for``."""
        return self._tokens.waits_for()

    def close(self) -> None:
        """End the refreshing of tokens."""
        self._tokens.close()


def extension_mistake(name: str, value: str) -> str | None:
    """What is wrong with a SASL extension, without its value; ``None``: nothing."""
    if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
        return f"the name of a SASL extension has only letters and is not 'auth': {shown_text(name)!r}"
    if not _EXTENSION_VALUE.fullmatch(value):
        return f"the value of the SASL extension {name!r} is empty or has characters that are not allowed"
    return None


def _first_message(token: OAuthToken, extensions: Mapping[str, str]) -> bytes:
    if not _TOKEN.fullmatch(token.value):
        raise AuthenticationError(
            "the OAuth token is empty or has characters that a bearer token cannot contain (not shown)"
        )
    for name, value in extensions.items():
        if mistake := extension_mistake(name, value):
            raise AuthenticationError(mistake)
    fields = [f"auth=Bearer {token.value}", *(f"{name}={value}" for name, value in extensions.items())]
    return f"n,,{_SEPARATOR}{_SEPARATOR.join(fields)}{_SEPARATOR}{_SEPARATOR}".encode()


@attrs.define
class _OAuthBearerConversation:
    _first_message: bytes = attrs.field(repr=False)
    _complaint: str | None = attrs.field(default=None, init=False)

    def first_message(self) -> bytes:
        return self._first_message

    def answer(self, challenge: bytes) -> bytes | None:
        """After a refusal, the broker says why only when the client has acknowledged it."""
        if self._complaint is not None:
            raise AuthenticationError(f"the broker refuses the token: {self._complaint}")
        if not challenge:
            return None
        self._complaint = shown_text(challenge.decode("utf-8", "replace"))
        return _SEPARATOR.encode()
