"""Ledger: what callers were told about each record, and whether the logs agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import attrs

from kproducer import (
    BufferExhaustedError,
    ConfigError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    RecordMetadata,
)
from kproducer.testing.fakebroker import FakeCluster

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
        transaction: which of its caller's transactions it belongs to.
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
    transaction: TransactionFate | None = None
    error: KafkaError | None = None
    metadata: RecordMetadata | None = None

    def __str__(self) -> str:
        return f"record {self.place[1]} of caller {self.place[0]}"

    def note(self, metadata: RecordMetadata, error: KafkaError | None) -> None:
        """``on_delivery``."""
        assert self.callbacks is not None
        self.callbacks.append((metadata, error))


@attrs.define(eq=False)
class TransactionFate:
    """What a caller wants and was told about a transaction: "committed", "aborted" or "unknown"."""

    number: int
    is_to_be_committed: bool = True
    has_offsets: bool = False
    told: str = "unknown"


def _was_refused(sent: Sent) -> bool:
    return sent.raised is not None or isinstance(sent.error, _NOT_ACCEPTED)


class Ledger:
    """The records of all callers. ``findings`` compares them with the logs."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.transactions: list[TransactionFate] = []
        self.notes: list[str] = []
        self._counts: Counter[int] = Counter()

    def add(self, caller: int, topic: str, size: int, transaction: TransactionFate | None) -> Sent:
        """A record that will be sent."""
        number = self._counts[caller]
        self._counts[caller] += 1
        sent = Sent((caller, number), topic, (b"%d %d " % (caller, number)).ljust(size, b"."))
        sent.transaction = transaction
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
        return [*found, *self._atomicity({v: at for v, at in places.items() if v not in gone}, committed)]

    def offsets(self, committed: int | None) -> Iterable[str]:
        """Transactions with offsets commit their own number.

        Args:
            committed: what the group's coordinator has.
        """
        possible: list[int | None] = [None]
        for fate in self.transactions:
            if fate.has_offsets and fate.told == "committed":
                possible = [fate.number]
            elif fate.has_offsets and fate.told == "unknown":
                possible.append(fate.number)
        if committed not in possible:
            yield f"the offset of transaction {committed} is committed, and has to be one of {possible}"

    def not_delivered(self) -> Iterable[str]:
        """Accepted records and transactions that have failed, although retries cure all that was wrong."""
        lacking = {sent.transaction for sent in self.sent if _was_refused(sent)}
        for fate in self.transactions:
            if fate.is_to_be_committed and fate.told != "committed" and fate not in lacking:
                yield f"transaction {fate.number} is {fate.told}, and retries cure all that was wrong"
        for sent in self.sent:
            fate = sent.transaction
            if fate is not None and (not fate.is_to_be_committed or fate in lacking):
                continue
            if sent.error is not None and not _was_refused(sent):
                yield f"{sent} has failed, and retries cure all that was wrong: {sent.error!r}"

    def _told(self, sent: Sent) -> Iterable[str]:
        if sent.raised is not None:
            if not isinstance(sent.raised, KafkaError) or isinstance(sent.raised, ConfigError):
                yield f"{sent}: send() raised {sent.raised!r}"
            elif sent.raised.outcome not in (None, Outcome.NOT_SENT):
                yield f"{sent}: send() raised an error with {sent.raised.outcome}: {sent.raised!r}"
            if sent.callbacks:
                yield f"{sent}: send() raised, and its callback was called"
            return
        future = sent.future
        if future is None or not future.done():
            yield f"{sent}: its future is open"
            return
        error = future.exception()
        if error is None:
            sent.metadata = future.result()
        elif isinstance(error, KafkaError) and error.outcome is not None:
            sent.error = error
        else:
            yield f"{sent}: an error without an outcome: {error!r}"
            return
        if sent.callbacks is None:
            return
        if not sent.callbacks and sent.is_asyncio and sent.error and sent.error.outcome is Outcome.NOT_SENT:
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
        is_out = sent.raised is not None or (
            sent.error is not None and sent.error.outcome is not Outcome.UNKNOWN
        )
        if is_out and places:
            yield f"{sent} is in the log: {sent.raised or sent.error!r}"

    def _committed(
        self, sent: Sent, places: list[tuple[tuple[str, int, int], int]], committed: set[Any]
    ) -> Iterable[str]:
        if sent.transaction is None:
            return
        is_seen = any(place in committed for place in places)
        if sent.transaction.told == "aborted" and is_seen:
            yield f"{sent} is seen although its transaction was aborted"
        if sent.transaction.told == "committed":
            if sent.metadata is not None and not is_seen:
                yield f"{sent} is acknowledged and not seen although its transaction was committed"
            if sent.error is not None:
                yield f"{sent} has failed although its transaction was committed: {sent.error!r}"

    def _order(self, logs: dict[tuple[str, int, int], Any]) -> Iterable[str]:
        for log, partition in logs.items():
            last: dict[bytes, int] = {}
            seen = set()
            for record in partition.records:
                caller, number = (record.value or b"- 0").split(b" ")[:2]
                if record.value in seen:
                    continue  # a producer that is not idempotent has sent its batch again
                seen.add(record.value)
                if int(number) < last.get(caller, -1):
                    yield f"{log}: record {int(number)} of caller {caller!r} comes after {last[caller]}"
                last[caller] = max(int(number), last.get(caller, -1))

    def _atomicity(self, places: dict[bytes, Any], committed: set[Any]) -> Iterable[str]:
        """A transaction of which callers do not know the end is seen as a whole or not at all."""
        for fate in self.transactions:
            mine = [
                s for s in self.sent if s.transaction is fate and s.metadata is not None and s.value in places
            ]
            seen = [s for s in mine if any(place in committed for place in places[s.value])]
            if seen and len(seen) != len(mine):
                yield f"transaction {fate.number} ({fate.told}): {len(seen)} of {len(mine)} records are seen"
