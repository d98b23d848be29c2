"""SaslHandshake, version 1, and SaslAuthenticate, versions 0 to 2; see ``sasl_listener``."""

from __future__ import annotations

from kproducer_messages import SaslAuthenticateResponse, SaslHandshakeResponse

from kproducer.testing.fakebroker.actions import RequestContext
from kproducer.testing.fakebroker.sasl_listener import ILLEGAL_SASL_STATE, MECHANISMS


def handshake(context: RequestContext) -> SaslHandshakeResponse:
    """Begin an authentication."""
    sasl, code = context.cluster.sasl, ILLEGAL_SASL_STATE
    if sasl is not None:
        code = sasl.handshake(context.logged.connection_id, context.message.mechanism)
    context.must_close_afterwards = code != 0
    return SaslHandshakeResponse(error_code=code, mechanisms=[] if sasl is None else MECHANISMS)


def authenticate(context: RequestContext) -> SaslAuthenticateResponse:
    """Check credentials."""
    sasl = context.cluster.sasl
    if sasl is None:
        context.must_close = True
        return SaslAuthenticateResponse()
    code, data = sasl.authenticate(context.logged.connection_id, bytes(context.message.auth_bytes))
    context.must_close_afterwards = code != 0
    return SaslAuthenticateResponse(
        error_code=code,
        error_message="Authentication failed: Invalid username or password" if code else "",
        auth_bytes=data,
        session_lifetime_ms=0 if code else sasl.session_lifetime_ms,
    )
