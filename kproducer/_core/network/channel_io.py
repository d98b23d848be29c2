"""ChannelIo: how a Selector moves the bytes of its channels, and the two implementations.

``PortableChannelIo`` makes one system call after the other through the channels' transport layers. It works
on every platform and with every transport, and it is the reference. ``NativeChannelIo`` makes all calls of a
poll in one compiled step without the interpreter lock, including encryption; it is used where the native
kernel is in use, for TLS if ``native_tls`` allows it. Both work in the same order: write what is queued,
wait, then report the events.
Source: Kafka's ``Selector`` (pollSelectionKeys); the native step is ours.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import attrgetter
from typing import Any, TypeAlias

from kproducer._core.kernel import IMPLEMENTATION
from kproducer._core.network.kafka_channel import KafkaChannel
from kproducer._core.network.network_send import NetworkSend
from kproducer._core.network.wakeup import Wakeup
from kproducer._core.runtime.clock import NEVER_MS


def _native_module() -> Any:
    if IMPLEMENTATION == "native":
        with suppress(ImportError):  # this platform has no epoll
            # Not "from the module": the import rules see compiled modules only as members of their package.
            from kproducer._core.network import _native_channel_io

            return _native_channel_io
    return None


native = _native_module()

#: Bits of an event, as in ``selectors``.
READ = 1
WRITE = 2

#: (channel, mask, ...): a channel and what may be done with it. What follows is for the implementation.
Event: TypeAlias = tuple[Any, ...]

#: The most that one read takes: several responses, or a good part of a large metadata response.
READ_SIZE_BYTES = 256 * 1024

#: Space for what all connections received since the last poll; the next poll reads the rest.
_NATIVE_BUFFER_BYTES = 2 * READ_SIZE_BYTES


class PortableChannelIo:
    """Makes each system call by itself, through transport layers. I/O thread only.

    Args:
        wakeup: readable when a wait has to end.
    """

    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup
        self._read_view = memoryview(bytearray(READ_SIZE_BYTES))
        self._selector = selectors.DefaultSelector()
        self._selector.register(wakeup.fileno(), READ, None)
        self._plane: Any = None
        self._hand_back: Callable[[Any], None] = _no_lanes
        self._monotonic_ms: Callable[[], int] = lambda: 0
        self._frames: list[tuple[KafkaChannel, bytes]] = []

    def register(self, channel: KafkaChannel) -> None:
        """Watch a channel that is connecting. Raises OSError."""
        # While the channel connects, the writable event reports the result.
        self._selector.register(channel.transport.fileno(), WRITE, channel)
        channel.interest = WRITE

    def update(self, channel: KafkaChannel) -> None:
        """Watch for the events that the channel needs in its present state. Raises OSError."""
        is_full = channel.is_stalled or (channel.lane is not None and channel.lane.is_stalled)
        wanted = READ | WRITE if is_full or channel.wants_write else READ
        if channel.tcp_connected and wanted != channel.interest:
            self._selector.modify(channel.transport.fileno(), wanted, channel)
            channel.interest = wanted

    def queue(self, channel: KafkaChannel, send: NetworkSend) -> None:
        """Take over a frame of the channel; the next exchange with this channel in ``sending`` writes it."""

    def unregister(self, channel: KafkaChannel) -> None:
        """Stop watching the channel. Idempotent."""
        if channel.interest:
            channel.interest = 0
            self._selector.unregister(channel.transport.fileno())

    def exchange(self, sending: list[KafkaChannel], timeout_ms: int) -> Iterable[Event]:
        """Write what the channels in ``sending`` have queued, wait, and return the events, one by one.

        For each event the caller may call ``received`` and ``written``, once per bit of its mask, before it
        takes the next one. Does not wait if the caller closed one of ``sending`` meanwhile. Raises OSError.
        """
        for channel in sending:
            yield channel, WRITE
            if channel.is_closed:
                timeout_ms = 0  # the connection broke: do not wait before that is reported
        if self._plane is not None:
            for event in self._before_wait():
                yield event
                timeout_ms = 0
            settled = self._plane.settle(self._monotonic_ms())  # by what was held
            until_ms = self._plane.wait_until_ms
            if self._frames or settled:
                timeout_ms = 0
            elif until_ms < NEVER_MS:
                timeout_ms = min(timeout_ms, max(until_ms - self._monotonic_ms(), 0))
        ready = self._selector.select(timeout_ms / 1000)
        if self._plane is not None:
            self._plane.wait_is_over()
        for key, mask in ready:
            if key.data is None:
                self._wakeup.clear()
            elif key.data.lane is None:
                yield key.data, mask
            else:
                yield from self._serve_lane(key.data, mask)
        if self._plane is not None:
            self._plane.settle(self._monotonic_ms())

    def written(self, event: Event, completed: list[NetworkSend]) -> None:
        """Append the frames that are completely written. Raises OSError if the connection broke."""
        channel: KafkaChannel = event[0]
        channel.write(completed)
        self.update(channel)

    def received(self, event: Event) -> memoryview | None:
        """The bytes received, valid until the next call; empty at the end of the stream, ``None``: nothing.

        Raises OSError if the connection broke.
        """
        channel: KafkaChannel = event[0]
        if len(event) == 2:
            return channel.read(self._read_view)
        _, _, received = event  # by a lane
        if isinstance(received, OSError):
            raise received
        return memoryview(received)

    # -- lanes -----------------------------------------------------------------------------------------

    def wake_of_plane(self) -> Callable[[], object] | None:
        """How a caller of the data plane wakes the I/O thread; ``None``: the plane's descriptor does."""
        return self._wakeup.signal

    def use_plane(
        self, plane: Any, hand_back: Callable[[Any], None], monotonic_ms: Callable[[], int]
    ) -> None:
        """Let the lanes of a data plane use the sockets.

        Args:
            plane: its lanes have channels as owners.
            hand_back: called with a lane, in an exchange and before its events are reported, if Python has to
                take over. Raises OSError.
            monotonic_ms: the plane's clock.
        """
        self._plane, self._hand_back, self._monotonic_ms = plane, hand_back, monotonic_ms

    def use_lane(self, channel: KafkaChannel, lane: Any) -> None:
        """Let a lane write to the socket, after what is queued, and read from it first; ``None``: no more."""
        channel.lane = lane

    def note_full(self, channel: KafkaChannel) -> None:
        """The socket has taken a part of the first frame in the queue. Raises OSError."""
        self.update(channel)

    def return_early(self, is_closing: bool) -> None:
        """Whether an exchange returns after each request that a lane has completed: callers wait for them."""

    def take_frames(self) -> Iterable[tuple[KafkaChannel, bytes]]:
        """Frames that the last exchange has cut out itself: they come before the bytes of its events."""
        frames, self._frames = self._frames, []
        return frames

    def busy_channels(self) -> Iterable[KafkaChannel]:
        """Channels whose lanes have moved bytes lately, or wait for an answer."""
        return () if self._plane is None else _busy_owners(self._plane.lanes)

    def _before_wait(self) -> Iterator[Event]:
        """Have lanes look at what they hold, and write what is due, unless Python has something before it."""
        for lane in self._plane.lanes:
            channel: KafkaChannel = lane.owner
            if channel.is_closed:
                continue  # its end is about to be reported
            if lane.holds_bytes:
                yield from self._feed_lane(channel, lane, b"")
            lane.is_behind_python = bool(channel.sends)
            if channel.lane is lane and not lane.is_stalled and not lane.is_behind_python:
                lane.drain(self._monotonic_ms())  # the lanes before may have compressed for long
                yield from self._write_lane(channel, lane)

    def _write_lane(self, channel: KafkaChannel, lane: Any) -> Iterator[Event]:
        if lane.write():
            self._hand_back(lane)
            yield channel, WRITE  # fails once more, but as a write of Python's
        else:
            self.update(channel)

    def _serve_lane(self, channel: KafkaChannel, mask: int) -> Iterator[Event]:
        """What ``SocketIo.serve_lane`` does."""
        lane = channel.lane
        if mask & READ and not lane.holds_bytes:
            received: Any
            try:
                received = channel.read(self._read_view)
            except OSError as error:
                received = error
            if received is not None:
                if isinstance(received, OSError) or not received:
                    self._hand_back(lane)
                    yield channel, READ, received
                    return
                yield from self._feed_lane(channel, lane, received)
        if mask & WRITE and channel.sends:
            yield channel, WRITE
        elif mask & WRITE and channel.lane is lane:
            yield from self._write_lane(channel, lane)

    def _feed_lane(self, channel: KafkaChannel, lane: Any, data: Any) -> Iterator[Event]:
        payload, rest = lane.receive(data)
        if payload is not None:
            self._frames.append((channel, payload))
        if rest is not None:
            self._hand_back(lane)
            yield channel, READ, rest

    def close(self) -> None:
        """Close the poll's descriptor. Idempotent."""
        self._selector.close()
        if self._plane is not None:
            self._plane.close()


