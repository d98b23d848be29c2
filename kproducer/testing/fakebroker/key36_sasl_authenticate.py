"""SaslAuthenticate, versions 0 to 2, for PLAIN and OAUTHBEARER. 58: refused; from 1: the session lifetime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer_messages import SaslAuthenticateResponse

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext


def handle(context: RequestContext) -> SaslAuthenticateResponse:
    sasl = context.cluster.sasl
    if sasl is None:
        context.must_close = True
        return SaslAuthenticateResponse()
    code, data = sasl.authenticate(context)
    response = SaslAuthenticateResponse(error_code=code, auth_bytes=data)
    if code:
        response.error_message = "Authentication failed: Invalid username or password"
    elif context.api_version >= 1:
        response.session_lifetime_ms = sasl.session_lifetime_ms
    return response
