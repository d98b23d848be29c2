"""Ledger: what callers were told about each record, and whether the logs agree."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from kproducer import (
    BufferExhaustedError,
    ConfigError,
    IllegalStateError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
    RecordMetadata,
    SerializationError,
)
from kproducer.testing.fakebroker import FakeCluster
from kproducer.testing.fakebroker.transaction_coordinator import State

#: Errors of records that a bulk call has not accepted.
_REFUSALS = (IllegalStateError, BufferExhaustedError, SerializationError)
#: What consumer group reads which topic and partition.
GROUP, SOURCE = "g", ("source", 0)


class ApplicationError(Exception):
    """Raised by code of the application that a producer calls."""


#: With asyncio, a record is accepted later, or fails with one of these.
_NOT_ACCEPTED = (BufferExhaustedError, MetadataTimeoutError)


@attrs.define(eq=False)
class Sent:
    """One record that a caller has tried to send.

    Attributes:
        place: (caller, number): callers number their records.
        topic: where it was sent to.
        value: unique.
        future: what ``send`` has returned; ``None``: it has raised.
        raised: what ``send`` has raised.
        callbacks: what ``on_delivery`` was called with; ``None``: this record has no callback.
        is_asyncio: its future also has what ``send`` would have raised.
        transactions: it belongs to one of these.
        is_own: its caller has begun the transaction.
        first_transaction: it belongs to this or a later one; ``None``: it belongs to ``transactions``.
        began_ns: when it was given to the producer, in virtual time.
        is_withdrawn: its caller was told that it is not accepted, because it was cancelled before.
        is_lost: its caller was cancelled and is told nothing.
        is_fencing: the producer that fences the other one has sent it.
        error: what the future has, at the end.
        metadata: likewise.
    """

    place: tuple[int, int]
    topic: str
    value: bytes
    future: Any = None
    raised: BaseException | None = None
    callbacks: list[tuple[RecordMetadata, KafkaError | None]] | None = None
    is_asyncio: bool = False
    transactions: tuple[TransactionEnding, ...] = ()
    is_own: bool = False
    first_transaction: int | None = None
    began_ns: int = 0
    is_withdrawn: bool = False
    is_lost: bool = False
    is_fencing: bool = False
    error: KafkaError | None = None
    metadata: RecordMetadata | None = None

    def __str__(self) -> str:
        return f"record {self.place[1]} of caller {self.place[0]}"

    def note(self, metadata: RecordMetadata, error: KafkaError | None) -> None:
        """``on_delivery``."""
        assert self.callbacks is not None
        self.callbacks.append((metadata, error))


@attrs.define(eq=False)
class TransactionEnding:
    """What a caller was told about a transaction: "committed", "aborted" or "unknown".

    Attributes:
        is_to_be_committed: what its caller wants; else it is to be aborted.
        is_over: the last call for it has returned.
        has_offset: its number was sent as the offset of the group.
    """

    number: int
    is_to_be_committed: bool = True
    told: str = "unknown"
    is_over: bool = False
    has_offset: bool = False


def _was_refused(sent: Sent) -> bool:
    # A bulk call of another caller than that of the transaction goes on until it is being ended.
    is_late = isinstance(sent.error, IllegalStateError) and not isinstance(sent.error, ProducerClosedError)
    return sent.raised is not None or isinstance(sent.error, _NOT_ACCEPTED) or (is_late and not sent.is_own)


class Ledger:
    """The records of all callers. ``findings`` compares them with the logs.

    Attributes:
        sent: the records.
        transactions: in the order in which they began.
        notes: what was wrong already during the run.
        fenced_ns: when another producer had fenced that of the callers, for good; ``None``: never.
        was_initialized_again: the callers' producer has perhaps fenced the other one in return.
    """

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.transactions: list[TransactionEnding] = []
        self.notes: list[str] = []
        self.fenced_ns: int | None = None
        self.was_initialized_again = False
        self._counts: Counter[int] = Counter()

    def begin(self, is_to_be_committed: bool = True) -> TransactionEnding:
        """A transaction that will begin."""
        ending = TransactionEnding(len(self.transactions), is_to_be_committed)
        self.transactions.append(ending)
        return ending

    def first_open(self) -> int:
        """The first transaction that may be open."""
        return next(
            (ending.number for ending in self.transactions if not ending.is_over), len(self.transactions)
        )

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[TransactionEnding]]:
        """Afterwards the list has the transactions that may have been open during the block."""
        possible: list[TransactionEnding] = []
        first = self.first_open()
        yield possible
        possible += self.transactions[first:]

    def add(
        self, caller: int, topic: str, size: int, transaction: TransactionEnding | None, now_ns: int
    ) -> Sent:
        """A record that will be sent."""
        number = self._counts[caller]
        self._counts[caller] += 1
        sent = Sent((caller, number), topic, (b"%d %d " % (caller, number)).ljust(size, b"."))
        sent.transactions = () if transaction is None else (transaction,)
        sent.is_own = transaction is not None
        sent.began_ns = now_ns
        self.sent.append(sent)
        return sent

    def findings(self, cluster: FakeCluster, *, acks: int, exactly_once: bool, in_order: bool) -> list[str]:
        """What is wrong, a sentence each.

        Args:
            cluster: its logs are compared with the outcomes.
            acks: of the producer.
            exactly_once: the producer is idempotent: nothing may be written twice.
            in_order: records of a caller and a partition may not change places.
        """
        found = list(self.notes)
        for sent in self.sent:
            if sent.first_transaction is not None:
                sent.transactions = tuple(self.transactions[sent.first_transaction :])
            found += self._told(sent)
        logs = {
            (topic.name, incarnation, partition.index): partition
            for incarnation, topic in enumerate(cluster.all_topics())
            for partition in topic.partitions
        }
        places: dict[bytes, list[tuple[tuple[str, int, int], int]]] = defaultdict(list)
        for log, partition in logs.items():
            for record in partition.records:
                places[record.value or b""].append((log, record.offset))
        committed = {
            (log, record.offset) for log, partition in logs.items() for record in partition.committed_records
        }
        # A topic that is deleted takes its records with it, whatever becomes of the transaction.
        deleted = {
            (topic.name, i) for i, topic in enumerate(cluster.all_topics()) if topic in cluster.deleted_topics
        }
        gone = {value for value, at in places.items() if any(log[:2] in deleted for log, _ in at)}
        known = {sent.value for sent in self.sent}
        found += [
            f"a record that nobody has sent is in the log: {v[:30]!r}" for v in places if v not in known
        ]
        for sent in self.sent:
            found += self._logged(sent, places[sent.value], acks, exactly_once)
            if sent.value not in gone:
                found += self._committed(sent, places[sent.value], committed)
        if in_order:
            found += self._order(logs)
        found += self._atomicity({v: at for v, at in places.items() if v not in gone}, committed)
        return [*found, *self._offset(cluster), *_hanging(cluster)]

    def not_delivered(self, has_metadata: bool) -> Iterable[str]:
        """Accepted records and transactions that have failed, although retries cure all that was wrong.

        Args:
            has_metadata: metadata comes within ``max_block_ms``, too.
        """
        lacking = {ending.number for s in self.sent if _was_refused(s) for ending in s.transactions}
        for ending in self.transactions:
            if ending.is_to_be_committed and ending.told != "committed" and ending.number not in lacking:
                yield f"transaction {ending.number} is {ending.told}, and retries cure all that was wrong"
        for sent in self.sent:
            late = sent.raised or sent.error
            if has_metadata and isinstance(late, MetadataTimeoutError):
                yield f"{sent} got no metadata, and retries cure all that was wrong: {late!r}"
            if any(not ending.is_to_be_committed or ending.number in lacking for ending in sent.transactions):
                continue
            if sent.error is not None and not _was_refused(sent):
                yield f"{sent} has failed, and retries cure all that was wrong: {sent.error!r}"

    def _told(self, sent: Sent) -> Iterable[str]:
        if sent.raised is not None:
            if isinstance(sent.raised, ApplicationError):
                pass
            elif not isinstance(sent.raised, KafkaError) or isinstance(sent.raised, ConfigError):
                yield f"{sent}: send() raised {sent.raised!r}"
            elif sent.raised.outcome not in (None, Outcome.NOT_SENT):
                yield f"{sent}: send() raised an error with {sent.raised.outcome}: {sent.raised!r}"
            if sent.callbacks:
                yield f"{sent}: send() raised, and its callback was called"
            return
        future = sent.future
        if sent.is_asyncio and future is not None and future.cancelled():
            # Only the caller was cancelled: its record goes on if it was accepted.
            future = future.record
            sent.is_withdrawn = future is None
        if sent.is_withdrawn or sent.is_lost:
            if sent.is_withdrawn and sent.callbacks:
                yield f"{sent} was cancelled before it was accepted, and its callback was called"
            return
        if future is None or not future.done():
            yield f"{sent}: its future is open"
            return
        error = future.exception()
        if error is None:
            sent.metadata = future.result()
        elif isinstance(error, ApplicationError) or getattr(future, "record", future) is None:
            # asyncio gives this to the future, too.
            sent.raised = error
            yield from self._told(sent)
            return
        elif isinstance(error, KafkaError) and error.outcome is not None:
            sent.error = error
        else:
            yield f"{sent}: an error without an outcome: {error!r}"
            return
        if sent.callbacks is None:
            return
        if len(sent.callbacks) != 1:
            yield f"{sent}: {len(sent.callbacks)} callbacks"
            return
        told_metadata, told = sent.callbacks[0]
        if (type(told), str(told)) != (type(error), str(error)):
            yield f"{sent}: the callback got {told!r}, the future has {error!r}"
        elif error is None and told_metadata != sent.metadata:
            yield f"{sent}: the callback got {told_metadata!r}, the future has {sent.metadata!r}"

    def _logged(
        self, sent: Sent, places: list[tuple[tuple[str, int, int], int]], acks: int, exactly_once: bool
    ) -> Iterable[str]:
        by_log = Counter(log for log, _ in places)
        if exactly_once and any(count > 1 for count in by_log.values()):
            yield f"{sent} is written twice: {places}"
        if any(log[0] != sent.topic for log in by_log):
            yield f"{sent} is in another topic: {places}"
        if sent.metadata is not None and acks != 0:
            at = {(log[0], log[2], offset) for log, offset in places}
            where = sent.metadata
            if where.offset < 0:  # a duplicate, whose offset the broker does not remember
                if not any(log[2] == where.partition for log, _ in places):
                    yield f"{sent} is acknowledged, and not in partition {where.partition}"
            elif (where.topic, where.partition, where.offset) not in at:
                yield f"{sent} is acknowledged at {where.partition} @{where.offset}, and in the log at {at}"
        is_out = (
            sent.is_withdrawn
            or sent.raised is not None
            or (sent.error is not None and sent.error.outcome is not Outcome.UNKNOWN)
        )
        if is_out and places:
            yield f"{sent} is in the log: {sent.raised or sent.error!r}"

    def _committed(
        self, sent: Sent, places: list[tuple[tuple[str, int, int], int]], committed: set[Any]
    ) -> Iterable[str]:
        is_seen = any(place in committed for place in places)
        if not sent.transactions:
            return
        fenced_ns = None if self.was_initialized_again else self.fenced_ns
        if fenced_ns is not None and sent.began_ns > fenced_ns and is_seen and not sent.is_fencing:
            yield f"{sent} is seen although another producer had fenced its own"
        told = {ending.told for ending in sent.transactions}
        if told == {"aborted"} and is_seen:
            yield f"{sent} is seen although its transaction was aborted"
        if told == {"committed"}:
            if sent.metadata is not None and not is_seen:
                yield f"{sent} is acknowledged and not seen although its transaction was committed"
            refusal = sent.raised
            if refusal is not None and sent.is_own and not isinstance(refusal, IllegalStateError):
                yield f"{sent} was refused although its transaction was committed: {refusal!r}"
            # Another thread's bulk call may refuse a record after the commit has begun.
            refused = IllegalStateError if sent.is_own else _REFUSALS
            if sent.error is not None and not isinstance(sent.error, refused):
                yield f"{sent} has failed although its transaction was committed: {sent.error!r}"

    def _order(self, logs: dict[tuple[str, int, int], Any]) -> Iterable[str]:
        # A bulk call that goes on after its caller was cancelled runs beside the caller's next ones.
        lost = {sent.value for sent in self.sent if sent.is_lost}
        for log, partition in logs.items():
            last: dict[bytes, int] = {}
            seen = set()
            for record in partition.records:
                caller, number = (record.value or b"- 0").split(b" ")[:2]
                if record.value in seen or record.value in lost:
                    continue  # a producer that is not idempotent has sent its batch again
                seen.add(record.value)
                if int(number) < last.get(caller, -1):
                    yield f"{log}: record {int(number)} of caller {caller!r} comes after {last[caller]}"
                last[caller] = max(int(number), last.get(caller, -1))

    def _atomicity(self, places: dict[bytes, Any], committed: set[Any]) -> Iterable[str]:
        """A transaction of which callers do not know the end is seen as a whole or not at all."""
        for ending in self.transactions:
            mine = [
                s
                for s in self.sent
                if s.transactions == (ending,) and s.metadata is not None and s.value in places
            ]
            seen = [s for s in mine if any(place in committed for place in places[s.value])]
            if seen and len(seen) != len(mine):
                of_it = f"{len(seen)} of {len(mine)} records"
                yield f"transaction {ending.number} ({ending.told}): {of_it} are seen"

    def _offset(self, cluster: FakeCluster) -> Iterable[str]:
        """The group has the offset of the last transaction that was committed."""
        possible = {-1}
        for ending in self.transactions:
            if ending.has_offset and ending.told == "committed":
                possible = {ending.number}
            elif ending.has_offset and ending.told == "unknown":
                possible.add(ending.number)
        found = cluster.coordination.group(GROUP).committed.get(SOURCE)
        offset = -1 if found is None else found.offset
        if offset not in possible:
            yield f"the group's offset is that of transaction {offset}, not one of {sorted(possible)}"


def _hanging(cluster: FakeCluster) -> Iterable[str]:
    """No batch waits for the end of a transaction that nobody will end: consumers would wait for it, too."""
    ongoing = {
        transaction.producer.producer_id
        for transaction in cluster.coordination.transactions.transactions.values()
        if transaction.state is State.ONGOING
    }
    if cluster.deleted_topics:
        return  # the coordinator may write a marker to another incarnation of the topic
    for topic in cluster.all_topics():
        for partition in topic.partitions:
            for batch in partition.batches:
                has_ended = any(each.ends(batch.producer_id, batch.base_offset) for each in partition.markers)
                if batch.is_transactional and not has_ended and batch.producer_id not in ongoing:
                    place = f"{topic.name}-{partition.index} @{batch.base_offset}"
                    yield f"{place}: the transaction of this batch is never ended"
