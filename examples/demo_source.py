"""The demo's records: invented JSON events or the lines of a file, in portions that fit a broker's memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from examples.demo_clients import Record

#: A portion is sent, then read back and checked. The first one warms the client up.
PORTION_RECORDS = 500_000
_WARM_UP_RECORDS, _WARM_UP_SHARE = 50_000, 10
#: The mock cluster keeps 5 MiB per partition. Keys spread a portion evenly; without them, confluent-kafka may
#: put a whole portion of this size into one partition.
_KEYED_BYTES, _UNKEYED_BYTES = 80 * 1024 * 1024, 4 * 1024 * 1024

_USERS = 50_000
_ACTIONS = ("view", "click", "cart", "order", "refund")


class Source(Protocol):
    """A source of records. ``count`` is the exact number, ``portion_bytes`` the most values of a portion."""

    count: int
    description: str
    portion_bytes: int

    def __iter__(self) -> Iterator[Record]: ...


class JsonEvents:
    """Events of an invented web shop with the user as key, the same ones every time."""

    portion_bytes = _KEYED_BYTES

    def __init__(self, count: int) -> None:
        self.count = count
        self.description = f"{count:,} JSON events"

    def __iter__(self) -> Iterator[Record]:
        for number in range(self.count):
            user = b"user-%05d" % (number * 7919 % _USERS)
            value = (
                b'{"event_id":%d,"user":"%s","action":"%s","amount":%d.%02d,"at":"2026-11-21T%02d:%02d:%02dZ"}'
                % (
                    number,
                    user,
                    _ACTIONS[number % 5].encode(),
                    number % 990 + 10,
                    number % 100,
                    number // 3600 % 24,
                    number // 60 % 60,
                    number % 60,
                )
            )
            yield user, value


class FileLines:
    """The lines of a file without line endings and without keys; empty lines count."""

    portion_bytes = _UNKEYED_BYTES

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as lines:
            self.count = sum(1 for _ in lines)
        self.description = f"{self.count:,} lines of {path.name}"

    def __iter__(self) -> Iterator[Record]:
        with self._path.open("rb") as lines:
            for line in lines:
                yield None, line.rstrip(b"\r\n")


def portions(source: Source) -> Iterator[list[Record]]:
    """Split a source into lists that are limited in number and bytes."""
    records = iter(source)
    limit = min(_WARM_UP_RECORDS, source.count // _WARM_UP_SHARE)
    portion: list[Record] = []
    size_bytes = 0
    for record in records:
        portion.append(record)
        size_bytes += len(record[1])
        if len(portion) >= limit or size_bytes >= source.portion_bytes:
            yield portion
            portion, size_bytes, limit = [], 0, PORTION_RECORDS
    if portion:
        yield portion
