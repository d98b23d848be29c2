"""One client's records: sent in portions, each read back with confluent-kafka's consumer and compared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import Message

from examples.demo_clients import Client, Cost, Position, Record, Results, measured
from tests.support.kafka.reader import iterate_messages, partitions_of

#: Records per step of the progress bar.
STEP_RECORDS = 20_000
_READ_TIMEOUT_SECONDS = 300

Advance = Callable[[int], None]


class Journey:
    """What has happened to the records of one client.

    Attributes:
        verified: records that were read once, and that are where the client reported them.
        unexpected: other records that were read.
        failed: records that were not acknowledged, and ``error`` the first reason.
        measured_count: the records that ``cost`` is about: those that did not warm up the client.
    """

    def __init__(self, client: Client, reader: Reader) -> None:
        self.client = client
        self.verified = self.unexpected = self.failed = self.measured_count = 0
        self.error: object = None
        self.cost = Cost()
        self._reader = reader

    def holds(self, count: int) -> bool:
        """Whether all of ``count`` records were verified, and nothing else was read."""
        return self.verified == count and not self.unexpected

    def travel(self, records: Sequence[Record], advance: Advance, *, is_warm_up: bool) -> None:
        """Send a portion, and verify it."""
        results, cost = measured(self.client, records)
        if not is_warm_up:
            self.cost = self.cost.plus(cost)
            self.measured_count += len(records)
        self.verify(records, results(), advance)

    def verify(self, records: Sequence[Record], results: Results, advance: Advance) -> None:
        """Read what is new in the topic, and compare."""
        self.failed += len(records) - results.acknowledged
        self.error = self.error or results.error
        check = _at_positions(records, results.positions) if results.positions else _once_each(records)
        found = 0
        for message in self._reader.new_messages():
            position, record = (message.partition(), message.offset()), (message.key(), message.value())
            if check(position, record):
                found += 1
                if found % STEP_RECORDS == 0:
                    advance(STEP_RECORDS)
            else:
                self.unexpected += 1
        self.verified += found
        advance(found % STEP_RECORDS)


def _at_positions(records: Sequence[Record], positions: list[Position]) -> Callable[[Position, Record], bool]:
    """Whether a record is at the position that was reported for it."""
    expected = dict(zip(positions, records, strict=True))
    return lambda position, record: expected.pop(position, None) == record


def _once_each(records: Sequence[Record]) -> Callable[[Position, Record], bool]:
    """Whether a record was sent, and as often as it is read."""
    left = Counter(records)

    def check(_position: Position, record: Record) -> bool:
        count = left[record]
        left[record] = count - 1
        return count > 0

    return check


class Reader:
    """Reads a topic from where it stopped before."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        found = partitions_of(bootstrap_servers, topic, time.monotonic() + _READ_TIMEOUT_SECONDS)
        self._positions = dict.fromkeys(found, 0)

    def new_messages(self) -> Iterable[Message]:
        """To the end of every partition."""
        deadline = time.monotonic() + _READ_TIMEOUT_SECONDS
        return iterate_messages(self._bootstrap_servers, self._topic, self._positions, deadline=deadline)
