"""The workloads: the same records with the same settings for every client."""

from __future__ import annotations

import itertools
import random
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.payloads import PAYLOADS

#: Java's default, for every client in every family.
LINGER_MS = 5
BUFFER_BYTES = 32 * 1024 * 1024
PARTITION_COUNT = 6
#: Number of different records, and of different keys.
DISTINCT_RECORDS = 10_000

Record = tuple["bytes | None", bytes]


@dataclass(frozen=True)
class Settings:
    """A family of settings, in addition to acks=all, no idempotence and linger 5 ms for all clients.

    Attributes:
        name: in tables.
        batch_bytes: for every client with such a setting; ``None``: each client's default.
        buffer_bytes: the limit for unacknowledged records, in the same way.
    """

    name: str
    batch_bytes: int | None = None
    buffer_bytes: int | None = None


OWN_DEFAULTS = Settings("own defaults")
SMALL_BATCHES = Settings("16 KiB batches", 16384, BUFFER_BYTES)
LARGE_BATCHES = Settings("1 MB batches", 1_000_000, BUFFER_BYTES)
FAMILIES = (OWN_DEFAULTS, SMALL_BATCHES, LARGE_BATCHES)


@dataclass(frozen=True)
class Workload:
    """One row of the tables: records of a kind, under one family of settings.

    Attributes:
        payload: the kind of values, a name in ``PAYLOADS``.
    """

    settings: Settings
    value_bytes: int
    has_keys: bool = False
    codec: str = "none"
    payload: str = "fields"

    @property
    def name(self) -> str:
        size = f"{self.value_bytes} B" if self.value_bytes < 1000 else f"{self.value_bytes // 1000} kB"
        kind = "" if self.payload == "fields" else f" {self.payload}"
        keys = f", {DISTINCT_RECORDS:,} keys" if self.has_keys else ""
        return f"{size}{kind}{keys}{'' if self.codec == 'none' else f', {self.codec}'}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Workload:
        return cls(**{**fields, "settings": Settings(**fields["settings"])})


_OWN_ROWS: tuple[dict[str, Any], ...] = (
    {"value_bytes": 100},
    {"value_bytes": 100, "has_keys": True},
    {"value_bytes": 100, "codec": "lz4"},
    {"value_bytes": 1000},
    {"value_bytes": 1000, "codec": "lz4"},
    {"value_bytes": 1000, "codec": "lz4", "payload": "events"},
)
_SAME_SIZE_ROWS: tuple[dict[str, Any], ...] = (
    {"value_bytes": 100},
    {"value_bytes": 1000, "codec": "lz4"},
)


def all_workloads() -> list[Workload]:
    """Every row of every family, in the order of the tables."""
    return [Workload(OWN_DEFAULTS, **row) for row in _OWN_ROWS] + [
        Workload(settings, **row) for settings in (SMALL_BATCHES, LARGE_BATCHES) for row in _SAME_SIZE_ROWS
    ]


def distinct_records(workload: Workload) -> list[Record]:
    """(key, value) pairs, the same for all clients."""
    source = random.Random(20)
    make = PAYLOADS[workload.payload]
    pool: list[Record] = []
    for number in range(DISTINCT_RECORDS):
        value = make(source, workload.value_bytes)
        pool.append((b"user-%06d" % number if workload.has_keys else None, value))
    return pool


def repeated(pool: list[Record], count: int) -> list[Record]:
    """``count`` records from the pool, in rotation."""
    return list(itertools.islice(itertools.cycle(pool), count))
