"""What the benchmark asks of a client: make ready, send all and wait, close. The harness knows no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.workload import Record, Workload

FLUSH_SECONDS = 120.0
#: Records in one call of the clients that take many at once.
CHUNK_RECORDS = 10_000


@dataclass(frozen=True)
class Target:
    """Where to send, and how."""

    bootstrap_servers: str
    topic: str
    workload: Workload
    is_mock: bool


class Session(Protocol):
    """One producer of one client, used for the warm-up and the timed part alike."""

    def prepare(self, records: list[Record]) -> Any:
        """Bring records into the form that ``send_all`` takes. Not timed."""
        ...

    def send_all(self, prepared: Any) -> Any:
        """Send, and wait until each record's fate is known. Timed."""
        ...

    def acknowledged(self, sent: Any) -> int:
        """How many records were acknowledged, by what ``send_all`` returned. Not timed."""
        ...

    def close(self) -> None: ...


def chunks(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """The records in pieces of ``CHUNK_RECORDS``."""
    for start in range(0, len(records), CHUNK_RECORDS):
        yield records[start : start + CHUNK_RECORDS]
