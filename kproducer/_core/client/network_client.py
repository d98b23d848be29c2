"""NetworkClient: sends requests to nodes and completes them with responses, errors or timeouts.

Sits between the sender (requests by node) and the selector (frames by connection). ``Connections`` knows the
state of each connection, ``InFlightRequests`` the requests on them, ``MetadataUpdater`` the nodes. Knows
nothing of batches and topics. ``poll`` is the unit that tests step. Source: Kafka class ``NetworkClient``;
KIP-35 and KIP-511 (versions), KIP-1242 (is it the right broker), KIP-601 (setup timeout), KIP-302
(``client.dns.lookup``).
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kproducer_messages import ApiVersionsRequest

from kproducer._core.client.api_keys import ApiKey, api_name
from kproducer._core.client.api_versions import (
    IDENTITY_SINCE,
    REBOOTSTRAP_REQUIRED,
    NodeApiVersions,
    sanitized_software_text,
)
from kproducer._core.client.client_request import (
    ClientRequest,
    ClientResponse,
    MessageBuilder,
    RequestBuilder,
)
from kproducer._core.client.connections import Connections
from kproducer._core.client.in_flight_requests import InFlightRequests
from kproducer._core.client.metadata import Metadata
from kproducer._core.client.metadata_updater import MetadataUpdater
from kproducer._core.client.node_connection import ConnectionState, NodeConnection
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.metrics.connection_metrics import ConnectionMetrics
from kproducer._core.metrics.windows import Windows
from kproducer._core.network.framing import SIZE_PREFIX_BYTES
from kproducer._core.network.host_resolver import BackgroundResolver, BeginLookup, canonical_addresses
from kproducer._core.network.network_send import NetworkSend
from kproducer._core.network.proxy import Proxy
from kproducer._core.network.selector import Selector
from kproducer._core.runtime.clock import Clock
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import (
    AuthenticationError,
    BootstrapResolutionError,
    BrokerError,
    DisconnectedError,
    IllegalStateError,
    KafkaError,
    LocalProtocolError,
    NetworkError,
    RemoteProtocolError,
    RequestTimeoutError,
)
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.errors.internal_errors import TlsListenerError
from kproducer.types import VERSION, Node

# Programs without SASL do not import authentication, and programs without TLS do not import ``ssl``, which
# some Pythons are built without.
if TYPE_CHECKING:
    from kproducer._core.client.authentication import Authenticator
    from kproducer._core.security.sasl_mechanisms import SaslMechanism
    from kproducer._core.security.tls_settings import TlsSettings

_log = GuardedLogger(__name__)

_CORRELATION_ID_LIMIT = 2**31
_SASL_APIS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class LaneOwner(Protocol):
    """Who sends requests on the client's connections by itself. I/O thread only."""

    def make_way(self, node_id: str) -> None:
        """A request of the client follows: those in flight become requests of the client."""

    def before_wait(self) -> None:
        """The client waits now."""

    def connection_ended(self, node_id: str) -> None:
        """Likewise, before the client ends all requests of the connection; send no others."""


