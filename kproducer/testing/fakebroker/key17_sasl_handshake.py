"""SaslHandshake, version 1. 33 for an unknown mechanism, 34 if the cluster has no SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer_messages import SaslHandshakeResponse

from kproducer.testing.fakebroker.sasl_listener import ILLEGAL_SASL_STATE, MECHANISMS

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext


def handle(context: RequestContext) -> SaslHandshakeResponse:
    sasl = context.cluster.sasl
    if sasl is None:
        context.must_close_afterwards = True
        return SaslHandshakeResponse(error_code=ILLEGAL_SASL_STATE)
    return SaslHandshakeResponse(error_code=sasl.handshake(context), mechanisms=MECHANISMS)
