"""SASL of a fake cluster's listeners: PLAIN and OAUTHBEARER, with sessions that end; as strict as Kafka.

SaslHandshake, version 1: 33 for an unknown mechanism, 34 if the cluster has no SASL. SaslAuthenticate,
versions 0 to 2: 58 if it is refused; from version 1 on with the session lifetime.

On a connection that is not authenticated only ApiVersions (before the handshake), SaslHandshake and
SaslAuthenticate are allowed; after the end of the session only SaslHandshake; between SaslHandshake and the
end of the exchange only SaslAuthenticate. Any other request closes the connection, and is a violation.
Runs with the lock of the request log.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

import attrs

HANDSHAKE, AUTHENTICATE, API_VERSIONS = 17, 36, 18
UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED = 33, 34, 58
MECHANISMS = ["PLAIN", "OAUTHBEARER"]
_REFUSED_TOKEN = b'{"status":"invalid_token"}'
#: A busy machine may deliver a request late that was sent in time.
_GRACE_S = 2.0


@attrs.define
class _Session:
    """What a connection has done so far."""

    mechanism: str = ""
    is_in_exchange: bool = False
    has_refused_token: bool = False
    is_authenticated: bool = False
    authenticated_s: float = 0.0
    expires_s: float = float("inf")


@attrs.define
class SaslListener:
    """Attributes:
    users: passwords by user, for PLAIN.
    accepts_token: for OAUTHBEARER.
    session_lifetime_ms: of new sessions; 0: they do not end.
    least_session_ms: a connection that was authenticated within this time is not authenticated again (Kafka:
        a second).
    authentications: exchanges that ended with success.
    refusals: exchanges that ended with an error.
    """

    users: dict[str, str] = attrs.field(factory=dict)
    accepts_token: Callable[[str], bool] = lambda _: False
    session_lifetime_ms: int = 0
    least_session_ms: int = 0
    authentications: int = 0
    refusals: int = 0
    _sessions: dict[int, _Session] = attrs.field(factory=lambda: defaultdict(_Session))

    def violation(self, connection_id: int, api_key: int) -> str | None:
        """Why a request is not allowed now; ``None``: it is."""
        session = self._sessions[connection_id]
        if session.is_in_exchange:
            return None if api_key == AUTHENTICATE else "request during an authentication"
        if not session.is_authenticated:
            return None if api_key in (API_VERSIONS, HANDSHAKE) else "request before the authentication"
        if api_key == AUTHENTICATE or (api_key == HANDSHAKE and not self.session_lifetime_ms):
            return "authentication without need"
        if api_key != HANDSHAKE and time.monotonic() > session.expires_s:
            return "request after the end of the session"
        return None

    def handshake(self, connection_id: int, mechanism: str) -> int:
        """The error code for a SaslHandshake."""
        if mechanism not in MECHANISMS:
            return UNSUPPORTED_SASL_MECHANISM
        session = self._sessions[connection_id]
        age_ms = (time.monotonic() - session.authenticated_s) * 1000
        if session.is_authenticated and age_ms < self.least_session_ms:
            self.refusals += 1
            return ILLEGAL_SASL_STATE
        session.is_in_exchange, session.mechanism = True, mechanism
        return 0

    def authenticate(self, connection_id: int, data: bytes) -> tuple[int, bytes]:
        """The error code for a SaslAuthenticate, and the bytes to answer."""
        session = self._sessions[connection_id]
        if session.mechanism == "PLAIN":
            is_accepted = self._accepts_password(data)
        else:
            is_accepted = not session.has_refused_token and self._accepts_bearer(data)
            if not is_accepted and not session.has_refused_token:
                session.has_refused_token = True  # the client has to acknowledge that
                return 0, _REFUSED_TOKEN
        session.is_in_exchange = False
        if not is_accepted:
            self.refusals += 1
            session.is_authenticated = False
            return SASL_AUTHENTICATION_FAILED, b""
        self.authentications += 1
        session.is_authenticated, session.authenticated_s = True, time.monotonic()
        if self.session_lifetime_ms:
            session.expires_s = time.monotonic() + self.session_lifetime_ms / 1000 + _GRACE_S
        return 0, b""

    def _accepts_password(self, data: bytes) -> bool:
        parts = data.decode("utf-8", "replace").split("\0")
        return len(parts) == 3 and self.users.get(parts[1]) == parts[2]

    def _accepts_bearer(self, data: bytes) -> bool:
        header, _, fields = data.decode("utf-8", "replace").partition("\x01")
        bearer = fields.partition("\x01")[0]
        prefix = "auth=Bearer "
        return header == "n,," and bearer.startswith(prefix) and self.accepts_token(bearer[len(prefix) :])
