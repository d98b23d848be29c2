"""A request to one node, the builder of its frame, and its response.

Plain values between the callers of the network client and the client.
Source: Kafka classes ``ClientRequest``, ``ClientResponse``, ``AbstractRequest.Builder``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kproducer._core.client.send_builder import build_request
from kproducer._core.network.network_send import NetworkSend
from kproducer.errors import KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError


class RequestBuilder(Protocol):
    """Builds the frame of a request in the version negotiated with the broker.

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

    def build_frame(self, version: int, correlation_id: int, client_id: str | None) -> list[memoryview]:
        """The bytes of the request, in parts that are not changed until they are written.

        Raises:
            LocalProtocolError: this version cannot express the request, or it is too large for a frame.
            UnsupportedVersionError: this version lacks a feature that is needed.
        """


class MessageBuilder:
    """The ``RequestBuilder`` of a message that is the same in all of the given versions; by default, in all.

    Its repr does not show the message, which may contain credentials.
    """

    def __init__(self, message: Any, oldest: int | None = None, latest: int | None = None) -> None:
        self.message = message
        self.api_key: int = message.API_KEY
        self.oldest_version: int = message.MIN_VERSION if oldest is None else oldest
        self.latest_version: int = message.MAX_VERSION if latest is None else latest

    def build_frame(self, version: int, correlation_id: int, client_id: str | None) -> list[memoryview]:
        return build_request(self.api_key, version, correlation_id, client_id, self.message)


class ClientRequest:
    """A request to one node. I/O thread only.

    Attributes:
        destination: connection id (the node id as text).
        api_key: of the builder.
        correlation_id: set by the client; the response has the same.
        expect_response: False if the broker sends none (``acks=0``).
        sent_ms: when it was queued for the socket (monotonic); the timeout counts from here.
        timeout_ms: the longest wait for the response.
        callback: called with the ClientResponse inside ``NetworkClient.poll``, exactly once; ``None`` for a
            request of the client itself (Metadata, ApiVersions).
        is_internal: whether the client itself made the request.
        api_version: the version it was encoded in; the builder's latest before that.
        send: its bytes, once it is encoded; completed once they are written.
        expires_ms: when it times out; later if the broker throttles this client.
    """

    send: NetworkSend

    def __init__(
        self,
        destination: str,
        builder: RequestBuilder,
        correlation_id: int,
        expect_response: bool,
        sent_ms: int,
        timeout_ms: int,
        callback: Callable[[ClientResponse], None] | None = None,
    ) -> None:
        self.destination = destination
        self.api_key = builder.api_key
        self.correlation_id = correlation_id
        self.expect_response = expect_response
        self.sent_ms = sent_ms
        self.timeout_ms = timeout_ms
        self.callback = callback
        self.is_internal = callback is None
        self.api_version = builder.latest_version
        self.expires_ms = sent_ms + timeout_ms


class ClientResponse:
    """The end of a request: a response, a lost connection, or a request that could not be sent.

    Attributes:
        received_ms: when it ended (monotonic milliseconds).
        body: the decoded message; None without a response.
        disconnected: the connection ended before the response; the broker may have executed the request.
        error: why there is no response; None for a normal end. Without ``disconnected``, the request was not
            sent: there is no common version, or the message could not be encoded. RequestTimeoutError: the
            connection ended because a request on it was not answered in time. AuthenticationError: it ended
            because the broker refused the credentials.
    """

    def __init__(
        self,
        request: ClientRequest,
        received_ms: int,
        *,
        body: Any = None,
        disconnected: bool = False,
        error: KafkaError | None = None,
    ) -> None:
        self.request = request
        self.received_ms = received_ms
        self.body = body
        self.disconnected = disconnected
        self.error = error

    @property
    def latency_ms(self) -> int:
        """Milliseconds from the request's creation to its end."""
        return self.received_ms - self.request.sent_ms

    @property
    def was_sent(self) -> bool:
        """Whether any byte of the request may have reached the broker."""
        return self.disconnected or self.error is None

    @property
    def unsupported_version(self) -> UnsupportedVersionError | None:
        """The error if there is no common version; the request was not sent then."""
        return self.error if isinstance(self.error, UnsupportedVersionError) else None
