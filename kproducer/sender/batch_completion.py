"""BatchCompletion: the three ways a batch that was sent can end: success, another try, or failure.

The only place that decides about retries, and the only one that says what is known of a failed record. Knows
nothing of requests and responses: it is told one batch's fate at a time.
Source: Kafka's ``Sender`` (completeBatch, canRetry, failBatch); KIP-91, KIP-467.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import (
    BatchRejectedError,
    BrokerError,
    DeliveryTimeoutError,
    IllegalStateError,
    KafkaError,
    Outcome,
    RequestTimeoutError,
)
from kproducer.errors.broker_errors import MessageTooLargeError, OutOfOrderSequenceNumberError
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.runtime.log_repeats import LogRepeats
from kproducer.sender.in_flight_batches import InFlightBatches
from kproducer.sender.metrics import ProducerMetrics
from kproducer.transactions.delivery_knowledge import AttemptEnd, Knowledge, attempt_end, knowledge_after
from kproducer.transactions.sequence_tracker import Verdict
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, Node

if TYPE_CHECKING:
    from kproducer.accumulator.producer_batch import ProducerBatch
    from kproducer.accumulator.record_accumulator import RecordAccumulator
    from kproducer.sender.producer_metadata import ProducerMetadata
    from kproducer.transactions.transaction_manager import TransactionManager

_log = GuardedLogger(__name__)

#: Failures of one class are logged as warnings this often, with a count of the others.
_QUIET_MS = 10_000


class Ending(enum.Enum):
    """How far an attempt to send a batch got."""

    ANSWERED = "answered"
    NO_ANSWER = "no answer"
    NEVER_SENT = "never sent"


class Attempt(NamedTuple):
    """Where a batch was sent, or was to be sent, for error messages.

    Attributes:
        node: the broker, for words only.
        api_version: of the Produce request; means nothing when it was never sent.
        latency_ms: from sending to the answer, or to the loss of it.
        ending: which of these.
    """

    node: Node | str
    api_version: int
    latency_ms: int
    ending: Ending

    def describe(self, batch: ProducerBatch, now_ms: int) -> str:
        """The context that every delivery error carries."""
        request = f"Produce v{self.api_version}"
        if self.ending is Ending.ANSWERED:
            how = f"answered after {self.latency_ms} ms"
        elif self.ending is Ending.NO_ANSWER:
            how = f"given up without an answer after {self.latency_ms} ms"
        else:
            # The version that comes with an unsent request is not one that anybody agreed on.
            request, how = "Produce", "never sent"
        return (
            f"{batch.topic_partition}, {request} to {self.node}, attempt {batch.attempts + 1}, {how}, "
            f"{now_ms - batch.created_ms} ms after the batch was begun"
        )


class BatchCompletion:
    """Ends batches or sends them round again. I/O thread only.

    Args:
        config: ``retries`` and ``delivery_timeout_ms``.
        accumulator: where retries and memory go back to.
        metadata: told when an error says that it is stale.
        in_flight: batches leave it here.
        metrics: counts retries, splits and errors.
        transactions: numbers the batches, and says what errors mean for them; ``None``: they have no numbers.
    """

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: RecordAccumulator,
        metadata: ProducerMetadata,
        in_flight: InFlightBatches,
        metrics: ProducerMetrics,
        transactions: TransactionManager | None = None,
    ) -> None:
        self._transactions = transactions
        self._retries = config.retries
        self._delivery_timeout_ms = config.delivery_timeout_ms
        self._guarantee_order = config.max_in_flight_requests_per_connection == 1
        self._accumulator = accumulator
        self._metadata = metadata
        self._in_flight = in_flight
        self._metrics = metrics
        self._repeats = LogRepeats(_QUIET_MS)

    def succeed(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int, now_ms: int) -> None:
        """The broker has the batch, or with acks=0 the socket took it."""
        accumulator = self._accumulator
        self._in_flight.remove(batch)
        accumulator.request_done(batch)
        if self._transactions is not None:
            self._transactions.succeeded(batch, now_ms)
        if log_append_time_ms < 0 or (batch.send_count > 1 and log_append_time_ms == batch.max_timestamp_ms):
            # A broker that recognises a batch answers with the batch's own newest timestamp, also for topics
            # whose records keep theirs (``UnifiedLog.append``).
            log_append_time_ms = NO_TIMESTAMP
        # Hostile or odd numbers below zero mean "not known"; futures then say so.
        batch.complete(base_offset if base_offset >= 0 else NO_OFFSET, log_append_time_ms)
        accumulator.deallocate(batch)
        if self._guarantee_order:
            accumulator.unmute_partition(batch.topic_partition)

    def reject(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        now_ms: int,
        record_messages: Mapping[int, str | None] | None = None,
    ) -> None:
        """The attempt failed: split, try again, or fail the batch for good.

        Args:
            batch: in flight until now.
            error: why; made for this batch.
            now_ms: monotonic.
            record_messages: KIP-467: index of each record at fault, with the broker's text for it.
        """
        self._leave_flight(batch)
        end = attempt_end(error)
        batch.knowledge = knowledge_after(batch.knowledge, end)
        try:
            if batch.is_done:
                # It expired, or was given up, while it was at the broker. Splitting or sending it again
                # would write records that the application was told have failed. Its memory is back by now.
                if end is AttemptEnd.DUPLICATE and self._transactions is not None:
                    self._transactions.succeeded(batch, now_ms)
                else:
                    self._forget_number(batch, error, batch.outcome)
                return
            error.outcome = batch.outcome
            verdict = self._verdict(batch, end, error)
            if verdict is Verdict.WRITTEN:
                self._succeed_without_offset(batch, error, now_ms)
            elif isinstance(error, MessageTooLargeError) and batch.record_count > 1:
                self._split(batch, error)
            elif verdict is Verdict.RETRY and self._can_retry(batch, error, now_ms):
                self._retry(batch, error, now_ms)
            else:
                self._fail(batch, self._why_no_retry(batch, error, verdict, now_ms), now_ms, record_messages)
            if error.refreshes_metadata:
                self._metadata.request_update(f"{batch.topic_partition}: {error}")
        finally:
            self._unmute(batch)

    def fail_unsent(self, batch: ProducerBatch, error: KafkaError) -> None:
        """The batch could not even be handed to the network; trying again would fail likewise."""
        self._leave_flight(batch)
        error.outcome = batch.outcome
        self._forget_number(batch, error, error.outcome)
        self._finish(batch, error, None)
        self._unmute(batch)

    def expire(self, batch: ProducerBatch, now_ms: int, stage: str) -> None:
        """``delivery_timeout_ms`` is over for a batch, queued or in flight.

        While it is in flight its memory stays where it is until the request's fate is known: its bytes may
        be half written to a socket, and giving them away would send somebody else's record in their place.
        """
        error = batch.delivery_timeout_error(self._delivery_timeout_ms, now_ms)
        error.args = (f"{error.args[0]}; stage: {stage}",)
        if self._transactions is not None:
            self._transactions.expired(batch, error, error.outcome)
        self._finish(batch, error, None, now_ms)

    def give_up_unsafe(self, batch: ProducerBatch, now_ms: int) -> None:
        """Fail a queued batch that, sent under a new sequence number, could be duplicated or out of order."""
        cause = batch.last_error
        if batch.outcome is Outcome.UNKNOWN:
            reason = "they may have been written by an earlier attempt, which the broker would not recognise"
        else:
            reason = "records sent after them may have been written already"
        error = KafkaError(
            f"{batch.record_count} records for {batch.topic_partition} are not sent again: the sequence"
            f" numbers of the partition start over, and {reason}; last error: {cause}"
        ).with_outcome(batch.outcome)
        error.__cause__ = cause
        self._accumulator.take_out(batch)
        self._finish(batch, error, None, now_ms)

    def abandon(self, batch: ProducerBatch, bug: Exception) -> None:
        """Our own code failed while it dealt with this batch: fail its records, whatever state it is in."""
        self._metrics.io_error_total += 1
        self._abandon(batch, bug)
        # A split may have come halfway: nobody else knows its parts.
        self.abandon_strays(bug)
        _log.error("Internal error with a batch for %s", batch.topic_partition, exc_info=bug)

    def abandon_strays(self, bug: Exception) -> None:
        """Our own code failed: fail the batches that it has left behind where nothing would ever end them.

        An illegal state ends a transactional or idempotent producer: what it says of records may be wrong.
        """
        for batch in self._accumulator.stray_batches(self._in_flight):
            self._abandon(batch, bug)
        if self._transactions is not None and isinstance(bug, IllegalStateError):
            self._transactions.internal_error(bug)

    def _abandon(self, batch: ProducerBatch, bug: Exception) -> None:
        error = KafkaError(f"internal error while sending to {batch.topic_partition}: {bug!r}")
        error.outcome = Outcome.UNKNOWN if batch.send_count else Outcome.NOT_SENT
        error.__cause__ = bug
        try:
            if not batch.is_done and batch.complete_exceptionally(error):
                self._metrics.record_error_total += batch.record_count
            self._leave_flight(batch)
            self._forget_number(batch, error, Outcome.UNKNOWN)
            self._accumulator.deallocate(batch)
            self._unmute(batch)
        except Exception:
            _log.exception("The batch for %s could not be cleaned up", batch.topic_partition)

    # -- what it means for the numbers -----------------------------------------------------------------

    def _verdict(self, batch: ProducerBatch, end: AttemptEnd, error: KafkaError) -> Verdict:
        if self._transactions is not None:
            return self._transactions.verdict(batch, end, error)
        return Verdict.RETRY if error.retriable else Verdict.FAIL

    def _succeed_without_offset(self, batch: ProducerBatch, error: KafkaError, now_ms: int) -> None:
        """The broker says that it has these sequence numbers, and no longer knows the offset."""
        _log.debug("Written by an earlier attempt: %s", error)
        self.succeed(batch, NO_OFFSET, NO_TIMESTAMP, now_ms)

    def _forget_number(self, batch: ProducerBatch, error: KafkaError, outcome: Outcome | None) -> None:
        if self._transactions is not None:
            self._transactions.failed(batch, error, outcome)

    # -- the decisions ---------------------------------------------------------------------------------

    def _can_retry(self, batch: ProducerBatch, error: KafkaError, now_ms: int) -> bool:
        """Whether the same batch may be sent again as far as the limits go."""
        return batch.attempts < self._retries and not batch.has_reached_delivery_timeout(
            self._delivery_timeout_ms, now_ms
        )

    def _split(self, batch: ProducerBatch, error: KafkaError) -> None:
        batch.last_error = error
        parts = self._accumulator.split_and_reenqueue(batch)
        self._metrics.batch_split_total += 1
        _log.info("Split a batch of %d records into %d: %s", batch.record_count, parts, error)
        self._accumulator.deallocate(batch)

    def _retry(self, batch: ProducerBatch, error: KafkaError, now_ms: int) -> None:
        self._metrics.record_retry_total += batch.record_count
        suffix = self._repeats.suffix(("again", type(error).__name__), now_ms)
        _log.log(
            logging.DEBUG if suffix is None else logging.INFO,
            "Sending %d records again (%d retries left): %s%s",
            batch.record_count,
            self._retries - batch.attempts - 1,
            error,
            suffix or "",
        )
        self._accumulator.reenqueue(batch, now_ms, error)

    def _fail(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        now_ms: int,
        record_messages: Mapping[int, str | None] | None,
    ) -> None:
        record_errors = None
        if record_messages and isinstance(error, BrokerError):
            record_errors = _record_errors(batch, error, record_messages)
        self._forget_number(batch, error, error.outcome)
        self._finish(batch, error, record_errors, now_ms)

    def _why_no_retry(
        self, batch: ProducerBatch, error: KafkaError, verdict: Verdict, now_ms: int
    ) -> KafkaError:
        """The error to fail with: where another try would have been usual, it says why there is none."""
        if error.retriable and verdict is Verdict.RETRY:
            return self._out_of_time_or_tries(batch, error, now_ms)
        if error.retriable:
            why = "not tried again: the producer has failed for good or aborts its transaction"
        elif isinstance(error, OutOfOrderSequenceNumberError) and batch.knowledge is Knowledge.UNKNOWN:
            why = (
                "an earlier attempt may have been written, so the records are not sent again under another"
                " sequence number"
            )
        else:
            return error
        error.args = (f"{error.args[0]}; {why}",)
        return error

    def _out_of_time_or_tries(self, batch: ProducerBatch, error: KafkaError, now_ms: int) -> KafkaError:
        """Say which limit ended the attempts; the broker's or network's own error stays the exception."""
        if batch.attempts >= self._retries:
            limit = f"retries={self._retries} is used up"
        else:
            limit = (
                f"delivery_timeout_ms={self._delivery_timeout_ms} is over: "
                f"{now_ms - batch.created_ms} ms since the batch was begun"
            )
        if isinstance(error, (BrokerError, RequestTimeoutError)) or batch.attempts >= self._retries:
            error.args = (f"{error.args[0]}; not tried again: {limit}",)
            return error
        timeout = DeliveryTimeoutError(
            f"{batch.record_count} records for {batch.topic_partition}: {limit}; {error}"
        )
        timeout.outcome = error.outcome
        timeout.__cause__ = error
        return timeout

    # -- the common end --------------------------------------------------------------------------------

    def _finish(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: Callable[[int], KafkaError] | None,
        now_ms: int | None = None,
    ) -> None:
        if batch.complete_exceptionally(error, record_errors):
            self._metrics.record_error_total += batch.record_count
            # An outage ends with thousands of batches that failed alike. Each record's own error is told by
            # its future and its callback in any case.
            suffix = "" if now_ms is None else self._repeats.suffix(type(error).__name__, now_ms)
            level = logging.DEBUG if suffix is None else logging.WARNING
            outcome = "outcome unknown" if error.outcome is None else error.outcome.value
            _log.log(level, "%d records failed (%s): %s%s", batch.record_count, outcome, error, suffix or "")
        # While it is in flight the accumulator keeps its memory until it is told again.
        self._accumulator.deallocate(batch)

    def _leave_flight(self, batch: ProducerBatch) -> None:
        self._in_flight.remove(batch)
        self._accumulator.request_done(batch)

    def _unmute(self, batch: ProducerBatch) -> None:
        if self._guarantee_order:
            self._accumulator.unmute_partition(batch.topic_partition)


def _record_errors(
    batch: ProducerBatch, error: BrokerError, messages: Mapping[int, str | None]
) -> Callable[[int], KafkaError]:
    """KIP-467: the records at fault get their own text, the others learn that they were innocent."""
    innocent = BatchRejectedError(
        f"the broker refused the batch for {batch.topic_partition} because of {len(messages)} other "
        f"record(s) in it; this record itself is fine and may be sent again: {error}"
    )
    innocent.outcome = error.outcome
    innocent.__cause__ = error
    culprits: dict[int, KafkaError] = {}
    for index, message in messages.items():
        if 0 <= index < batch.record_count:
            text = message or error.broker_message
            culprit = type(error)(text, f"record {index} of the batch for {batch.topic_partition}")
            culprit.outcome = error.outcome
            culprits[index] = culprit

    def record_error(index: int) -> KafkaError:
        return culprits.get(index, innocent)

    return record_error
