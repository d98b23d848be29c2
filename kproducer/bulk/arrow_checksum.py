"""ArrowChecksum: one number for what ``ArrowSink`` would write of Arrow data, whatever its order and cuts.

Whoever has to write the same rows again compares it. The number is the kernel's; see
``kproducer.kernel.pure.arrow_checksum`` for what goes into it. Sends nothing.
"""

from __future__ import annotations

from typing import Any

from kproducer.bulk.arrow_columns import ArrowColumns
from kproducer.bulk.send_arrow import sources
from kproducer.kernel.arrow import RowChecksum

_NONE = -1


class ArrowChecksum:
    """For one thread.

    Args:
        columns: which columns are what, as for ``ArrowSink``.
        topic: where rows go to; ``None``: ``columns.topic`` says.
    """

    def __init__(self, columns: ArrowColumns, topic: str | None) -> None:
        self._columns = columns
        partition = columns.partition if isinstance(columns.partition, int) else _NONE
        timestamp_ms = columns.timestamp if isinstance(columns.timestamp, int) else _NONE
        self._checksum = RowChecksum(topic, partition, timestamp_ms)

    @property
    def rows(self) -> int:
        """How many rows were added."""
        return self._checksum.rows

    @property
    def value(self) -> int:
        """The sum over all rows, 0 to 2**64 - 1; 0 where there are none."""
        return self._checksum.value

    def update(self, data: Any) -> None:
        """Add all rows of ``data``, which is what ``ArrowSink.send`` takes.

        Raises:
            InvalidArgumentError: as there; chunks before the one that is wrong were added.
        """
        for source in sources(data):
            try:
                numbers = self._columns.find(source.names, source.formats)
                while source.next_chunk() >= 0:
                    self._checksum.add_chunk(source, numbers)
            finally:
                source.close()
