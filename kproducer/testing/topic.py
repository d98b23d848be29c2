"""A topic of a ``FakeKafka`` as tests see it: its records, and assertions about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from kproducer.testing.fakebroker.cluster import FakeCluster
from kproducer.testing.fakebroker.model import Partition

IsolationLevel = Literal["read_uncommitted", "read_committed"]

_SHOWN_RECORDS = 20
_SHOWN_CHARACTERS = 200


class Record(NamedTuple):
    """A record in the log of a partition.

    Attributes:
        topic: its topic.
        partition: the number of its partition.
        offset: its offset there. End markers of transactions take offsets, too.
        timestamp_ms: its timestamp, in milliseconds since 1970.
        key: its key.
        value: its value.
        headers: its headers, as pairs of name and value.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Topic:
    """A topic, by its name; it need not exist yet. From ``FakeKafka.topic``. Thread-safe."""

    def __init__(self, cluster: FakeCluster, name: str) -> None:
        self._cluster_of_creator = cluster
        self.name = name

    def __repr__(self) -> str:
        return f"<Topic {self.name!r}, {self.partition_count} partitions>"

    @property
    def partition_count(self) -> int:
        """The number of its partitions; 0 if it does not exist."""
        return len(self._partitions())

    def records(
        self, partition: int | None = None, *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> list[Record]:
        """The records that were written so far, by partition and then by offset.

        Args:
            partition: of this partition only.
            isolation_level: as for a consumer: ``read_committed`` leaves out the records of open and aborted
                transactions, and those behind the first open one.

        Raises:
            ValueError: there is no such isolation level, or the topic exists without this partition.
        """
        if isolation_level not in ("read_uncommitted", "read_committed"):
            raise ValueError(
                f"isolation_level is 'read_uncommitted' or 'read_committed', not {isolation_level!r}"
            )
        with self._cluster.log.changed:
            partitions = self._partitions()
            if partition is not None and partitions:
                if not 0 <= partition < len(partitions):
                    raise ValueError(
                        f"topic {self.name!r} has the partitions 0 to {len(partitions) - 1}, not {partition}"
                    )
                partitions = [partitions[partition]]
            return [
                Record(self.name, each.index, *stored)
                for each in partitions
                for stored in (
                    each.records if isolation_level == "read_uncommitted" else each.committed_records
                )
            ]

    def wait_for_records(
        self, count: int, timeout: float = 10.0, *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> list[Record]:
        """Wait until the topic holds at least ``count`` records, and return all of them.

        Args:
            count: number of records.
            timeout: in seconds.
            isolation_level: as for ``records``.

        Raises:
            AssertionError: it holds fewer after ``timeout``; the text says what it holds.
        """
        __tracebackhide__ = True  # pytest shows the line of the test instead
        with self._cluster.log.changed:
            if self._cluster.log.changed.wait_for(
                lambda: len(self.records(isolation_level=isolation_level)) >= count, timeout
            ):
                return self.records(isolation_level=isolation_level)
            what = f"topic {self.name!r} should hold {count} records or more within {timeout:g} s"
            text = "\n".join([what, *self._description(None, isolation_level)])
        raise AssertionError(text)

    def assert_written(
        self,
        values: Iterable[bytes | str | None] | None = None,
        *,
        keys: Iterable[bytes | str | None] | None = None,
        headers: Iterable[Iterable[tuple[str, bytes | None]]] | None = None,
        partition: int | None = None,
        in_any_order: bool = False,
        isolation_level: IsolationLevel = "read_uncommitted",
        timeout: float = 0.0,
    ) -> None:
        """Check that the topic holds exactly the records with these values, keys or headers.

        ``assert_written([])`` checks that it holds none.

        Args:
            values: of all records, in the order of ``records``: by partition, then by offset. ``str`` stands
                for its UTF-8 bytes.
            keys: the same, for keys.
            headers: the same, for headers: of each record, its pairs of name and value.
            partition: check this partition only.
            in_any_order: the order of the records does not matter.
            isolation_level: as for ``records``.
            timeout: seconds to wait for it to become true, if the producer may still be sending.

        Raises:
            AssertionError: it does not; the text has what is missing, what is unexpected, and the records.
            ValueError: values, keys and headers have different lengths, or ``records`` would raise it.
            TypeError: neither values nor keys nor headers were given, or one value instead of a list.
        """
        __tracebackhide__ = True
        wanted: dict[str, list[Any]] = {}
        for name, given in (("key", keys), ("value", values)):
            if isinstance(given, (bytes, str)):
                raise TypeError(f"assert_written needs a list of {name}s, such as [{given!r}]")
            if given is not None:
                wanted[name] = [_encoded(each) for each in given]
        if headers is not None:
            wanted["headers"] = [_header_pairs(each) for each in headers]
        if not wanted:
            raise TypeError("assert_written needs values, keys or headers; [] if there should be no record")
        lengths = {len(each) for each in wanted.values()}
        if len(lengths) > 1:
            raise ValueError(
                "assert_written needs as many values as keys and headers, found "
                + ", ".join(f"{len(each)} for {name}" for name, each in wanted.items())
            )
        expected = list(zip(*wanted.values(), strict=True))

        def found() -> list[tuple[Any, ...]]:
            records = self.records(partition, isolation_level=isolation_level)
            return [tuple(getattr(record, name) for name in wanted) for record in records]

        def is_as_expected() -> bool:
            return Counter(found()) == Counter(expected) if in_any_order else found() == expected

        with self._cluster.log.changed:
            if self._cluster.log.changed.wait_for(is_as_expected, timeout):
                return
            where = f"topic {self.name!r}" + ("" if partition is None else f" partition {partition}")
            order = "in any order" if in_any_order else "in this order"
            lines = [f"{where} should hold exactly {_count(len(expected))}, {order}:"]
            lines += _listed([_shown(wanted, each) for each in expected])
            missing, surplus = Counter(expected) - Counter(found()), Counter(found()) - Counter(expected)
            for title, counter in (("missing", missing), ("not expected", surplus)):
                if counter and len(counter) < max(len(expected), len(found())):
                    lines += [f"{title}:", *_listed([_shown(wanted, each) for each in counter.elements()])]
            if not missing and not surplus:
                lines.append(
                    "These are the records that it holds, in another order. If that is right, pass"
                    " in_any_order=True, or check each partition with partition=."
                )
            lines += self._description(partition, isolation_level)
        raise AssertionError("\n".join(lines))

    @property
    def _cluster(self) -> FakeCluster:
        return self._cluster_of_creator.in_this_process()

    def _partitions(self) -> Sequence[Partition]:
        with self._cluster.log.changed:
            topic = self._cluster.topics.get(self.name)
            return topic.partitions if topic is not None else ()

    def _description(self, partition: int | None, isolation_level: IsolationLevel) -> list[str]:
        """Lines of an assertion: what the topic holds, or where the records are instead. With the lock."""
        if not self._partitions():
            existing = [
                f"{name!r} with {_count(len(Topic(self._cluster, name).records()))}"
                for name in sorted(self._cluster.topics)
            ]
            return [f"There is no such topic. Topics: {', '.join(existing) or 'none'}.", self._requests()]
        records = self.records(partition, isolation_level=isolation_level)
        lines = [f"It holds {_count(len(records))}{':' if records else '.'}"]
        lines += _listed(
            [
                f"partition {each.partition} offset {each.offset}: "
                + _shown(("key", "value", "headers"), each[4:] if each.headers else each[4:6])
                for each in records
            ]
        )
        hidden = len(self.records(partition)) - len(records)
        if hidden:
            lines.append(f"{_count(hidden)} more, of open or aborted transactions, or behind an open one.")
        lines.append(self._requests())
        return lines

    def _requests(self) -> str:
        names = Counter(request.api for request in self._cluster.requests())
        requests = ", ".join(f"{number} {name}" for name, number in names.items())
        return f"Requests so far: {requests or 'none'}."


def _encoded(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _header_pairs(headers: Iterable[Any]) -> tuple[Any, ...]:
    """Headers as records have them. What is not a pair stays as it is, and is shown so if it differs."""
    return tuple(tuple(each) if isinstance(each, list) else each for each in headers)


def _count(number: int) -> str:
    return "1 record" if number == 1 else f"{number or 'no'} records"


def _shown(names: Iterable[str], parts: Iterable[object]) -> str:
    """A record's parts, each shortened: values may have megabytes."""
    texts = []
    for name, part in zip(names, parts, strict=False):
        text = repr(part)
        if len(text) > _SHOWN_CHARACTERS:
            text = f"{text[:_SHOWN_CHARACTERS]}... ({len(text)} characters)"
        texts.append(f"{name}={text}")
    return " ".join(texts)


def _listed(lines: list[str]) -> list[str]:
    listed = [f"  {line}" for line in lines[:_SHOWN_RECORDS]]
    if len(lines) > _SHOWN_RECORDS:
        listed.append(f"  and {len(lines) - _SHOWN_RECORDS} more")
    return listed
