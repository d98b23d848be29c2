"""Requests to nodes and their answers: connections, versions, in-flight limits, timeouts, throttling.

Sits between the sender (requests by node) and the selector (frames by connection). Knows no batches and no
topics. ``poll`` is the steppable unit. Source: Kafka class ``NetworkClient``; KIP-35 and KIP-511 (versions),
KIP-219 (throttling), KIP-601 (setup timeout), KIP-899 (rebootstrap).
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Sequence

from kproducer.client.api_versions import ApiVersions, NegotiatedVersions, NodeApiVersions
from kproducer.client.api_versions_exchange import ApiVersionsExchange, ApiVersionsRequestBuilder
from kproducer.client.client_request import ClientRequest, ClientResponse, RequestBuilder
from kproducer.client.cluster_connection_states import ClusterConnectionStates, ConnectionState
from kproducer.client.connection_troubles import ConnectionTroubles
from kproducer.client.in_flight_requests import InFlightRequest, InFlightRequests
from kproducer.client.metadata_updater import MetadataUpdater
from kproducer.client.node_choice import choose_least_loaded
from kproducer.client.response_correlation import ResponseCorrelation
from kproducer.client.selectable import Selectable
from kproducer.client.throttling import Throttling
from kproducer.client.unanswered_requests import UnansweredRequests
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import (
    AuthenticationError,
    DisconnectedError,
    IllegalStateError,
    KafkaError,
    LocalProtocolError,
    NetworkError,
    RemoteProtocolError,
    RequestTimeoutError,
)
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.network.host_resolver import BackgroundResolver, BeginLookup, ResolvedAddress
from kproducer.network.network_receive import NetworkReceive
from kproducer.network.network_send import NetworkSend
from kproducer.protocol.registry import ApiKey, api_name
from kproducer.protocol.send_builder import build_request
from kproducer.runtime.clock import NEVER_MS, Clock
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.runtime.log_repeats import LogRepeats
from kproducer.types import Node

_log = GuardedLogger(__name__)

_CORRELATION_ID_LIMIT = 2**31

#: A request that cannot be sent is tried again and again: so often the log hears of it.
_QUIET_MS = 60_000

SOFTWARE_NAME = "kproducer"


class NetworkClient:
    """Asynchronous requests to the nodes of a cluster.

    I/O thread only, except ``wakeup``, ``initiate_close``, ``active``, ``last_error(s)`` and
    ``negotiated_versions``, which any thread may use.

    Args:
        selector: the connections.
        metadata_updater: knows the nodes and is told of answers and disconnects.
        config: client id, timeouts, backoffs, in-flight limit.
        clock: the time after a poll.
        begin_lookup: host name to addresses; ``None``: asked of the operating system on other threads.
        random: for backoff jitter and the choice among equal nodes.
        software_version: sent to brokers together with our name (KIP-511).
    """

    def __init__(
        self,
        selector: Selectable,
        metadata_updater: MetadataUpdater,
        config: ProducerConfig,
        clock: Clock,
        *,
        begin_lookup: BeginLookup | None = None,
        random: random_module.Random | None = None,
        software_version: str = "0",
    ) -> None:
        # fixed after construction
        self._selector = selector
        self._metadata_updater = metadata_updater
        self._clock = clock
        self._client_id = config.client_id
        self._request_timeout_ms = config.request_timeout_ms
        self._random = random if random is not None else random_module.Random()
        self._software_version = software_version
        self.api_versions = ApiVersions()
        self._negotiated = NegotiatedVersions()
        # I/O thread only
        self._resolver = BackgroundResolver(selector.wakeup)
        self._states = ClusterConnectionStates(
            config.reconnect_backoff_ms,
            config.reconnect_backoff_max_ms,
            config.socket_connection_setup_timeout_ms,
            config.socket_connection_setup_timeout_max_ms,
            begin_lookup if begin_lookup is not None else self._resolver.begin,
            self._random,
        )
        self._in_flight = InFlightRequests(config.max_in_flight_requests_per_connection)
        self._exchange = ApiVersionsExchange()
        self._moved: set[str] = set()  # connections to where their node is no longer
        self._versions_to_ask: dict[str, int] = {}  # connections whose version check is to be sent
        self._correlation_id = 0
        self._aborted: list[ClientResponse] = []  # ended outside of poll; handed out by the next one
        self._unanswered_queued = 0  # requests that end by being written, and are not written yet
        self._unanswered = UnansweredRequests()
        self._unsent = LogRepeats(_QUIET_MS)
        self._throttling = Throttling(self._states, self._in_flight)
        self._correlation = ResponseCorrelation(self._in_flight, self._unanswered)
        self._troubles = ConnectionTroubles(self._states, self._in_flight, config.request_timeout_ms)
        # any thread
        self._closing = False
        self._closed = False
        metadata_updater.attach(self)

    # -- nodes -----------------------------------------------------------------------------------------

    def ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent to the node now; if there is no connection, begin one.

        A connection to another address than the node's ends as soon as its requests are answered.
        """
        self._note_move(node)
        if self.is_ready(node, now_ms):
            return True
        self.connect_if_possible(node, now_ms)
        return False

    def is_ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent to the node now. A metadata update that is due goes first."""
        return self.can_send(node, now_ms) and not self._metadata_updater.is_update_due(now_ms)

    def _note_move(self, node: Node) -> None:
        node_id = str(node.id)
        if not self._states.is_elsewhere(node_id, node.host, node.port) or node_id in self._moved:
            return
        # Metadata has the last word: a coordinator may have been found before its broker moved.
        if node in self._metadata_updater.fetch_nodes():
            _log.info("%s has moved to %s", self._broker(node_id), node)
            self._moved.add(node_id)

    def can_send(self, node: Node, now_ms: int) -> bool:
        """Whether the connection is checked, not throttled and has room for a request."""
        return self._can_send(str(node.id), now_ms)

    def _can_send(self, node_id: str, now_ms: int) -> bool:
        return (
            self._states.is_ready(node_id, now_ms)
            and node_id not in self._moved
            and self._in_flight.can_send_more(node_id)
            and self._selector.is_channel_ready(node_id)
        )

    def connect_if_possible(self, node: Node, now_ms: int) -> None:
        """Begin a connection unless there is one, or the backoff is not over."""
        node_id = str(node.id)
        if not self._closing and self._states.can_connect(node_id, now_ms):
            self._initiate_connect(node_id, node, now_ms)

    def connection_delay_ms(self, node: Node, now_ms: int) -> int:
        """How long until a connection may be attempted; very long where an event will tell."""
        return self._states.connection_delay_ms(str(node.id), now_ms)

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """How long until the node may become usable by itself (backoff, throttling)."""
        return self._states.poll_delay_ms(str(node.id), now_ms)

    def connection_failed(self, node: Node) -> bool:
        """Whether there is no connection to the node because the last one ended or never came up."""
        node_id = str(node.id)
        return self._states.last_attempt_ms(node_id) > 0 and self._states.is_disconnected(node_id)

    def authentication_error(self, node: Node) -> KafkaError | None:
        """Why the node refused our credentials at the last attempt."""
        return self._states.authentication_error(str(node.id))

    def last_error(self, node_id: int | str) -> str | None:
        """How the last connection to the node ended, in words; None while all is well. Any thread."""
        return self._troubles.last_error(str(node_id))

    def last_errors(self) -> list[str]:
        """For every node known at present its ``last_error``, or what it is waited for. Any thread."""
        return self._troubles.of_all(self._metadata_updater.fetch_nodes())

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """The node best suited for a request now; see ``node_choice``. None when there is none at present."""
        nodes = self._metadata_updater.fetch_nodes()
        if not nodes:
            return None
        start = self._random.randrange(len(nodes))
        return choose_least_loaded(
            nodes, start, self._can_send, self._in_flight.count_of, self._states, now_ms
        )

    def are_all_nodes_unreachable(self) -> bool:
        """Whether the last attempt to connect failed for each of the known nodes."""
        return all(self._states.is_unreachable(str(node.id)) for node in self._metadata_updater.fetch_nodes())

    def is_any_node_preparing(self, now_ms: int) -> bool:
        """Whether any connection is on its way to ready, and not held up by a slow name service."""
        return self._states.is_any_preparing(now_ms)

    def shortest_poll_delay_ms(self, now_ms: int) -> int:
        """How long until any known node's backoff or throttling is over."""
        nodes = self._metadata_updater.fetch_nodes()
        return min((self.poll_delay_ms(node, now_ms) for node in nodes), default=NEVER_MS)

    def disconnect(self, node: Node | str) -> None:
        """End the connection to a node; its requests end as disconnected in the next poll."""
        node_id = node if isinstance(node, str) else str(node.id)
        if self._states.is_disconnected(node_id):
            return
        self._selector.close(node_id)
        error = DisconnectedError(f"this client ended the connection to {self._broker(node_id)}")
        self._connection_ended(node_id, self._clock.monotonic_ms(), error, self._aborted)

    def disconnect_all_known(self, now_ms: int) -> None:
        """End the connections to all known nodes (before a rebootstrap)."""
        for node in self._metadata_updater.fetch_nodes():
            self.disconnect(node)

    # -- requests --------------------------------------------------------------------------------------

    def new_client_request(
        self,
        node_id: int | str,
        request_builder: RequestBuilder,
        now_ms: int,
        expect_response: bool,
        request_timeout_ms: int | None = None,
        callback: Callable[[ClientResponse], None] | None = None,
    ) -> ClientRequest:
        """A request with the next correlation id; ``request_timeout_ms`` defaults to the configured one."""
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) % _CORRELATION_ID_LIMIT
        timeout_ms = self._request_timeout_ms if request_timeout_ms is None else request_timeout_ms
        return ClientRequest(
            str(node_id),
            request_builder,
            correlation_id,
            self._client_id,
            now_ms,
            expect_response,
            timeout_ms,
            callback,
        )

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Send a request; its callback is called by a later ``poll``.

        A request that the broker has no version for, or that cannot be encoded, is not sent and ends in the
        next poll with ``unsupported_version`` or ``error``. Raises IllegalStateError when the node is not
        ready or the client is closed.
        """
        if self._closing:
            raise IllegalStateError("the network client is closed")
        if not self._can_send(request.destination, now_ms):
            raise IllegalStateError(
                f"{api_name(request.api_key)} to node {request.destination}: the node is not ready"
            )
        self._send(request, False, now_ms)

    def send_internal(self, node: Node, builder: RequestBuilder, now_ms: int) -> None:
        """Send a request of the metadata updater; the answer goes back to it."""
        self._send(self.new_client_request(node.id, builder, now_ms, True), True, now_ms)

    def _send(self, request: ClientRequest, is_internal: bool, now_ms: int) -> None:
        builder = request.builder
        node_id = request.destination
        version = builder.latest_version
        try:
            table = self.api_versions.get(node_id)
            if table is not None:
                version = table.latest_usable_version(
                    builder.api_key, builder.oldest_version, builder.latest_version
                )
            message = builder.build(version)
            buffers = build_request(
                builder.api_key, version, request.correlation_id, request.client_id, message
            )
        except (UnsupportedVersionError, LocalProtocolError) as error:
            self._not_sent(request, is_internal, version, error, now_ms)
            return
        send = NetworkSend(node_id, buffers)
        self._negotiated.note(node_id, builder.api_key, version)
        try:
            self._selector.send(send)
            self._in_flight.add(InFlightRequest(request, version, send, is_internal, now_ms))
        except BaseException:
            # Never expected. The caller will take the request for unsent and use its buffers again: end the
            # connection, so that it cannot go on reading them.
            self.disconnect(node_id)
            raise
        if not request.expect_response:
            self._unanswered_queued += 1

    def _not_sent(
        self, request: ClientRequest, is_internal: bool, version: int, error: KafkaError, now_ms: int
    ) -> None:
        if is_internal:
            broker = self._broker(request.destination)
            suffix = self._unsent.suffix((broker, request.api_key), now_ms)
            if suffix is not None:
                _log.warning("%s to %s was not sent: %s%s", api_name(request.api_key), broker, error, suffix)
            self._metadata_updater.handle_failed_request(now_ms, error)
            return
        unsupported = error if isinstance(error, UnsupportedVersionError) else None
        self._aborted.append(
            ClientResponse(request, version, now_ms, unsupported_version=unsupported, error=error)
        )

    def in_flight_request_count(self, node_id: int | str | None = None) -> int:
        """Requests sent and not ended, to one node or to all."""
        return self._in_flight.count if node_id is None else self._in_flight.count_of(str(node_id))

    @property
    def has_in_flight_requests(self) -> bool:
        """Whether any request has been sent and not ended."""
        return self._in_flight.count > 0

    def negotiated_versions(self) -> dict[int, dict[ApiKey, int]]:
        """The versions really used, by node id and API, latest use wins. Any thread."""
        return self._negotiated.by_node()

    # -- the loop --------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int, now_ms: int) -> list[ClientResponse]:
        """Do the I/O that is possible, waiting up to ``timeout_ms`` for some; the requests that ended.

        Their callbacks are called before it returns. A metadata update is started when one is due.
        Raises IllegalStateError after ``close``, and what a callback has raised, once all were called.
        """
        if self._closed:
            raise IllegalStateError("the network client is closed")
        if not self._closing:
            timeout_ms = min(timeout_ms, self._metadata_updater.maybe_update(now_ms))
        timeout_ms = min(
            timeout_ms,
            self._in_flight.next_expiry_delay_ms(now_ms),
            self._states.next_setup_timeout_ms(now_ms),
        )
        if self._end_moved_connections(self._aborted, now_ms):
            timeout_ms = 0  # the callers of ready() wait for a connection, and may begin it now
        # Requests without an answer end as soon as they are written: that is not to be kept back by a wait.
        # (Where the socket is full, its becoming writable ends the wait.)
        ends_now = self._aborted or self._unanswered_queued
        self._unanswered_queued = 0
        self._selector.poll(0 if ends_now else max(timeout_ms, 0))
        now_ms = self._clock.monotonic_ms()
        responses, self._aborted = self._aborted, []
        try:
            self._handle_completed_sends(responses, now_ms)
            self._handle_completed_receives(responses, now_ms)
            self._handle_disconnections(responses, now_ms)
            self._handle_connections()
            self._ask_for_versions(now_ms)
            self._end_moved_connections(responses, now_ms)
            self._handle_lookups(responses, now_ms)
            self._handle_setup_timeouts(responses, now_ms)
            self._handle_request_timeouts(responses, now_ms)
        finally:
            # Whatever went wrong: these are in flight no more, and nobody would ever hear of them again.
            self._complete(responses)
        return responses

    def wakeup(self) -> None:
        """End the present or next ``poll`` early. Any thread; cheap and coalesced."""
        self._selector.wakeup()

    @property
    def active(self) -> bool:
        """Whether neither ``initiate_close`` nor ``close`` was called."""
        return not self._closing

    def initiate_close(self) -> None:
        """Refuse new requests and connections from now on; what is in flight goes on. Any thread."""
        self._closing = True
        self.wakeup()

    def close(self, node: Node | str | None = None) -> None:
        """End one connection and forget its node, or end everything.

        The requests of one node end as disconnected in the next poll; on closing everything their callbacks
        are called here. Idempotent.
        """
        if node is not None:
            self.disconnect(node)
            self._states.remove(node if isinstance(node, str) else str(node.id))
            return
        if self._closed:
            return
        self._closing = self._closed = True
        self._resolver.close()
        self._selector.close()
        self._metadata_updater.close()
        responses, self._aborted = self._aborted, []
        now_ms = self._clock.monotonic_ms()
        error = DisconnectedError("the client was closed")
        for node_id in self._in_flight.node_ids():
            self._cancel_in_flight(node_id, now_ms, error, responses, timed_out=False)
        self._complete(responses)

    def release_after_fork(self) -> None:
        """In a forked child: give back inherited descriptors; the parent's connections are not touched."""
        self._closing = self._closed = True
        self._resolver.release_after_fork()
        self._selector.release_after_fork()

    # -- what a poll brought ---------------------------------------------------------------------------

    def _handle_completed_sends(self, responses: list[ClientResponse], now_ms: int) -> None:
        """End the requests that expect no response."""
        for send in self._selector.completed_sends:
            ended = self._in_flight.complete_unanswered(send)
            if ended is not None:
                self._unanswered.add(send.destination, ended.request.correlation_id)
                responses.append(ClientResponse(ended.request, ended.api_version, now_ms))

    def _handle_completed_receives(self, responses: list[ClientResponse], now_ms: int) -> None:
        for receive in self._selector.completed_receives:
            node_id = receive.source
            if not self._states.is_connected(node_id):
                continue  # an earlier response of this poll ended the connection
            try:
                self._handle_receive(receive, responses, now_ms)
            except Exception as cause:
                error = cause if isinstance(cause, RemoteProtocolError) else self._bug_in(receive, cause)
                self._selector.close(node_id)
                self._connection_ended(node_id, now_ms, error, responses)

    def _bug_in(self, receive: NetworkReceive, cause: Exception) -> RemoteProtocolError:
        """An answer that we stumble over ends its connection, and nothing else: the others go on."""
        broker = self._broker(receive.source)
        _log.error("Unexpected error with a response of %s", broker, exc_info=cause)
        error = RemoteProtocolError(f"a response of {broker} could not be dealt with: {cause!r}")
        error.__cause__ = cause
        return error

    def _handle_receive(self, receive: NetworkReceive, responses: list[ClientResponse], now_ms: int) -> None:
        node_id = receive.source
        pending = self._correlation.request_of(receive, self._broker(node_id))
        if pending is None:
            return
        request, version = pending.request, pending.api_version
        api_key = request.builder.api_key
        if api_key == ApiKey.API_VERSIONS and pending.is_internal:
            self._handle_versions_answer(node_id, pending, receive.payload, responses, now_ms)
            return
        body = self._correlation.parse(receive, pending)
        if body is None:
            return
        self._in_flight.complete_oldest(node_id)
        if not pending.is_internal:
            # At once: in flight no more and not yet in here it would never end if something failed.
            responses.append(ClientResponse(request, version, now_ms, body=body))
        self._maybe_throttle(node_id, api_key, version, body, now_ms)
        if pending.is_internal:
            self._metadata_updater.handle_successful_response(request, version, now_ms, body)
            nodes = self._metadata_updater.fetch_nodes()
            self._states.retain(str(node.id) for node in nodes)
            for node in nodes:
                self._note_move(node)

    def _handle_versions_answer(
        self,
        node_id: str,
        pending: InFlightRequest,
        payload: bytes,
        responses: list[ClientResponse],
        now_ms: int,
    ) -> None:
        broker = self._broker(node_id)
        version = pending.api_version
        answer = self._exchange.on_answer(node_id, broker, version, pending.request.correlation_id, payload)
        self._in_flight.complete_oldest(node_id)
        if answer.ask_again_in is not None:
            _log.debug(
                "%s does not know ApiVersions version %d; asking again in version %d",
                broker,
                version,
                answer.ask_again_in,
            )
            self._versions_to_ask[node_id] = answer.ask_again_in
        elif answer.response is not None:
            self.api_versions.update(node_id, NodeApiVersions.from_response(broker, answer.response))
            self._states.ready(node_id)
            self._troubles.over(node_id)
            self._maybe_throttle(node_id, ApiKey.API_VERSIONS, version, answer.response, now_ms)
            _log.debug("Connection to %s is ready", broker)
        else:
            self._selector.close(node_id)
            error = answer.error or RemoteProtocolError(f"{broker} refused ApiVersions")
            self._connection_ended(node_id, now_ms, error, responses)

    def _handle_disconnections(self, responses: list[ClientResponse], now_ms: int) -> None:
        for node_id, error in self._selector.disconnected.items():
            if not self._states.is_disconnected(node_id):
                self._connection_ended(node_id, now_ms, error, responses, by_peer=True)

    def _handle_connections(self) -> None:
        for node_id in self._selector.connected:
            # A connection may come up and end within one poll.
            if self._states.state(node_id) is ConnectionState.CONNECTING:
                self._versions_to_ask[node_id] = self._exchange.begin(node_id)

    def _ask_for_versions(self, now_ms: int) -> None:
        for node_id, version in list(self._versions_to_ask.items()):
            if not (self._selector.is_channel_ready(node_id) and self._in_flight.can_send_more(node_id)):
                continue
            del self._versions_to_ask[node_id]
            # The state changes only now: until the question can be sent the setup timeout goes on counting,
            # so a channel whose handshake never ends cannot get stuck.
            if self._states.state(node_id) is ConnectionState.CONNECTING:
                self._states.checking_api_versions(node_id)
            builder = ApiVersionsRequestBuilder(version, SOFTWARE_NAME, self._software_version)
            self._send(self.new_client_request(node_id, builder, now_ms, True), True, now_ms)

    def _end_moved_connections(self, responses: list[ClientResponse], now_ms: int) -> bool:
        """End the connections to addresses that nodes have left, once nothing is in flight on them.

        Returns whether there was any.
        """
        if not self._moved:
            return False
        ending = [each for each in self._moved if not self._in_flight.count_of(each)]
        for node_id in ending:
            error = DisconnectedError(f"{self._broker(node_id)} has another address now")
            self._selector.close(node_id)
            self._connection_ended(node_id, now_ms, error, responses)
        return bool(ending)

    def _handle_lookups(self, responses: list[ClientResponse], now_ms: int) -> None:
        """Connect to the nodes whose addresses are known by now."""
        for node_id in self._states.looked_up():
            try:
                self._connect(node_id, self._states.resolved_address(node_id, now_ms))
            except NetworkError as error:
                self._connection_ended(node_id, now_ms, error, responses)

    def _handle_setup_timeouts(self, responses: list[ClientResponse], now_ms: int) -> None:
        for node_id in self._states.nodes_past_setup_timeout(now_ms):
            limit_ms = self._states.setup_timeout_ms(node_id)
            what = "no connection to"
            if self._states.is_resolving(node_id):
                what = "the name service has not answered for the host name of"
            self._selector.close(node_id)
            error = NetworkError(
                f"{what} {self._broker(node_id)} within {limit_ms} ms (socket_connection_setup_timeout_ms)"
            )
            self._connection_ended(node_id, now_ms, error, responses)

    def _handle_request_timeouts(self, responses: list[ClientResponse], now_ms: int) -> None:
        for late in self._in_flight.expired(now_ms):
            request = late.request
            node_id = request.destination
            self._selector.close(node_id)
            error = RequestTimeoutError(
                f"{self._broker(node_id)} did not answer {api_name(request.api_key)} version"
                f" {late.api_version} (correlation id {request.correlation_id}) within"
                f" {request.request_timeout_ms} ms (request_timeout_ms)"
            )
            self._connection_ended(node_id, now_ms, error, responses, timed_out=True)

    def _complete(self, responses: Sequence[ClientResponse]) -> None:
        """Call all callbacks, whatever one of them raises; then raise the first of that: it is a bug."""
        first_bug: Exception | None = None
        for response in responses:
            try:
                response.on_complete()
            except Exception as bug:
                _log.exception("Error in the callback of a %s response", api_name(response.api_key))
                first_bug = first_bug or bug
        if first_bug is not None:
            raise first_bug

    # -- connections beginning and ending --------------------------------------------------------------

    def _initiate_connect(self, node_id: str, node: Node, now_ms: int) -> None:
        self._troubles.connecting(node_id, node)
        try:
            resolved = self._states.connecting(node_id, now_ms, node.host, node.port)
            if resolved is not None:
                self._connect(node_id, resolved)
        except NetworkError as error:
            self._connection_ended(node_id, now_ms, error, self._aborted)

    def _connect(self, node_id: str, resolved: ResolvedAddress) -> None:
        self._selector.connect(node_id, resolved.address, resolved.family)

    def _connection_ended(
        self,
        node_id: str,
        now_ms: int,
        error: KafkaError,
        responses: list[ClientResponse],
        *,
        timed_out: bool = False,
        by_peer: bool = False,
    ) -> None:
        """The one place where a connection's end is worked off, whoever ended it."""
        state = self._states.state(node_id)
        broker = self._broker(node_id)
        if state is ConnectionState.CONNECTING:
            self._exchange.on_connection_failed(node_id)
        elif state is ConnectionState.CHECKING_API_VERSIONS and by_peer and type(error) is DisconnectedError:
            error = self._exchange.on_connection_lost(node_id, broker) or error
        self.api_versions.remove(node_id)
        self._versions_to_ask.pop(node_id, None)
        self._moved.discard(node_id)
        self._unanswered.clear(node_id)
        if isinstance(error, AuthenticationError):
            self._states.authentication_failed(node_id, now_ms, error)
        else:
            self._states.disconnected(node_id, now_ms)
        self._troubles.connection_ended(node_id, state, error, now_ms)
        if state is not ConnectionState.READY and self.are_all_nodes_unreachable():
            self._troubles.no_broker_reachable(self._metadata_updater.fetch_nodes(), now_ms)
        self._cancel_in_flight(node_id, now_ms, error, responses, timed_out=timed_out)
        self._metadata_updater.handle_server_disconnect(now_ms, node_id, error)

    def _cancel_in_flight(
        self,
        node_id: str,
        now_ms: int,
        error: KafkaError,
        responses: list[ClientResponse],
        *,
        timed_out: bool,
    ) -> None:
        # For the requests every end of a connection is the same: try again. What ended it is in the text.
        cause = error if error.retriable else DisconnectedError(str(error))
        authentication_error = error if isinstance(error, AuthenticationError) else None
        for pending in self._in_flight.clear(node_id):
            if not pending.is_internal:
                responses.append(
                    ClientResponse(
                        pending.request,
                        pending.api_version,
                        now_ms,
                        disconnected=True,
                        timed_out=timed_out,
                        authentication_error=authentication_error,
                        error=cause,
                    )
                )
            elif pending.request.api_key == ApiKey.METADATA:
                self._metadata_updater.handle_failed_request(now_ms, error)

    # -- small things ----------------------------------------------------------------------------------

    def _broker(self, node_id: str) -> str:
        return self._troubles.broker(node_id)

    def _maybe_throttle(self, node_id: str, api_key: int, version: int, body: object, now_ms: int) -> None:
        self._throttling.honour(node_id, self._broker(node_id), api_key, version, body, now_ms)
