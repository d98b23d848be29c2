"""The interface of a client for the benchmark: prepare, send all and wait, close."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.workload import Record, Workload

FLUSH_SECONDS = 120.0
#: Records per call of the bulk methods.
CHUNK_RECORDS = 10_000


@dataclass(frozen=True)
class Target:
    """The cluster, the topic and the settings.

    Attributes:
        security: the settings for a secured listener, with kproducer's names.
        gathered: concurrent sends, for the sessions that gather them.
    """

    bootstrap_servers: str
    topic: str
    workload: Workload
    is_mock: bool
    security: dict[str, str] = field(default_factory=dict)
    gathered: int = 1


class Session(Protocol):
    """One producer of one client, for the warm-up and the timed part."""

    def prepare(self, records: list[Record]) -> Any:
        """Convert records to the form that ``send_all`` takes. Not timed."""
        ...

    def send_all(self, prepared: Any) -> Any:
        """Send, and wait until every record is acknowledged or has failed. Timed."""
        ...

    def acknowledged(self, sent: Any) -> int:
        """The number of acknowledged records, from the result of ``send_all``. Not timed."""
        ...

    def close(self) -> None: ...


def chunks(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """The records in lists of ``CHUNK_RECORDS``."""
    for start in range(0, len(records), CHUNK_RECORDS):
        yield records[start : start + CHUNK_RECORDS]
