"""What every client is asked to do: the same records with the same settings. No client is named here."""

from __future__ import annotations

import itertools
import random
from dataclasses import asdict, dataclass
from typing import Any

#: Java's defaults; all clients get the same.
LINGER_MS = 5
BATCH_BYTES = 16384
BUFFER_BYTES = 32 * 1024 * 1024
PARTITION_COUNT = 6
WARM_UP_RECORDS = 2000
_DISTINCT_RECORDS = 4096

VALUE_BYTES = (100, 1000)
CODECS = ("none", "lz4", "zstd")


@dataclass(frozen=True)
class Workload:
    """One kind of load."""

    value_bytes: int
    with_key: bool
    codec: str
    count: int

    @property
    def name(self) -> str:
        size = f"{self.value_bytes} B" if self.value_bytes < 1000 else f"{self.value_bytes // 1000} kB"
        return f"{size}{', key' if self.with_key else ''}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def all_workloads(count: int) -> list[Workload]:
    """Sizes x with and without key x codecs; ``count`` records of 100 bytes, fewer of the large ones."""
    return [
        Workload(value_bytes, with_key, codec, count if value_bytes < 1000 else max(1, count * 2 // 5))
        for codec, value_bytes, with_key in itertools.product(CODECS, VALUE_BYTES, (False, True))
    ]


def records(workload: Workload, count: int) -> list[tuple[bytes | None, bytes]]:
    """(key, value) pairs: text that compresses about as well as logged events do; the same for everybody."""
    source = random.Random(20)
    pool: list[tuple[bytes | None, bytes]] = []
    for number in range(_DISTINCT_RECORDS):
        value = b'{"id":"%s","event":"page_view","user":%d,' % (
            source.randbytes(8).hex().encode(),
            source.randrange(10**6),
        )
        while len(value) < workload.value_bytes:
            value += b'"field_%d":"%s",' % (source.randrange(8), source.randbytes(6).hex().encode())
        key = b"user-%06d" % number if workload.with_key else None
        pool.append((key, value[: workload.value_bytes]))
    return list(itertools.islice(itertools.cycle(pool), count))
