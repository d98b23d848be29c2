"""The rows of ``send_many`` in the reference kernel: none is plain, ``send`` does them all.

``native/_send_many.pyx`` is the twin that is fast. What it does with a row is what ``send`` does with a
record, and that stands in ``append.py``.
"""

from __future__ import annotations

from typing import Any

from kproducer.kernel.pure.append import SendPath


class RowSender:
    """Sends the plain rows of one ``send_many``. For the calling thread.

    Args:
        path: the producer.
        topic: where to.
        places: where to note which batch each record went to.
        is_serialized: keys and values have been through the serializers, if there are any.
    """

    __slots__ = ()

    def __init__(self, path: SendPath, topic: str, places: Any, is_serialized: bool = False) -> None:
        pass

    def send(
        self,
        values: list[Any],
        keys: list[Any] | None,
        headers: list[Any] | None,
        partitions: list[Any] | None,
        timestamps_ms: list[Any] | None,
        start: int,
        first_row: int,
        now_ms: int,
    ) -> int:
        """Send rows in order, from ``start`` up to the first one that is not plain.

        Args:
            values, keys, headers, partitions, timestamps_ms: lists of one length that nobody else changes.
            start: the first row.
            first_row: the number of ``values[0]`` in the places.
            now_ms: the time of rows without one, since the epoch.

        Returns:
            The row that has to be sent in another way; ``len(values)``: all were sent.
        """
        return start
