"""What producers reported for each record, and whether the logs agree. Does not use Kafka.

A ``Lane`` stands for one sending thread of one producer and one topic. Its records are numbered in the order
of sending, and each value begins with the lane's name and the number. The results of a lane are kept in
memory (``Lane``) and, for producers in processes that may be killed, in a file (``LedgerFile``,
``read_ledgers``). ``Checker`` takes the records that an independent reader found in each partition, and
returns the ``Verdict``.
"""

from __future__ import annotations

import enum
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kproducer import KafkaError, Outcome, RecordMetadata

_SEEN, _SEEN_AT_ITS_PLACE = 1, 2
_EXAMPLES_OF_EACH = 5


class Result(enum.IntEnum):
    """What the producer reported for a record."""

    #: Nothing yet, or ever.
    NOT_TOLD = 0
    ACKNOWLEDGED = 1
    #: Rejected or not sent: it must not be in the log.
    REJECTED = 2
    #: An error that leaves open whether it was written.
    UNKNOWN = 3


#: By the first letter of a line.
_FAILURES = {result.name[0]: result for result in (Result.REJECTED, Result.UNKNOWN)}


def result_of(error: KafkaError) -> Result:
    """What the error of a failed record says about the log."""
    assert error.outcome is not None, f"the error of a failed record must have an outcome: {error!r}"
    return Result.UNKNOWN if error.outcome is Outcome.UNKNOWN else Result.REJECTED


class Lane:
    """Records of one thread, producer and topic, in the order of sending.

    Args:
        name: unique; no spaces.
        topic: destination of its records.
        may_vanish: acknowledged records may be missing because the topic is deleted meanwhile, if they were
            acknowledged at an offset that the deleted log had not reached when it was read.
    """

    def __init__(self, name: str, topic: str, may_vanish: bool = False) -> None:
        self.name = name
        self.topic = topic
        self.may_vanish = may_vanish
        self.results = bytearray()
        self.partitions = array("i")
        self.offsets = array("q")

    def add(self, count: int = 1) -> int:
        """Register records before they are sent. Returns the number of the first one."""
        first = len(self.results)
        self.results.extend(bytes(count))
        self.partitions.extend([-1] * count)
        self.offsets.extend([-1] * count)
        return first

    def value(self, number: int, size: int = 0) -> bytes:
        """The value of a record, padded with dots to ``size`` bytes."""
        return (b"%s %d " % (self.name.encode(), number)).ljust(size, b".")

    def acknowledge(self, number: int, partition: int, offset: int) -> None:
        """Record a success; offset -1: the producer does not know the offset."""
        self.results[number] = Result.ACKNOWLEDGED
        self.partitions[number] = partition
        self.offsets[number] = offset

    def settle(self, number: int, outcome: RecordMetadata | KafkaError) -> None:
        """Record the result or error of a future."""
        if isinstance(outcome, RecordMetadata):
            self.acknowledge(number, outcome.partition, outcome.offset)
        else:
            self.results[number] = result_of(outcome)


