"""A request to one node, the builder of its message, and its response.

Plain values between the callers of the network client and the client.
Source: Kafka classes ``ClientRequest``, ``ClientResponse``, ``AbstractRequest.Builder``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

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

    __slots__ = (
        "builder",
        "callback",
        "client_id",
        "correlation_id",
        "created_ms",
        "destination",
        "expect_response",
        "request_timeout_ms",
    )

    def __init__(
        self,
        destination: str,
        builder: RequestBuilder,
        correlation_id: int,
        client_id: str | None,
        created_ms: int,
        expect_response: bool,
        request_timeout_ms: int,
        callback: Callable[[ClientResponse], None] | None,
    ) -> None:
        self.destination = destination
        self.builder = builder
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.created_ms = created_ms
        self.expect_response = expect_response
        self.request_timeout_ms = request_timeout_ms
        self.callback = callback

    @property
    def api_key(self) -> int:
        return self.builder.api_key


class ClientResponse:
    """The end of a request: a response, a lost connection, or a request that could not be sent.

    Attributes:
        api_key, api_version: of the request; the version is the builder's latest when it was never sent.
        correlation_id, callback, destination, created_ms: of the request.
        received_ms: when it ended (monotonic milliseconds).
        disconnected: the connection ended before the response; the broker may have executed the request.
        timed_out: the connection ended because a request on it was not answered in time.
        unsupported_version: there is no common version; the request was not sent.
        authentication_error: the connection ended because the broker refused the credentials.
        error: why there is no response; None for a normal end. With neither ``disconnected`` nor
            ``unsupported_version``, the message could not be encoded and was not sent.
        body: the decoded message; None without a response.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "authentication_error",
        "body",
        "callback",
        "correlation_id",
        "created_ms",
        "destination",
        "disconnected",
        "error",
        "received_ms",
        "timed_out",
        "unsupported_version",
    )

    def __init__(
        self,
        request: ClientRequest,
        api_version: int,
        received_ms: int,
        *,
        body: Any = None,
        disconnected: bool = False,
        timed_out: bool = False,
        unsupported_version: UnsupportedVersionError | None = None,
        authentication_error: KafkaError | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self.api_key = request.builder.api_key
        self.api_version = api_version
        self.correlation_id = request.correlation_id
        self.callback = request.callback
        self.destination = request.destination
        self.created_ms = request.created_ms
        self.received_ms = received_ms
        self.body = body
        self.disconnected = disconnected
        self.timed_out = timed_out
        self.unsupported_version = unsupported_version
        self.authentication_error = authentication_error
        self.error = error

    @property
    def latency_ms(self) -> int:
        """Milliseconds from the request's creation to its end."""
        return self.received_ms - self.created_ms

    @property
    def was_sent(self) -> bool:
        """Whether any byte of the request may have reached the broker."""
        return self.disconnected or self.error is None

    def on_complete(self) -> None:
        """Call the request's callback."""
        if self.callback is not None:
            self.callback(self)
