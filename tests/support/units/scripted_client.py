"""A network client without a network: requests are collected until the test answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kproducer_messages import ProduceRequest, ProduceResponse, RequestHeader
from kproducer_messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    TopicProduceResponse,
)

from kproducer._core.client.api_keys import ApiKey, request_header_version
from kproducer._core.client.client_request import ClientRequest, ClientResponse
from kproducer._core.network.framing import SIZE_PREFIX_BYTES
from kproducer.errors import AuthenticationError, KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.types import Node


class SentRequest:
    """A Produce request as it was sent."""

    def __init__(self, request: ClientRequest, message: ProduceRequest) -> None:
        self.request = request
        self.message = message

    @property
    def node_id(self) -> int:
        return int(self.request.destination)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        return [(t.name, p.index) for t in self.message.topic_data for p in t.partition_data]


class ScriptedClient:
    """Replaces ``NetworkClient``. ``poll`` delivers what the test has queued, and records its timeouts."""

    def __init__(self, version: int = 12) -> None:
        self.version = version
        self.ready_nodes: set[int] | None = None  # None: all
        self.poll_delay = 1000
        self.max_in_flight = 5
        self.sent: list[SentRequest] = []
        self.answered: set[int] = set()
        self.poll_timeouts: list[int] = []
        self.closed = False
        self.fail_send: Exception | None = None
        self.on_poll: Callable[[], None] | None = None
        self.errors: dict[int, str] = {}
        #: It is its own connections.
        self.connections = self
        self.refusals: dict[int, AuthenticationError] = {}
        self._responses: list[ClientResponse] = []
        self._correlation_id = 0

    # -- called by the sender ------------------------------------------------------------------------

    def ready(self, node: Node, now_ms: int) -> bool:
        return self.is_ready(node, now_ms)

    def is_ready(self, node: Node, now_ms: int) -> bool:
        unanswered = len(self.unanswered(node.id))
        return (self.ready_nodes is None or node.id in self.ready_nodes) and unanswered < self.max_in_flight

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        return self.poll_delay

    bootstrap_error = None

    def refusal_by_all(self) -> AuthenticationError | None:
        return next(iter(self.refusals.values())) if self.ready_nodes == set() else None

    def has_failed(self, node: Node) -> bool:
        return node.id in self.errors

    def last_error(self, node_id: int) -> str | None:
        return self.errors.get(node_id)

    def send(
        self,
        node_id: int,
        builder: Any,
        now_ms: int,
        callback: Callable[[ClientResponse], None],
        *,
        expect_response: bool = True,
    ) -> None:
        if self.fail_send is not None:
            raise self.fail_send
        self._correlation_id += 1
        request = ClientRequest(
            str(node_id), builder, self._correlation_id, expect_response, now_ms, 30_000, callback
        )
        request.api_version = version = min(self.version, builder.latest_version)
        frame = b"".join(builder.build_frame(version, self._correlation_id, "tester"))
        header_version = request_header_version(ApiKey.PRODUCE, version)
        _, position = RequestHeader.decode(frame, header_version, SIZE_PREFIX_BYTES)
        message, _ = ProduceRequest.decode(frame, version, position)
        self.sent.append(SentRequest(request, message))

    def poll(self, timeout_ms: int, now_ms: int) -> list[ClientResponse]:
        self.poll_timeouts.append(timeout_ms)
        if self.on_poll is not None:
            self.on_poll()
        responses, self._responses = self._responses, []
        for response in responses:
            if response.request.callback is not None:
                response.request.callback(response)
        return responses

    def wakeup(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    # -- called by tests -----------------------------------------------------------------------------

    def unanswered(self, node_id: int | None = None) -> list[SentRequest]:
        return [
            sent
            for sent in self.sent
            if sent.request.correlation_id not in self.answered
            and (node_id is None or sent.node_id == node_id)
        ]

    def answer(self, sent: SentRequest, now_ms: int, *partitions: Any, **fields: Any) -> None:
        """Queue a response. ``partitions``: (topic, PartitionProduceResponse)."""
        topics: dict[str, TopicProduceResponse] = {}
        for topic, partition in partitions:
            entry = topics.setdefault(topic, TopicProduceResponse(name=topic))
            entry.partition_responses.append(partition)
        body = ProduceResponse(responses=list(topics.values()), **fields)
        self.answer_with(sent, now_ms, body=body)

    def answer_all(self, sent: SentRequest, now_ms: int, error_code: int = 0, **fields: Any) -> None:
        """Queue the same result for every partition of a request."""
        self.answer(
            sent,
            now_ms,
            *[(topic, result(index, error_code, **fields)) for topic, index in sent.partitions],
        )

    def answer_with(self, sent: SentRequest, now_ms: int, **fields: Any) -> None:
        self.answered.add(sent.request.correlation_id)
        self._responses.append(ClientResponse(sent.request, now_ms, **fields))

    def disconnect(self, sent: SentRequest, now_ms: int, error: KafkaError | None = None) -> None:
        self.answer_with(sent, now_ms, disconnected=True, error=error)

    def refuse_version(self, sent: SentRequest, now_ms: int) -> None:
        error = UnsupportedVersionError("Produce: broker has 0-2, we have 3-13")
        self.answer_with(sent, now_ms, error=error)


def result(
    index: int,
    error_code: int = 0,
    *,
    base_offset: int = 0,
    message: str | None = None,
    record_errors: dict[int, str | None] | None = None,
    leader: tuple[int, int] = (-1, -1),
    log_append_time_ms: int = -1,
) -> PartitionProduceResponse:
    """One partition's result in a Produce response."""
    return PartitionProduceResponse(
        index=index,
        error_code=error_code,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        error_message=message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=text)
            for number, text in (record_errors or {}).items()
        ],
        current_leader=LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
    )


def endpoint(node_id: int) -> NodeEndpoint:
    return NodeEndpoint(node_id=node_id, host=f"broker{node_id}", port=9092)