def _no_lanes(lane: Any) -> None:
    raise AssertionError("there are no lanes")


def _busy_owners(lanes: Iterable[Any]) -> list[KafkaChannel]:
    return [lane.owner for lane in lanes if lane.requests or lane.in_flight]


_SOCKET_OF = attrgetter("native_socket")


class NativeChannelIo:
    """Makes all system calls of a poll in one native step. I/O thread only.

    While an application thread is busy, a poll waits for the interpreter lock once, not once per socket. Only
    the connect with its handshakes, and the last read of a broken connection, go through the transport layer.
    ``PortableChannelIo`` documents the methods.

    Args:
        wakeup: readable when a wait has to end; its bytes are discarded.
    """

    def __init__(self, wakeup: Wakeup) -> None:
        buffer = bytearray(_NATIVE_BUFFER_BYTES)
        self._read_view = memoryview(buffer)
        self._io = native.SocketIo(wakeup.fileno(), buffer, READ_SIZE_BYTES)
        self._plane: Any = None
        self._hand_back: Callable[[Any], None] = _no_lanes

    def wake_of_plane(self) -> Callable[[], object] | None:
        return None

    def use_plane(
        self, plane: Any, hand_back: Callable[[Any], None], monotonic_ms: Callable[[], int]
    ) -> None:
        # Reads the system's clock itself.
        self._io.use_plane(plane)
        self._plane, self._hand_back = plane, hand_back

    def use_lane(self, channel: KafkaChannel, lane: Any) -> None:
        channel.lane = lane
        if channel.native_socket is not None:
            channel.native_socket.use_lane(lane)

    def note_full(self, channel: KafkaChannel) -> None:
        if channel.native_socket is not None:
            channel.native_socket.note_full()

    def return_early(self, is_closing: bool) -> None:
        self._io.returns_early = is_closing

    def register(self, channel: KafkaChannel) -> None:
        channel.native_socket = self._io.register(channel.transport.fileno(), channel)

    def update(self, channel: KafkaChannel) -> None:
        sock = channel.native_socket
        if sock is None or not channel.tcp_connected:
            return
        if channel.is_ready:
            channel.transport.attach(sock)
            sock.establish()
        else:
            sock.await_events(True, channel.wants_write)

    def queue(self, channel: KafkaChannel, send: NetworkSend) -> None:
        assert channel.native_socket is not None
        channel.native_socket.queue(send.buffers)

    def unregister(self, channel: KafkaChannel) -> None:
        native_socket, channel.native_socket = channel.native_socket, None
        if native_socket is not None:
            native_socket.close()

    def exchange(self, sending: list[KafkaChannel], timeout_ms: int) -> Iterable[Event]:
        events: list[Event] = self._io.exchange(list(map(_SOCKET_OF, sending)), timeout_ms)
        if self._plane is not None:
            for lane in self._plane.lanes:
                if lane.needs_python:
                    self._hand_back(lane)
        return events

    def take_frames(self) -> Iterable[tuple[KafkaChannel, bytes]]:
        if self._plane is None:
            return ()
        frames: list[tuple[KafkaChannel, bytes]] = self._io.take_frames()
        return frames

    def busy_channels(self) -> Iterable[KafkaChannel]:
        return () if self._plane is None else _busy_owners(self._plane.lanes)

    def written(self, event: Event, completed: list[NetworkSend]) -> None:
        channel, _, sent, code, _, _, _ = event
        channel.note_written(sent, completed)
        if code:
            raise channel.transport.native_error(code)

    def received(self, event: Event) -> memoryview | None:
        channel, _, _, _, position, count, code = event
        if code:
            raise channel.transport.native_error(code)
        return None if count < 0 else self._read_view[position : position + count]

    def close(self) -> None:
        self._io.close()


ChannelIo: TypeAlias = PortableChannelIo | NativeChannelIo

#: The implementation for plaintext connections: native if the kernel is native and the platform has epoll.
PlaintextChannelIo = PortableChannelIo if native is None else NativeChannelIo
