"""ProduceResponseHandler: reads the answer to a Produce request, or the lack of one, batch by batch.

Every batch of the request is resolved exactly once, whatever the answer says: partitions it leaves out, names
twice or invents included. What happens to a batch is ``BatchCompletion``'s business.
Source: Produce v3 to v13; KIP-467 (record errors), KIP-516 (topic ids), KIP-951 (leader hints).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kproducer_messages import ProduceResponse

from kproducer.errors import (
    DisconnectedError,
    IncompleteResponseError,
    KafkaError,
    Outcome,
    RequestTimeoutError,
)
from kproducer.errors.broker_errors import error_for_code
from kproducer.errors.foreign_text import printable
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.sender.batch_completion import Attempt, BatchCompletion, Ending
from kproducer.sender.metrics import ProducerMetrics
from kproducer.sender.produce_request_builder import FIRST_VERSION_WITH_TOPIC_IDS, FIRST_VERSION_WITH_ZSTD
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, Node, TopicPartition

if TYPE_CHECKING:
    from kproducer.accumulator.producer_batch import ProducerBatch
    from kproducer.client.client_request import ClientResponse
    from kproducer.sender.producer_metadata import ProducerMetadata

_log = GuardedLogger(__name__)

#: Errors with which a broker may name the partition's new leader (KIP-951).
_LEADER_MOVED_CODES = frozenset({6, 74})


_UNSUPPORTED_COMPRESSION_CODE = 76


class ProduceResponseHandler:
    """Turns responses into fates of batches. I/O thread only.

    Args:
        completion: ends the batches.
        metadata: takes the leader hints.
        metrics: takes latency and throttle time.
        request_timeout_ms, compression_type: for error messages.
    """

    def __init__(
        self,
        completion: BatchCompletion,
        metadata: ProducerMetadata,
        metrics: ProducerMetrics,
        request_timeout_ms: int,
        compression_type: str = "none",
    ) -> None:
        self._completion = completion
        self._metadata = metadata
        self._metrics = metrics
        self._request_timeout_ms = request_timeout_ms
        self._compression_type = compression_type

    def handle(
        self,
        batches: Sequence[ProducerBatch],
        topic_ids: Mapping[str, Any],
        node: Node,
        response: ClientResponse,
        now_ms: int,
    ) -> None:
        """Resolve every batch of a request.

        Args:
            batches: what the request carried, at most one for each partition.
            topic_ids: the ids it was built with.
            node: where it went.
            response: the answer, or how it failed.
            now_ms: monotonic.
        """
        attempt = Attempt(node, response.api_version, response.latency_ms, _ending(response))
        waiting: dict[tuple[str, int], ProducerBatch] = {batch.topic_partition: batch for batch in batches}
        try:
            failure = None if response.body is not None else self._request_failure(response)
            if failure is not None:
                self._reject_all(waiting, failure, attempt, now_ms)
            elif response.body is None:
                # acks=0: the request was written, and that is all anybody will ever know.
                for batch in _taken(waiting):
                    self._succeed(batch, NO_OFFSET, NO_TIMESTAMP, now_ms)
            else:
                self._metrics.response_received(response.latency_ms, response.body.throttle_time_ms)
                self._read_body(waiting, topic_ids, attempt, response, now_ms)
        finally:
            if waiting:
                # Also when the lines above have a bug: no batch may be left without a fate.
                self._reject_all(
                    waiting,
                    IncompleteResponseError("the broker's answer leaves out this partition"),
                    attempt,
                    now_ms,
                )

    def _request_failure(self, response: ClientResponse) -> KafkaError | None:
        """Why there is no answer to read, if there is none."""
        cause = response.error
        because = f": {cause}" if cause is not None else ""
        if response.unsupported_version is not None:
            error: KafkaError = response.unsupported_version
            error.outcome = Outcome.NOT_SENT
            if self._compression_type == "zstd":
                # Without this the range we ask for would look like an arbitrary refusal of old brokers.
                needed = f"compression_type=zstd needs Produce version {FIRST_VERSION_WITH_ZSTD} or newer"
                error.args = (f"{error.args[0]} ({needed})",)
            return error
        if response.timed_out:
            return RequestTimeoutError(
                f"no answer within request_timeout_ms={self._request_timeout_ms}{because}"
            )
        if response.disconnected:
            return DisconnectedError(f"the connection ended before the answer came{because}")
        if cause is not None:
            cause.outcome = Outcome.NOT_SENT
        return cause

    def _reject_all(
        self,
        waiting: dict[tuple[str, int], ProducerBatch],
        failure: KafkaError,
        attempt: Attempt,
        now_ms: int,
    ) -> None:
        for batch in _taken(waiting):
            text = f"{failure} [{attempt.describe(batch, now_ms)}]"
            # Each batch gets an error of its own: outcome and limits are noted on it.
            error = copy.copy(failure)
            error.args = (text,)
            error.__cause__ = failure
            self._reject(batch, error, now_ms)

    def _read_body(
        self,
        waiting: dict[tuple[str, int], ProducerBatch],
        topic_ids: Mapping[str, Any],
        attempt: Attempt,
        response: ClientResponse,
        now_ms: int,
    ) -> None:
        body: ProduceResponse = response.body
        names = {}
        if response.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            names = {topic_ids[topic]: topic for topic in {topic for topic, _ in waiting}}
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for topic in body.responses:
            name = names.get(topic.topic_id) if names else topic.name
            for partition in topic.partition_responses:
                # A partition never asked about, or named twice, finds no batch.
                batch = waiting.pop((name, partition.index), None) if name is not None else None
                if batch is not None and partition.error_code == 0:
                    self._succeed(batch, partition.base_offset, partition.log_append_time_ms, now_ms)
                    continue
                if batch is None:
                    _log.warning(
                        "%s answered for %s-%d, which this request does not (or no longer) ask about",
                        attempt.node,
                        printable(name) if name is not None else topic.topic_id,
                        partition.index,
                    )
                    continue
                self._refuse(batch, partition, attempt, now_ms)
                hint = partition.current_leader
                if (
                    partition.error_code in _LEADER_MOVED_CODES
                    and hint.leader_id >= 0
                    and hint.leader_epoch >= 0
                ):
                    leaders[batch.topic_partition] = (hint.leader_id, hint.leader_epoch)
        if leaders:
            self._take_leader_hints(leaders, body)

    def _refuse(self, batch: ProducerBatch, partition: Any, attempt: Attempt, now_ms: int) -> None:
        context = attempt.describe(batch, now_ms)
        if partition.error_code == _UNSUPPORTED_COMPRESSION_CODE:
            context += f", compression_type={self._compression_type}"
        error = error_for_code(partition.error_code, partition.error_message, context)
        messages = {e.batch_index: e.batch_index_error_message for e in partition.record_errors}
        self._reject(batch, error, now_ms, messages)

    def _succeed(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int, now_ms: int) -> None:
        try:
            self._completion.succeed(batch, base_offset, log_append_time_ms, now_ms)
        except Exception as bug:
            self._completion.abandon(batch, bug)

    def _reject(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        now_ms: int,
        messages: Mapping[int, str | None] | None = None,
    ) -> None:
        try:
            self._completion.reject(batch, error, now_ms, messages)
        except Exception as bug:
            self._completion.abandon(batch, bug)

    def _take_leader_hints(
        self, leaders: dict[TopicPartition, tuple[int, int]], body: ProduceResponse
    ) -> None:
        nodes = [
            Node(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
            for endpoint in body.node_endpoints
        ]
        updated = self._metadata.update_partition_leadership(leaders, nodes)
        if updated:
            _log.debug("Learnt new leaders from a Produce response: %s", leaders)


def _ending(response: ClientResponse) -> Ending:
    if not response.was_sent or response.unsupported_version is not None:
        return Ending.NEVER_SENT
    return Ending.NO_ANSWER if response.body is None else Ending.ANSWERED


def _taken(waiting: dict[tuple[str, int], ProducerBatch]) -> list[ProducerBatch]:
    """All that still wait, taken out one and all: whatever happens next, none is resolved twice."""
    batches = list(waiting.values())
    waiting.clear()
    return batches
