"""Records of every shape that the protocol allows, for round trips through any broker and codec."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

#: A CreateTime far in the past, so that it cannot be mistaken for the current time.
EXPLICIT_TIMESTAMP_MS = 1_600_000_000_123
LARGE_BYTES = 900_000

_KEYS = (None, b"", b"key", bytes(range(256)))
_VALUES = (None, b"", b"\x00", b"some text, some text, some text " * 4)
_HEADERS: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
    (),
    (("name", b"value"),),
    (("twice", b"1"), ("twice", None), ("empty", b""), ("\u00fcn\u00efcode \u2713", b"\xff\x00")),
)
_TIMESTAMPS = (None, EXPLICIT_TIMESTAMP_MS)
_SIZES = (1, 10, 1_000, 16_000, 16_384, 100_000, LARGE_BYTES)


class SampleRecord(NamedTuple):
    """Arguments of ``send``: a ``None`` partition or timestamp is chosen by the producer."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None
    partition: int | None


def sample_records(partition_count: int, seed: int = 1) -> list[SampleRecord]:
    """All combinations of key, value, headers and timestamp; then 1 byte to 900 kB, random and repetitive."""
    shapes = itertools.product(_KEYS, _VALUES, _HEADERS, _TIMESTAMPS)
    records = [SampleRecord(*shape, None) for shape in shapes]
    source = random.Random(seed)
    for number, size in enumerate(_SIZES):
        partition = number % partition_count
        records.append(SampleRecord(None, source.randbytes(size), (), None, partition))
        records.append(SampleRecord(b"k", (b"abcdefgh" * (size // 8 + 1))[:size], (), None, partition))
    return records
