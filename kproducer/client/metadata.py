"""Metadata: when to ask for cluster metadata, and what the answers add up to.

Sits between the network client (which sends requests and hands the responses in) and everybody who reads
``Metadata.snapshot``. Knows nothing of sockets, and nothing of producing: which topics matter is decided by a
subclass. Source: Kafka class ``Metadata``; KIP-320 (leader epochs), KIP-516 (topic ids), KIP-526 (partial
requests), KIP-580 (backoff), KIP-899 (rebootstrap), KIP-951 (leaders named in other responses).
"""

from __future__ import annotations

import random as random_module
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from kproducer.client.metadata_snapshot import (
    LEADER_NOT_AVAILABLE_CODE,
    NO_LEADER_EPOCH,
    ZERO_TOPIC_ID,
    MetadataSnapshot,
    PartitionMetadata,
    TopicMetadata,
    available_partitions,
    missing_partition,
)
from kproducer.errors import (
    BrokerError,
    KafkaError,
    printable,
)
from kproducer.errors.broker_errors import error_for_code
from kproducer.runtime.clock import ExponentialBackoff
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.types import Node, TopicPartition

if TYPE_CHECKING:
    from kproducer_messages import MetadataResponse

_log = GuardedLogger(__name__)

#: Before this version brokers could serve leader epochs that went backwards (KAFKA-12257).
FIRST_VERSION_WITH_RELIABLE_LEADER_EPOCHS = 9

INVALID_TOPIC_CODE = 17
TOPIC_AUTHORIZATION_FAILED_CODE = 29


@attrs.frozen
class MetadataRequestAndVersion:
    """What the next Metadata request should ask for.

    Attributes:
        topics: names; ``None`` means all topics, an empty tuple means brokers only.
        request_version: goes back into ``Metadata.update`` with the response.
        is_partial: only new topics are asked for; goes back into ``Metadata.update`` likewise.
        allow_auto_topic_creation: whether asking may create the topic.
    """

    topics: tuple[str, ...] | None
    request_version: int
    is_partial: bool
    allow_auto_topic_creation: bool = True


