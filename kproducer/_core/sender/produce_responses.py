"""From a Produce response to the futures of its records.

``ProduceResponseHandler`` reads the response to one Produce request, or the lack of one, and resolves every
batch of the request exactly once. ``BatchCompletion`` decides what the result means for a batch: complete it,
retry it, split it or fail it. ``ProducerBatch`` and its ``ProduceRequestResult`` then complete the futures.

Source: Kafka's ``Sender`` (handleProduceResponse, completeBatch, canRetry, failBatch); KIP-91 (delivery
timeout), KIP-467 (record errors), KIP-516 (topic ids), KIP-951 (leader hints).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kproducer_messages import ProduceResponse

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.guarded_logger import GuardedLogger, LogRepeats, error_fields
from kproducer._core.sender.metrics import ProducerMetrics
from kproducer._core.sender.produce_requests import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    FIRST_VERSION_WITH_ZSTD,
    InFlightBatches,
    ProduceRequestBuilder,
)
from kproducer._core.transactions.delivery_knowledge import (
    AttemptEnd,
    Knowledge,
    Verdict,
    attempt_end,
    knowledge_after,
)
from kproducer.errors import (
    BatchRejectedError,
    BrokerError,
    DeliveryTimeoutError,
    DisconnectedError,
    IllegalStateError,
    IncompleteResponseError,
    KafkaError,
    Outcome,
    RequestTimeoutError,
    printable,
)
from kproducer.errors.broker_errors import (
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
    error_for_code,
)
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, Node, TopicPartition

if TYPE_CHECKING:
    from kproducer._core.accumulator.producer_batch import ProducerBatch
    from kproducer._core.accumulator.record_accumulator import RecordAccumulator
    from kproducer._core.client.client_request import ClientResponse
    from kproducer._core.client.metadata import Metadata
    from kproducer._core.transactions.transaction_manager import TransactionManager

_log = GuardedLogger(__name__)

#: Errors with which a broker may name the partition's new leader (KIP-951).
_LEADER_MOVED_CODES = frozenset({6, 74})
_UNSUPPORTED_COMPRESSION_CODE = 76
_PARTITION_OF = attrgetter("topic_partition")
#: Repeated retries and failures with the same error class are logged once per this interval, with a count.
_LOG_INTERVAL_MS = 10_000
_NOT_RENUMBERED = (
    "an earlier attempt may have been written, so the records are not sent again under another sequence"
    " number"
)


class ProduceResponseHandler:
    """Reads responses and resolves each of their batches through ``BatchCompletion``. I/O thread only.

    Args:
        completion: completes, retries, splits or fails the batches.
        metadata: receives the leader hints.
        metrics: receives latency and throttle time.
        config: ``request_timeout_ms`` and ``compression_type``, for error messages.
    """

    def __init__(
        self,
        completion: BatchCompletion,
        metadata: Metadata,
        metrics: ProducerMetrics,
        config: ProducerConfig,
    ) -> None:
        self._completion = completion
        self._metadata = metadata
        self._metrics = metrics
        self._config = config

    def handle(self, builder: ProduceRequestBuilder, node: Node, response: ClientResponse) -> None:
        """Resolve every batch of a request. The network client calls this when the request has ended.

        Args:
            builder: has the batches, at most one per partition.
            node: the broker it was sent to.
            response: the response, or the reason why there is none.
        """
        batches = builder.batches
        waiting: dict[tuple[str, int], ProducerBatch] = dict(
            zip(map(_PARTITION_OF, batches), batches, strict=True)
        )
        try:
            if response.body is not None:
                throttle_time_ms = response.body.throttle_time_ms
                self._metrics.response_received(response.latency_ms, throttle_time_ms, response.received_ms)
                self._read_body(waiting, builder, node, response)
            else:
                # No response: the request failed, or it has acks=0 and was written to the socket. The latter
                # counts as success.
                self._resolve_all(waiting, self._request_failure(response), node, response)
        finally:
            # What is left: the response does not contain these partitions, or the code above has raised.
            if waiting:
                failure = IncompleteResponseError("the broker's response does not contain this partition")
                self._resolve_all(waiting, failure, node, response)

    def _request_failure(self, response: ClientResponse) -> KafkaError | None:
        """The error for a request without a response; ``None``: it was written and expects none."""
        cause = response.error
        because = f": {cause}" if cause is not None else ""
        if response.unsupported_version is not None:
            error: KafkaError = response.unsupported_version.with_outcome(Outcome.NOT_SENT)
            if self._config.compression_type == "zstd":
                # Names the setting that excludes the older versions of Produce which the broker supports.
                needed = f"compression_type=zstd needs Produce version {FIRST_VERSION_WITH_ZSTD} or newer"
                error.args = (f"{error.args[0]} ({needed})",)
            return error
        if isinstance(cause, RequestTimeoutError):
            return RequestTimeoutError(
                f"no response within request_timeout_ms={self._config.request_timeout_ms}{because}"
            )
        if response.disconnected:
            return DisconnectedError(f"the connection was closed before the response arrived{because}")
        return None if cause is None else cause.with_outcome(Outcome.NOT_SENT)

    def _resolve_all(
        self,
        waiting: dict[tuple[str, int], ProducerBatch],
        failure: KafkaError | None,
        node: Node,
        response: ClientResponse,
    ) -> None:
        """Report one failure for all waiting batches; each is retried or failed. ``None``: they succeeded."""
        batches = list(waiting.values())
        # Cleared first, so that no batch is resolved twice if the loop is interrupted.
        waiting.clear()
        for batch in batches:
            try:
                if failure is None:
                    self._completion.succeed(batch, NO_OFFSET, NO_TIMESTAMP, response.received_ms)
                    continue
                # One instance per batch: the outcome and the limits that ended the retries are noted on it.
                error = failure.copy()
                error.args = (f"{failure} [{_describe_attempt(batch, node, response)}]",)
                error.__cause__ = failure
                self._completion.attempt_failed(batch, error, response.received_ms)
            except Exception as bug:
                self._completion.abandon(batch, bug)

    def _read_body(
        self,
        waiting: dict[tuple[str, int], ProducerBatch],
        builder: ProduceRequestBuilder,
        node: Node,
        response: ClientResponse,
    ) -> None:
        body: ProduceResponse = response.body
        names: dict[int, str] = {}
        if response.request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            for topic_name, _ in waiting:
                # By the integer of the id: hashing a UUID would run Python code for each topic.
                names[builder.topic_ids[topic_name].int] = topic_name
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        for topic in body.responses:
            name = names.get(topic.topic_id.int) if names else topic.name
            for partition in topic.partition_responses:
                batch = waiting.pop((name, partition.index), None) if name is not None else None
                if batch is None:
                    _log.warning(
                        "Broker %s sent a result for %s-%d, which the Produce request does not contain or"
                        " which it has answered already; ignored",
                        node,
                        printable(name) if name is not None else topic.topic_id,
                        partition.index,
                    )
                    continue
                try:
                    if partition.error_code == 0:
                        base_offset, append_time_ms = partition.base_offset, partition.log_append_time_ms
                        self._completion.succeed(batch, base_offset, append_time_ms, response.received_ms)
                        continue
                    self._attempt_failed(batch, partition, node, response)
                except Exception as bug:
                    self._completion.abandon(batch, bug)
                hint = partition.current_leader
                is_hint = hint.leader_id >= 0 and hint.leader_epoch >= 0
                if is_hint and partition.error_code in _LEADER_MOVED_CODES:
                    leaders[batch.topic_partition] = (hint.leader_id, hint.leader_epoch)
        if leaders:
            nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in body.node_endpoints]
            if self._metadata.update_partition_leadership(leaders, nodes):
                _log.debug("New leaders from a Produce response: %s", leaders)

    def _attempt_failed(
        self, batch: ProducerBatch, partition: Any, node: Node, response: ClientResponse
    ) -> None:
        context = _describe_attempt(batch, node, response)
        if partition.error_code == _UNSUPPORTED_COMPRESSION_CODE:
            context += f", compression_type={self._config.compression_type}"
        error = error_for_code(partition.error_code, partition.error_message, context)
        messages = {e.batch_index: e.batch_index_error_message for e in partition.record_errors}
        self._completion.attempt_failed(batch, error, response.received_ms, messages)


def _describe_attempt(batch: ProducerBatch, node: Node, response: ClientResponse) -> str:
    """Where and when an attempt failed: the context that every delivery error carries."""
    request = f"Produce v{response.request.api_version}"
    if not response.was_sent:
        # No version was negotiated for a request that was not sent.
        request, how = "Produce", "never sent"
    elif response.body is None:
        how = f"no response after {response.latency_ms} ms"
    else:
        how = f"answered after {response.latency_ms} ms"
    return (
        f"{batch.topic_partition}, {request} to {node}, attempt {batch.attempts + 1}, {how}, "
        f"{response.received_ms - batch.created_ms} ms after the batch was created"
    )


class BatchCompletion:
    """Completes, retries, splits or fails one batch at a time. I/O thread only.

    This is the only code that decides about retries and about the ``outcome`` of a failed record.

    Args:
        config: ``retries`` and ``delivery_timeout_ms``.
        accumulator: takes retries and gives memory back to the pool.
        metadata: is refreshed when an error indicates that it is stale.
        in_flight: the batches that are in requests.
        metrics: counts retries, splits and errors.
        transaction_manager: assigns sequence numbers and decides what an error means for them; ``None``
            without idempotence.
    """

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: RecordAccumulator,
        metadata: Metadata,
        in_flight: InFlightBatches,
        metrics: ProducerMetrics,
        transaction_manager: TransactionManager | None,
    ) -> None:
        self._config = config
        self._accumulator = accumulator
        self._metadata = metadata
        self._in_flight = in_flight
        self._metrics = metrics
        self._transaction_manager = transaction_manager
        self._repeats = LogRepeats(_LOG_INTERVAL_MS)

    def succeed(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int, now_ms: int) -> None:
        """The broker has appended the batch; with acks=0, it was written to the socket."""
        self._in_flight.remove(batch)
        self._accumulator.request_done(batch)
        if self._transaction_manager is not None:
            self._transaction_manager.sequences.succeeded(batch, now_ms)
        if log_append_time_ms < 0 or (batch.send_count > 1 and log_append_time_ms == batch.max_timestamp_ms):
            # For a duplicate the broker returns the batch's largest timestamp, also if the topic keeps the
            # timestamps of the records (``UnifiedLog.append``).
            log_append_time_ms = NO_TIMESTAMP
        batch.complete(base_offset if base_offset >= 0 else NO_OFFSET, log_append_time_ms)
        self._accumulator.deallocate(batch)
        if self._config.max_in_flight_requests_per_connection == 1:
            self._unmute(batch)

    def attempt_failed(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        now_ms: int,
        record_messages: Mapping[int, str | None] | None = None,
    ) -> None:
        """An attempt has failed: split the batch, retry it, or fail it.

        Args:
            batch: in flight until now.
            error: the reason; an instance of its own for this batch.
            now_ms: monotonic.
            record_messages: KIP-467: the index of each invalid record, with the broker's message for it.
        """
        self._request_completed(batch)
        end = attempt_end(error)
        batch.knowledge = knowledge_after(batch.knowledge, end)
        try:
            if batch.is_done:
                # The batch expired or was aborted while it was in flight. Its records must not be written
                # now, because the application was told that they failed. Its memory has been released.
                if end is AttemptEnd.DUPLICATE and self._transaction_manager is not None:
                    self._transaction_manager.sequences.succeeded(batch, now_ms)
                else:
                    self._sequence_failed(batch, error, batch.outcome)
                return
            error.outcome = batch.outcome
            if self._transaction_manager is not None:
                verdict = self._transaction_manager.sequences.verdict(batch, end, error.retriable)
            else:
                verdict = Verdict.RETRY if error.retriable else Verdict.FAIL
            if verdict is Verdict.WRITTEN:
                _log.debug("Written by an earlier attempt, at an unknown offset: %s", error)
                self.succeed(batch, NO_OFFSET, NO_TIMESTAMP, now_ms)
            elif isinstance(error, MessageTooLargeError) and batch.record_count > 1:
                self._split(batch, error)
            elif verdict is Verdict.FAIL:
                if isinstance(error, OutOfOrderSequenceNumberError) and batch.knowledge is Knowledge.UNKNOWN:
                    error.args = (f"{error.args[0]}; {_NOT_RENUMBERED}",)
                self._fail(batch, error, now_ms, record_messages)
            elif (final_error := self._end_of_retries(batch, error, now_ms)) is not None:
                self._fail(batch, final_error, now_ms, record_messages)
            else:
                self._retry(batch, error, now_ms)
            if error.refreshes_metadata:
                self._metadata.request_update(f"{batch.topic_partition}: {error}")
        finally:
            self._unmute(batch)

    def fail_unsent(self, batches: Sequence[ProducerBatch], cause: Exception, now_ms: int) -> None:
        """Fail the batches of a request that could not be built. A retry would fail in the same way."""
        self._metrics.io_error_total += 1
        for batch in batches:
            if batch.is_done:
                continue
            error = KafkaError(f"the Produce request for {batch.topic_partition} could not be built: {cause}")
            try:
                self._request_completed(batch)
                self._fail(batch, error.with_outcome(batch.outcome, cause), now_ms)
                self._unmute(batch)
            except Exception as bug:
                self.abandon(batch, bug)
        _log.error("A Produce request could not be built", exc_info=cause)

    def expire(self, batch: ProducerBatch, now_ms: int, stage: str) -> None:
        """Fail a batch, queued or in flight, whose ``delivery_timeout_ms`` has passed.

        The memory of a batch in flight is released only when its request completes: the socket may still
        have to read it.
        """
        error = batch.delivery_timeout_error(self._config.delivery_timeout_ms, now_ms)
        error.args = (f"{error.args[0]}; stage: {stage}",)
        self._fail(batch, error, now_ms)

    def give_up_unsafe(self, batch: ProducerBatch, now_ms: int) -> None:
        """Fail a queued batch whose retry with a new sequence number could be a duplicate or out of order."""
        cause = batch.last_error
        if batch.outcome is Outcome.UNKNOWN:
            reason = "they may have been written by an earlier attempt, which the broker would not recognise"
        else:
            reason = "records sent after them may have been written already"
        error = KafkaError(
            f"{batch.record_count} records for {batch.topic_partition} are not retried: the partition's"
            f" sequence numbers restart with a new epoch, and {reason}; last error: {cause}"
        ).with_outcome(batch.outcome, cause)
        self._accumulator.queues.queue_of(batch.topic_partition).remove(batch)
        self._fail(batch, error, now_ms)

    def abandon(self, batch: ProducerBatch, bug: Exception) -> None:
        """Fail a batch in the state in which an internal error has left it."""
        self._metrics.io_error_total += 1
        self._abandon(batch, bug)
        # An interrupted split leaves parts that are in no queue.
        self.abandon_strays(bug)
        _log.error("Internal error while completing a batch for %s", batch.topic_partition, exc_info=bug)

    def abandon_strays(self, bug: Exception) -> None:
        """Fail the batches that an internal error has left in no queue and in no request.

        An IllegalStateError is fatal to a transactional or idempotent producer: its sequence numbers may be
        wrong.
        """
        for batch in self._accumulator.stray_batches(self._in_flight):
            self._abandon(batch, bug)
        if self._transaction_manager is not None and isinstance(bug, IllegalStateError):
            self._transaction_manager.protocol.internal_error(bug)

    def _abandon(self, batch: ProducerBatch, bug: Exception) -> None:
        outcome = Outcome.UNKNOWN if batch.send_count else Outcome.NOT_SENT
        error = KafkaError(f"internal error while sending to {batch.topic_partition}: {bug!r}")
        error = error.with_outcome(outcome, bug)
        try:
            if not batch.is_done and batch.complete(error=error):
                self._metrics.records_failed(batch.topic_partition.topic, batch.record_count, error)
            self._request_completed(batch)
            self._sequence_failed(batch, error, Outcome.UNKNOWN)
            self._accumulator.deallocate(batch)
            self._unmute(batch)
        except Exception:
            _log.exception("Cleaning up a batch for %s after an internal error failed", batch.topic_partition)

    # -- retries ---------------------------------------------------------------------------------------

    def _end_of_retries(self, batch: ProducerBatch, error: KafkaError, now_ms: int) -> KafkaError | None:
        """The error to fail with, if a batch that could be sent again has reached a limit; else ``None``."""
        config, transaction_manager = self._config, self._transaction_manager
        if transaction_manager is not None and transaction_manager.state_machine.gives_up_sent_batches:
            limit = "the producer has failed permanently, or its transaction is being aborted"
        elif batch.attempts >= config.retries:
            limit = f"retries={config.retries} is exhausted"
        elif batch.has_reached_delivery_timeout(config.delivery_timeout_ms, now_ms):
            limit = (
                f"delivery_timeout_ms={config.delivery_timeout_ms} has passed: "
                f"{now_ms - batch.created_ms} ms since the batch was created"
            )
            if not isinstance(error, (BrokerError, RequestTimeoutError)):
                return DeliveryTimeoutError(
                    f"{batch.record_count} records for {batch.topic_partition}: {limit}; {error}"
                ).with_outcome(batch.outcome, error)
        else:
            return None
        error.args = (f"{error.args[0]}; not retried: {limit}",)
        return error

    def _split(self, batch: ProducerBatch, error: KafkaError) -> None:
        batch.last_error = error
        parts = self._accumulator.split_and_reenqueue(batch)
        self._metrics.batch_split()
        _log.info(
            "Split a batch of %d records into %d: %s",
            batch.record_count,
            parts,
            error,
            extra=self._log_fields(batch, error),
        )
        self._accumulator.deallocate(batch)

    def _retry(self, batch: ProducerBatch, error: KafkaError, now_ms: int) -> None:
        self._metrics.records_retried(batch.topic_partition.topic, batch.record_count)
        suffix = self._repeats.suffix(("retry", type(error).__name__), now_ms)
        _log.log(
            logging.DEBUG if suffix is None else logging.INFO,
            "Retrying %d records (%d retries left): %s%s",
            batch.record_count,
            self._config.retries - batch.attempts - 1,
            error,
            suffix or "",
            extra=self._log_fields(batch, error),
        )
        self._accumulator.reenqueue(batch, now_ms, error)

    # -- failures --------------------------------------------------------------------------------------

    def _fail(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        now_ms: int,
        record_messages: Mapping[int, str | None] | None = None,
    ) -> None:
        record_errors = None
        if record_messages and isinstance(error, BrokerError):
            record_errors = _record_errors(batch, error, record_messages)
        self._sequence_failed(batch, error, error.outcome)
        if batch.complete(error=error, record_errors=record_errors):
            self._metrics.records_failed(batch.topic_partition.topic, batch.record_count, error)
            # An outage fails thousands of batches with the same error, so the log has it once per interval.
            # Futures and callbacks get all of them.
            suffix = self._repeats.suffix(type(error).__name__, now_ms)
            _log.log(
                logging.DEBUG if suffix is None else logging.WARNING,
                "%d records failed (%s): %s%s",
                batch.record_count,
                "outcome unknown" if error.outcome is None else error.outcome.value,
                error,
                suffix or "",
                extra=self._log_fields(batch, error),
            )
        # This keeps the memory of a batch in flight until ``request_done``: the socket may still read it.
        self._accumulator.deallocate(batch)

    def _log_fields(self, batch: ProducerBatch, error: KafkaError) -> dict[str, object]:
        return {
            "client_id": self._config.client_id,
            "topic": batch.topic_partition.topic,
            "partition": batch.topic_partition.partition,
            "record_count": batch.record_count,
            **error_fields(error),
        }

    def _sequence_failed(self, batch: ProducerBatch, error: KafkaError, outcome: Outcome | None) -> None:
        if self._transaction_manager is not None:
            self._transaction_manager.failed(batch, error, outcome)

    def _request_completed(self, batch: ProducerBatch) -> None:
        self._in_flight.remove(batch)
        self._accumulator.request_done(batch)

    def _unmute(self, batch: ProducerBatch) -> None:
        if self._config.max_in_flight_requests_per_connection == 1:
            self._accumulator.unmute_partition(batch.topic_partition)


def _record_errors(
    batch: ProducerBatch, error: BrokerError, messages: Mapping[int, str | None]
) -> Callable[[int], KafkaError]:
    """KIP-467: the invalid records get their own messages, the others a BatchRejectedError."""
    other = BatchRejectedError(
        f"the broker rejected the batch for {batch.topic_partition} because of {len(messages)} other "
        f"record(s) in it; this record itself is valid and may be sent again: {error}"
    ).with_outcome(batch.outcome, error)
    invalid: dict[int, KafkaError] = {}
    for index, message in messages.items():
        if 0 <= index < batch.record_count:
            text = message or error.broker_message
            own = type(error)(text, f"record {index} of the batch for {batch.topic_partition}")
            invalid[index] = own.with_outcome(batch.outcome)

    return lambda index: invalid.get(index, other)
