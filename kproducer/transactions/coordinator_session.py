"""CoordinatorSession: ends transactions of other producers, fences them, reads committed offsets.

Blocks its caller and has no thread of its own: while nobody calls it nothing happens. One network client
carries the requests of many transactional ids and groups, all at once. For whoever coordinates producers in
other processes: the driver of a distributed write. Knows nothing of who that is.
Source: KIP-98, KIP-447, KIP-890; Kafka's ``Admin`` (fenceProducers, listConsumerGroupOffsets).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from kproducer.client.exponential_backoff import ExponentialBackoff
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import IllegalStateError, InvalidArgumentError, KafkaError, KafkaTimeoutError
from kproducer.runtime.arguments import checked_timeout_s
from kproducer.transactions.committed_offsets import CommittedOffsets
from kproducer.transactions.consumer_offsets import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    checked_group,
    checked_offsets,
)
from kproducer.transactions.coordinator_calls import KnownCoordinators
from kproducer.transactions.coordinator_lookup import CoordinatorLookup
from kproducer.transactions.open_transaction import PreparedTransaction
from kproducer.transactions.remote_producer import RemoteProducer
from kproducer.transactions.session_errors import explained, plain
from kproducer.transactions.session_loop import SessionLoop
from kproducer.transactions.transaction_requests import Coordinator, CoordinatorKind
from kproducer.transactions.transaction_state import TransactionState
from kproducer.types import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self


class CoordinatorSession:
    """Requests to coordinators in the name of other producers. Not thread-safe: one thread at a time.

    Args:
        config: servers, timeouts, backoffs; ``transaction_timeout_ms`` goes into InitProducerId. Its
            ``transactional_id``, if it has one, is not used.

    Every call takes ``timeout_s``, in seconds, and comes back about then at the latest. Brokers that are
    down, coordinators that move, load or are busy are tried again until then; after it, KafkaTimeoutError
    names the stage, the broker and its last error. The same call again puts right what a timeout left behind.

    Errors of all calls: AuthorizationError names what lacks which permission; AuthenticationError;
    UnsupportedVersionError, brokers are too old; IllegalStateError, the session is closed.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._loop = SessionLoop(config)
        self._known = KnownCoordinators()
        #: Whom this session has fenced, and stands for since. Where a step failed or timed out there is none.
        self._producers: dict[str, RemoteProducer] = {}
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, 2, config.retry_backoff_max_ms, 0.2)
        # Until a broker turns out to be too old for it.
        self._looks_up_several = True
        self._asks_for_several = True

    def name_topics(self, topics: Iterable[str]) -> None:
        """Say which topics offsets will be written for: brokers take none for a topic that does not exist.

        Asks brokers about them with the next call, and those that make topics by themselves make them then.
        """
        self._loop.name_topics(topics)

    def fence(self, transactional_ids: Iterable[str], timeout_s: float) -> None:
        """Fence the producers with these ids: what they have open is aborted, and they can do nothing more.

        Returns when all of it has been ended wholly: offsets that a transaction had committed are there.
        From now on this session is the producer of these ids: ``write_offsets``.

        Raises:
            KafkaTimeoutError: not all in time. Some may be fenced.
            AuthorizationError: an id lacks Write and Describe. The other ids were fenced.
        """
        ids = list(dict.fromkeys(transactional_ids))
        deadline_ms = self._deadline_ms("fence", timeout_s)
        for each in ids:
            self._producers.pop(each, None)
        producers = self._producers_of(ids, deadline_ms)
        for producer in producers:
            producer.wait_for(producer.manager.begin_initialize())
        self._loop.drive(producers, deadline_ms)
        errors: list[KafkaError] = []
        for producer in producers:
            error = self._end_of("fence", producer, timeout_s)
            if error is None:
                self._producers[producer.transactional_id] = producer
            else:
                errors.append(error)
        _raise_first(errors)

    def let_go(self) -> None:
        """Be the producer of none of the fenced ids any more: nobody has to remember them.

        For who keeps a session for other ids to come. Nothing is told to brokers.
        """
        self._producers.clear()

    def write_offsets(
        self,
        transactional_id: str,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_s: float,
    ) -> None:
        """Commit offsets of a group in a transaction of their own, as the producer that ``fence`` made.

        Returns when they are committed. Where an error leaves open whether they are, since the answer to the
        commit was lost, its text says so; ``fence`` settles it, then they can be read. Any other error says
        that they are not and will not be.

        Raises:
            FencedError: the id was fenced by somebody else meanwhile.
            IllegalStateError: ``fence`` has to be called first: for the first time, or since the last call
                timed out or ended the producer.
            KafkaTimeoutError: not done in time.
            AuthorizationError: id (Write), group (Read) or topic (Read) lacks a permission.
        """
        group_metadata = checked_group(ConsumerGroupMetadata(group))
        offsets = checked_offsets(offsets)
        deadline_ms = self._deadline_ms("write_offsets", timeout_s)
        producer = self._producers.pop(transactional_id, None)
        if producer is None:
            raise IllegalStateError(f"write_offsets: fence {transactional_id!r} first, with this session")
        manager = producer.manager
        manager.begin_transaction()
        self._loop.drive([producer.wait_for(manager.send_offsets(offsets, group_metadata))], deadline_ms)
        error = self._end_of("write_offsets", producer, timeout_s, group)
        if error is None:
            self._loop.drive([producer.wait_for(manager.begin_commit())], deadline_ms)
            error = self._end_of("write_offsets", producer, timeout_s, group)
            if error is not None and manager.state is not TransactionState.ABORTABLE_ERROR:
                # The answer to EndTxn may have been lost before a newer producer took over, for instance.
                error.args = (f"{error} (the offsets may have been committed all the same)",)
        if manager.state is TransactionState.ABORTABLE_ERROR:
            # Nothing of it is there in any case; this is for the next transaction.
            self._loop.drive([producer.wait_for(manager.begin_abort())], deadline_ms)
            producer.acknowledge()
        if manager.state is TransactionState.READY:
            self._producers[transactional_id] = producer
        if error is not None:
            raise error

    def committed_offsets(
        self,
        groups: Iterable[str],
        topic_partition: TopicPartition,
        timeout_s: float,
        *,
        stable: bool = True,
    ) -> dict[str, OffsetAndMetadata | None]:
        """What each group has committed for one partition; ``None``: nothing.

        Stable: as long as a transaction that would change it is open, it waits. Else: what is there now.

        Raises:
            KafkaTimeoutError: not all in time, for instance since a transaction stays open.
            AuthorizationError: a group (Describe) or the topic (Describe) lacks a permission.
            UnsupportedVersionError: brokers before 2.5 cannot tell whether offsets are stable.
        """
        names = list(dict.fromkeys(groups))
        deadline_ms = self._deadline_ms("committed_offsets", timeout_s)
        self._look_up(CoordinatorKind.GROUP, names, deadline_ms)
        dialogue = CommittedOffsets(
            names, topic_partition, self._known, self._backoff, self._asks_for_several, stable
        )
        self._loop.drive([self._loop.link(dialogue)], deadline_ms)
        self._asks_for_several = dialogue.asks_for_several
        errors = [
            explained(error, f"offset of {topic_partition} in group {name!r}", reads=True)
            for name, error in dialogue.errors.items()
        ]
        if not dialogue.has_ended:
            errors.append(self._timeout("committed_offsets", dialogue.waits_for, timeout_s))
        _raise_first(errors)
        return {name: dialogue.positions[name] for name in names}

    def end(
        self, prepared: Sequence[PreparedTransaction], commit: bool, timeout_s: float
    ) -> list[KafkaError | None]:
        """Commit or abort transactions that were handed over, all at once. Harmless when it was done before.

        Returns:
            For each, in order: ``None``: it is committed (aborted). Else what ``commit_prepared`` of a
            ``KafkaProducer`` would raise: TransactionAbortedError, it was aborted; FencedError, its epoch is
            gone; KafkaTimeoutError, not known yet, call it again; AuthorizationError, the id lacks Write or
            Describe; IllegalStateError, it was to be aborted, and was committed.
        """
        deadline_ms = self._deadline_ms("end", timeout_s)
        producers = self._producers_of([each.transactional_id for each in prepared], deadline_ms)
        for producer, each in zip(producers, prepared, strict=True):
            producer.manager.take_over(each)
            begin = producer.manager.begin_commit if commit else producer.manager.begin_abort
            producer.wait_for(begin())
        self._loop.drive(producers, deadline_ms)
        return [self._end_of("end", producer, timeout_s) for producer in producers]

    def close(self) -> None:
        """End the connections. Idempotent; waits for nothing."""
        self._loop.close()

    # -- parts of calls --------------------------------------------------------------------------------

    def _deadline_ms(self, call: str, timeout_s: float) -> int:
        checked_s = checked_timeout_s(call, timeout_s)
        if checked_s is None:
            raise InvalidArgumentError(f"{call}: timeout_s must be a number of seconds")
        if not self._loop.client.active:
            raise IllegalStateError(f"{call}: the session is closed")
        return self._loop.clock.monotonic_ms() + int(checked_s * 1000)

    def _producers_of(self, transactional_ids: Sequence[str], deadline_ms: int) -> list[RemoteProducer]:
        self._look_up(CoordinatorKind.TRANSACTION, transactional_ids, deadline_ms)
        return [RemoteProducer(each, self._config, self._loop, self._known) for each in transactional_ids]

    def _look_up(self, kind: CoordinatorKind, keys: Sequence[str], deadline_ms: int) -> None:
        """Find the coordinators that are not known, all with one request."""
        unknown = [key for key in dict.fromkeys(keys) if Coordinator(kind, key) not in self._known]
        # One alone is looked up by whoever needs it.
        if len(unknown) > 1 and self._looks_up_several:
            lookup = CoordinatorLookup(kind, unknown, self._known)
            self._loop.drive([self._loop.link(lookup)], deadline_ms)
            self._looks_up_several = not lookup.is_unsupported

    def _end_of(
        self, call: str, producer: RemoteProducer, timeout_s: float, group: str | None = None
    ) -> KafkaError | None:
        """How the producer's step has ended; if it has not, that is an error too."""
        of_group = "" if group is None else f", group {group!r}"
        of_whom = f"transactional id {producer.transactional_id!r}{of_group}"
        if not producer.has_ended:
            return self._timeout(call, f"{of_whom}: {producer.waits_for}", timeout_s)
        producer.acknowledge()
        return None if producer.error is None else explained(plain(producer.error), of_whom)

    def _timeout(self, call: str, waits_for: str, timeout_s: float) -> KafkaTimeoutError:
        details = "; ".join(filter(None, (waits_for, self._loop.troubles)))
        return KafkaTimeoutError(f"{call}: not done within timeout_s={timeout_s} s: {details}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _raise_first(errors: Sequence[KafkaError]) -> None:
    """Raise the one that says most: not a timeout if there is another."""
    if errors:
        first = next((error for error in errors if not isinstance(error, KafkaTimeoutError)), errors[0])
        if len(errors) > 1:
            first.args = (f"{first} (and {len(errors) - 1} more failed)",)
        raise first
