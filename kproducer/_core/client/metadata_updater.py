"""MetadataUpdater: sends Metadata requests to the least loaded node, one at a time.

Returns to the configured bootstrap addresses when no known broker can be reached (KIP-899), when updates have
failed for too long, or when a broker asks for it (KIP-1102), also because it is not the broker that the
client means (KIP-1242). Gives up if no bootstrap name can be resolved in time (KIP-909). Knows nothing of
producing.
Source: Kafka class ``NetworkClient.MetadataUpdater``. Differs from Kafka: the Java client rebootstraps
when all nodes back off at the same moment, even after a single lost connection. This client does so only
after an attempt to connect to each node failed, because a rebootstrap forgets the topics.
"""

from __future__ import annotations

from kproducer_messages import MetadataRequest, MetadataResponse
from kproducer_messages.metadata_request import MetadataRequestTopic

from kproducer._core.client.api_versions import REBOOTSTRAP_REQUIRED
from kproducer._core.client.client_request import ClientRequest, MessageBuilder
from kproducer._core.client.connections import InternalClient
from kproducer._core.client.metadata import Metadata, MetadataRequestAndVersion
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import NEVER_MS
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import AuthenticationError, BootstrapResolutionError, DisconnectedError, KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError, error_for_code
from kproducer.errors.internal_errors import IdleDisconnectError
from kproducer.types import Node

_log = GuardedLogger(__name__)


