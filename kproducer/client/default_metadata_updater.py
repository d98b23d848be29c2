"""Drives ``Metadata`` over the network client: asks the least loaded node, one question at a time.

Falls back to the configured bootstrap addresses when no known broker can be reached (KIP-899), when updates
have failed for too long, or when a broker says so (KIP-1102). Knows nothing of producing.
Source: Kafka class ``NetworkClient.DefaultMetadataUpdater``. Differs from Kafka: the Java client starts
afresh when all nodes happen to be backing off at the same moment, be it after a single lost connection; this
one when an attempt to connect to each of them has failed, because starting afresh forgets the topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kproducer_messages import MetadataRequest, MetadataResponse
from kproducer_messages.metadata_request import MetadataRequestTopic

from kproducer.client.client_request import ClientRequest
from kproducer.client.metadata import Metadata, MetadataRequestAndVersion
from kproducer.client.metadata_updater import MetadataClient
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import AuthenticationError, IllegalStateError, KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError, error_for_code
from kproducer.network.selector import IdleDisconnectError
from kproducer.protocol.registry import ApiKey, api_name, supported_versions
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.types import Node

_log = GuardedLogger(__name__)

#: KIP-1102: the broker asks the client to start again from its bootstrap addresses.
_REBOOTSTRAP_REQUIRED = 129

#: Before this version topics could not be kept from being created by asking for them.
_FIRST_VERSION_WITH_AUTO_CREATION_FLAG = 4


class MetadataRequestBuilder:
    """A Metadata request for the topics that are wanted."""

    __slots__ = ("latest_version", "oldest_version", "wanted")

    def __init__(self, wanted: MetadataRequestAndVersion) -> None:
        versions = supported_versions(ApiKey.METADATA)
        self.oldest_version = versions.min
        self.latest_version = versions.max
        self.wanted = wanted

    @property
    def api_key(self) -> int:
        return ApiKey.METADATA

    def build(self, version: int) -> MetadataRequest:
        wanted = self.wanted
        if not wanted.allow_auto_topic_creation and version < _FIRST_VERSION_WITH_AUTO_CREATION_FLAG:
            raise UnsupportedVersionError(
                f"{api_name(ApiKey.METADATA)} version {version} cannot ask for topics without creating them"
                f" (version {_FIRST_VERSION_WITH_AUTO_CREATION_FLAG} can)"
            )
        topics: list[MetadataRequestTopic] | None = None
        if wanted.topics is not None:
            topics = [MetadataRequestTopic(name=name) for name in wanted.topics]
        elif version == 0:
            topics = []  # version 0 has no null; there an empty list means all topics
        return MetadataRequest(topics=topics, allow_auto_topic_creation=wanted.allow_auto_topic_creation)


class DefaultMetadataUpdater:
    """The updater of a client with a ``Metadata``. I/O thread only.

    Args:
        metadata: what is kept fresh; has its own lock.
        config: ``request_timeout_ms``, ``metadata_recovery_strategy``,
            ``metadata_recovery_rebootstrap_trigger_ms``.
    """

    def __init__(self, metadata: Metadata, config: ProducerConfig) -> None:
        # fixed after construction
        self._metadata = metadata
        self._request_timeout_ms = config.request_timeout_ms
        self._may_rebootstrap = config.metadata_recovery_strategy == "rebootstrap"
        self._rebootstrap_trigger_ms = config.metadata_recovery_rebootstrap_trigger_ms
        self._attached: MetadataClient | None = None
        # I/O thread only
        self._in_progress: MetadataRequestAndVersion | None = None
        self._attempt_since_ms: int | None = None  # when the first attempt after the last success began

    def attach(self, client: MetadataClient) -> None:
        self._attached = client

    @property
    def _client(self) -> MetadataClient:
        if self._attached is None:
            raise IllegalStateError("the metadata updater has no network client yet")
        return self._attached

    def fetch_nodes(self) -> Sequence[Node]:
        return list(self._metadata.snapshot.nodes.values())

    def is_update_due(self, now_ms: int) -> bool:
        # Asked for each request: the usual answer costs no lock.
        if self._in_progress is not None or self._metadata.is_fresh(now_ms):
            return False
        return self._metadata.time_to_next_update(now_ms) == 0

    def maybe_update(self, now_ms: int) -> int:
        if self._in_progress is not None:
            return self._request_timeout_ms
        wait_ms = self._metadata.time_to_next_update(now_ms)
        if wait_ms > 0:
            return wait_ms
        if self._attempt_since_ms is None:
            self._attempt_since_ms = now_ms
        elif self._may_rebootstrap and now_ms - self._attempt_since_ms > self._rebootstrap_trigger_ms:
            _log.info(
                "No metadata update succeeded for %d ms (metadata_recovery_rebootstrap_trigger_ms = %d)",
                now_ms - self._attempt_since_ms,
                self._rebootstrap_trigger_ms,
            )
            self._client.disconnect_all_known(now_ms)
            self.rebootstrap(now_ms)
            self._attempt_since_ms = now_ms
        client = self._client
        if (
            self._may_rebootstrap
            and not self._metadata.snapshot.is_bootstrap  # else there is nothing to fall back to
            and client.are_all_nodes_unreachable()
        ):
            self.rebootstrap(now_ms)
        node = client.least_loaded_node(now_ms)
        if node is None:
            return max(client.shortest_poll_delay_ms(now_ms), 1)
        return self._ask(node, now_ms)

    def _ask(self, node: Node, now_ms: int) -> int:
        client = self._client
        if client.can_send(node, now_ms):
            wanted = self._metadata.new_metadata_request_and_version(now_ms)
            self._in_progress = wanted
            _log.debug("Asking %s for metadata of %s", node, wanted.topics)
            try:
                client.send_internal(node, MetadataRequestBuilder(wanted), now_ms)
            except BaseException:
                # No answer will come; waiting for it would be the end of all updates.
                self._in_progress = None
                self._metadata.failed_update(now_ms)
                raise
            return self._request_timeout_ms
        # One connection at a time: a second one would only be made because the first needs a moment.
        if not client.is_any_node_preparing(now_ms):
            client.connect_if_possible(node, now_ms)
        if not client.is_any_node_preparing(now_ms):
            return max(self._metadata.time_to_next_update(now_ms), 1)  # failed at once
        # The end of the preparation, good or bad, ends the poll.
        return self._request_timeout_ms

    def handle_server_disconnect(self, now_ms: int, node_id: str, error: KafkaError) -> None:
        if isinstance(error, IdleDisconnectError):
            return  # says nothing about the cluster
        if isinstance(error, (AuthenticationError, UnsupportedVersionError)):
            self._metadata.fatal_error(error)
        if self.is_update_due(now_ms):
            # The attempt to get an update ended here: wait before the next one.
            self._metadata.failed_update(now_ms, error)
        self._metadata.request_update(f"the connection to node {node_id} ended")

    def handle_failed_request(self, now_ms: int, error: KafkaError | None) -> None:
        self._in_progress = None
        if isinstance(error, (AuthenticationError, UnsupportedVersionError)):
            self._metadata.fatal_error(error)
        self._metadata.failed_update(now_ms, error)

    def handle_successful_response(
        self, request: ClientRequest, api_version: int, now_ms: int, response: MetadataResponse | Any
    ) -> None:
        wanted, self._in_progress = self._in_progress, None
        if wanted is None:
            return
        error_code = response.error_code
        if error_code == _REBOOTSTRAP_REQUIRED and self._may_rebootstrap:
            _log.info("Node %s asks for a rebootstrap", request.destination)
            self._client.disconnect_all_known(now_ms)
            self._metadata.failed_update(now_ms, error_for_code(error_code))
            self.rebootstrap(now_ms)
            return
        if error_code:
            self._metadata.failed_update(now_ms, error_for_code(error_code))
            return
        if not response.brokers:
            # A broker that is just starting knows nobody; taking that in would leave us without any node.
            self._metadata.failed_update(now_ms)
            return
        self._attempt_since_ms = None
        self._metadata.update(
            wanted.request_version, response, wanted.is_partial, now_ms, api_version=api_version
        )

    def rebootstrap(self, now_ms: int) -> None:
        self._metadata.rebootstrap()

    def close(self) -> None:
        self._in_progress = None