class Metadata:
    """The present picture of the cluster and the timers around it. Thread-safe: every method takes the lock.

    ``snapshot`` is a plain attribute that always holds a complete immutable picture: read it without a lock.

    Args:
        retry_backoff_ms: shortest wait between two requests; grows while they fail or bring nothing new.
        retry_backoff_max_ms: cap of that growth.
        metadata_max_age_ms: age after which everything is asked for again.
        random: source of the backoff jitter.
    """

    def __init__(
        self,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        metadata_max_age_ms: int,
        *,
        random: random_module.Random | None = None,
    ) -> None:
        # Fixed after construction.
        self._backoff = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms, random)
        self._max_age_ms = metadata_max_age_ms
        #: Guards everything below; waiters of a subclass use it as a condition.
        self._lock = threading.Condition(threading.RLock())
        # Written under _lock, read by anyone.
        self.snapshot = MetadataSnapshot()
        self.update_version = 0
        self.is_closed = False
        #: Why the latest attempt failed; ``None`` after a success. For error messages.
        self.last_failure: KafkaError | None = None
        # Guarded by _lock.
        self._request_version = 0
        self._last_refresh_ms: int | None = None
        self._last_successful_refresh_ms: int | None = None
        self._need_full_update = False
        self._need_partial_update = False
        self._failed_attempts = 0
        self._equivalent_responses = 0
        # Jitter is drawn once for each response or failure: a wait that changes on each look could be
        # slept through or spun on.
        self._backoff_ms = self._backoff.backoff_ms(0)
        self._equivalent_backoff_ms = 0
        self._bootstrap_addresses: tuple[tuple[str, int], ...] = ()
        #: topic -> {partition: newest leader epoch seen}, and the topic id these belong to.
        self._last_seen_epochs: dict[str, dict[int, int]] = {}
        self._last_seen_topic_ids: dict[str, Any] = {}
        self._topic_errors: dict[str, BrokerError] = {}
        self._fatal_error: KafkaError | None = None

    # -- reading ---------------------------------------------------------------------------------------

    def fetch(self) -> MetadataSnapshot:
        """The present snapshot. Never blocks."""
        return self.snapshot

    @property
    def last_successful_update_ms(self) -> int | None:
        """When the last full update arrived (monotonic), ``None`` if none did."""
        return self._last_successful_refresh_ms

    @property
    def update_requested(self) -> bool:
        """Whether anyone asked for an update that has not been answered yet."""
        return self._need_full_update or self._need_partial_update

    def last_seen_leader_epoch(self, topic_partition: TopicPartition) -> int:
        """The newest leader epoch ever trusted for this partition, -1 for none."""
        topic, number = topic_partition
        with self._lock:
            return self._last_seen_epochs.get(topic, {}).get(number, NO_LEADER_EPOCH)

    def topic_error(self, topic: str) -> BrokerError | None:
        """What the latest response that mentioned this topic had against it; ``None``: nothing."""
        with self._lock:
            return self._topic_errors.get(topic)

    def maybe_throw_topic_error(self, topic: str) -> None:
        """Raise a pending fatal error, or this topic's own error if asking again would not help it.

        Raises:
            BrokerError: the topic's name is invalid, or this user may not see it.
            KafkaError: the fatal error.
        """
        with self._lock:
            self.maybe_throw_fatal_error()
            error = self._topic_errors.get(topic)
            if error is not None and error.code in (INVALID_TOPIC_CODE, TOPIC_AUTHORIZATION_FAILED_CODE):
                # One instance is shared by all senders of the topic: drop the last raiser's frames.
                raise error.with_traceback(None)

    def maybe_throw_fatal_error(self) -> None:
        """Raise the pending fatal error, once. A later success clears it as well."""
        with self._lock:
            error, self._fatal_error = self._fatal_error, None
            if error is not None:
                raise error.with_traceback(None)

    # -- timers ----------------------------------------------------------------------------------------

    def time_to_allow_update(self, now_ms: int) -> int:
        """Milliseconds until the backoff permits another request; 0: now."""
        with self._lock:
            if self._last_refresh_ms is None:
                return 0
            if self._equivalent_responses and self._age_left_ms(now_ms) == 0:
                # A periodic refresh is no sign of trouble, however equal the answers were.
                self._equivalent_responses = 0
                self._equivalent_backoff_ms = 0
            wait_ms = max(self._backoff_ms, self._equivalent_backoff_ms)
            return max(self._last_refresh_ms + wait_ms - now_ms, 0)

    def time_to_next_update(self, now_ms: int) -> int:
        """Milliseconds until a request is due: asked for or expired, and not within the backoff."""
        with self._lock:
            expires_in_ms = 0 if self.update_requested else self._age_left_ms(now_ms)
            return max(expires_in_ms, self.time_to_allow_update(now_ms))

    def is_fresh(self, now_ms: int) -> bool:
        """Whether no update is due, as far as can be told without the lock; ``False`` proves nothing."""
        return not (self._need_full_update or self._need_partial_update) and self._age_left_ms(now_ms) > 0

    def _age_left_ms(self, now_ms: int) -> int:
        if self._last_successful_refresh_ms is None:
            return 0
        return max(self._last_successful_refresh_ms + self._max_age_ms - now_ms, 0)

    # -- asking ----------------------------------------------------------------------------------------

    def request_update(self, reason: str = "", *, reset_equivalent_backoff: bool = False) -> int:
        """Ask for a full update as soon as the backoff permits.

        Args:
            reason: for the log.
            reset_equivalent_backoff: ``True`` when something new is wanted rather than a retry of something
                that the last answers did not help with.

        Returns:
            ``update_version`` of now: wait until it is exceeded.
        """
        with self._lock:
            if not self._need_full_update and reason:
                _log.debug("Metadata update requested: %s", reason)
            self._need_full_update = True
            if reset_equivalent_backoff:
                self._equivalent_responses = 0
                self._equivalent_backoff_ms = 0
            return self.update_version

    def request_update_for_new_topics(self) -> int:
        """Ask at once, without backoff, for topics never asked for before. Returns ``update_version``."""
        with self._lock:
            self._last_refresh_ms = None
            self._need_partial_update = True
            self._equivalent_responses = 0
            self._equivalent_backoff_ms = 0
            self._request_version += 1
            return self.update_version

    def new_metadata_request_and_version(self, now_ms: int) -> MetadataRequestAndVersion:
        """What to ask for now: everything of interest, or only what is new while the rest is fresh."""
        with self._lock:
            topics = None
            is_partial = False
            if not self._need_full_update and self._age_left_ms(now_ms) > 0:
                topics = self._new_topics_of_interest()
                is_partial = topics is not None
            if not is_partial:
                topics = self._topics_of_interest()
            return MetadataRequestAndVersion(topics, self._request_version, is_partial)

    # -- for subclasses; called with the lock held -----------------------------------------------------

    def _topics_of_interest(self) -> tuple[str, ...] | None:
        return None

    def _new_topics_of_interest(self) -> tuple[str, ...] | None:
        """``None`` when partial requests are not supported."""
        return None

    def _retain_topic(self, topic: str, now_ms: int) -> bool:
        return True

    def _after_update(self, response: MetadataResponse) -> None:
        pass

    # -- answers ---------------------------------------------------------------------------------------

    def bootstrap(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Start from (host, port) pairs; what was known of topics is forgotten, epochs are not."""
        with self._lock:
            self._bootstrap_addresses = tuple(addresses)
            self._need_full_update = True
            self.update_version += 1
            self.snapshot = MetadataSnapshot.bootstrap(self._bootstrap_addresses)
            self._lock.notify_all()

    def rebootstrap(self) -> None:
        """Fall back to the configured addresses (KIP-899)."""
        _log.info("Rebootstrapping with %s", self._bootstrap_addresses)
        self.bootstrap(self._bootstrap_addresses)

    def update(
        self,
        request_version: int,
        response: MetadataResponse,
        is_partial: bool,
        now_ms: int,
        *,
        api_version: int = FIRST_VERSION_WITH_RELIABLE_LEADER_EPOCHS,
    ) -> None:
        """Take in a response. Ignored after ``close``.

        Args:
            request_version: of the ``MetadataRequestAndVersion`` that led to it.
            response: the decoded message.
            is_partial: likewise from the request.
            now_ms: monotonic milliseconds.
            api_version: the version spoken; leader epochs below version 9 are not believed.
        """
        with self._lock:
            if self.is_closed:
                _log.debug("Metadata response ignored: closed")
                return
            self._need_partial_update = request_version < self._request_version
            self._last_refresh_ms = now_ms
            self._failed_attempts = 0
            self._backoff_ms = self._backoff.backoff_ms(0)
            self.last_failure = None
            self._fatal_error = None
            if not is_partial:
                self._need_full_update = False
                self._last_successful_refresh_ms = now_ms
            # Taken back as soon as one partition turns out to have news.
            self._equivalent_responses += 1
            epochs_reliable = api_version >= FIRST_VERSION_WITH_RELIABLE_LEADER_EPOCHS
            previous_cluster_id = self.snapshot.cluster_id
            self.snapshot = self._merged_snapshot(response, is_partial, now_ms, epochs_reliable)
            if self.snapshot.cluster_id != previous_cluster_id:
                _log.info("Cluster id: %s", printable(self.snapshot.cluster_id or "none"))
            self._equivalent_backoff_ms = (
                self._backoff.backoff_ms(self._equivalent_responses - 1) if self._equivalent_responses else 0
            )
            self._after_update(response)
            self.update_version += 1
            self._lock.notify_all()

    def failed_update(self, now_ms: int, error: KafkaError | None = None) -> None:
        """Note that a request failed, so that the next one waits longer."""
        with self._lock:
            self._last_refresh_ms = now_ms
            self._backoff_ms = self._backoff.backoff_ms(self._failed_attempts)
            self._failed_attempts += 1
            self._equivalent_responses = 0
            self._equivalent_backoff_ms = 0
            if error is not None:
                self.last_failure = error

    def fatal_error(self, error: KafkaError) -> None:
        """Make everyone who waits for metadata fail with ``error`` (authentication, unsupported version)."""
        with self._lock:
            self._fatal_error = error
            self.last_failure = error
            self._lock.notify_all()

    def update_partition_leadership(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node]
    ) -> set[TopicPartition]:
        """Take in leaders that a Produce response named (KIP-951).

        Args:
            leaders: (leader id, leader epoch) by partition. Ignored where a number is negative, the epoch is
                not newer than ours, the partition is unknown, or the leader's address is.
            nodes: addresses that came along; they replace known ones.

        Returns:
            The partitions whose leader was changed.
        """
        with self._lock:
            snapshot = self.snapshot
            all_nodes = dict(snapshot.nodes)
            all_nodes.update({node.id: node for node in nodes})
            changed: dict[str, dict[int, PartitionMetadata]] = {}
            for topic_partition, (leader_id, epoch) in leaders.items():
                known = snapshot.partition(topic_partition)
                if known is None or epoch < 0 or leader_id < 0 or leader_id not in all_nodes:
                    continue
                topic, number = topic_partition
                epochs = self._last_seen_epochs.setdefault(topic, {})
                if epoch <= max(epochs.get(number, NO_LEADER_EPOCH), known.leader_epoch):
                    continue
                epochs[number] = epoch
                changed.setdefault(topic, {})[number] = known._replace(
                    leader_id=leader_id, leader_epoch=epoch, error_code=0
                )
            if not changed or self.is_closed:
                return set()
            topics = dict(snapshot.topics)
            for topic, by_number in changed.items():
                old = topics[topic]
                partitions = tuple([by_number.get(p.partition, p) for p in old.partitions])
                topics[topic] = attrs.evolve(
                    old, partitions=partitions, available=available_partitions(partitions, all_nodes)
                )
            _refresh_available(topics, snapshot.nodes, all_nodes)
            self.snapshot = attrs.evolve(snapshot, nodes=all_nodes, topics=topics)
            return {TopicPartition(topic, number) for topic, some in changed.items() for number in some}

    def close(self) -> None:
        """No more updates; whoever waits is woken. Idempotent."""
        with self._lock:
            self.is_closed = True
            self._lock.notify_all()

    # -- building a snapshot; the lock is held ---------------------------------------------------------

    def _merged_snapshot(
        self, response: MetadataResponse, is_partial: bool, now_ms: int, epochs_reliable: bool
    ) -> MetadataSnapshot:
        old = self.snapshot
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        if is_partial and not nodes:
            nodes = dict(old.nodes)
        topics: dict[str, TopicMetadata] = {}
        invalid: set[str] = set()
        unauthorized: set[str] = set()
        mentioned: set[str] = set()
        if is_partial:
            kept = {name for name in old.topics if self._retain_topic(name, now_ms)}
            topics = {name: topic for name, topic in old.topics.items() if name in kept}
            invalid.update(old.invalid_topics)
            unauthorized.update(old.unauthorized_topics)
        else:
            self._topic_errors.clear()
        for topic in response.topics:
            name = topic.name
            if name is None:
                continue
            mentioned.add(name)
            topics.pop(name, None)
            invalid.discard(name)
            unauthorized.discard(name)
            self._topic_errors.pop(name, None)
            if not self._retain_topic(name, now_ms):
                continue
            if topic.error_code:
                self._note_topic_error(name, topic.error_code, invalid, unauthorized)
                continue
            partitions = self._latest_partitions(name, topic, epochs_reliable)
            if not partitions:
                # A topic that is just being created. There is nowhere to send to yet.
                self._note_topic_error(name, LEADER_NOT_AVAILABLE_CODE, invalid, unauthorized)
                continue
            topics[name] = TopicMetadata(
                name,
                topic.topic_id,
                partitions,
                available_partitions(partitions, nodes),
                topic.is_internal,
            )
        _refresh_available(topics, old.nodes, nodes)
        for name in [n for n in self._last_seen_epochs if not self._retain_topic(n, now_ms)]:
            del self._last_seen_epochs[name]
            self._last_seen_topic_ids.pop(name, None)
        return MetadataSnapshot(
            cluster_id=response.cluster_id,
            nodes=nodes,
            topics=topics,
            invalid_topics=frozenset(invalid),
            unauthorized_topics=frozenset(unauthorized),
            controller_id=response.controller_id,
            topic_ids={n: t.topic_id for n, t in topics.items() if t.topic_id != ZERO_TOPIC_ID},
        )

    def _note_topic_error(self, name: str, code: int, invalid: set[str], unauthorized: set[str]) -> None:
        error = error_for_code(code, f"topic {name!r}")
        self._topic_errors[name] = error
        if error.refreshes_metadata:
            self.request_update(f"topic {name}: {error}")
        if code == INVALID_TOPIC_CODE:
            invalid.add(name)
            _log.error("Invalid topic name %r", name)
        elif code == TOPIC_AUTHORIZATION_FAILED_CODE:
            unauthorized.add(name)
            _log.error("Not authorized to access topic %r", name)

    def _latest_partitions(
        self, name: str, response_topic: Any, epochs_reliable: bool
    ) -> tuple[PartitionMetadata, ...]:
        """The topic's partitions by number: for each, what the response says or what we knew, if newer."""
        topic_id = response_topic.topic_id
        if topic_id == ZERO_TOPIC_ID:
            recreated = False
        else:
            # Topic ids tell apart "this broker is behind" and "the topic was deleted and made anew, its
            # epochs started again". The id is remembered across responses that lack the topic.
            recreated = self._last_seen_topic_ids.get(name, topic_id) != topic_id
            self._last_seen_topic_ids[name] = topic_id
            if recreated:
                _log.info("Topic %s was created anew: id is %s now", name, topic_id)
        epochs = self._last_seen_epochs.setdefault(name, {})
        if recreated:
            epochs.clear()
        old_topic = self.snapshot.topics.get(name)
        old_partitions = () if old_topic is None or recreated else old_topic.partitions
        old_count = len(old_partitions)
        response_partitions = response_topic.partitions
        # Numbers are dense in practice; the limit keeps a hostile one from making a list of 2**31.
        limit = 2 * len(response_partitions) + 1024
        new_tuple = tuple.__new__
        found: dict[int, PartitionMetadata] = {}
        has_news = recreated
        needs_refresh = False
        for p in response_partitions:
            number = p.partition_index
            if not 0 <= number < limit:
                continue
            old = old_partitions[number] if number < old_count else None
            epoch = p.leader_epoch if epochs_reliable else NO_LEADER_EPOCH
            if epoch >= 0:
                seen = epochs.get(number, NO_LEADER_EPOCH)
                if epoch < seen:
                    # A broker that is behind. What we knew is newer, if it has not been lost meanwhile.
                    found[number] = old if old is not None else missing_partition(number)
                    needs_refresh = needs_refresh or old is None
                    continue
                if epoch > seen:
                    epochs[number] = epoch
                    has_news = True
            elif not epochs_reliable:
                epochs.pop(number, None)
            # An epoch of -1 in a reliable response takes nothing back: the newest epoch stays remembered.
            leader_id = p.leader_id
            if old is None or old.leader_id != leader_id:
                has_news = True
            error_code = p.error_code
            # The constructor of a named tuple is Python code; with 10,000 partitions that is noticed.
            found[number] = new_tuple(
                PartitionMetadata,
                (
                    number,
                    leader_id,
                    epoch,
                    tuple(p.replica_nodes),
                    tuple(p.isr_nodes),
                    tuple(p.offline_replicas),
                    error_code,
                ),
            )
            if error_code and not needs_refresh:
                needs_refresh = error_for_code(error_code).refreshes_metadata
        if has_news:
            self._equivalent_responses = 0
        if needs_refresh:
            self.request_update(f"topic {name} has partitions in trouble")
        count = max(found, default=-1) + 1
        if count == len(found):
            return tuple([found[number] for number in range(count)])
        return tuple([found.get(number) or missing_partition(number) for number in range(count)])


def _refresh_available(
    topics: dict[str, TopicMetadata], old_nodes: Mapping[int, Node], new_nodes: Mapping[int, Node]
) -> None:
    """Recompute ``available`` of topics that were carried over, if the set of brokers changed."""
    if old_nodes.keys() == new_nodes.keys():
        return
    for name, topic in topics.items():
        available = available_partitions(topic.partitions, new_nodes)
        if available != topic.available:
            topics[name] = attrs.evolve(topic, available=available)
