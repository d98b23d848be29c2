"""A request to one node, the builder of its message, and its response.

Plain values between the callers of the network client and the client.
Source: Kafka classes ``ClientRequest``, ``ClientResponse``, ``AbstractRequest.Builder``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs

from kproducer.errors import KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError


class RequestBuilder(Protocol):
    """Builds the message of a request in the version negotiated with the broker.

    Attributes:
        api_key: Kafka's number of the API.
        oldest_version, latest_version: the range of versions it can build, inclusive.
    """

    @property
    def api_key(self) -> int: ...
    @property
    def oldest_version(self) -> int: ...
    @property
    def latest_version(self) -> int: ...

    def build(self, version: int) -> Any:
        """The message. May raise UnsupportedVersionError if this version lacks a feature that is needed."""


@attrs.define(eq=False)
class ClientRequest:
    """A request to one node.

    Attributes:
        destination: connection id (the node id as text).
        builder: builds the message.
        correlation_id: set by the client; the response has the same.
        client_id: for the header.
        created_ms: monotonic milliseconds.
        expect_response: False if the broker sends none (``acks=0``).
        request_timeout_ms: the longest wait for the response, from when the request is sent.
        callback: called with the ClientResponse inside ``NetworkClient.poll``, exactly once.
    """

    destination: str
    builder: RequestBuilder
    correlation_id: int
    client_id: str | None
    created_ms: int
    expect_response: bool
    request_timeout_ms: int
    callback: Callable[[ClientResponse], None] | None

    @property
    def api_key(self) -> int:
        return self.builder.api_key


@attrs.define(eq=False)
class ClientResponse:
    """The end of a request: a response, a lost connection, or a request that could not be sent.

    Attributes:
        api_version: the version of the request; the builder's latest if it was not sent.
        received_ms: when it ended (monotonic milliseconds).
        disconnected: the connection ended before the response; the broker may have executed the request.
        timed_out: the connection ended because a request on it was not answered in time.
        unsupported_version: there is no common version; the request was not sent.
        authentication_error: the connection ended because the broker refused the credentials.
        error: why there is no response; None for a normal end. With neither ``disconnected`` nor
            ``unsupported_version``, the message could not be encoded and was not sent.
        body: the decoded message; None without a response.
    """

    request: ClientRequest
    api_version: int
    received_ms: int
    body: Any = attrs.field(default=None, kw_only=True)
    disconnected: bool = attrs.field(default=False, kw_only=True)
    timed_out: bool = attrs.field(default=False, kw_only=True)
    unsupported_version: UnsupportedVersionError | None = attrs.field(default=None, kw_only=True)
    authentication_error: KafkaError | None = attrs.field(default=None, kw_only=True)
    error: KafkaError | None = attrs.field(default=None, kw_only=True)

    @property
    def latency_ms(self) -> int:
        """Milliseconds from the request's creation to its end."""
        return self.received_ms - self.request.created_ms

    @property
    def was_sent(self) -> bool:
        """Whether any byte of the request may have reached the broker."""
        return self.disconnected or self.error is None

    def on_complete(self) -> None:
        """Call the request's callback."""
        if self.request.callback is not None:
            self.request.callback(self)