class LedgerFile:
    """The lanes of one producer on disk. Each method returns after the operating system has taken the line,
    so a killed process loses none. Not thread-safe.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="ascii", buffering=1 << 16)

    def open_lane(self, lane: Lane) -> None:
        self._file.write(f"L {lane.name} {lane.topic} {int(lane.may_vanish)}\n")
        self._file.flush()

    def add(self, lane: Lane, count: int) -> None:
        """Announce ``count`` more records."""
        self._file.write(f"+ {lane.name} {count}\n")
        self._file.flush()

    def settle(self, results: Iterable[tuple[Lane, int, RecordMetadata | KafkaError]]) -> None:
        for lane, number, outcome in results:
            if isinstance(outcome, RecordMetadata):
                self._acknowledge(lane, number, outcome.partition, outcome.offset)
            else:
                self._fail(lane, number, result_of(outcome))
        self._file.flush()

    def _acknowledge(self, lane: Lane, number: int, partition: int, offset: int) -> None:
        self._file.write(f"A {lane.name} {number} {partition} {offset}\n")

    def _fail(self, lane: Lane, number: int, result: Result) -> None:
        self._file.write(f"{result.name[0]} {lane.name} {number}\n")

    def close(self) -> None:
        self._file.close()


def read_ledgers(paths: Iterable[Path]) -> list[Lane]:
    """Read every lane of these files."""
    lanes: dict[str, Lane] = {}
    for path in paths:
        for line in path.read_text(encoding="ascii").splitlines(keepends=True):
            if not line.endswith("\n"):
                break  # the process was killed while writing this line
            kind, name, *rest = line.split()
            if kind == "L":
                lanes[name] = Lane(name, rest[0], rest[1] == "1")
            elif kind == "+":
                lanes[name].add(int(rest[0]))
            elif kind == "A":
                lanes[name].acknowledge(int(rest[0]), int(rest[1]), int(rest[2]))
            elif kind in _FAILURES:
                lanes[name].results[int(rest[0])] = _FAILURES[kind]
    return list(lanes.values())


@dataclass
class Verdict:
    """Counts of records."""

    sent: int = 0
    acknowledged: int = 0
    rejected: int = 0
    unknown: int = 0
    unknown_written: int = 0
    #: Of the unknown ones: the producer reported nothing.
    not_told: int = 0
    seen: int = 0
    #: Acknowledged after the topic was last read and before it was deleted.
    vanished: int = 0
    #: Acknowledged, but not in the log.
    lost: int = 0
    duplicated: int = 0
    #: Written again after the broker had forgotten the producer: no producer can prevent that.
    forgotten: int = 0
    reordered: int = 0
    #: Acknowledged, but in the log at a different place than reported.
    false_successes: int = 0
    #: Reported as not written, but in the log.
    false_failures: int = 0
    #: In the log, but sent by no producer.
    strangers: int = 0
    #: A few examples of each kind.
    examples: list[str] = field(default_factory=list)
    _noted: Counter[str] = field(default_factory=Counter, repr=False)

    @property
    def is_good(self) -> bool:
        return self.seen > 0 and not (
            self.lost
            or self.duplicated
            or self.reordered
            or self.false_successes
            or self.false_failures
            or self.strangers
        )

    def note(self, kind: str, example: str) -> None:
        self._noted[kind] += 1
        if self._noted[kind] <= _EXAMPLES_OF_EACH:
            self.examples.append(f"{kind}: {example}")

    def __str__(self) -> str:
        return (
            f"sent {self.sent}, acknowledged {self.acknowledged}, rejected {self.rejected}, "
            f"unknown {self.unknown} ({self.unknown_written} of them written), seen {self.seen}, "
            f"lost {self.lost}, duplicated {self.duplicated}, reordered {self.reordered}, "
            f"false successes {self.false_successes}, rejected but written {self.false_failures}, "
            f"from unknown producers {self.strangers}; deleted with their topic {self.vanished}; "
            f"written again after brokers had forgotten the producer {self.forgotten}"
        )


class LogRecord(NamedTuple):
    """A record in a log. ``appended_ms``: when the broker appended it, in ms since 1970."""

    offset: int
    value: bytes
    appended_ms: int = 0


class Expiration(NamedTuple):
    """Brokers forget a producer that has written nothing to a partition for so long, in these periods.

    Attributes:
        after_ms: ``producer.id.expiration.ms``.
        periods: first and last time, in ms since 1970.
    """

    after_ms: int = 0
    periods: Sequence[tuple[int, int]] = ()

    def has_forgotten(self, last_ms: int, now_ms: int) -> bool:
        is_possible = any(first <= now_ms <= last for first, last in self.periods)
        return is_possible and now_ms - last_ms >= self.after_ms


class Checker:
    """Compares the logs with the lanes. Pass every log to ``read``, then call ``judge``."""

    def __init__(self, lanes: Iterable[Lane], expiration: Expiration | None = None) -> None:
        self._expiration = expiration or Expiration()
        self._lanes = {lane.name: lane for lane in lanes}
        self._flags = {lane.name: bytearray(len(lane.results)) for lane in self._lanes.values()}
        #: End offset of each log; a recreated topic has several logs per partition.
        self._ends: dict[tuple[str, int], list[int]] = {}
        self._deleted_ends: dict[tuple[str, int], list[int]] = {}
        self._verdict = Verdict()

    def read(
        self, topic: str, partition: int, records: Iterable[LogRecord], is_deleted: bool = False
    ) -> None:
        """Take the records of one partition, in log order.

        Args:
            is_deleted: the log was read before its topic was deleted. Two logs of a topic may then both
                contain a record of a lane that may vanish, because it was sent again; otherwise it is a
                duplicate.
        """
        verdict = self._verdict
        last: dict[str, int] = {}
        in_this_log: dict[tuple[str, int], int] = {}
        #: By producer: when its last record was appended, and the first offset since it was forgotten.
        appended_ms: dict[str, int] = {}
        known_since: dict[str, int] = {}
        end = 0
        for offset, value, now_ms in records:
            end = offset + 1
            verdict.seen += 1
            name, number = identity(value)
            lane = self._lanes.get(name)
            if lane is None or number >= len(lane.results) or lane.topic != topic:
                verdict.strangers += 1
                verdict.note(
                    "unknown producer", f"{topic}-{partition} @{offset}: {value[:60]!r} was never sent there"
                )
                continue
            producer = name.rpartition(".")[0]
            if self._expiration.has_forgotten(appended_ms.get(producer, now_ms), now_ms):
                known_since[producer] = offset
            appended_ms[producer] = now_ms
            flags = self._flags[name]
            earlier = in_this_log.setdefault((name, number), offset)
            is_again = earlier != offset or (not lane.may_vanish and bool(flags[number] & _SEEN))
            flags[number] |= _SEEN
            if (lane.partitions[number], lane.offsets[number]) == (partition, offset):
                flags[number] |= _SEEN_AT_ITS_PLACE
            if is_again and earlier < min(offset, known_since.get(producer, 0)):
                verdict.forgotten += 1
            elif is_again:
                verdict.duplicated += 1
                verdict.note("duplicated", f"{topic}-{partition} @{offset}: {name} {number} again")
            elif number < last.get(name, -1):
                verdict.reordered += 1
                verdict.note(
                    "reordered", f"{topic}-{partition} @{offset}: {name} {number} after {last[name]}"
                )
            last[name] = max(number, last.get(name, -1))
        ends = self._deleted_ends if is_deleted else self._ends
        ends.setdefault((topic, partition), []).append(end)

    def judge(self) -> Verdict:
        """Return the verdict after every log was read."""
        for lane in self._lanes.values():
            self._judge(lane)
        return self._verdict

    def _judge(self, lane: Lane) -> None:
        verdict = self._verdict
        verdict.sent += len(lane.results)
        for number, (result, flags) in enumerate(zip(lane.results, self._flags[lane.name], strict=True)):
            if result == Result.ACKNOWLEDGED:
                verdict.acknowledged += 1
                is_where_it_should_be = flags & _SEEN_AT_ITS_PLACE or (flags and lane.offsets[number] < 0)
                if not is_where_it_should_be:
                    self._judge_missing(lane, number, bool(flags))
            elif result == Result.REJECTED:
                verdict.rejected += 1
                if flags & _SEEN:
                    verdict.false_failures += 1
                    verdict.note(
                        "rejected but written",
                        f"{lane.name} {number}: reported as not written, but in the log",
                    )
            else:
                verdict.unknown += 1
                verdict.unknown_written += flags & _SEEN
                verdict.not_told += result == Result.NOT_TOLD

    def _judge_missing(self, lane: Lane, number: int, is_elsewhere: bool) -> None:
        place = (lane.topic, lane.partitions[number])
        offset = lane.offsets[number]
        if self._may_have_vanished(lane, number):
            self._verdict.vanished += 1
        elif is_elsewhere:
            self._verdict.false_successes += 1
            self._verdict.note("false success", f"{_described(lane, number)}: in the log at another place")
        else:
            is_beyond = offset >= max(self._ends.get(place, [0]))
            where = "the log ends before this offset" if is_beyond else "not in the log"
            self._verdict.lost += 1
            self._verdict.note("lost", f"{_described(lane, number)}: {where}")

    def _may_have_vanished(self, lane: Lane, number: int) -> bool:
        ends = self._deleted_ends.get((lane.topic, lane.partitions[number]), ())
        return lane.may_vanish and any(lane.offsets[number] >= end for end in ends)


def identity(value: bytes) -> tuple[str, int]:
    """Lane and number in a value; the lane is ``""`` if no worker wrote the value."""
    name, _, rest = value.partition(b" ")
    number, space, _ = rest.partition(b" ")
    if not space or not number.isdigit():
        return "", 0
    return name.decode("ascii", "replace"), int(number)


def _described(lane: Lane, number: int) -> str:
    place = f"{lane.topic}-{lane.partitions[number]}"
    return f"{lane.name} {number} acknowledged at {place} @{lane.offsets[number]}"