class MetadataUpdater:
    """Keeps the metadata of a client up to date. I/O thread only.

    Args:
        metadata: thread-safe.
        config: ``request_timeout_ms``, ``metadata_recovery_strategy``,
            ``metadata_recovery_rebootstrap_trigger_ms``, ``metadata_cluster_check_enable``,
            ``bootstrap_servers``, ``bootstrap_resolve_timeout_ms``.
        client: sends the requests.

    Attributes:
        bootstrap_error: no name could be resolved in time (KIP-909), and nothing will be sent any more.
    """

    def __init__(self, metadata: Metadata, config: ProducerConfig, client: InternalClient) -> None:
        # fixed after construction
        self._metadata = metadata
        self._config = config
        self._may_rebootstrap = config.metadata_recovery_strategy == "rebootstrap"
        self._checks_cluster = config.metadata_cluster_check_enable and self._may_rebootstrap
        self._client = client
        # I/O thread only
        self.bootstrap_error: BootstrapResolutionError | None = None
        #: How long the bootstrap names may take to resolve; 0: no limit, also once the first one is resolved.
        self._resolve_timeout_ms = config.bootstrap_resolve_timeout_ms
        self._resolving_since_ms: int | None = None
        self._in_progress: MetadataRequestAndVersion | None = None
        self._attempt_since_ms: int | None = None  # when the first attempt after the last success began

    def fetch_nodes(self) -> list[Node]:
        """The nodes known at present. Never blocks. Any thread."""
        return list(self._metadata.snapshot.nodes.values())

    def cluster_id_to_check(self) -> str | None:
        """The cluster that brokers have to belong to; ``None``: not known yet, or not to be checked."""
        return self._metadata.snapshot.cluster_id if self._checks_cluster else None

    def is_update_due(self, now_ms: int) -> bool:
        """Whether an update should start now and none is in progress."""
        # Called per request: the usual case takes no lock.
        if self._in_progress is not None or now_ms < self._metadata.fresh_until_ms:
            return False
        return self._metadata.time_to_next_update(now_ms) == 0

    def maybe_update(self, now_ms: int) -> int:
        """Start an update if one is due and possible. Returns when to call again, in milliseconds."""
        if not self._resolve_timeout_ms:
            return self._maybe_update(now_ms)
        if self.bootstrap_error is not None:
            return NEVER_MS
        if self._client.connections.has_resolved:
            self._resolve_timeout_ms = 0
            return self._maybe_update(now_ms)
        if self._resolving_since_ms is None:
            self._resolving_since_ms = now_ms
        left_ms = self._resolving_since_ms + self._resolve_timeout_ms - now_ms
        if left_ms <= 0:
            self._fail_bootstrap()
            return NEVER_MS
        return min(left_ms, self._maybe_update(now_ms))

    def _fail_bootstrap(self) -> None:
        causes = "; ".join(self._client.connections.last_errors())
        servers = ", ".join(self._config.bootstrap_servers)
        self.bootstrap_error = BootstrapResolutionError(
            f"no name in bootstrap_servers ({servers}) could be resolved within"
            f" bootstrap_resolve_timeout_ms={self._resolve_timeout_ms} ({causes}); correct the names or the"
            " name service, then close this producer and create another"
        )
        _log.error("The producer cannot start: %s", self.bootstrap_error)
        self._metadata.fail(self.bootstrap_error)

    def _maybe_update(self, now_ms: int) -> int:
        if self._in_progress is not None:
            return self._config.request_timeout_ms
        wait_ms = self._metadata.fresh_until_ms - now_ms
        if wait_ms <= 0:
            wait_ms = self._metadata.time_to_next_update(now_ms)
        if wait_ms > 0:
            return wait_ms
        trigger_ms = self._config.metadata_recovery_rebootstrap_trigger_ms
        if self._attempt_since_ms is None:
            self._attempt_since_ms = now_ms
        elif self._may_rebootstrap and now_ms - self._attempt_since_ms > trigger_ms:
            _log.info(
                "No metadata update succeeded for %d ms (metadata_recovery_rebootstrap_trigger_ms = %d)",
                now_ms - self._attempt_since_ms,
                trigger_ms,
            )
            self._disconnect_and_rebootstrap(now_ms)
            self._attempt_since_ms = now_ms
        client = self._client
        if (
            self._may_rebootstrap
            and not self._metadata.snapshot.is_bootstrap
            and client.connections.are_all_unreachable(self.fetch_nodes())
        ):
            self._metadata.rebootstrap()
        node = client.connections.least_loaded(now_ms)
        if node is None:
            delays_ms = [client.connections.poll_delay_ms(node, now_ms) for node in self.fetch_nodes()]
            return max(min(delays_ms, default=NEVER_MS), 1)
        return self._request_update(node, now_ms)

    def _request_update(self, node: Node, now_ms: int) -> int:
        client = self._client
        if client.connections.can_send(str(node.id), now_ms):
            wanted = self._metadata.new_metadata_request_and_version(now_ms)
            self._in_progress = wanted
            _log.debug("Requesting metadata of %s from %s", wanted.topics, node)
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in wanted.topics])
            try:
                client.send(node.id, MessageBuilder(request), now_ms, None)
            except BaseException:
                # No response will come; waiting for one would stop all updates.
                self._in_progress = None
                self._metadata.failed_update(now_ms)
                raise
            return self._config.request_timeout_ms
        # One attempt at a time: wait for a connection that is being established instead of beginning another.
        if not client.connections.is_any_preparing(now_ms):
            client.connect_if_possible(node, now_ms)
        if not client.connections.is_any_preparing(now_ms):
            return max(self._metadata.time_to_next_update(now_ms), 1)  # failed at once
        # The poll ends when the connection is ready or has failed.
        return self._config.request_timeout_ms

    def _disconnect_and_rebootstrap(self, now_ms: int) -> None:
        for node in self.fetch_nodes():
            connection = self._client.connections.get(str(node.id))
            if connection is not None and not connection.is_disconnected:
                error = DisconnectedError(f"this client ended the connection to {connection.broker}")
                self._client.end_connection(connection, error, now_ms)
        self._metadata.rebootstrap()

    def handle_server_disconnect(self, now_ms: int, node_id: str, error: KafkaError) -> None:
        """A connection, or an attempt to connect, ended."""
        if self.bootstrap_error is not None:
            return
        if isinstance(error, IdleDisconnectError):
            return  # says nothing about the cluster
        if isinstance(error, (AuthenticationError, UnsupportedVersionError)):
            self._metadata.fatal_error(error)
        if self.is_update_due(now_ms):
            # The connection was for this update: wait before the next attempt.
            self._metadata.failed_update(now_ms, error)
        self._metadata.request_update(f"the connection to node {node_id} ended")

    def handle_wrong_broker(self, now_ms: int, broker: str) -> None:
        """A broker says that it is not the one that this client means: addresses were given to others."""
        if not self._may_rebootstrap:
            return
        # Behind a proxy that leads to another broker for good, this happens several times a second.
        suffix = self._client.connections.repeats.suffix(broker, now_ms)
        if suffix is not None:
            _log.warning(
                "%s is another broker, or of another cluster, than metadata says; starting again with"
                " bootstrap_servers%s",
                broker,
                suffix,
            )
        self._disconnect_and_rebootstrap(now_ms)

    def handle_acceptance(self) -> None:
        """A broker has answered the first request of a connection, authenticated if it had to be."""
        self._metadata.forget_refusal()

    def handle_failed_request(self, now_ms: int, error: KafkaError | None) -> None:
        """The update in progress failed. A fatal error is raised to the threads that wait for metadata."""
        self._in_progress = None
        if isinstance(error, (AuthenticationError, UnsupportedVersionError)):
            self._metadata.fatal_error(error)
        self._metadata.failed_update(now_ms, error)

    def handle_successful_response(
        self, request: ClientRequest, now_ms: int, response: MetadataResponse
    ) -> None:
        """The response to the update in progress arrived; it may contain an error."""
        wanted, self._in_progress = self._in_progress, None
        if wanted is None:
            return
        error_code = response.error_code
        if not error_code and response.brokers:
            self._attempt_since_ms = None
            self._metadata.update(wanted, response, now_ms, api_version=request.api_version)
            return
        # A broker that is just starting knows no brokers; its response would leave the client without any.
        self._metadata.failed_update(now_ms, error_for_code(error_code) if error_code else None)
        if error_code == REBOOTSTRAP_REQUIRED and self._may_rebootstrap:
            _log.info("Node %s asks for a rebootstrap", request.destination)
            self._disconnect_and_rebootstrap(now_ms)
