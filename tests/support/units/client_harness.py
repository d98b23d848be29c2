"""A network client over a mock selector, a manual clock and a metadata updater that records its calls."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kproducer_messages import ApiVersionsResponse, MetadataRequest, ProduceRequest
from kproducer_messages.api_versions_response import ApiVersion

from kproducer._core.client.authentication import SaslMechanism
from kproducer._core.client.client_request import ClientRequest, ClientResponse
from kproducer._core.client.network_client import NetworkClient
from kproducer._core.client.send_builder import build_request
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.network.host_resolver import BeginLookup, ResolvedAddress
from kproducer._core.runtime.clock import NEVER_MS
from kproducer.errors import DisconnectedError, KafkaError
from kproducer.types import Node
from tests.support.manual_clock import ManualClock
from tests.support.units.lookups import at_once
from tests.support.units.mock_selector import MockSelector

NODES = tuple(Node(i, f"host{i}", 9092) for i in range(3))
ALL_APIS = {0: (0, 13), 3: (0, 13), 18: (0, 5)}


class NoteTakingUpdater:
    """Has fixed nodes, is due when the test sets it, and records every call."""

    def __init__(self, nodes: Sequence[Node] = NODES) -> None:
        self.nodes = list(nodes)
        self.due = False
        self.disconnects: list[tuple[str, KafkaError]] = []
        self.failures: list[KafkaError | None] = []
        self.successes: list[Any] = []
        self.acceptances = 0
        self.cluster_id: str | None = None
        self.bootstrap_error = None
        self.wrong_brokers: list[str] = []

    def fetch_nodes(self) -> Sequence[Node]:
        return self.nodes

    def cluster_id_to_check(self) -> str | None:
        return self.cluster_id

    def handle_wrong_broker(self, now_ms: int, broker: str) -> None:
        self.wrong_brokers.append(broker)

    def is_update_due(self, now_ms: int) -> bool:
        return self.due

    def maybe_update(self, now_ms: int) -> int:
        return NEVER_MS

    def handle_server_disconnect(self, now_ms: int, node_id: str, error: KafkaError) -> None:
        self.disconnects.append((node_id, error))

    def handle_acceptance(self) -> None:
        self.acceptances += 1

    def handle_failed_request(self, now_ms: int, error: KafkaError | None) -> None:
        self.failures.append(error)

    def handle_successful_response(self, request: ClientRequest, now_ms: int, response: Any) -> None:
        self.successes.append(response)


class Builder:
    """A request builder for any message."""

    def __init__(self, message: Any, oldest: int | None = None, latest: int | None = None) -> None:
        self.message = message
        self.api_key = message.API_KEY
        self.oldest_version = message.MIN_VERSION if oldest is None else oldest
        self.latest_version = message.MAX_VERSION if latest is None else latest

    def build_frame(self, version: int, correlation_id: int, client_id: str | None) -> list[memoryview]:
        return build_request(self.api_key, version, correlation_id, client_id, self.message)


def produce_builder() -> Builder:
    return Builder(ProduceRequest(acks=1, timeout_ms=1000), 3, 9)


def metadata_builder() -> Builder:
    return Builder(MetadataRequest(topics=None))


def api_versions_response(ranges: dict[int, tuple[int, int]], **fields: Any) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in ranges.items()]
    return ApiVersionsResponse(api_keys=keys, **fields)


class Harness:
    """The client under test and its dependencies."""

    def __init__(
        self,
        nodes: Sequence[Node] = NODES,
        begin_lookup: BeginLookup | None = None,
        sasl: SaslMechanism | None = None,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock()
        self.selector = MockSelector(self.clock)
        self.updater = NoteTakingUpdater(nodes)
        self.addresses: dict[str, list[str]] = {}
        self.resolved: list[str] = []
        self.done: list[ClientResponse] = []
        self.config = ProducerConfig(bootstrap_servers=("host0:9092",), client_id="tester", **settings)
        self.client = NetworkClient(
            self.selector,  # type: ignore[arg-type]
            lambda client: self.updater,  # type: ignore[arg-type,return-value]
            self.config,
            self.clock,
            sasl=sasl,
            begin_lookup=begin_lookup or at_once(self.resolve),
            random=random.Random(1),
        )

    def resolve(self, host: str, port: int) -> list[ResolvedAddress]:
        self.resolved.append(host)
        return [ResolvedAddress(2, (address, port)) for address in self.addresses.get(host, [host])]

    def poll(self, timeout_ms: int = 0) -> list[ClientResponse]:
        return self.client.poll(timeout_ms, self.clock.now_ms)

    def connect(self, node: Node = NODES[0]) -> None:
        """Connect, up to the point where the ApiVersions request is in flight."""
        assert not self.client.ready(node, self.clock.now_ms)
        self.poll()

    def disconnect(self, node: Node) -> None:
        """End the connection, or the attempt to connect, from this side."""
        connection = self.client.connections.get(str(node.id))
        assert connection is not None
        error = DisconnectedError("this client ended the connection")
        self.client.end_connection(connection, error, self.clock.now_ms)

    def make_ready(
        self, node: Node = NODES[0], ranges: dict[int, tuple[int, int]] | None = None, **fields: Any
    ) -> None:
        """Connect, and answer the ApiVersions request."""
        self.connect(node)
        question = self.selector.last_request(str(node.id))
        assert question.api_key == 18
        self.selector.respond(question, api_versions_response(ranges or ALL_APIS, **fields))
        self.poll()
        assert self.client.connections.can_send(str(node.id), self.clock.now_ms)

    def request(self, builder: Any = None, node: Node = NODES[0], **arguments: Any) -> ClientRequest:
        """Send a request whose response is collected in ``done``."""
        arguments = {"callback": self.done.append, **arguments}
        return self.client.send(node.id, builder or produce_builder(), self.clock.now_ms, **arguments)
