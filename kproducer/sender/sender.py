"""Sender: the I/O thread's loop, from batches that are ready to requests on their way.

``run_once`` is the steppable unit: ask which nodes have something to be sent, drop those that cannot take it,
drain, fail what has waited too long, send one Produce request for each node, and let the network client poll.
Knows nothing of the application. Source: Kafka class ``Sender``; KIP-91.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from kproducer.accumulator.partition_queues import NEVER_MS
from kproducer.client.exponential_backoff import ExponentialBackoff
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import KafkaError, ProducerClosedError
from kproducer.runtime.clock import Clock
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.runtime.io_thread import mark_io_thread
from kproducer.sender.batch_completion import BatchCompletion
from kproducer.sender.in_flight_batches import InFlightBatches
from kproducer.sender.metrics import ProducerMetrics
from kproducer.sender.produce_request_builder import ProduceRequestBuilder
from kproducer.sender.produce_response_handler import ProduceResponseHandler
from kproducer.types import Node

if TYPE_CHECKING:
    from kproducer.accumulator.producer_batch import ProducerBatch
    from kproducer.accumulator.record_accumulator import RecordAccumulator
    from kproducer.client.client_request import ClientResponse
    from kproducer.client.network_client import NetworkClient
    from kproducer.sender.producer_metadata import ProducerMetadata
    from kproducer.transactions.coordinator_link import CoordinatorLink
    from kproducer.transactions.transaction_manager import TransactionManager

_log = GuardedLogger(__name__)

#: After an unexpected error the loop waits this long, and longer each time, so that a bug cannot spin.
_ERROR_PAUSE_MS = 100
_ERROR_PAUSE_MAX_MS = 5000
_UNDRAINED_DELAY_MS = 20
_ROUNDS_PER_POLL = 8
_LONGEST_POLL_MS = 3_600_000


class Sender:
    """Sends what the accumulator holds. ``run`` and ``run_once`` on the I/O thread; the rest on any.

    Args:
        client: the connections; owned: closed when ``run`` ends.
        metadata: leaders of partitions.
        accumulator: batches.
        config: acks, timeouts, limits.
        clock: time for callbacks and the loop.
        metrics: what was sent is counted here.
        transactions: idempotence and transactions; ``None``: neither.
    """

    def __init__(
        self,
        client: NetworkClient,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        config: ProducerConfig,
        clock: Clock,
        metrics: ProducerMetrics | None = None,
        transactions: TransactionManager | None = None,
    ) -> None:
        # fixed after construction
        self._transactions = transactions
        self._coordinators: CoordinatorLink | None = None
        if transactions is not None:
            # Here, since it brings the messages of seven APIs that most producers never send.
            from kproducer.transactions.coordinator_link import CoordinatorLink

            self._coordinators = CoordinatorLink(transactions, client, clock, config.request_timeout_ms)
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._clock = clock
        self._acks = config.acks
        self._request_timeout_ms = config.request_timeout_ms
        self._delivery_timeout_ms = config.delivery_timeout_ms
        self._max_request_size = config.max_request_size
        self._guarantee_order = config.max_in_flight_requests_per_connection == 1
        self._uses_zstd = config.compression_type == "zstd"
        self.metrics = metrics or ProducerMetrics()
        self.in_flight = InFlightBatches(config.delivery_timeout_ms)
        self._completion = BatchCompletion(
            config, accumulator, metadata, self.in_flight, self.metrics, transactions
        )
        self._responses = ProduceResponseHandler(
            self._completion, metadata, self.metrics, config.request_timeout_ms, config.compression_type
        )
        self._error_backoff = ExponentialBackoff(_ERROR_PAUSE_MS, 2, _ERROR_PAUSE_MAX_MS, 0.2)
        # written by any thread, read by the I/O thread
        self._running = True
        self._force_close = False
        self._closing = threading.Event()
        # I/O thread only
        self._consecutive_errors = 0
        self._transaction_end_ms = 0
        #: Records that were given up when the loop ended; read it after the thread has ended.
        self.records_lost = 0
        accumulator.wake_when_memory_is_short(self.wakeup)

    # -- any thread ------------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """Let the loop look at the accumulator again soon."""
        self._client.wakeup()

    def initiate_close(self) -> None:
        """Accept no more records, deliver those accepted, then end. Returns at once; idempotent."""
        # The accumulator first: a record accepted after the loop has ended would never be resolved.
        self._accumulator.close()
        # What they wait for could not be sent any more; the end of the loop may be minutes away.
        self._metadata.refuse_waiters()
        self._running = False
        self._closing.set()
        self.wakeup()

    def end_when_done(self) -> None:
        """``initiate_close`` for a producer that was garbage-collected: nobody is left who could append.

        The collector may run this in the middle of anything, on the I/O thread too. So it takes no lock that
        the interrupted code may hold; the loop does the rest.
        """
        self._running = False
        self.wakeup()

    def force_close(self) -> None:
        """End soon and fail what is not acknowledged. Returns at once; idempotent."""
        self._force_close = True
        self.initiate_close()

    @property
    def is_forced_to_close(self) -> bool:
        """Whether ``force_close`` was called."""
        return self._force_close

    def end_after_fork(self) -> None:
        """In a forked child: end the loop, in which a child forked in a delivery callback runs on."""
        self._force_close = True
        self._running = False

    # -- the loop --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Loop until closed. Survives unexpected errors; in the end no record is left without a fate."""
        mark_io_thread()
        _log.debug("The I/O thread starts")
        ending: BaseException | None = None
        try:
            while self._running:
                self._run_guarded()
            self._accumulator.close()
            self._begin_close_of_transaction()
            # Unresolved, not incomplete: what expired while a broker kept silent only waits for its memory.
            while not self._force_close and (
                self._accumulator.has_unresolved or self._is_ending_transaction()
            ):
                self._run_guarded()
        except BaseException as error:
            # SystemExit and the like: the loop cannot go on, but nobody may be left waiting.
            ending = error
        # Before anything is logged: a handler may block.
        try:
            self._shut_down(ending)
        finally:
            if ending is not None:
                _log.critical("The I/O thread has ended because of %r", ending, exc_info=ending)
        _log.debug("The I/O thread has ended")

    def run_once(self, now_ms: int) -> None:
        """One round: send what can be sent, then poll. Blocks as long as there is nothing to do."""
        # Differs from Kafka, which polls after each round of requests: here each poll may cost a wait for the
        # interpreter lock, so as much as is ready goes out first.
        coordinator_delay_ms = self._talk_to_coordinators(now_ms)
        accumulator = self._accumulator
        accumulator.next_look_ms = NEVER_MS
        for _ in range(_ROUNDS_PER_POLL):
            poll_timeout_ms = self._send_producer_data(now_ms)
            if poll_timeout_ms is not None:
                poll_timeout_ms = min(poll_timeout_ms, coordinator_delay_ms)
                accumulator.next_look_ms = self._clock.monotonic_ms() + poll_timeout_ms
                break
        if not self._running:
            poll_timeout_ms = min(poll_timeout_ms or 0, self._close_delay_ms())
        # Last: the lines above may have failed batches, and the next round has to react to that.
        if self._transactions is not None and self._transactions.take_news():
            poll_timeout_ms = 0
        self._client.poll(poll_timeout_ms or 0, now_ms)

    def _close_delay_ms(self) -> int:
        """How long a poll may block while the producer is being closed; 0: the loop may be over.

        A batch that expires ends no poll: without this the loop would sleep until the next metadata update.
        """
        if self._accumulator.has_unresolved:
            return _LONGEST_POLL_MS
        if self._is_ending_transaction():
            return max(0, self._transaction_end_ms - self._clock.monotonic_ms())
        return 0

    def _run_guarded(self) -> None:
        try:
            self.run_once(self._clock.monotonic_ms())
            self._consecutive_errors = 0
        except Exception as error:
            self.metrics.io_error_total += 1
            self._completion.abandon_strays(error)
            _log.exception("Unexpected error in the I/O thread; it goes on")
            pause_ms = self._error_backoff.backoff_ms(self._consecutive_errors)
            self._consecutive_errors += 1
            if self._running:
                self._closing.wait(pause_ms / 1000)
            elif self._consecutive_errors > 10:
                # While closing, an error each round means that the rest cannot be delivered.
                self._force_close = True

    def _shut_down(self, ending: BaseException | None) -> None:
        self._running = False
        text = "the producer was closed before the record was acknowledged"
        if ending is not None:
            text = f"the producer's I/O thread ended: {ending!r}"
        error = ProducerClosedError(text)
        # From the last one to the first: each step is taken, whatever happens in the others.
        with contextlib.ExitStack() as steps:
            # Once the sockets are closed nobody reads the buffers any more.
            steps.callback(self._accumulator.release_all_in_flight)
            steps.callback(self.in_flight.clear)
            steps.callback(self._client.close)
            steps.callback(self._metadata.close)
            if self._transactions is not None:
                steps.callback(self._transactions.close, error)
            steps.callback(self._abort_all, error)
            steps.callback(self._accumulator.close)
        if self.records_lost:
            _log.error("%d records were not delivered: %s", self.records_lost, error)

    def _abort_all(self, error: KafkaError) -> None:
        errors_before = self.metrics.record_error_total
        self.records_lost = self._accumulator.incomplete_record_count
        self._accumulator.abort_incomplete_batches(error)
        self.metrics.record_error_total = errors_before + self.records_lost

    # -- idempotence and transactions ------------------------------------------------------------------

    def _begin_close_of_transaction(self) -> None:
        """An open transaction is aborted when the producer is closed; a coordinator has so long for that."""
        if self._transactions is not None:
            self._transactions.begin_close()
            self._transaction_end_ms = self._clock.monotonic_ms() + self._request_timeout_ms

    def _is_ending_transaction(self) -> bool:
        transactions = self._transactions
        return (
            transactions is not None
            and transactions.is_ending
            and self._clock.monotonic_ms() < self._transaction_end_ms
        )

    def _talk_to_coordinators(self, now_ms: int) -> int:
        """Ask for a producer id and the like. Returns when to come here again, in ms."""
        transactions, coordinators = self._transactions, self._coordinators
        if transactions is None or coordinators is None:
            return _LONGEST_POLL_MS
        given_up = transactions.give_up()
        if given_up is not None:
            self._accumulator.abort_undrained_batches(given_up.error, given_up.numbered_too)
        for batch in transactions.resolve():
            self._completion.give_up_unsafe(cast("ProducerBatch", batch), now_ms)
        return coordinators.step(now_ms, self._accumulator.incomplete_count > 0)

    # -- one round -------------------------------------------------------------------------------------

    def _send_producer_data(self, now_ms: int) -> int | None:
        """Send what is ready. Returns how long poll may block, in ms; ``None``: there may be more to send."""
        accumulator = self._accumulator
        snapshot = self._metadata.snapshot
        if self._transactions is not None:
            self._transactions.note_topic_ids(snapshot.topic_ids)
        # First, which Kafka does last: what is late is not sent any more after it was told to have failed.
        self._expire(now_ms, snapshot)
        result = accumulator.ready(snapshot, now_ms)
        if result.unknown_leader_topics:
            self._ask_for_leaders(result.unknown_leader_topics, now_ms)
        ready_nodes, not_ready_delay_ms = self._sendable_nodes(result.ready_nodes, now_ms)
        batches_by_node = accumulator.drain(snapshot, ready_nodes, self._max_request_size, now_ms)
        self._register(batches_by_node)
        if self._send_requests(batches_by_node, snapshot, now_ms):
            return None
        poll_timeout_ms: int = min(result.next_ready_check_delay_ms, not_ready_delay_ms)
        if ready_nodes:
            # Said to be ready, and yet there was nothing to drain: look again soon, but do not spin.
            poll_timeout_ms = min(poll_timeout_ms, _UNDRAINED_DELAY_MS)
        next_expiry_ms = min(accumulator.next_expiry_ms, self.in_flight.next_expiry_ms)
        return max(0, min(poll_timeout_ms, next_expiry_ms - now_ms))

    def _ask_for_leaders(self, topics: Iterable[str], now_ms: int) -> None:
        """Have metadata look for leaders; a topic may also have been forgotten while records waited."""
        for topic in topics:
            self._metadata.add(topic, now_ms)
        self._metadata.request_update("batches wait for a leader")

    def _sendable_nodes(self, nodes: Iterable[Node], now_ms: int) -> tuple[set[Node], int]:
        """The nodes that can take a request now, and the ms until one of the others might."""
        sendable: set[Node] = set()
        delay_ms = _LONGEST_POLL_MS
        for node in nodes:
            can_drain = self._client.ready(node, now_ms)
            self._accumulator.update_node_latency_stats(node.id, now_ms, can_drain)
            if can_drain:
                sendable.add(node)
            else:
                delay_ms = min(delay_ms, self._client.poll_delay_ms(node, now_ms))
        return sendable, delay_ms

    def _expire(self, now_ms: int, snapshot: Any) -> None:
        for batch, node_id in self.in_flight.expired(now_ms):
            node = snapshot.nodes.get(node_id, node_id)
            self._completion.expire(batch, now_ms, f"waiting for the answer of broker {node}")
        for batch in self._accumulator.expired_batches(now_ms):
            self._completion.expire(batch, now_ms, self._stage_of(batch, snapshot))

    def _stage_of(self, batch: ProducerBatch, snapshot: Any) -> str:
        """What an unsent batch has been waiting for."""
        leader = snapshot.leader_for(batch.topic_partition)
        failure = self._metadata.topic_error(batch.topic_partition.topic) or self._metadata.last_failure
        if leader is None:
            count = snapshot.partition_count(batch.topic_partition.topic)
            if count and batch.topic_partition.partition >= count:
                return f"the topic has partitions 0 to {count - 1} now"
            because = f" (last metadata error: {failure})" if failure is not None else ""
            return f"no leader is known for {batch.topic_partition}{because}"
        if self._client.connection_failed(leader):
            trouble = self._client.last_error(leader.id)
            because = f": {trouble}" if trouble is not None else ""
            return f"no connection to the leader, broker {leader}{because}"
        if not self._client.is_ready(leader, self._clock.monotonic_ms()):
            return f"the leader, broker {leader}, could not take another request"
        return f"queued for broker {leader}"

    # -- requests --------------------------------------------------------------------------------------

    def _register(self, batches_by_node: Mapping[int, Sequence[ProducerBatch]]) -> None:
        """Note that drained batches are in flight. All of them first: ``stray_batches`` looks here."""
        try:
            for node_id, batches in batches_by_node.items():
                self.in_flight.add_all(batches, node_id)
                if self._guarantee_order:
                    for batch in batches:
                        self._accumulator.mute_partition(batch.topic_partition)
        except Exception as error:
            for batches in batches_by_node.values():
                self._fail_request(batches, error)
            raise

    def _send_requests(
        self, batches_by_node: Mapping[int, Sequence[ProducerBatch]], snapshot: Any, now_ms: int
    ) -> bool:
        sent = False
        for node_id, batches in batches_by_node.items():
            if not batches:
                continue
            sent = True
            try:
                self._send_request(node_id, batches, snapshot, now_ms)
            except Exception as error:
                # Nobody else knows these batches any more: without this they would never be resolved.
                self._fail_request(batches, error)
        return sent

    def _send_request(
        self, node_id: int, batches: Sequence[ProducerBatch], snapshot: Any, now_ms: int
    ) -> None:
        node = snapshot.nodes.get(node_id) or Node(node_id, "", -1)
        transactions = self._transactions
        builder = ProduceRequestBuilder(
            batches,
            snapshot.topic_ids,
            self._acks,
            self._request_timeout_ms,
            self._uses_zstd,
            None if transactions is None else transactions.transactional_id,
            2 if transactions is None or transactions.uses_version_2 else 1,
        )

        def on_complete(response: ClientResponse) -> None:
            self._responses.handle(batches, builder.topic_ids, node, response, self._clock.monotonic_ms())

        request = self._client.new_client_request(
            str(node_id), builder, now_ms, self._acks != 0, self._request_timeout_ms, on_complete
        )
        self._note_sent(batches, now_ms)
        self._client.send(request, now_ms)

    def _fail_request(self, batches: Sequence[ProducerBatch], cause: Exception) -> None:
        self.metrics.io_error_total += 1
        for batch in batches:
            if batch.is_done:
                continue
            error = KafkaError(f"the Produce request for {batch.topic_partition} could not be made: {cause}")
            error.__cause__ = cause
            try:
                self._completion.fail_unsent(batch, error)
            except Exception as bug:
                self._completion.abandon(batch, bug)
        _log.error("A Produce request could not be made", exc_info=cause)

    def _note_sent(self, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        records = 0
        topic: str | None = None
        sizes_bytes: list[int] = []
        rates: list[float] = []
        queue_times_ms: list[int] = []
        for batch in batches:
            records += batch.record_count
            sizes_bytes.append(batch.records().nbytes)
            builder = batch.builder
            rates.append(1.0 if builder is None else builder.compression_ratio)
            if not batch.attempts:
                queue_times_ms.append(now_ms - batch.created_ms)
            if batch.topic_partition.topic != topic:
                topic = batch.topic_partition.topic
                # A topic in use stays known: once a request is often enough for its expiry.
                self._metadata.add(topic, now_ms)
        self.metrics.request_sent(records, sizes_bytes, rates, queue_times_ms)
