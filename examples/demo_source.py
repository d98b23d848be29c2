"""The demo's records: invented JSON events or the lines of a file, in portions that fit a broker's memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

#: A portion is sent, then read back and checked. The mock cluster keeps only the latest 150 MB or so.
PORTION_RECORDS = 500_000
PORTION_BYTES = 48 * 1024 * 1024

_ACTIONS = ("view", "click", "cart", "order", "refund")


class Source(Protocol):
    """A source of values. ``count`` is the exact number."""

    count: int
    description: str

    def __iter__(self) -> Iterator[bytes]: ...


class JsonEvents:
    """Events of an invented web shop, the same ones every time."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.description = f"{count:,} JSON events"

    def __iter__(self) -> Iterator[bytes]:
        for number in range(self.count):
            yield (
                b'{"event_id":%d,"user":"user-%05d","action":"%s","amount":%d.%02d,"at":"2026-11-21T%02d:%02d:%02dZ"}'
                % (
                    number,
                    number * 7919 % 50_000,
                    _ACTIONS[number % 5].encode(),
                    number % 990 + 10,
                    number % 100,
                    number // 3600 % 24,
                    number // 60 % 60,
                    number % 60,
                )
            )


class FileLines:
    """The lines of a file without line endings; empty lines count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as lines:
            self.count = sum(1 for _ in lines)
        self.description = f"{self.count:,} lines of {path.name}"

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as lines:
            for line in lines:
                yield line.rstrip(b"\r\n")


def portions(source: Source) -> Iterator[list[bytes]]:
    """Split a source into lists that are limited in number and bytes."""
    values = iter(source)
    portion: list[bytes] = []
    size_bytes = 0
    while some := list(islice(values, 1000)):
        portion += some
        size_bytes += sum(map(len, some))
        if len(portion) >= PORTION_RECORDS or size_bytes >= PORTION_BYTES:
            yield portion
            portion, size_bytes = [], 0
    if portion:
        yield portion
