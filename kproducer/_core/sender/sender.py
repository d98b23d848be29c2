"""Sender: the loop of the I/O thread, from ready batches to Produce requests.

One round (``run_once``) fails expired batches, drains the batches of the nodes that are ready, sends one
Produce request per node, and polls the network client, which completes requests. ``produce_responses``
decides what a response means. Source: Kafka class ``Sender``; KIP-91.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.metrics.windows import Windows
from kproducer._core.runtime.clock import NEVER_MS, Clock, ExponentialBackoff
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.runtime.threads import mark_io_thread
from kproducer._core.sender.fast_lanes import FastLanes, Sending
from kproducer._core.sender.metrics import ProducerMetrics
from kproducer._core.sender.produce_requests import InFlightBatches, ProduceRequestBuilder
from kproducer._core.sender.produce_responses import BatchCompletion, ProduceResponseHandler
from kproducer.errors import AuthenticationError, KafkaError, ProducerClosedError, PurgedError
from kproducer.types import Node, TopicPartition

if TYPE_CHECKING:
    from kproducer._core.accumulator.partition_queue import PartitionQueue
    from kproducer._core.accumulator.producer_batch import ProducerBatch
    from kproducer._core.accumulator.record_accumulator import RecordAccumulator
    from kproducer._core.client.metadata import Metadata
    from kproducer._core.client.metadata_snapshot import MetadataSnapshot
    from kproducer._core.client.network_client import NetworkClient
    from kproducer._core.telemetry.telemetry_link import TelemetryLink
    from kproducer._core.transactions.coordinator_link import CoordinatorLink
    from kproducer._core.transactions.transaction_manager import TransactionManager

_log = GuardedLogger(__name__)

#: After an unexpected error the loop pauses, for the first of these, later for up to the second, so that a
#: bug does not make it spin.
_ERROR_PAUSE_MS = 100
_ERROR_PAUSE_MAX_MS = 5000
#: When to look again if a node was ready and nothing could be drained for it.
_UNDRAINED_DELAY_MS = 20
#: Kafka polls after each round. Here each poll may wait for the GIL: docs/decisions/0029-one-gil-release.md
_ROUNDS_PER_POLL = 8
_LONGEST_POLL_MS = 3_600_000


class Purge:
    """A call of ``KafkaProducer.purge``, which the I/O thread carries out.

    Attributes:
        in_queue, in_flight: which batches to fail.
        record_count: how many records have failed; valid once it is done.
        done: set by the I/O thread.
    """

    def __init__(self, in_queue: bool, in_flight: bool) -> None:
        self.in_queue = in_queue
        self.in_flight = in_flight
        self.record_count = 0
        self.done = threading.Event()


class Sender:
    """Sends the batches of the accumulator. ``run`` and ``run_once`` belong to the I/O thread.

    Args:
        client: the connections; closed when ``run`` ends.
        metadata: the leaders of partitions; closed when ``run`` ends.
        accumulator: the batches; closed when ``run`` ends.
        config: acks, timeouts, limits.
        clock: monotonic time.
        transaction_manager: for idempotent and transactional producers; ``None`` for others.
        telemetry: pushes metrics to brokers; ``None``: not enabled.
        new_lanes: makes the lanes of the data plane, if there are to be any: ``fast_lanes.new_lanes``.

    Attributes:
        telemetry: as given.
    """

    def __init__(
        self,
        client: NetworkClient,
        metadata: Metadata,
        accumulator: RecordAccumulator,
        config: ProducerConfig,
        clock: Clock,
        transaction_manager: TransactionManager | None = None,
        telemetry: TelemetryLink | None = None,
        new_lanes: Callable[[Sending], FastLanes | None] = lambda _: None,
    ) -> None:
        # Fixed after construction.
        self._transaction_manager = transaction_manager
        self._coordinators: CoordinatorLink | None = None
        if transaction_manager is not None:
            # Imported here because it loads the messages of seven APIs that most producers never send.
            from kproducer._core.transactions.coordinator_link import CoordinatorLink

            self._coordinators = CoordinatorLink(transaction_manager.protocol, client, clock)
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._clock = clock
        self._config = config
        self.telemetry = telemetry
        self._guarantee_order = config.max_in_flight_requests_per_connection == 1
        windows = Windows(clock, config.metrics_num_samples, config.metrics_sample_window_ms)
        self.metrics = ProducerMetrics(clock, windows)
        self.in_flight = InFlightBatches(config.delivery_timeout_ms)
        self._completion = BatchCompletion(
            config, accumulator, metadata, self.in_flight, self.metrics, transaction_manager
        )
        self._responses = ProduceResponseHandler(self._completion, metadata, self.metrics, config)
        transactions = None if transaction_manager is None else transaction_manager.state_machine
        #: The data plane; ``None``: not in use.
        self._lanes = new_lanes(Sending(self.in_flight, self._responses, self.metrics, transactions))
        self._error_backoff = ExponentialBackoff(_ERROR_PAUSE_MS, _ERROR_PAUSE_MAX_MS)
        # Written by any thread, read by the I/O thread.
        self._running = True
        #: Whether the loop has to end without waiting for acknowledgements.
        self.is_forced_to_close = False
        self._closing = threading.Event()
        self._purges: deque[Purge] = deque()
        # I/O thread only.
        self._consecutive_errors = 0
        self._transaction_end_ms = 0
        self._seen_refusals: dict[int, AuthenticationError] = {}
        #: Records that were not delivered when the loop ended; valid after the thread has ended.
        self.records_lost = 0

    # -- any thread ------------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """End the current poll, so that the loop looks at the accumulator again."""
        self._client.wakeup()

    def initiate_close(self) -> None:
        """Accept no more records, deliver the accepted ones, then end. Does not block; idempotent."""
        # The accumulator first: a record that is accepted after the loop has ended would never complete.
        self._accumulator.close()
        # Threads that wait for metadata are refused: their records could not be accepted any more, and the
        # loop may go on for minutes.
        self._metadata.refuse_waiters()
        self._running = False
        self._closing.set()
        self.wakeup()

    def purge(self, purge: Purge) -> None:
        """Carry out a purge in the next round of the loop. Does not block."""
        self._purges.append(purge)
        self.wakeup()

    def count_lanes(self) -> None:
        """Have the metrics include what the data plane has done. Waits for the loop, but not for long."""
        if self._lanes is not None:
            self._lanes.count_now()

    def end_purges(self) -> None:
        """End the purges that wait: the loop has ended, so every record has its outcome."""
        while self._purges:
            with contextlib.suppress(IndexError):  # another thread may have taken the last one
                self._purges.popleft().done.set()

    def end_when_done(self) -> None:
        """``initiate_close`` for a producer that was garbage-collected.

        The garbage collector may call this on any thread, while the interrupted code holds any lock. So it
        takes no lock; the loop closes the accumulator.
        """
        self._running = False
        self.wakeup()

    def force_close(self) -> None:
        """End the loop soon and fail the records that are not acknowledged. Does not block; idempotent."""
        self.is_forced_to_close = True
        self.initiate_close()

    def end_after_fork(self) -> None:
        """In a forked child: end the loop. It continues there if a delivery callback has forked."""
        self.is_forced_to_close = True
        self._running = False

    # -- the loop --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Loop until closed. Unexpected errors do not end it, and when it ends every future is completed."""
        mark_io_thread()
        _log.debug("The I/O thread has started")
        ending: BaseException | None = None
        try:
            while self._running:
                self._run_guarded()
            self._accumulator.close()
            self._begin_close_of_transaction()
            # Batches that have expired in flight do not count: their records have failed, and only their
            # memory is in use.
            while not self.is_forced_to_close and (
                self._accumulator.incomplete_record_count or self._is_ending_transaction()
            ):
                self._run_guarded()
            self._push_metrics_at_close()
        except BaseException as error:
            # The loop cannot continue after a SystemExit, but every future must be completed.
            ending = error
        # The futures come before the log, because a log handler may block.
        try:
            self._shut_down(ending)
        finally:
            if ending is not None:
                _log.critical("The I/O thread was ended by %r", ending, exc_info=ending)
        _log.debug("The I/O thread has ended")

    def run_once(self, now_ms: int) -> None:
        """One round: send the ready batches, then poll. Blocks while there is nothing to do."""
        if self._lanes is not None:
            self._lanes.tend(now_ms)
            self._lanes.arm(now_ms)
        # Refused connections come first: the next attempt to connect forgets the refusal, and a request to a
        # coordinator may begin one.
        if self._client.connections.refusals:
            self._fail_refused(self._metadata.snapshot)
        while self._purges:
            self._carry_out(self._purges.popleft())
        coordinator_delay_ms = _LONGEST_POLL_MS
        if self._transaction_manager is not None:
            coordinator_delay_ms = self._advance_transactions(now_ms)
        telemetry = self.telemetry
        if telemetry is not None and now_ms >= telemetry.first_ms:
            telemetry.step(now_ms)
        accumulator = self._accumulator
        accumulator.next_look_ms = NEVER_MS
        for _ in range(_ROUNDS_PER_POLL):
            poll_timeout_ms = self._send_producer_data(now_ms)
            if poll_timeout_ms is not None:
                poll_timeout_ms = min(poll_timeout_ms, coordinator_delay_ms)
                accumulator.next_look_ms = self._clock.monotonic_ms() + poll_timeout_ms
                break
        blocked: Sequence[PartitionQueue] = ()
        if self._lanes is not None:
            self._lanes.arm(now_ms)
            blocked = self._lanes.blocked_queues()
        accumulator.ready_batches.publish_load(self._metadata.snapshot, blocked)
        poll_timeout_ms = min(poll_timeout_ms or 0, accumulator.pool.trim(now_ms))
        if not self._running:
            poll_timeout_ms = min(poll_timeout_ms, self._close_delay_ms())
        # Read after the rounds above: a batch that failed or a partition that was announced there makes a
        # request due, which must not wait for the end of the poll.
        if self._transaction_manager is not None and self._transaction_manager.needs_another_round:
            self._transaction_manager.needs_another_round = False
            poll_timeout_ms = 0
        if telemetry is not None:
            poll_timeout_ms = min(poll_timeout_ms, telemetry.step(now_ms))
        self._client.poll(poll_timeout_ms, now_ms)

    def _close_delay_ms(self) -> int:
        """How long a poll may block, in ms, while the producer is being closed; 0: the loop may end.

        The expiry of the last batch does not end a poll, which would block until the next metadata update.
        """
        if self._accumulator.incomplete_record_count:
            return _LONGEST_POLL_MS
        if self._is_ending_transaction():
            return max(0, self._transaction_end_ms - self._clock.monotonic_ms())
        if self.telemetry is not None and self.telemetry.telemetry.is_closing:
            return _LONGEST_POLL_MS
        return 0

    def _run_guarded(self) -> None:
        try:
            self.run_once(self._clock.monotonic_ms())
            self._consecutive_errors = 0
        except Exception as error:
            self.metrics.io_error_total += 1
            self._completion.abandon_strays(error)
            _log.exception("Unexpected error in the I/O thread; it continues")
            pause_ms = self._error_backoff.backoff_ms(self._consecutive_errors)
            self._consecutive_errors += 1
            if self._running:
                self._closing.wait(pause_ms / 1000)
            elif self._consecutive_errors > 10:
                # If every round has an error, the remaining records cannot be delivered.
                self.is_forced_to_close = True

    def _push_metrics_at_close(self) -> None:
        """Send the terminating push. All records have their outcome; only ``close`` waits for this."""
        link = self.telemetry
        if link is not None and not self.is_forced_to_close:
            link.begin_close(self._clock.monotonic_ms())
            while link.telemetry.is_closing and not self.is_forced_to_close:
                self._run_guarded()

    def _shut_down(self, ending: BaseException | None) -> None:
        self._running = False
        text = "the producer was closed before the record was acknowledged"
        if ending is not None:
            text = f"the producer's I/O thread ended: {ending!r}"
        error = ProducerClosedError(text)
        # The stack runs from the last step to the first, and runs each one even if another one raises.
        with contextlib.ExitStack() as steps:
            # This runs last, after the sockets are closed: until then they may read the buffers.
            steps.callback(self._accumulator.release_all_in_flight)
            steps.callback(self.in_flight.clear)
            steps.callback(self._client.close)
            steps.callback(self._metadata.close)
            if self._transaction_manager is not None:
                steps.callback(self._transaction_manager.state_machine.close, error)
            steps.callback(self._abort_all, error)
            steps.callback(self._accumulator.close)
            if self.telemetry is not None:
                steps.callback(self.telemetry.telemetry.end)
        if self.records_lost:
            fields = {"client_id": self._config.client_id, "record_count": self.records_lost}
            _log.error("%d records were not delivered: %s", self.records_lost, error, extra=fields)

    def _abort_all(self, error: KafkaError) -> None:
        self.records_lost = self._accumulator.incomplete_record_count
        self._count_failed(self._accumulator.abort_incomplete_batches(error), error)

    def _count_failed(self, records_by_topic: Mapping[str, int], error: KafkaError) -> None:
        for topic, count in records_by_topic.items():
            self.metrics.records_failed(topic, count, error)

    # -- idempotence and transactions ------------------------------------------------------------------

    def _begin_close_of_transaction(self) -> None:
        """Abort an open transaction, and give the coordinator ``request_timeout_ms`` for it."""
        if self._transaction_manager is not None:
            self._transaction_manager.state_machine.begin_close()
            self._transaction_end_ms = self._clock.monotonic_ms() + self._config.request_timeout_ms

    def _is_ending_transaction(self) -> bool:
        transaction_manager = self._transaction_manager
        return (
            transaction_manager is not None
            and transaction_manager.state_machine.is_ending
            and self._clock.monotonic_ms() < self._transaction_end_ms
        )

    def _advance_transactions(self, now_ms: int) -> int:
        """Fail batches given up, restart sequences, send due coordinator requests.

        Returns:
            Milliseconds until the next request is due.
        """
        transaction_manager, coordinators = self._transaction_manager, self._coordinators
        assert transaction_manager is not None
        assert coordinators is not None
        transactions = transaction_manager.state_machine
        error = transactions.error_of_queued_batches()
        if error is not None:
            self._accumulator.abort_undrained_batches(error, transactions.gives_up_sent_batches)
        for batch in transaction_manager.sequences.resolve():
            self._completion.give_up_unsafe(cast("ProducerBatch", batch), now_ms)
        return coordinators.step(now_ms)

    # -- one round -------------------------------------------------------------------------------------

    def _send_producer_data(self, now_ms: int) -> int | None:
        """Send the ready batches.

        Returns:
            How long poll may block, in ms; ``None``: requests were sent, and there may be more to send.
        """
        accumulator = self._accumulator
        snapshot = self._metadata.snapshot
        if self._transaction_manager is not None:
            self._transaction_manager.sequences.note_topic_ids(snapshot.topic_ids)
        # Before the drain, unlike Kafka: an expired batch must not be sent after its futures have failed.
        next_expiry_ms: int = min(accumulator.queues.next_expiry_ms, self.in_flight.next_expiry_ms)
        if now_ms >= next_expiry_ms:
            next_expiry_ms = self._expire(now_ms, snapshot)
        result = accumulator.ready_batches.ready(snapshot, now_ms)
        if result.unknown_leader_topics:
            self._ask_for_leaders(result.unknown_leader_topics, now_ms)
        poll_timeout_ms: int = result.next_ready_check_delay_ms
        if result.ready_nodes:
            ready_nodes, not_ready_delay_ms = self._sendable_nodes(result.ready_nodes, now_ms)
            if ready_nodes:
                if not self._drain_and_send(ready_nodes, snapshot, now_ms):
                    # The nodes were ready, but nothing could be drained: look again soon, without spinning.
                    not_ready_delay_ms = min(not_ready_delay_ms, _UNDRAINED_DELAY_MS)
                elif accumulator.ready_batches.may_have_more():
                    return None
            poll_timeout_ms = min(poll_timeout_ms, not_ready_delay_ms)
        return max(0, min(poll_timeout_ms, next_expiry_ms - now_ms))

    def _drain_and_send(self, nodes: Iterable[Node], snapshot: MetadataSnapshot, now_ms: int) -> bool:
        """Send a Produce request to each of the nodes. Returns whether there was anything to send."""
        batches_by_node = self._accumulator.ready_batches.drain(
            snapshot, nodes, self._config.max_request_size, now_ms
        )
        self._register(batches_by_node)
        for node_id, batches in batches_by_node.items():
            try:
                self._send_request(node_id, batches, snapshot, now_ms)
                if self._lanes is not None:
                    self._lanes.note_drained(node_id, batches)
            except Exception as error:
                # The batches have left their queues, so nothing else would ever complete them.
                self._completion.fail_unsent(batches, error, self._clock.monotonic_ms())
        return bool(batches_by_node)

    def _ask_for_leaders(self, topics: Iterable[str], now_ms: int) -> None:
        """Request metadata. The topics are added again, because their metadata may have expired meanwhile."""
        for topic in topics:
            self._metadata.add(topic, now_ms)
        self._metadata.request_update("batches wait for a leader")

    def _sendable_nodes(self, nodes: Iterable[Node], now_ms: int) -> tuple[set[Node], int]:
        """The nodes that can accept a request now, and the ms until another one might."""
        sendable: set[Node] = set()
        delay_ms = _LONGEST_POLL_MS
        for node in nodes:
            can_drain = self._client.ready(node, now_ms)
            self._accumulator.ready_batches.update_node_latency_stats(node.id, now_ms, can_drain)
            if can_drain:
                sendable.add(node)
            else:
                delay_ms = min(delay_ms, self._client.connections.poll_delay_ms(node, now_ms))
        return sendable, delay_ms

    def _expire(self, now_ms: int, snapshot: MetadataSnapshot) -> int:
        """Fail the batches whose delivery timeout has passed; returns when to call this again."""
        for batch, node_id in self.in_flight.expired(now_ms):
            node = snapshot.nodes.get(node_id, node_id)
            self._completion.expire(batch, now_ms, f"waiting for the response of broker {node}")
        for batch in self._accumulator.queues.take_expired(now_ms):
            self._completion.expire(batch, now_ms, self._stage_of(batch, snapshot))
        return min(self._accumulator.queues.next_expiry_ms, self.in_flight.next_expiry_ms)

    def _fail_refused(self, snapshot: MetadataSnapshot) -> None:
        """Fail the batches that wait for a broker which has just refused this client, or was refused by it.

        Batches that were sent before may have been written: they are retried until their delivery timeout.
        """
        refusals, seen = self._client.connections.refusals, self._seen_refusals
        new = {node_id: error for node_id, error in refusals.items() if seen.get(node_id) is not error}
        if not new:
            return
        self._seen_refusals = refusals.copy()
        error_of_all = self._client.connections.refusal_by_all()

        def refusal_of(topic_partition: TopicPartition) -> AuthenticationError | None:
            leader = snapshot.leader_for(topic_partition)
            # No broker can be asked for an unknown leader.
            return error_of_all if leader is None else new.get(leader.id)

        failed = self._accumulator.abort_unsent_batches(refusal_of)
        self._count_failed(failed, error_of_all or next(iter(new.values())))

    def _carry_out(self, purge: Purge) -> None:
        """Fail the batches that a purge is about. The memory of those in flight stays with them."""
        error = PurgedError("purge() has given up this record")
        try:
            failed = self._accumulator.purge(error, purge.in_queue, purge.in_flight)
            self._count_failed(failed, error)
            purge.record_count = sum(failed.values())
        finally:
            purge.done.set()

    def _stage_of(self, batch: ProducerBatch, snapshot: MetadataSnapshot) -> str:
        """What an unsent batch has been waiting for."""
        topic, partition = batch.topic_partition
        leader = snapshot.leader_for(batch.topic_partition)
        if leader is None:
            count = snapshot.partition_count(topic)
            if count and partition >= count:
                return f"the topic now has only partitions 0 to {count - 1}"
            failure = self._metadata.topic_error(topic) or self._metadata.last_failure
            because = f" (last metadata error: {failure})" if failure is not None else ""
            return f"no leader is known for {batch.topic_partition}{because}"
        if self._client.connections.has_failed(leader):
            error = self._client.connections.last_error(leader.id)
            because = f": {error}" if error is not None else ""
            return f"no connection to the leader, broker {leader}{because}"
        if not self._client.is_ready(leader, self._clock.monotonic_ms()):
            return f"the leader, broker {leader}, could not accept another request"
        return f"queued for broker {leader}"

    # -- requests --------------------------------------------------------------------------------------

    def _register(self, batches_by_node: Mapping[int, Sequence[ProducerBatch]]) -> None:
        """Mark all drained batches as in flight, before any request: ``stray_batches`` relies on it."""
        try:
            for node_id, batches in batches_by_node.items():
                self.in_flight.add_all(batches, node_id)
                if self._guarantee_order:
                    for batch in batches:
                        self._accumulator.mute_partition(batch.topic_partition)
        except Exception as error:
            for batches in batches_by_node.values():
                self._completion.fail_unsent(batches, error, self._clock.monotonic_ms())
            raise

    def _send_request(
        self, node_id: int, batches: Sequence[ProducerBatch], snapshot: MetadataSnapshot, now_ms: int
    ) -> None:
        node = snapshot.nodes.get(node_id) or Node(node_id, "", -1)
        config, transaction_manager = self._config, self._transaction_manager
        transactions = None if transaction_manager is None else transaction_manager.state_machine
        builder = ProduceRequestBuilder(batches, snapshot.topic_ids, config, transactions)
        self.metrics.request_sent(batches, now_ms)
        for topic in builder.topics:
            # Renews the expiry of the topic's metadata; once per request is enough for a topic in use.
            self._metadata.add(topic, now_ms)
        # The network client calls this with the response.
        on_complete = partial(self._responses.handle, builder, node)
        self._client.send(node_id, builder, now_ms, on_complete, expect_response=config.acks != 0)
