"""CompressionShare: who compresses a full batch, the I/O thread or the thread that filled it.

The I/O thread compresses beside the caller, without the interpreter lock and without a partition's lock. So
it gets as many batches as it takes to be never without one, and whoever fills more compresses them itself.
What counts is what still has to be compressed: how many batches wait to be sent says nothing of that.
Source: ours. Java's client compresses on the caller's thread, librdkafka on that of the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kproducer.accumulator.producer_batch import ProducerBatch

#: One that it is at, and the next ones for as long as it waits for the interpreter lock in between.
MOST_LEFT: Final = 3


class CompressionShare:
    """What is left to the I/O thread. Any thread, without a lock: two at once may count one too few.

    A batch that cannot be sent for now (its leader is unknown, it waits for another one) counts as well: with
    ``MOST_LEFT`` of them the callers compress everything, until these are sent.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: list[ProducerBatch] = []

    def leave(self, batch: ProducerBatch) -> bool:
        """Whether the I/O thread is to compress this full batch, too; if so, it counts from now on."""
        left = [each for each in self._left if each.awaits_compression]
        is_left = len(left) < MOST_LEFT
        if is_left:
            left.append(batch)
        self._left = left
        return is_left
