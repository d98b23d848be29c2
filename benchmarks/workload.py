"""The workloads: the same records with the same settings for every client, in groups of rows."""

from __future__ import annotations

import itertools
import random
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.payloads import PAYLOADS

#: Java's default, for every client in every family.
LINGER_MS = 5
BUFFER_BYTES = 32 * 1024 * 1024
PARTITION_COUNT, BROKER_COUNT = 6, 3
#: Number of different records, and of different keys.
DISTINCT_RECORDS = 10_000
#: For rows with many partitions, so that the keys hit nearly all of them.
_KEYS_PER_PARTITION = 4
#: Of the timed part of such a row, for every client: how full its batches are depends on it.
_RECORDS_OF_MANY_PARTITIONS, _RECORDS_OF_MANY_BROKERS = 200_000, 20_000

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
SMALL_BATCHES = (
    Settings("16 KiB batches", 16_384, BUFFER_BYTES),
    Settings("64 KiB batches", 65_536, BUFFER_BYTES),
)
#: Each client's own defaults, too, or enough memory for a batch per partition. Rows are compared with the
#: first one of the first family.
MANY_PARTITIONS = (
    Settings("keys over partitions"),
    Settings("keys over partitions, 256 MiB buffers", buffer_bytes=256 * 1024 * 1024),
)
FAMILIES = (OWN_DEFAULTS, *SMALL_BATCHES, *MANY_PARTITIONS)


@dataclass(frozen=True)
class Workload:
    """One row of the tables: records of a kind, under one family of settings.

    Attributes:
        payload: the kind of values, a name in ``PAYLOADS``.
        partitions: of the topic.
        brokers: of the embedded cluster.
    """

    settings: Settings
    value_bytes: int
    has_keys: bool = False
    codec: str = "none"
    payload: str = "fields"
    partitions: int = PARTITION_COUNT
    brokers: int = BROKER_COUNT

    @property
    def key_count(self) -> int:
        """Number of different keys, in rows with keys."""
        return max(DISTINCT_RECORDS, _KEYS_PER_PARTITION * self.partitions)

    @property
    def count(self) -> int | None:
        """Records of the timed part, if they are the same for all clients; otherwise its CPU time is."""
        if self.settings not in MANY_PARTITIONS:
            return None
        return _RECORDS_OF_MANY_PARTITIONS if self.brokers == 1 else _RECORDS_OF_MANY_BROKERS

    @property
    def name(self) -> str:
        if self.settings in MANY_PARTITIONS:
            on = "" if self.brokers == 1 else f", {self.brokers:,} brokers"
            return f"{self.partitions:,} partition{'s' if self.partitions > 1 else ''}{on}"
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
_SMALL_BATCH_ROWS: tuple[dict[str, Any], ...] = (
    {"value_bytes": 100},
    {"value_bytes": 1000},
    {"value_bytes": 1000, "has_keys": True},
    {"value_bytes": 1000, "codec": "lz4"},
)
#: (family, partitions, brokers)
_PARTITION_ROWS = (
    *((MANY_PARTITIONS[0], partitions, 1) for partitions in (1, 100, 1_000, 10_000)),
    *((MANY_PARTITIONS[1], partitions, 1) for partitions in (1_000, 10_000)),
    (MANY_PARTITIONS[0], 1_000, 1_000),
)

#: The row of the clients that are measured on one row.
ONE_ROW = Workload(OWN_DEFAULTS, 100)
#: The groups of rows, in the order of the tables.
GROUPS: dict[str, list[Workload]] = {
    "throughput": [Workload(OWN_DEFAULTS, **row) for row in _OWN_ROWS],
    "small-batches": [Workload(family, **row) for family in SMALL_BATCHES for row in _SMALL_BATCH_ROWS],
    "partitions": [
        Workload(family, 100, has_keys=True, partitions=partitions, brokers=brokers)
        for family, partitions, brokers in _PARTITION_ROWS
    ],
}


def distinct_records(workload: Workload) -> list[Record]:
    """(key, value) pairs, the same for all clients."""
    source = random.Random(20)
    make = PAYLOADS[workload.payload]
    values = [make(source, workload.value_bytes) for _ in range(DISTINCT_RECORDS)]
    return [
        (b"user-%06d" % number if workload.has_keys else None, values[number % DISTINCT_RECORDS])
        for number in range(workload.key_count)
    ]


def repeated(pool: list[Record], count: int) -> list[Record]:
    """``count`` records from the pool, in rotation."""
    return list(itertools.islice(itertools.cycle(pool), count))
