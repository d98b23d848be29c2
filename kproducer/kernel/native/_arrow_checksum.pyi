"""The compiled ``RowChecksum``; described in ``kproducer.kernel.pure.arrow_checksum``."""

from kproducer.kernel.native._arrow_source import ArrowSource

class RowChecksum:
    rows: int
    value: int
    def __init__(self, topic: str | None, partition: int, timestamp_ms: int) -> None: ...
    def add_chunk(self, source: ArrowSource, columns: tuple[int, int, int, int, int, int]) -> None: ...
