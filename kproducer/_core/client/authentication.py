"""The SASL exchange that authenticates a connection, and the class that runs it on every connection.

``AuthenticationExchange`` is a state machine without I/O: handshake, then messages of the mechanism, then
done or failed. ``Authenticator`` begins one exchange per connection, after ApiVersions, and another one on
the same connection before the session expires (KIP-368). Knows no settings: the mechanism comes from above.

Re-authentication waits until every request on the connection is answered (with ``acks=0``: written), and no
other request is sent before it has succeeded, so requests keep their order and none is lost or repeated. A
connection that was not used since it was authenticated is closed instead.
Source: Kafka class ``SaslClientAuthenticator``; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

import enum
import random as random_module
from typing import Any, Final

from kproducer_messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from kproducer._core.client.api_versions import NodeApiVersions
from kproducer._core.client.client_request import MessageBuilder, RequestBuilder
from kproducer._core.client.connections import InternalClient
from kproducer._core.client.in_flight_requests import InFlightRequests
from kproducer._core.client.node_connection import ConnectionState, NodeConnection
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import NEVER_MS
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.security.sasl_mechanisms import SaslConversation, SaslMechanism
from kproducer.errors import (
    AuthenticationError,
    DisconnectedError,
    IllegalStateError,
    KafkaError,
    NetworkError,
    printable,
)
from kproducer.errors.broker_errors import error_for_code
from kproducer.errors.internal_errors import IdleDisconnectError

_log = GuardedLogger(__name__)

_UNSUPPORTED_SASL_MECHANISM = 33
_ILLEGAL_SASL_STATE = 34
#: Part of the session's lifetime after which to authenticate again, as in the Java client.
_SESSION_SHARE: Final = (0.85, 0.95)
#: The most mechanisms of a broker that an error shows. No broker supports more.
_SHOWN_MECHANISMS = 20


class SaslState(enum.Enum):
    """The state of an exchange."""

    #: The exchange has not begun, or waits for credentials.
    NEW = "new"
    #: SaslHandshake was sent.
    HANDSHAKE = "handshake"
    #: A SaslAuthenticate was sent.
    TOKENS = "tokens"
    DONE = "done"


class AuthenticationExchange:
    """One authentication of one connection. I/O thread only.

    A method either returns, or raises an error that ends the connection, and with it the exchange. A method
    that does not fit the state raises IllegalStateError and changes nothing.

    Args:
        mechanism: with the credentials.
        connection: the connection.
        deadline_ms: when to give up waiting for credentials.
        is_again: the connection was authenticated before.

    Attributes:
        connection, deadline_ms: as given.
        state: where it stands.
        session_lifetime_ms: once it is done, the time within which to authenticate again; 0: never.
    """

    def __init__(
        self, mechanism: SaslMechanism, connection: NodeConnection, deadline_ms: int, is_again: bool = False
    ) -> None:
        self._mechanism = mechanism
        self.connection = connection
        self._broker = connection.broker
        self.deadline_ms = deadline_ms
        self._is_again = is_again
        self._conversation: SaslConversation | None = None
        self.state = SaslState.NEW
        self.session_lifetime_ms = 0

    def begin(self) -> RequestBuilder | None:
        """The first request; ``None`` while the credentials are not available: call this again.

        Raises AuthenticationError: there are none. NetworkError: they cannot be asked for now.
        """
        self._expect(SaslState.NEW)
        try:
            self._conversation = self._mechanism.begin(self.connection.node.host)
        except AuthenticationError as error:
            raise self._located(error) from error.__cause__
        if self._conversation is None:
            return None
        self.state = SaslState.HANDSHAKE
        # After version 0 the tokens would follow as bare frames. Brokers since 1.0 support version 1.
        return MessageBuilder(SaslHandshakeRequest(mechanism=self._mechanism.name), 1, 1)

    def on_handshake(self, response: SaslHandshakeResponse) -> RequestBuilder:
        """The broker answered the handshake: returns the first message of the mechanism.

        Raises:
            AuthenticationError: the broker does not support the mechanism, or no SASL at all.
            NetworkError: the broker does not authenticate this connection again; a new one helps.
        """
        self._expect(SaslState.HANDSHAKE)
        code = response.error_code
        if not code:
            assert self._conversation is not None
            self.state = SaslState.TOKENS
            return _authenticate(self._conversation.first_message())
        error: KafkaError = error_for_code(code, f"response of broker {self._broker} to SaslHandshake")
        if code == _UNSUPPORTED_SASL_MECHANISM:
            error = AuthenticationError(
                f"broker {self._broker} does not support the SASL mechanism {self._mechanism.name}"
                f" ({self._mechanism.identity}); it supports {_listed(response.mechanisms)};"
                " check sasl_mechanism and the port"
            )
        elif code == _ILLEGAL_SASL_STATE and self._is_again:
            # Kafka answers so within a second. The session was that short because the token was about to
            # expire.
            error = NetworkError(
                f"broker {self._broker} does not authenticate this connection again so soon"
                " (ILLEGAL_SASL_STATE)"
            )
        elif code == _ILLEGAL_SASL_STATE:
            error = AuthenticationError(
                f"broker {self._broker} does not expect SASL on this connection (ILLEGAL_SASL_STATE):"
                " check the port and security_protocol"
            )
        raise error

    def on_authenticate(self, response: SaslAuthenticateResponse) -> RequestBuilder | None:
        """The broker answered a message: returns the next one; ``None``: authenticated.

        Raises:
            AuthenticationError: the broker rejects the credentials, or its message is not acceptable.
            BrokerError: it failed for another reason.
        """
        self._expect(SaslState.TOKENS)
        if response.error_code:
            who = f"broker {self._broker}, {self._mechanism.name}, {self._mechanism.identity}"
            raise error_for_code(response.error_code, response.error_message, who)
        assert self._conversation is not None
        try:
            message = self._conversation.answer(response.auth_bytes)
        except AuthenticationError as error:
            raise self._located(error) from None
        if message is not None:
            return _authenticate(message)
        self.state = SaslState.DONE
        self._conversation = None
        self.session_lifetime_ms = max(response.session_lifetime_ms, 0)
        return None

    def _expect(self, state: SaslState) -> None:
        if self.state is not state:
            raise IllegalStateError(
                f"authentication with {self._broker}: expected state {state.value}, is {self.state.value}"
            )

    def _located(self, error: AuthenticationError) -> AuthenticationError:
        return AuthenticationError(
            f"{error} [broker {self._broker}, {self._mechanism.name}, {self._mechanism.identity}]"
        )


def _authenticate(message: bytes) -> RequestBuilder:
    return MessageBuilder(SaslAuthenticateRequest(auth_bytes=message))


def _listed(mechanisms: list[str]) -> str:
    shown = [printable(name) for name in mechanisms[:_SHOWN_MECHANISMS]]
    if len(mechanisms) > len(shown):
        shown.append(f"{len(mechanisms) - len(shown)} more")
    return ", ".join(shown) or "none"


class Authenticator:
    """Authenticates the connections of one client. I/O thread only.

    Args:
        mechanism: with the credentials.
        in_flight: which requests are not answered yet.
        requests: sends requests and ends connections.
        config: ``request_timeout_ms`` also limits the wait for credentials.
        random: spreads re-authentications.
    """

    def __init__(
        self,
        mechanism: SaslMechanism,
        in_flight: InFlightRequests,
        requests: InternalClient,
        config: ProducerConfig,
        random: random_module.Random,
    ) -> None:
        # fixed after construction
        self._mechanism = mechanism
        self._in_flight = in_flight
        self._requests = requests
        self._timeout_ms = config.request_timeout_ms
        self._random = random
        #: The last exchange of each connection that is being authenticated, or has to be again.
        self._exchanges: dict[str, AuthenticationExchange] = {}

    def begin(self, connection: NodeConnection, versions: NodeApiVersions, now_ms: int) -> None:
        """Begin an authentication: the broker has answered ApiVersions, or the session is about to end."""
        connection.authenticating(versions)
        self._exchanges[connection.id] = AuthenticationExchange(
            self._mechanism, connection, now_ms + self._timeout_ms, connection.id in self._exchanges
        )

    def step(self, now_ms: int) -> None:
        """Begin what can begin now: exchanges with credentials, and re-authentications that are due."""
        for exchange in list(self._exchanges.values()):
            try:
                self._step(exchange, now_ms)
            except KafkaError as error:
                self._requests.end_connection(exchange.connection, error, now_ms)

    def _step(self, exchange: AuthenticationExchange, now_ms: int) -> None:
        connection = exchange.connection
        if connection.is_reauthentication_due(now_ms) and not self._in_flight.count_of(connection.id):
            versions = connection.versions
            assert versions is not None
            if not connection.was_used:
                raise IdleDisconnectError(
                    f"closed the connection to {connection.broker}: its session ends, and nothing was sent"
                )
            self.begin(connection, versions, now_ms)
            exchange = self._exchanges[connection.id]
        if exchange.state is not SaslState.NEW:
            return
        request = exchange.begin()
        if request is not None:
            self._requests.send(connection.id, request, now_ms, None)
        elif now_ms >= exchange.deadline_ms:
            raise AuthenticationError(
                f"no credentials for {self._mechanism.name} within {self._timeout_ms} ms"
                f" (request_timeout_ms): {self._mechanism.waits_for(connection.node.host)}"
                f" [broker {connection.broker}]"
            )

    def on_response(self, connection: NodeConnection, body: Any, now_ms: int) -> None:
        """The broker answered a request of an exchange. Raises KafkaError, which ends the connection."""
        exchange = self._exchanges[connection.id]
        is_handshake = isinstance(body, SaslHandshakeResponse)
        request = exchange.on_handshake(body) if is_handshake else exchange.on_authenticate(body)
        if request is not None:
            self._requests.send(connection.id, request, now_ms, None)
            return
        assert connection.versions is not None
        connection.ready(connection.versions)
        lifetime_ms = exchange.session_lifetime_ms
        _log.debug("Authenticated with %s; session lifetime %d ms", connection.broker, lifetime_ms)
        if lifetime_ms:
            connection.reauthenticate_ms = now_ms + int(lifetime_ms * self._random.uniform(*_SESSION_SHARE))
        else:
            del self._exchanges[connection.id]

    def connection_ended(self, connection: NodeConnection, error: KafkaError) -> KafkaError:
        """Forget the connection. Returns the error, with advice if the broker closed it."""
        exchange = self._exchanges.pop(connection.id, None)
        if exchange is None or connection.state is not ConnectionState.AUTHENTICATING:
            return error
        if type(error) is not DisconnectedError:
            return error
        return DisconnectedError(
            f"{error}, during the authentication ({exchange.state.value}): the broker's log may say"
            " why; some brokers close the connection instead of refusing the credentials"
        )

    def next_delay_ms(self, now_ms: int) -> int:
        """How long until ``step`` has something to do, unless an event of a connection comes first."""
        delay_ms = NEVER_MS
        for exchange in self._exchanges.values():
            connection = exchange.connection
            if exchange.state is SaslState.NEW:
                delay_ms = min(delay_ms, exchange.deadline_ms - now_ms)
            elif exchange.state is SaslState.DONE and (
                connection.id in self._in_flight.lanes or not self._in_flight.count_of(connection.id)
            ):
                delay_ms = min(delay_ms, connection.reauthenticate_ms - now_ms)
        return max(delay_ms, 0)

    def close(self) -> None:
        """Release the mechanism. Idempotent."""
        self._mechanism.close()
