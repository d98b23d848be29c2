"""FastLanes: gives partitions to the compiled data plane, and takes them back when anything unusual happens.

The data plane (``kernel/native/plane.h``) sends the batches of the partitions that it has and reads their
responses inside of the selector's poll, without the interpreter lock; then they are settled. It decides
nothing: a response that is not a full success, a timeout, the end of a connection, new metadata, a purge or
the close takes everything back as the objects that this package knows, as if they had been sent by
``Sender``. Source: ours.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata, ProduceRequestResult
from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.node_connection import NodeConnection
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.kernel import data_plane
from kproducer._core.network.kafka_channel import KafkaChannel
from kproducer._core.records.batch_sizing import FIRST_BUFFER_BYTES
from kproducer._core.records.compression import CompressionType
from kproducer._core.runtime.clock import Clock, SystemClock
from kproducer._core.runtime.threads import is_io_thread
from kproducer._core.sender.metrics import ProducerMetrics
from kproducer._core.sender.produce_requests import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    InFlightBatches,
    ProduceRequestBuilder,
    encoded_topic_name,
    fields_before_topics,
    produce_versions,
)
from kproducer._core.sender.produce_responses import ProduceResponseHandler
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.types import Node, RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from kproducer._core.accumulator.partition_queue import PartitionQueue
    from kproducer._core.accumulator.producer_batch import ProducerBatch
    from kproducer._core.accumulator.record_accumulator import RecordAccumulator
    from kproducer._core.client.metadata import Metadata
    from kproducer._core.client.metadata_snapshot import MetadataSnapshot
    from kproducer._core.client.network_client import NetworkClient
    from kproducer._core.transactions.sequence_tracker import SequenceTracker
    from kproducer._core.transactions.transaction_state import OpenTransaction
    from kproducer._core.transactions.transaction_state_machine import TransactionStateMachine

#: How long a reader of metrics waits for the I/O thread, which a callback may keep busy.
_LONGEST_COUNT_S = 0.2
#: How many partitions are tried to be armed in one round, and how many if one that waits for it has had
#: another batch. Each takes 5 us and, while it is armed, 450 bytes.
_ARMED_PER_ROUND, _MOST_ARMED_PER_ROUND = 64, 512


def _may_send_to(topic_partition: TopicPartition, transaction: OpenTransaction) -> bool:
    """Whether the partition was added to the transaction, or its first request adds it."""
    return transaction.version >= 2 or topic_partition in transaction.partitions


def _is_led_by(topic_partition: TopicPartition, node_id: int, snapshot: MetadataSnapshot) -> bool:
    topic, number = topic_partition
    metadata = snapshot.topics.get(topic)
    return (
        metadata is not None
        and number < len(metadata.partitions)
        and metadata.partitions[number].leader_id == node_id
    )


class Sending(NamedTuple):
    """The parts of the sender that take over what lanes had.

    Attributes:
        in_flight: the batches in flight.
        responses: handles the responses to requests that were taken back.
        metrics: of the producer.
        transactions: of the producer, with the sequence numbers, which lanes are lent; ``None``: it is not
            idempotent.
    """

    in_flight: InFlightBatches
    responses: ProduceResponseHandler
    metrics: ProducerMetrics
    transactions: TransactionStateMachine | None


def new_lanes(
    client: NetworkClient,
    metadata: Metadata,
    accumulator: RecordAccumulator,
    config: ProducerConfig,
    clock: Clock,
    sending: Sending,
) -> FastLanes | None:
    """The lanes of a producer; ``None``: it has none, because the data plane cannot send its usual requests.

    ``KPRODUCER_FAST_LANE=0`` in the environment turns them off, to compare.
    """
    if (
        data_plane is None
        or not client.selector.allows_lanes
        or config.acks == 0
        or config.max_in_flight_requests_per_connection == 1
        or os.environ.get("KPRODUCER_FAST_LANE") == "0"
    ):
        return None
    codec = None
    if accumulator.compression.type is not CompressionType.NONE:
        codec = accumulator.compression.native_codec()
        if codec is None:
            return None
    return FastLanes(client, metadata, accumulator, config, sending, clock, codec=codec)


class _Lane:
    """A lane and what it was made for.

    Attributes:
        lane: the compiled one.
        node, connection, channel: the broker and the connection to it.
        topics, parts: what was armed here, by name and by partition.
    """

    def __init__(self, lane: Any, node: Node, connection: NodeConnection, channel: KafkaChannel) -> None:
        self.lane = lane
        self.node = node
        self.connection = connection
        self.channel = channel
        self.topics: dict[str, Any] = {}
        self.parts: dict[TopicPartition, Any] = {}


class FastLanes:
    """The lanes of one producer. I/O thread only, except methods marked "any thread".

    Args:
        client: the connections.
        metadata: the topics in use are renewed here.
        accumulator: its queues are armed, and take the batches back.
        config: acks, timeouts, limits.
        sending: of the sender.
        clock: of the producer.
        codec: the same as the accumulator's compression; ``None``: that is none.
        takes_back: asked in each round whether to take everything back without a reason; for tests.
    """

    def __init__(
        self,
        client: NetworkClient,
        metadata: Metadata,
        accumulator: RecordAccumulator,
        config: ProducerConfig,
        sending: Sending,
        clock: Clock,
        *,
        codec: Any = None,
        takes_back: Callable[[], bool] | None = None,
    ) -> None:
        io = client.selector.io
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._config = config
        self._in_flight = sending.in_flight
        self._responses = sending.responses
        self._metrics = sending.metrics
        transactions = sending.transactions
        self._sequences = None if transactions is None else transactions.sequences
        self._producer = None if transactions is None else transactions.sequences.producer
        #: ``None``: the producer has no transactional id.
        self._transactions: TransactionStateMachine | None = None
        self._transactional_id: str | None = None
        self._takes_back = takes_back
        self._io = io
        self._clock = clock
        self._snapshot: MetadataSnapshot = metadata.snapshot
        self._by_node: dict[str, _Lane] = {}
        #: Partitions to be armed, with the node that their last batch went to. With idempotence they have to
        #: wait until nothing is pending.
        self._wanted: dict[TopicPartition, int] = {}
        #: One of these has been drained again since they were looked at.
        self._is_late = False
        self._awaiting_loan: set[TopicPartition] = set()
        #: As ``_wanted``: partitions that the transaction, of version 1, has not added yet.
        self._not_added: dict[TopicPartition, int] = {}
        #: The transaction, and how many partitions it had, when these were looked at last.
        self._looked_at: tuple[OpenTransaction | None, int] = (None, 0)
        self._sends_everything = False
        #: Readers of metrics that wait for ``_count_all``. Any thread appends.
        self._counting: deque[threading.Event] = deque()
        pool = accumulator.pool
        self._plane = data_plane.Plane(
            linger_ms=config.linger_ms,
            request_timeout_ms=config.request_timeout_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
            longest_open_ms=accumulator.queues.longest_open_ms,
            batch_size=max(config.batch_size, 1),
            buffer_memory=pool.total_bytes,
            first_bytes=FIRST_BUFFER_BYTES,
            sizes=pool.sizes,
            future_type=FutureRecordMetadata,
            metadata_type=RecordMetadata,
            make_result=ProduceRequestResult,
            allocate=pool.try_allocate,
            deallocate=pool.deallocate_all,
            incomplete=accumulator.incomplete,
            memory_waiters=pool.waiters,
            now_ms=None if isinstance(clock, SystemClock) else clock.monotonic_ms,
            on_wake=io.wake_of_plane(),
            codec=codec,
        )
        if transactions is not None and transactions.transactional_id is not None:
            self._use_transactions(transactions)
        io.use_plane(self._plane, self._hand_back_lane, clock.monotonic_ms)
        accumulator.queues.adopt = accumulator.adopt
        accumulator.on_flush_end = self.update_sends_everything
        accumulator.take_back = self.take_all_back
        client.lanes = self

    def _use_transactions(self, transactions: TransactionStateMachine) -> None:
        self._transactions = transactions
        self._transactional_id = transactions.transactional_id
        self._plane.use_transactions(self._client.wakeup)
        transactions.data_plane = self._plane

    # -- any thread ------------------------------------------------------------------------------------

    def update_sends_everything(self) -> None:
        """A flush or the close has begun, a flush has ended, or threads wait for memory."""
        # Looked at again afterwards: another thread may have begun or ended a flush meanwhile.
        while (wanted := self._accumulator.ready_batches.sends_everything()) is not self._sends_everything:
            self._sends_everything = wanted
            self._plane.send_everything(wanted)

    def count_now(self) -> None:
        """Have the metrics include what the lanes have done. Waits for the I/O thread, but not for long."""
        if not self._by_node:
            return
        if is_io_thread():
            self._count_all(self._now_ms())
            return
        counted = threading.Event()
        self._counting.append(counted)
        self._client.wakeup()
        counted.wait(_LONGEST_COUNT_S)

    # -- a round of the sender -------------------------------------------------------------------------

    def tend(self, now_ms: int) -> None:
        """Before anything else in a round: take back what Python has to look at, count what was sent."""
        self.update_sends_everything()
        transactions = self._transactions
        # The end of a transaction waits for the last batch.
        is_ending = transactions is not None and transactions.is_ending
        self._io.return_early(self._accumulator.queues.is_closed or is_ending)
        self._count_all(now_ms)
        self._take_back_disarmed()
        if transactions is not None and transactions.transactional_id != self._transactional_id:
            # No transaction has begun under the new one: it has to be initialized first, by this thread.
            self._transactional_id = transactions.transactional_id
            self.take_all_back()
            self._wanted.clear()
            self._not_added.clear()
        if not self._by_node:
            return
        sequences = self._sequences
        if sequences is not None and (sequences.gapped or self._has_other_producer(sequences)):
            self._producer = sequences.producer
            self.take_all_back()
            return
        if self._metadata.snapshot is not self._snapshot or (
            self._takes_back is not None and self._takes_back()
        ):
            self.take_all_back()
            return
        note_load = self._accumulator.ready_batches.update_node_latency_stats
        for each in list(self._by_node.values()):
            note_load(each.node.id, now_ms, not each.lane.is_blocked)
            # Not ready: it is throttled, or to be authenticated again.
            if each.lane.expiry_ms <= now_ms or not each.connection.is_ready(now_ms):
                self._take_back(each)

    def _has_other_producer(self, sequences: SequenceTracker) -> bool:
        """Whether the numbers of the lanes belong to an earlier producer id.

        A transactional producer gets another one, or another epoch, while it has no batches: then the lanes
        continue by themselves, see ``Plane.number``.
        """
        return self._transactions is None and sequences.producer is not self._producer

    def note_drained(self, node_id: int, batches: Sequence[ProducerBatch]) -> None:
        """These batches have left their queues, for a request to this node."""
        for batch in batches:
            self._is_late |= batch.topic_partition in self._wanted
            self._wanted[batch.topic_partition] = node_id

    def arm(self, now_ms: int) -> None:
        """Before and after the drains of a round: arm what was drained, as far as it is in its usual state.

        What an idempotent producer has drained is pending after the drains, so it can be armed before the
        next ones only, and those must not drain more of it.
        """
        self._awaiting_loan = set()
        transactions = self._transactions
        transaction = None if transactions is None else transactions.sending_transaction
        if transaction is not None and self._not_added:
            self._look_for_added(transaction)
        may_arm = transactions is None or transaction is not None
        if self._wanted and may_arm and not self._accumulator.queues.is_closed:
            self._arm_wanted(transaction, now_ms)
        if self._sequences is not None:
            self._sequences.awaiting_loan = self._awaiting_loan

    def _look_for_added(self, transaction: OpenTransaction) -> None:
        looked_at = (transaction, len(transaction.partitions))
        if looked_at == self._looked_at:
            return
        self._looked_at = looked_at
        for topic_partition in [each for each in self._not_added if _may_send_to(each, transaction)]:
            self._wanted[topic_partition] = self._not_added.pop(topic_partition)

    def _arm_wanted(self, transaction: OpenTransaction | None, now_ms: int) -> None:
        wanted = self._wanted
        snapshot = self._metadata.snapshot
        count = _MOST_ARMED_PER_ROUND if self._is_late else _ARMED_PER_ROUND
        self._is_late = False
        for topic_partition in list(islice(wanted, count)):
            node_id = wanted.pop(topic_partition)
            if transaction is not None and not _may_send_to(topic_partition, transaction):
                self._not_added[topic_partition] = node_id
                continue
            if not _is_led_by(topic_partition, node_id, snapshot):
                continue
            each = self._lane_of(node_id, snapshot, transaction, now_ms)
            if each is not None and not self._arm_partition(each, topic_partition, snapshot, transaction):
                wanted[topic_partition] = node_id  # behind the others

    def blocked_queues(self) -> list[PartitionQueue]:
        """The queues of lanes whose connection cannot take what is due."""
        queues = self._accumulator.queues
        return [
            queues.queue_of(part.topic_partition)
            for each in self._by_node.values()
            if each.lane.is_blocked
            for part in each.lane.parts
        ]

    def before_wait(self) -> None:
        """Before the selector waits: tell the lanes how many requests of Python are in flight."""
        for node_id, each in self._by_node.items():
            lane = each.lane
            if not lane.in_flight:
                lane.foreign = self._client.in_flight.count_of(node_id)
            # No two requests in flight on a connection have the same id.
            lane.next_correlation_id = self._client.next_correlation_id(lane.next_correlation_id)

    # -- taking back -----------------------------------------------------------------------------------

    def make_way(self, node_id: str) -> None:
        each = self._by_node.get(node_id)
        if each is None:
            return
        if each.lane.is_stalled or not each.connection.is_ready(self._now_ms()):
            self._take_back(each)
            return
        self._adopt_requests(each)

    def connection_ended(self, node_id: str) -> None:
        each = self._by_node.get(node_id)
        if each is not None:
            self._take_back(each)

    def take_all_back(self) -> None:
        """Take all lanes back."""
        for each in list(self._by_node.values()):
            self._take_back(each)

    def _hand_back_lane(self, lane: Any) -> None:
        self._take_back(self._by_node[lane.owner.connection_id])

    def _take_back(self, each: _Lane) -> None:
        """From here on, Python has all that the lane had."""
        lane = each.lane
        lane.is_armed = False
        lane.settle(self._now_ms())
        unwritten = self._adopt_requests(each)
        queues = self._accumulator.queues
        for part in lane.parts:
            queues.queue_of(part.topic_partition).disarm()
        self._take_back_disarmed()
        received = lane.take_partial()
        self._count(each, self._now_ms())
        self._plane.remove_lane(lane)
        del self._by_node[each.connection.id]
        self._client.in_flight.lanes.pop(each.connection.id, None)
        self._client.selector.resume(each.channel, received, unwritten)

    def _adopt_requests(self, each: _Lane) -> list[Any]:
        """Make the requests in flight requests of the client; returns the frames that are partly written."""
        lane = each.lane
        unwritten = []
        self._client.next_correlation_id(lane.next_correlation_id)
        client_metrics = self._client.metrics
        node_requests = client_metrics.nodes[each.connection.id].requests
        for correlation_id, sent_ms, fast, frame_bytes, pieces in lane.take_requests():
            batches = [self._accumulator.adopt(batch) for batch in fast]
            for batch, source in zip(batches, fast, strict=True):
                self._adopt_numbers(batch, source)
                batch.drained(self._accumulator.queues.queue_of(batch.topic_partition).leader_epoch)
            self._in_flight.add_all(batches, each.node.id)
            # Those that the lane has completed are counted by ``_count``.
            self._metrics.request_sent(batches, sent_ms)
            node_requests.add(float(frame_bytes), client_metrics.windows.at(sent_ms))
            topic_ids = self._snapshot.topic_ids
            builder = ProduceRequestBuilder(batches, topic_ids, self._config, self._transactions)
            on_complete = partial(self._responses.handle, builder, each.node)
            left = [memoryview(piece) for piece in pieces]
            send = self._client.adopt(
                each.connection.id, builder, lane.version, correlation_id, sent_ms, left, on_complete
            )
            if send is not None:
                unwritten.append(send)
        return unwritten

    def _adopt_numbers(self, batch: ProducerBatch, source: Any) -> None:
        if self._sequences is not None:
            self._sequences.note_lent(batch.topic_partition, *source.part.take_acknowledged())
            self._sequences.adopt(batch, source.numbers)

    def _take_back_disarmed(self) -> None:
        """Take back what lanes still have of partitions that were disarmed: requests in flight, the numbers.

        Any thread disarms a partition, but only this one knows requests and sequence numbers. Until then the
        tracker refuses to number the partition's batches.
        """
        disarmed = self._accumulator.queues.disarmed
        while disarmed:
            part = disarmed.popleft()
            try:
                self._take_back_rest(part)
            except BaseException:
                disarmed.appendleft(part)
                raise

    def _take_back_rest(self, part: Any) -> None:
        queues, sequences = self._accumulator.queues, self._sequences
        # The thread that has disarmed it may have been interrupted.
        queue = queues.queue_of(part.topic_partition)
        with queue.lock:
            if queue.slot.part is part:
                queue.disarm_locked()
        queues.changed.append(queue)
        if sequences is None:
            return
        each = self._by_node.get(part.lane.owner.connection_id)
        if each is not None and each.lane is part.lane:
            if part.is_in_flight:
                self.make_way(each.connection.id)
            if self._was_added_before(part):
                self._wanted[part.topic_partition] = each.node.id
        sequences.note_lent(part.topic_partition, *part.take_acknowledged())
        sequences.end_loan(part.topic_partition, part.next_sequence)

    def _was_added_before(self, part: Any) -> bool:
        """Whether the partition was armed for an earlier transaction, of version 1.

        Then this may be why it was disarmed, so it is armed again once the present one has added it. If it
        was armed for the present one, Python has something to do first.
        """
        transactions = self._transactions
        return (
            transactions is not None
            and part.added_to is not None
            and part.added_to is not transactions.transaction
        )

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()

    # -- arming ----------------------------------------------------------------------------------------

    def _lane_of(
        self, node_id: int, snapshot: MetadataSnapshot, transaction: OpenTransaction | None, now_ms: int
    ) -> _Lane | None:
        """The lane of the node, a new one if there is none and the connection allows it."""
        connection = self._client.connections.get(str(node_id))
        if connection is None:
            return None
        uses_version_2 = None if transaction is None else transaction.version >= 2
        oldest, latest = produce_versions(uses_version_2, bool(snapshot.topic_ids), self._config)
        found = self._by_node.get(connection.id)
        if found is not None:
            if oldest <= found.lane.version <= latest:
                return found
            self._take_back(found)  # the brokers were upgraded or downgraded
            return None
        channel = self._client.selector.channel(connection.id)
        node = snapshot.nodes.get(node_id)
        if (
            channel is None
            or node is None
            or channel.is_stalled
            or self._client.selector.is_resuming
            or not channel.assembler.is_between_frames
            or not channel.is_ready
            or not connection.is_ready(now_ms)
            or connection.has_moved
            or connection.versions is None
        ):
            return None
        if self._by_node and snapshot is not self._snapshot:
            return None  # the others are taken back in the next round
        try:
            version = connection.versions.latest_usable_version(ApiKey.PRODUCE, oldest, latest)
        except UnsupportedVersionError:
            return None
        config = self._config
        lane = data_plane.FastLane(
            self._plane,
            channel,
            channel.transport.fileno(),
            version,
            fields_before_topics(
                version, config.client_id, config.acks, config.request_timeout_ms, self._transactional_id
            ),
            config.max_in_flight_requests_per_connection,
            config.max_request_size,
            None if channel.native_socket is not None else channel.transport.send,
        )
        lane.next_correlation_id = self._client.next_correlation_id()
        lane.foreign = self._client.in_flight.count_of(connection.id)
        self._plane.add_lane(lane)
        self._io.use_lane(channel, lane)
        lane.is_armed = True
        made = self._by_node[connection.id] = _Lane(lane, node, connection, channel)
        self._client.in_flight.lanes[connection.id] = lane
        connection.was_used = True
        self._client.note_version(connection.id, ApiKey.PRODUCE, version)
        self._snapshot = snapshot
        return made

    def _arm_partition(
        self,
        each: _Lane,
        topic_partition: TopicPartition,
        snapshot: MetadataSnapshot,
        transaction: OpenTransaction | None,
    ) -> bool:
        """Arm a partition. Returns whether there is nothing more to do: it is armed, or cannot be."""
        topic = topic_partition.topic
        part = each.parts.get(topic_partition)
        if part is None:
            fast_topic = each.topics.get(topic)
            if fast_topic is None:
                version = each.lane.version
                if version >= FIRST_VERSION_WITH_TOPIC_IDS:
                    topic_id = snapshot.topic_ids.get(topic)
                    if topic_id is None:
                        return True
                    encoded, is_id = topic_id.bytes, True
                else:
                    encoded, is_id = encoded_topic_name(version, topic), False
                ratio = self._accumulator.queues.topic(topic).ratio
                fast_topic = data_plane.FastTopic(topic, encoded, is_id, ratio)
                each.topics[topic] = fast_topic
            part = each.parts[topic_partition] = data_plane.FastPart(self._plane, fast_topic, topic_partition)
        queue = self._accumulator.queues.queue_of(topic_partition)
        if self._accumulator.queues.disarmed:
            self._take_back_disarmed()
            if self._by_node.get(each.connection.id) is not each:
                return False  # that has taken the lane back
        with queue.lock:
            if queue.slot.part is not None:
                return True
            if queue.is_muted or not all(batch.can_be_armed for batch in queue.batches):
                return False
            sequences = self._sequences
            if sequences is None:
                queue.arm_locked(part, each.lane)
                return True
            numbers = sequences.lend(topic_partition)
            if numbers is None:
                self._awaiting_loan.add(topic_partition)
                return False
            try:
                part.number(*numbers)
                part.added_to = transaction if transaction is not None and transaction.version < 2 else None
                queue.arm_locked(part, each.lane)
            except BaseException:
                sequences.end_loan(topic_partition, part.next_sequence)
                raise
        return True

    def _count_all(self, now_ms: int) -> None:
        for each in list(self._by_node.values()):
            self._count(each, now_ms)
        while self._counting:
            self._counting.popleft().set()

    # -- metrics ---------------------------------------------------------------------------------------

    def _count(self, each: _Lane, now_ms: int) -> None:
        lane = each.lane
        if not lane.requests:
            return
        metrics = self._client.metrics
        window = metrics.windows.at(now_ms)
        node_metrics = metrics.nodes[each.connection.id]
        requests = lane.requests
        node_metrics.requests.add_all(lane.request_bytes, requests, lane.request_bytes_max, window)
        node_metrics.responses.add_all(lane.response_bytes, requests, lane.response_bytes_max, window)
        node_metrics.latency.add_all(lane.latency_ms, requests, lane.latency_ms_max, window)
        for topic in self._metrics.lane_sent(lane, now_ms):
            self._metadata.add(topic, now_ms)
