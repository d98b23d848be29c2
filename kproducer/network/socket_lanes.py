"""SocketLanes: moves the bytes of plaintext connections in one native step without the interpreter lock.

The twin of ``TransportIo`` for the kernel's ``SocketIo``: with a busy application a poll waits once for the
lock, not once for each socket. Only the connect, and what a broken connection still holds, go through the
transport layer. Source: ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kproducer.network.channel_io import READ_SIZE_BYTES
from kproducer.network.kafka_channel import KafkaChannel
from kproducer.network.network_send import NetworkSend

if TYPE_CHECKING:
    from kproducer.kernel.native._socket_io import SocketIo

#: Room for what all connections sent since the last poll; the rest is read by the next one.
_ARENA_BYTES = 2 * READ_SIZE_BYTES


class SocketLanes:
    """See ``ChannelIo``. I/O thread only.

    Args:
        wakeup_fd: readable when a wait has to end; its bytes are swallowed.
        native: the kernel's class.
    """

    def __init__(self, wakeup_fd: int, native: type[SocketIo]) -> None:
        arena = bytearray(_ARENA_BYTES)
        self._arena = memoryview(arena)
        self._io = native(wakeup_fd, arena, READ_SIZE_BYTES)
        #: Of the channel that the selector looks at: (channel, mask, sent, errno, position, count, errno).
        self._outcome: tuple[KafkaChannel, int, int, int, int, int, int] | None = None

    def register(self, channel: KafkaChannel) -> None:
        channel.lane = self._io.register(channel.transport.fileno(), channel)

    def update(self, channel: KafkaChannel) -> None:
        lane = channel.lane
        if lane is not None and channel.tcp_connected:
            lane.mute(channel.muted)
            lane.establish()

    def queue(self, channel: KafkaChannel, send: NetworkSend) -> None:
        assert channel.lane is not None
        channel.lane.queue(send.buffers)

    def unregister(self, channel: KafkaChannel) -> None:
        lane, channel.lane = channel.lane, None
        if lane is not None:
            lane.close()

    def exchange(self, sending: list[KafkaChannel], timeout_ms: int) -> Iterator[tuple[KafkaChannel, int]]:
        lanes = [channel.lane for channel in sending if channel.lane is not None]
        for outcome in self._io.exchange(lanes, timeout_ms):
            self._outcome = outcome
            yield outcome[0], outcome[1]
        self._outcome = None

    def written(self, channel: KafkaChannel, completed: list[NetworkSend]) -> None:
        assert self._outcome is not None
        _, _, sent, code, _, _, _ = self._outcome
        channel.wrote(sent, completed)
        if code:
            raise OSError(code, os.strerror(code))

    def received(self, channel: KafkaChannel) -> memoryview | None:
        assert self._outcome is not None
        _, _, _, _, position, count, code = self._outcome
        if code:
            raise OSError(code, os.strerror(code))
        return None if count < 0 else self._arena[position : position + count]

    def received_last(self, channel: KafkaChannel) -> memoryview | None:
        # The other channels' bytes are still in the arena.
        buffer = memoryview(bytearray(READ_SIZE_BYTES))
        try:
            count = channel.transport.receive_into(buffer)
        except BlockingIOError:
            return None
        return buffer[:count]

    def close(self) -> None:
        self._io.close()