class NetworkClient:
    """Asynchronous requests to the nodes of a cluster. I/O thread only, except methods marked "any thread".

    Args:
        selector: the sockets.
        new_updater: makes what knows the nodes and updates the metadata, through this client.
        config: client id, timeouts, backoffs, in-flight limit.
        clock: the time after a poll.
        sasl: the mechanism that authenticates connections; closed with the client. ``None``: no SASL.
        proxy: the proxy that connections go through; ``None``: they go to the brokers directly.
        begin_lookup: host name to addresses; ``None``: the operating system's name service, on other threads.
        random: for backoff jitter and the choice among equal nodes.
        metrics: counts requests and authentications; ``None``: its own.

    Attributes:
        metrics: as given.
        connections: the state of the connection to each node.
        active: ``close`` was not called yet. Any thread.
    """

    def __init__(
        self,
        selector: Selector,
        new_updater: Callable[[NetworkClient], MetadataUpdater],
        config: ProducerConfig,
        clock: Clock,
        *,
        sasl: SaslMechanism | None = None,
        proxy: Proxy | None = None,
        begin_lookup: BeginLookup | None = None,
        random: random_module.Random | None = None,
        metrics: ConnectionMetrics | None = None,
    ) -> None:
        random = random if random is not None else random_module.Random()
        # fixed after construction
        self.metrics = metrics if metrics is not None else ConnectionMetrics(clock)
        self._uses_tls = config.uses_tls
        self._selector = selector
        #: Ends the current or next ``poll`` early. Any thread; cheap and coalesced.
        self.wakeup = selector.wakeup
        self._clock = clock
        self._client_id = config.client_id
        self._request_timeout_ms = config.request_timeout_ms
        self._may_lack_certificate = config.uses_tls and not (
            # The key is not looked at, because it is a secret.
            config.ssl_certfile
            or config.ssl_keystore_location
            or config.ssl_keystore_certificate_chain
            or config.ssl_context is not None
        )
        self._software_version = sanitized_software_text(VERSION)
        self._resolver = BackgroundResolver(selector.wakeup, proxy)
        self._in_flight = InFlightRequests(config.max_in_flight_requests_per_connection)
        self.connections = Connections(
            selector,
            self._in_flight,
            config,
            lambda: self._updater.fetch_nodes(),
            begin_lookup if begin_lookup is not None else self._resolver.begin,
            random,
            "" if proxy is None else f" through the proxy {proxy}",
            sasl,
        )
        self._authenticator: Authenticator | None = None
        if sasl is not None:
            from kproducer._core.client.authentication import Authenticator

            self._authenticator = Authenticator(sasl, self._in_flight, self, config, random)
        # I/O thread only
        self._correlation_id = 0
        self._ended: list[ClientResponse] = []  # completed at the end of the next poll
        self._expects_no_response = False  # whether any request was sent that expects no response
        self._unanswered_queued = 0  # requests that end by being written, and are not written yet
        self._moved: dict[str, NodeConnection] = {}  # connections to an address that their node has left
        # node id to the version of the ApiVersions request to send
        self._versions_to_ask: dict[str, int] = {}
        self.active = True
        # written by the I/O thread, read by any; each write is one atomic dictionary operation
        self._versions_used: dict[tuple[str, int], int] = {}
        #: The data plane's lanes, if there are any: told before Python uses a connection, and when it ends.
        self.lanes: LaneOwner | None = None
        self._updater = new_updater(self)

    # -- nodes -----------------------------------------------------------------------------------------

    def ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent to the node now; if there is no connection, begin one.

        A connection to an address that the node has left ends as soon as its requests are answered.
        """
        connection = self.connections.get(str(node.id))
        if connection is None or connection.node is not node:
            self._note_move(node)
        if self.is_ready(node, now_ms):
            return True
        self.connect_if_possible(node, now_ms)
        return False

    def is_ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent to the node now. A metadata update that is due goes first."""
        return self.connections.can_send(str(node.id), now_ms) and not self._updater.is_update_due(now_ms)

    def connect_if_possible(self, node: Node, now_ms: int) -> None:
        """Begin a connection, unless there is one or its backoff has not ended."""
        if self.active and self.connections.can_connect(node, now_ms):
            self._connect_if_resolved(self.connections.begin(node, now_ms), now_ms)

    def _connect_if_resolved(self, connection: NodeConnection, now_ms: int) -> None:
        try:
            self.connections.connect_if_resolved(connection, now_ms)
        except NetworkError as error:
            self._connection_ended(connection, error, now_ms)

    @property
    def bootstrap_error(self) -> BootstrapResolutionError | None:
        """Set if no name in ``bootstrap_servers`` was resolved in time: no request can ever be sent."""
        return self._updater.bootstrap_error

    def ready_connections(self, now_ms: int) -> list[NodeConnection]:
        """See ``Connections.ready``. None while a metadata update is due, which goes first."""
        return [] if self._updater.is_update_due(now_ms) else self.connections.ready(now_ms)

    # -- requests --------------------------------------------------------------------------------------

    def send(
        self,
        node_id: int | str,
        builder: RequestBuilder,
        now_ms: int,
        callback: Callable[[ClientResponse], None] | None,
        *,
        expect_response: bool = True,
    ) -> ClientRequest:
        """Send a request; a later ``poll`` calls ``callback``.

        A request that the broker supports no version of, or that cannot be encoded, is not sent: the next
        poll ends it with an ``error``.

        Args:
            node_id: of a connection that is ready (for the client's own requests: that is up).
            builder: builds the frame.
            now_ms: monotonic.
            callback: ``None`` for the client's own requests (Metadata, ApiVersions, SASL).
            expect_response: whether the broker answers it.

        Raises:
            IllegalStateError: the node is not ready, or the client is closed.
        """
        if not self.active:
            raise IllegalStateError("the network client is closed")
        destination = str(node_id)
        if self.lanes is not None:
            self.lanes.make_way(destination)
        connection = self.connections.get(destination)
        # An earlier request or response may have changed this since ``ready`` returned true.
        if callback is not None and (
            connection is None
            or not connection.is_ready(now_ms)
            or not self._in_flight.can_send_more(destination)
        ):
            raise IllegalStateError(f"{api_name(builder.api_key)} to node {node_id}: the node is not ready")
        assert connection is not None
        request = ClientRequest(
            destination,
            builder,
            self._correlation_id,
            expect_response,
            now_ms,
            self._request_timeout_ms,
            callback,
        )
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_ID_LIMIT
        try:
            if connection.versions is not None:
                request.api_version = connection.versions.latest_usable_version(
                    builder.api_key, builder.oldest_version, builder.latest_version
                )
            frame = builder.build_frame(request.api_version, request.correlation_id, self._client_id)
        except (UnsupportedVersionError, LocalProtocolError) as error:
            if not request.is_internal:
                self._ended.append(ClientResponse(request, now_ms, error=error))
                return request
            api, broker = api_name(request.api_key), connection.broker
            suffix = self.connections.repeats.suffix((broker, api), now_ms)
            if suffix is not None:
                fields = {"client_id": self._client_id, "broker": broker}
                _log.warning("%s to %s was not sent: %s%s", api, broker, error, suffix, extra=fields)
            if request.api_key == ApiKey.METADATA:
                self._updater.handle_failed_request(now_ms, error)
            else:
                self.end_connection(connection, error, now_ms)
            return request
        request.send = NetworkSend(destination, frame)
        self._versions_used[destination, request.api_key] = request.api_version
        connection.was_used = True
        metrics = self.metrics
        node_metrics = metrics.nodes[destination]
        node_metrics.requests.add(float(request.send.remaining_bytes), metrics.windows.at(now_ms))
        try:
            self._selector.send(request.send)
            self._in_flight.add(request)
        except BaseException:
            # This is a bug. The caller treats the request as not sent and reuses its buffers, so the
            # connection must not read them any more.
            reason = DisconnectedError(f"a request to {connection.broker} could not be queued")
            self.end_connection(connection, reason, now_ms)
            raise
        if not expect_response:
            self._expects_no_response = True
            self._unanswered_queued += 1
        return request

    @property
    def connection_count(self) -> int:
        """Connections and attempts to connect. Any thread."""
        return self._selector.connection_count

    def in_flight_request_count(self) -> int:
        """Requests that were sent and have not ended."""
        in_lanes: int = sum(lane.in_flight for lane in list(self._in_flight.lanes.values()))
        return self._in_flight.count + in_lanes

    # -- lanes -----------------------------------------------------------------------------------------

    @property
    def selector(self) -> Selector:
        """The sockets."""
        return self._selector

    @property
    def in_flight(self) -> InFlightRequests:
        """The requests in flight."""
        return self._in_flight

    def next_correlation_id(self, at_least: int = 0) -> int:
        """That of the next request."""
        self._correlation_id = max(self._correlation_id, at_least)
        return self._correlation_id

    def adopt(
        self,
        node_id: str,
        builder: RequestBuilder,
        version: int,
        correlation_id: int,
        sent_ms: int,
        unwritten: list[memoryview],
        callback: Callable[[ClientResponse], None],
    ) -> NetworkSend | None:
        """Take over a request that a lane has sent, except ``unwritten``. Returns what is to be written."""
        request = ClientRequest(
            node_id, builder, correlation_id, True, sent_ms, self._request_timeout_ms, callback
        )
        request.api_version = version
        request.send = NetworkSend(node_id, unwritten)
        request.send.completed = not unwritten
        self._in_flight.add(request)
        return request.send if unwritten else None

    def note_version(self, node_id: str, api_key: ApiKey, version: int) -> None:
        """A lane uses this version."""
        self._versions_used[node_id, api_key] = version

    def negotiated_versions(self) -> dict[int, dict[ApiKey, int]]:
        """The version last used, by node id and API. Any thread."""
        by_node: dict[int, dict[ApiKey, int]] = {}
        for (node_id, api_key), version in self._versions_used.copy().items():
            by_node.setdefault(int(node_id), {})[ApiKey(api_key)] = version
        return by_node

    # -- the loop --------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int, now_ms: int) -> list[ClientResponse]:
        """Do the I/O that is possible, waiting up to ``timeout_ms`` for it; returns the requests that ended.

        Calls their callbacks first. Starts a metadata update if one is due. Raises IllegalStateError after
        ``close``, and the first error that a callback raised, after calling all of them.
        """
        if not self.active:
            raise IllegalStateError("the network client is closed")
        timeout_ms = min(timeout_ms, self._updater.maybe_update(now_ms))
        if self._in_flight.count:
            timeout_ms = min(timeout_ms, self._in_flight.next_expiry_ms + 1 - now_ms)
        connecting = self.connections.connecting
        if connecting:
            timeout_ms = min(timeout_ms, self.connections.next_setup_timeout_ms(now_ms))
        if self._authenticator is not None:
            timeout_ms = min(timeout_ms, self._authenticator.next_delay_ms(now_ms))
        # After the end of a moved connection, the caller of ready() may begin a new one at once. A request
        # that expects no response ends when it is written; a wait must not delay that. (If its socket is
        # full, the event that it has space again ends the wait.)
        if (self._moved and self._end_moved_connections(now_ms)) or self._ended or self._unanswered_queued:
            timeout_ms = 0
        self._unanswered_queued = 0
        selector = self._selector
        if self.lanes is not None:
            self.lanes.before_wait()
        now_ms = selector.poll(max(timeout_ms, 0))
        try:
            if self._expects_no_response:
                self._handle_completed_sends(now_ms)
            if selector.completed_receives:
                self._handle_completed_receives(now_ms)
            if selector.disconnected:
                self._handle_disconnections(now_ms)
            if selector.connected:
                self._handle_connections()
            if self._versions_to_ask:
                self._ask_for_versions(now_ms)
            if self._authenticator is not None:
                self._authenticator.step(now_ms)
            if self._moved:
                self._end_moved_connections(now_ms)
            if connecting:
                for connection in self.connections.resolving():
                    self._connect_if_resolved(connection, now_ms)
                for connection, error in self.connections.past_setup_timeout(now_ms):
                    self.end_connection(connection, error, now_ms)
            if now_ms > self._in_flight.next_expiry_ms:
                self._handle_request_timeouts(now_ms)
        finally:
            # Even after an error: these requests are no longer in flight, so no later poll would end them.
            responses, self._ended = self._ended, []
            if responses:
                self._complete(responses)
        return responses

    def close(self) -> None:
        """End all connections; the callbacks of their requests are called here. Idempotent."""
        if not self.active:
            return
        self.active = False
        self._resolver.close()
        if self._authenticator is not None:
            self._authenticator.close()
        self._selector.close()
        now_ms = self._clock.monotonic_ms()
        error = DisconnectedError("the client was closed")
        for node_id in self._in_flight.node_ids():
            self._cancel_in_flight(node_id, error, now_ms)
        responses, self._ended = self._ended, []
        self._complete(responses)

    def release_after_fork(self) -> None:
        """In a forked child: close inherited descriptors without affecting the parent's connections."""
        self.active = False
        self._resolver.release_after_fork()
        self._selector.release_after_fork()

    # -- the events of a poll --------------------------------------------------------------------------

    def _handle_completed_sends(self, now_ms: int) -> None:
        """End the requests that expect no response."""
        for send in self._selector.completed_sends:
            ended = self._in_flight.complete_unanswered(send)
            if ended is not None:
                self._ended.append(ClientResponse(ended, now_ms))

    def _handle_completed_receives(self, now_ms: int) -> None:
        for node_id, payload in self._selector.completed_receives:
            connection = self.connections.get(node_id)
            if connection is None or not connection.is_connected:
                continue  # an earlier response of this poll ended the connection
            try:
                self._handle_receive(payload, connection, now_ms)
            except (RemoteProtocolError, BrokerError, AuthenticationError, NetworkError) as error:
                self.end_connection(connection, error, now_ms)
                if isinstance(error, BrokerError) and error.code == REBOOTSTRAP_REQUIRED:
                    self._updater.handle_wrong_broker(now_ms, connection.broker)
            except Exception as bug:
                # The bug ends this connection only; the others continue.
                _log.error("Unexpected error in a response of %s", connection.broker, exc_info=bug)
                ending = RemoteProtocolError(f"a response of {connection.broker} caused an error: {bug!r}")
                ending.__cause__ = bug
                self.end_connection(connection, ending, now_ms)

    def _handle_receive(self, payload: bytes, connection: NodeConnection, now_ms: int) -> None:
        pending = self._in_flight.request_of(connection.id, payload, connection.broker)
        if pending is None:
            return
        window = self.metrics.windows.at(now_ms)
        node_metrics = self.metrics.nodes[connection.id]
        node_metrics.responses.add(float(len(payload) + SIZE_PREFIX_BYTES), window)
        api_key = pending.api_key
        if api_key == ApiKey.API_VERSIONS and pending.is_internal:
            self._handle_versions_answer(connection, pending, payload, now_ms)
            return
        body = self._in_flight.complete(pending, payload)
        if body is None:
            return
        if not connection.was_answered and api_key not in _SASL_APIS:
            connection.was_answered = True
            self._updater.handle_acceptance()
        if not pending.is_internal:
            # This comes first: an error below must not lose a request that is no longer in flight.
            self._ended.append(ClientResponse(pending, now_ms, body=body))
            node_metrics.latency.add(float(now_ms - pending.sent_ms), window)
        # Responses of the SASL APIs have no such field.
        throttle_ms: int = getattr(body, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.connections.throttle(connection, api_key, pending.api_version, throttle_ms, now_ms)
        if api_key in _SASL_APIS:
            assert self._authenticator is not None
            self._authenticator.on_response(connection, body, now_ms)
            if connection.state is ConnectionState.READY:
                self._selector.expect_long_frames(connection.id)
                is_again = connection.ready_count > 1
                self.metrics.count(self.metrics.reauthenticated if is_again else self.metrics.authenticated)
        elif pending.is_internal:
            self._updater.handle_successful_response(pending, now_ms, body)
            nodes = self._updater.fetch_nodes()
            self.connections.retain(nodes)
            for node in nodes:
                self._note_move(node)

    def _handle_versions_answer(
        self, connection: NodeConnection, pending: ClientRequest, payload: bytes, now_ms: int
    ) -> None:
        broker, version = connection.broker, pending.api_version
        answer = connection.exchange.on_answer(broker, version, pending.correlation_id, payload)
        self._in_flight.complete_oldest(connection.id)
        if isinstance(answer, int):
            _log.debug(
                "%s does not support ApiVersions version %d; requesting version %d", broker, version, answer
            )
            self._versions_to_ask[connection.id] = answer
            return
        versions = NodeApiVersions.from_response(broker, answer)
        if self._authenticator is None:
            connection.ready(versions)
            self._selector.expect_long_frames(connection.id)
            if self._uses_tls:
                self.metrics.count(self.metrics.authenticated)
        else:
            self._authenticator.begin(connection, versions, now_ms)
        if answer.throttle_time_ms > 0:
            self.connections.throttle(
                connection, ApiKey.API_VERSIONS, version, answer.throttle_time_ms, now_ms
            )
        _log.debug("Connection to %s is %s", broker, connection.state.value)

    def _handle_disconnections(self, now_ms: int) -> None:
        for node_id, error in self._selector.disconnected.items():
            connection = self.connections.get(node_id)
            if connection is None or connection.is_disconnected:
                continue
            self._connection_ended(connection, self._with_advice(connection, error), now_ms)

    def _with_advice(self, connection: NodeConnection, error: KafkaError) -> KafkaError:
        """Why the broker ended the connection, if its state tells more than the error."""
        if connection.state is ConnectionState.CHECKING_API_VERSIONS:
            if isinstance(error, TlsListenerError):
                return AuthenticationError(str(error))  # the first bytes of the connection: there is no doubt
            if type(error) is DisconnectedError:
                explained = connection.exchange.on_connection_lost(connection.broker)
                if explained is None and self._may_lack_certificate:
                    # With TLS 1.3 the client's handshake ends before the broker verifies its certificate.
                    explained = DisconnectedError(
                        f"{error}, before it answered ApiVersions; if the listener requires a client"
                        " certificate (ssl.client.auth=required), set ssl_certfile or ssl_keystore_location"
                    )
                return explained or error
        elif (
            connection.state is ConnectionState.READY
            and type(error) is DisconnectedError
            and self._authenticator is None
            and not connection.was_answered
            and self._in_flight.oldest_api_key(connection.id) == ApiKey.METADATA
        ):
            # Listeners with SASL do so, but so do brokers that start or stop, and load balancers in front of
            # them. So this is advice, and not an AuthenticationError:
            # docs/decisions/0042-wrong-security-protocol.md
            protocol = "SASL_SSL" if self._uses_tls else "SASL_PLAINTEXT"
            return DisconnectedError(
                f"{error}, at the first request after ApiVersions, as a listener with SASL does if the client"
                f" does not authenticate; if this is one, set security_protocol to {protocol}, and"
                " sasl_mechanism with its credentials"
            )
        return error

    def _handle_connections(self) -> None:
        for node_id in self._selector.connected:
            connection = self.connections.get(node_id)
            # A connection may come up and end within one poll.
            if connection is not None and connection.state is ConnectionState.CONNECTING:
                self._versions_to_ask[node_id] = connection.exchange.begin()

    def _ask_for_versions(self, now_ms: int) -> None:
        for node_id, version in list(self._versions_to_ask.items()):
            if not (self._selector.is_channel_ready(node_id) and self._in_flight.can_send_more(node_id)):
                continue
            del self._versions_to_ask[node_id]
            connection = self.connections.get(node_id)
            # The setup timeout applies until here, so that a handshake that never ends cannot block the node.
            if connection is not None and connection.state is ConnectionState.CONNECTING:
                self.connections.checking_api_versions(connection)
            request = self._api_versions_request(node_id, version)
            self.send(node_id, MessageBuilder(request, version, version), now_ms, None)

    def _api_versions_request(self, node_id: str, version: int) -> ApiVersionsRequest:
        """The request; names cluster and node if the broker can check them and both are known."""
        request = ApiVersionsRequest(
            client_software_name="kproducer", client_software_version=self._software_version
        )
        cluster_id = self._updater.cluster_id_to_check()
        # The ids of bootstrap addresses are negative: any broker of the cluster may answer there.
        if version >= IDENTITY_SINCE and cluster_id is not None and int(node_id) >= 0:
            request.cluster_id = cluster_id
            request.node_id = int(node_id)
        return request

    def _note_move(self, node: Node) -> None:
        """If metadata gives the node another address than its connection has, mark the connection."""
        connection = self.connections.get(str(node.id))
        if connection is None or connection.is_at(node) or connection.is_disconnected or connection.has_moved:
            return
        # Only an address in the metadata counts: the address of a coordinator may be older than the broker's
        # move.
        if node in self._updater.fetch_nodes():
            _log.info("%s has moved to %s", connection.broker, node)
            connection.has_moved = True
            self._moved[connection.id] = connection

    def _end_moved_connections(self, now_ms: int) -> bool:
        """End the idle connections to addresses that nodes have left. Returns whether there were any."""
        idle = [each for each in self._moved.values() if not self._in_flight.count_of(each.id)]
        for connection in idle:
            error = DisconnectedError(f"{connection.broker} has another address now")
            self.end_connection(connection, error, now_ms)
        return bool(idle)

    def _handle_request_timeouts(self, now_ms: int) -> None:
        for request in self._in_flight.expired(now_ms):
            connection = self.connections.get(request.destination)
            assert connection is not None
            error = RequestTimeoutError(
                f"{connection.broker} did not answer {api_name(request.api_key)} version"
                f" {request.api_version} (correlation id {request.correlation_id}) within"
                f" {request.timeout_ms} ms (request_timeout_ms)"
            )
            self.end_connection(connection, error, now_ms)

    def _complete(self, responses: Sequence[ClientResponse]) -> None:
        """Call all callbacks, then raise the first error that one of them raised: it is a bug."""
        first_bug: Exception | None = None
        for response in responses:
            try:
                callback = response.request.callback
                assert callback is not None  # requests of the client itself are completed elsewhere
                callback(response)
            except Exception as bug:
                _log.exception("Error in the callback of a %s response", api_name(response.request.api_key))
                first_bug = first_bug or bug
        if first_bug is not None:
            raise first_bug

    # -- the end of a connection -----------------------------------------------------------------------

    def end_connection(self, connection: NodeConnection, error: KafkaError, now_ms: int) -> None:
        """Close a connection because of ``error``."""
        self._selector.close(connection.id)
        self._connection_ended(connection, error, now_ms)

    def _connection_ended(self, connection: NodeConnection, error: KafkaError, now_ms: int) -> None:
        """Handle the end of a connection, or of an attempt to connect, for any reason."""
        if self.lanes is not None:
            self.lanes.connection_ended(connection.id)
        if connection.state is ConnectionState.CONNECTING:
            connection.exchange.on_connection_failed()
        self._versions_to_ask.pop(connection.id, None)
        self._moved.pop(connection.id, None)
        if self._authenticator is not None:
            error = self._authenticator.connection_ended(connection, error)
        self.connections.ended(connection, error, now_ms)
        if isinstance(error, AuthenticationError):
            self.metrics.count(self.metrics.refused)
        self._cancel_in_flight(connection.id, error, now_ms)
        self._updater.handle_server_disconnect(now_ms, connection.id, error)

    def _cancel_in_flight(self, node_id: str, error: KafkaError, now_ms: int) -> None:
        cause = error
        if not error.retriable and not isinstance(error, AuthenticationError):
            # Any other end of a connection is retriable, so the requests get a retriable error with the same
            # text.
            cause = DisconnectedError(str(error))
        for pending in self._in_flight.clear(node_id):
            if not pending.is_internal:
                self._ended.append(ClientResponse(pending, now_ms, disconnected=True, error=cause))
            elif pending.api_key == ApiKey.METADATA:
                self._updater.handle_failed_request(now_ms, error)


# -- construction --------------------------------------------------------------------------------------


def new_network_client(config: ProducerConfig, metadata: Metadata, clock: Clock) -> NetworkClient:
    """A client as the configuration describes it, with its selector. It connects on demand.

    Args:
        config: servers, timeouts, buffers.
        metadata: begins with the servers of ``config``; the caller closes it with the client.
        clock: the time for all parts.

    Raises:
        ConfigError: the security settings contradict each other, a file that they name cannot be used, or a
            package that they need is not installed.
    """
    tls: TlsSettings | None = None
    if config.uses_tls:
        from kproducer._core.security.tls_settings import TlsSettings

        tls = TlsSettings(config, clock)
    proxy: Proxy | None = None
    if config.proxy_url:
        from kproducer._core.config.proxy_url import parse_proxy_url

        proxy = Proxy(parse_proxy_url(config.proxy_url))
    windows = Windows(clock, config.metrics_num_samples, config.metrics_sample_window_ms)
    metrics = ConnectionMetrics(clock, windows)
    selector = Selector(
        config,
        clock,
        transport_factory=None if tls is None else tls.new_transport,
        proxy=proxy,
        channel_io=None if tls is None else tls.channel_io(),
        metrics=metrics,
    )
    try:
        sasl: SaslMechanism | None = None
        if config.uses_sasl:
            from kproducer._core.security.sasl_settings import sasl_mechanism_of

            sasl = sasl_mechanism_of(config, selector.wakeup)
        metadata.bootstrap(_bootstrap_addresses(config))
        new_updater = partial(MetadataUpdater, metadata, config)
        return NetworkClient(selector, new_updater, config, clock, sasl=sasl, proxy=proxy, metrics=metrics)
    except BaseException:
        selector.close()
        raise


def _bootstrap_addresses(config: ProducerConfig) -> list[tuple[str, int]]:
    addresses: list[tuple[str, int]] = []
    for server in config.bootstrap_servers:
        host, _, port = server.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only":
            try:
                addresses.extend(canonical_addresses(host, int(port)))
                continue
            except NetworkError as error:
                # Not an error here: the attempt to connect looks the name up again, and reports the failure.
                _log.warning("The canonical names of %s could not be resolved: %s", server, error)
        addresses.append((host, int(port)))
    return addresses
