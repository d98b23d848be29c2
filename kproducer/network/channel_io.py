"""ChannelIo: how a Selector moves bytes: call by call (``TransportIo``) or natively (``SocketLanes``).

Both do the same in the same order: write what is queued, wait, then look at each channel with an event. The
first goes through transport layers and works with all of them, everywhere. Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kproducer.network.kafka_channel import KafkaChannel
from kproducer.network.network_send import NetworkSend

#: Bits of an event, as in ``selectors``.
READ = 1
WRITE = 2

#: One read takes up to this much: several responses, or a good part of large metadata.
READ_SIZE_BYTES = 256 * 1024


class ChannelIo(Protocol):
    """Moves the bytes of a selector's channels. I/O thread only."""

    def register(self, channel: KafkaChannel) -> None:
        """Watch a channel that is connecting. Raises OSError."""

    def update(self, channel: KafkaChannel) -> None:
        """Watch for what the channel waits for now: it is connected, muted, stalled, or no more. OSError."""

    def queue(self, channel: KafkaChannel, send: NetworkSend) -> None:
        """The channel has taken ``send``; the next exchange that is told of the channel writes it."""

    def unregister(self, channel: KafkaChannel) -> None:
        """Watch the channel no more. Idempotent."""

    def exchange(self, sending: list[KafkaChannel], timeout_ms: int) -> Iterable[tuple[KafkaChannel, int]]:
        """Write what ``sending`` have queued, wait for events, and say which channels to look at for what.

        ``written`` and ``received`` are for the channel at hand, once for each bit. The wait is cut short
        when the selector dropped one of ``sending`` meanwhile. Raises OSError.
        """

    def written(self, channel: KafkaChannel, completed: list[NetworkSend]) -> None:
        """Append the frames that were completed. Then raises OSError when the connection broke."""

    def received(self, channel: KafkaChannel) -> memoryview | None:
        """What came in, valid until the next call; empty at the end of the stream, ``None``: nothing did.

        Raises OSError when the connection broke.
        """

    def received_last(self, channel: KafkaChannel) -> memoryview | None:
        """Likewise, asked of a connection that is broken for writing, outside of the order of events."""

    def close(self) -> None:
        """Give the descriptor of the poll back. Idempotent."""
