"""A request to one node, what builds its message once the version is known, and its response.

Plain carriers between the sender (or the metadata updater) and the network client.
Source: Kafka classes ``ClientRequest``, ``ClientResponse``, ``AbstractRequest.Builder``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kproducer.errors import KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError


class RequestBuilder(Protocol):
    """Makes the message of a request in the version that was agreed on with the broker.

    Attributes:
        api_key: Kafka's number of the API.
        oldest_version, latest_version: the versions it can build, inclusive.
    """

    @property
    def api_key(self) -> int: ...
    @property
    def oldest_version(self) -> int: ...
    @property
    def latest_version(self) -> int: ...

    def build(self, version: int) -> Any:
        """The message. May raise UnsupportedVersionError when this version cannot say what is needed."""


class ClientRequest:
    """A request that waits to be sent or answered.

    Attributes:
        destination: connection id (the node id as text).
        builder: makes the message.
        correlation_id: set by the client; the response carries it.
        client_id: goes into the header.
        created_ms: monotonic milliseconds.
        expect_response: False when the broker sends none (``acks=0``).
        request_timeout_ms: time for the answer, counted from the sending.
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
    """How a request ended: with a body, without one, by a lost connection, or unsent.

    Attributes:
        api_key, api_version: of the request; the version is the builder's latest when it was never sent.
        correlation_id, callback, destination, created_ms: of the request.
        received_ms: when it ended (monotonic milliseconds).
        disconnected: the connection ended before the answer; whether the request was carried out is unknown.
        timed_out: it ended because a request on it was not answered in time.
        unsupported_version: no version in common; the request was not sent.
        authentication_error: the connection ended because the broker refused our credentials.
        error: what went wrong, in words, when there is no body; None for a normal end. With neither
            ``disconnected`` nor ``unsupported_version`` the message could not be encoded and was not sent.
        body: the decoded message; None without one.
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
