"""TransportIo: moves bytes through transport layers, one system call after the other.

The reference twin of ``SocketLanes``: works with every transport (TLS-like ones too) on every platform.
Source: Kafka's ``Selector`` (pollSelectionKeys).
"""

from __future__ import annotations

import selectors
from collections.abc import Iterator

from kproducer.network.channel_io import READ, READ_SIZE_BYTES, WRITE
from kproducer.network.kafka_channel import KafkaChannel
from kproducer.network.network_send import NetworkSend


class TransportIo:
    """See ``ChannelIo``. I/O thread only.

    Args:
        wakeup_fd: readable when a wait has to end; its owner takes the bytes in.
    """

    def __init__(self, wakeup_fd: int) -> None:
        self._read_view = memoryview(bytearray(READ_SIZE_BYTES))
        self._selector = selectors.DefaultSelector()
        self._selector.register(wakeup_fd, READ, None)

    def register(self, channel: KafkaChannel) -> None:
        self._selector.register(channel.transport.fileno(), WRITE, channel)
        channel.interest = WRITE

    def update(self, channel: KafkaChannel) -> None:
        if not channel.tcp_connected:
            return  # while connecting, writability is the event that tells the outcome
        wanted = (0 if channel.muted else READ) | (WRITE if channel.is_stalled else 0)
        if wanted == channel.interest:
            return
        fd = channel.transport.fileno()
        if not wanted:
            self._selector.unregister(fd)
        elif not channel.interest:
            self._selector.register(fd, wanted, channel)
        else:
            self._selector.modify(fd, wanted, channel)
        channel.interest = wanted

    def queue(self, channel: KafkaChannel, send: NetworkSend) -> None:
        return None

    def unregister(self, channel: KafkaChannel) -> None:
        if channel.interest:
            channel.interest = 0
            self._selector.unregister(channel.transport.fileno())

    def exchange(self, sending: list[KafkaChannel], timeout_ms: int) -> Iterator[tuple[KafkaChannel, int]]:
        for channel in sending:
            yield channel, WRITE
            if channel.is_closed:
                timeout_ms = 0  # it broke: that is to be told now
        for key, mask in self._selector.select(timeout_ms / 1000):
            if key.data is not None:
                yield key.data, mask

    def written(self, channel: KafkaChannel, completed: list[NetworkSend]) -> None:
        channel.write(completed)
        self.update(channel)

    def received(self, channel: KafkaChannel) -> memoryview | None:
        try:
            count = channel.transport.receive_into(self._read_view)
        except BlockingIOError:
            return None
        return self._read_view[:count]

    def received_last(self, channel: KafkaChannel) -> memoryview | None:
        return self.received(channel)

    def close(self) -> None:
        self._selector.close()
