"""What the network client asks of whoever keeps the cluster metadata fresh.

The client calls these from ``poll`` and on disconnects; the implementation asks nodes through the client's
internal sends. Source: Kafka interface ``MetadataUpdater``; KIP-899, KIP-1102 (rebootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kproducer.client.client_request import ClientRequest, RequestBuilder
from kproducer.errors import KafkaError
from kproducer.types import Node


class MetadataClient(Protocol):
    """The part of the network client that an updater uses. I/O thread only."""

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """The node best suited for a request now, None when none can be reached at present."""

    def are_all_nodes_unreachable(self) -> bool:
        """Whether the last attempt to connect failed for each of the known nodes."""

    def is_any_node_preparing(self, now_ms: int) -> bool:
        """Whether any connection is on its way to ready, and not held up by a slow name service."""

    def can_send(self, node: Node, now_ms: int) -> bool:
        """Whether a request to this node may be sent now."""

    def connect_if_possible(self, node: Node, now_ms: int) -> None:
        """Start a connection unless there is one or the backoff forbids it."""

    def send_internal(self, node: Node, builder: RequestBuilder, now_ms: int) -> None:
        """Send a request whose answer goes to the updater."""

    def shortest_poll_delay_ms(self, now_ms: int) -> int:
        """How long until any known node's backoff or throttling is over, if no event comes before."""

    def disconnect_all_known(self, now_ms: int) -> None:
        """Give up the connections to all known nodes."""


class MetadataUpdater(Protocol):
    """Keeps the metadata fresh. I/O thread only."""

    def attach(self, client: MetadataClient) -> None:
        """The client that will do the sending; called once, by the client."""

    def fetch_nodes(self) -> Sequence[Node]:
        """The nodes known at present; never blocks."""

    def is_update_due(self, now_ms: int) -> bool:
        """Whether an update should start now and none is under way."""

    def maybe_update(self, now_ms: int) -> int:
        """Start an update if one is due and possible; milliseconds until there is something to do again."""

    def handle_server_disconnect(self, now_ms: int, node_id: str, error: KafkaError) -> None:
        """A connection, or the attempt to make one, ended."""

    def handle_failed_request(self, now_ms: int, error: KafkaError | None) -> None:
        """The update under way came to nothing. A fatal error is passed on to whoever waits."""

    def handle_successful_response(
        self, request: ClientRequest, api_version: int, now_ms: int, response: Any
    ) -> None:
        """The answer to the update under way."""

    def rebootstrap(self, now_ms: int) -> None:
        """Start again from the configured addresses."""

    def close(self) -> None:
        """Nothing will be asked any more."""
