"""All connections of one client, multiplexed: non-blocking connects, framed sends and receives, idle close.

``poll`` is the steppable unit. Knows connections and frames, not nodes, requests or retries.

Made for an I/O thread that shares the interpreter lock with a busy application: every system call that
releases the lock may cost a switch interval. So a send is only queued, and a poll moves everything: it writes
what is queued, waits, and makes one large read of each readable socket, whatever number of frames is in it.
How it does so is ``ChannelIo``'s business: natively in one step, or call by call.
Source: Kafka class ``Selector``; KIP-601.
"""

from __future__ import annotations

import contextlib
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from kproducer.errors import (
    DisconnectedError,
    IllegalStateError,
    KafkaError,
    NetworkError,
    RemoteProtocolError,
)
from kproducer.kernel import SocketIo
from kproducer.network.channel_io import READ, WRITE, ChannelIo
from kproducer.network.kafka_channel import KafkaChannel
from kproducer.network.network_receive import NetworkReceive
from kproducer.network.network_send import NetworkSend
from kproducer.network.socket_lanes import SocketLanes
from kproducer.network.transport_io import TransportIo
from kproducer.network.transport_layer import (
    PlaintextTransportLayer,
    SocketAddress,
    TransportLayer,
    describe_address,
    describe_os_error,
    open_socket,
    start_connect,
)
from kproducer.network.wakeup import Wakeup
from kproducer.runtime.clock import Clock
from kproducer.runtime.guarded_logger import GuardedLogger

if TYPE_CHECKING:
    from kproducer.kernel.native._socket_io import SocketIo as NativeSocketIo

_log = GuardedLogger(__name__)

#: epoll counts milliseconds in 32 bits; nobody minds a loop an hour.
_MAX_WAIT_MS = 3_600_000


class IdleDisconnectError(DisconnectedError):
    """We closed the connection ourselves because nothing happened on it."""


class Selector:
    """The connections of one client. I/O thread only, except ``wakeup``.

    Args:
        max_idle_ms: a connection without traffic for this long is closed; negative: never.
        send_buffer_bytes: SO_SNDBUF; -1 leaves it to the operating system.
        receive_buffer_bytes: SO_RCVBUF; -1 leaves it to the operating system.
        max_frame_bytes: the longest response accepted.
        clock: the time, for idle connections.
        transport_factory: makes the transport layer of a socket (the place for TLS).
        socket_io: the kernel's native I/O step; ``None``, or any other transport than the plaintext one:
            the bytes go through the transport layers.

    Attributes (results of the last ``poll``):
        connected: ids whose TCP connection came up.
        disconnected: ids of connections that ended, other than by ``close``, and why.
        completed_sends: frames that were written in full since the poll before.
        completed_receives: frames that came in; several per connection, in order.
    """

    def __init__(
        self,
        max_idle_ms: int,
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
        max_frame_bytes: int,
        clock: Clock,
        transport_factory: Callable[[socket.socket], TransportLayer] = PlaintextTransportLayer,
        socket_io: type[NativeSocketIo] | None = SocketIo,
    ) -> None:
        # fixed after construction
        self._max_idle_ms = max_idle_ms
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._max_frame_bytes = max_frame_bytes
        self._clock = clock
        self._transport_factory = transport_factory
        self._wakeup = Wakeup()
        self._io: ChannelIo
        if socket_io is not None and transport_factory is PlaintextTransportLayer:
            self._io = SocketLanes(self._wakeup.fileno(), socket_io)
        else:
            self._io = TransportIo(self._wakeup.fileno())
        # I/O thread only
        self._channels: OrderedDict[str, KafkaChannel] = OrderedDict()  # least recently active first
        self._connected_at_once: list[KafkaChannel] = []
        self._buffered: set[KafkaChannel] = set()  # bytes inside the transport that no event will announce
        self._sending: dict[KafkaChannel, None] = {}  # with frames that no poll has tried to write
        self._closed = False
        self._now_ms = clock.monotonic_ms()
        self.connected: list[str] = []
        self.disconnected: dict[str, KafkaError] = {}
        self.completed_sends: list[NetworkSend] = []
        self.completed_receives: list[NetworkReceive] = []

    # -- connections ---------------------------------------------------------------------------------

    def connect(self, connection_id: str, address: SocketAddress, family: int = socket.AF_INET) -> None:
        """Begin to connect; a later ``poll`` reports the id in ``connected`` or ``disconnected``.

        Raises IllegalStateError for an id in use, NetworkError when the connect fails at once (the id is
        free again and no descriptor stays open).
        """
        if self._closed:
            raise IllegalStateError("the selector is closed")
        if connection_id in self._channels:
            raise IllegalStateError(f"there is already a connection with id {connection_id}")
        text = describe_address(address)
        try:
            sock = open_socket(family, self._send_buffer_bytes, self._receive_buffer_bytes)
        except OSError as error:
            raise NetworkError(f"could not open a socket for {text}: {describe_os_error(error)}") from error
        try:
            connected = start_connect(sock, address)
            transport = self._transport_factory(sock)
            channel = KafkaChannel(
                connection_id, text, transport, self._max_frame_bytes, self._clock.monotonic_ms()
            )
            self._io.register(channel)
        except OSError as error:
            sock.close()
            raise NetworkError(f"could not connect to {text}: {describe_os_error(error)}") from error
        except BaseException:
            sock.close()
            raise
        self._channels[connection_id] = channel
        if connected:
            self._connected_at_once.append(channel)

    def is_channel_ready(self, connection_id: str) -> bool:
        """Whether the connection is up and its handshakes are done."""
        channel = self._channels.get(connection_id)
        return channel is not None and channel.transport.is_ready

    def mute(self, connection_id: str) -> None:
        """Read nothing from this connection until ``unmute``."""
        channel = self._channel(connection_id)
        channel.muted = True
        self._io.update(channel)

    def unmute(self, connection_id: str) -> None:
        """Read from this connection again; what came in meanwhile is served by the next polls."""
        channel = self._channel(connection_id)
        channel.muted = False
        self._io.update(channel)

    def close(self, connection_id: str | None = None) -> None:
        """Close one connection, or with no id everything. Not reported in ``disconnected``. Idempotent."""
        if connection_id is not None:
            channel = self._channels.get(connection_id)
            if channel is not None:
                self._drop(channel)
            return
        if self._closed:
            return
        self._closed = True
        for channel in list(self._channels.values()):
            self._drop(channel)
        self._io.close()
        self._wakeup.close()

    def release_after_fork(self) -> None:
        """In a forked child: give back the inherited descriptors without touching the parent's connections.

        Unregistering would act on the epoll instance that both processes share, so nothing is unregistered.
        """
        self._closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._wakeup.release_after_fork()
        self._io.close()

    def wakeup(self) -> None:
        """End the present ``poll``, or make the next one not block. Any thread; coalesced; never blocks."""
        self._wakeup.signal()

    # -- traffic -------------------------------------------------------------------------------------

    def send(self, send: NetworkSend) -> None:
        """Queue a frame for its connection; the next poll writes it, as far as the socket takes it.

        A frame that was written in full is listed in ``completed_sends`` of that poll, which does not return
        earlier for it; the rest of another one goes out in later polls. Raises IllegalStateError for an
        unknown id, a connection that is not ready, and one whose socket is full of earlier frames.
        """
        channel = self._channel(send.destination)
        channel.add_send(send)
        try:
            self._io.queue(channel, send)
        except BaseException:
            channel.sends.pop()
            raise
        self._sending[channel] = None
        self._touch(channel, self._now_ms)

    def poll(self, timeout_ms: int) -> None:
        """Write what is queued, wait up to ``timeout_ms`` for events, and do the I/O that is possible.

        The four result attributes are those of this call afterwards. Does not wait when a wake-up or a
        result is there already (completed sends excepted).
        """
        if timeout_ms < 0:
            raise ValueError(f"timeout_ms must not be negative: {timeout_ms}")
        self.connected = []
        self.completed_receives = []
        self.completed_sends = []
        self.disconnected = {}
        at_once, self._connected_at_once = self._connected_at_once, []
        for channel in at_once:
            self._serve(channel, WRITE)
        buffered = [channel for channel in self._buffered if not channel.muted]
        if at_once or buffered:
            timeout_ms = 0
        if not self._wakeup.begin_wait():
            timeout_ms = 0
        sending, self._sending = self._sending, {}
        try:
            for channel, mask in self._io.exchange(list(sending), min(timeout_ms, _MAX_WAIT_MS)):
                self._serve(channel, mask)
        finally:
            self._wakeup.end_wait()
        for channel in buffered:
            if channel in self._buffered:
                self._serve(channel, READ)
        now_ms = self._now_ms = self._clock.monotonic_ms()
        self._close_idle(now_ms)

    # -- inside --------------------------------------------------------------------------------------

    def _channel(self, connection_id: str) -> KafkaChannel:
        channel = self._channels.get(connection_id)
        if channel is None:
            raise IllegalStateError(f"there is no connection with id {connection_id}")
        return channel

    def _serve(self, channel: KafkaChannel, mask: int) -> None:
        """Do what the events allow; any trouble ends this connection and no other."""
        if self._channels.get(channel.connection_id) is not channel:
            return  # ended earlier in this poll
        self._touch(channel, self._clock.monotonic_ms())
        doing = "connect to"
        try:
            if not channel.transport.is_ready:
                self._go_on_connecting(channel)
                return
            doing = "reading from"
            if mask & READ and not channel.muted:
                self._read(channel, self._io.received(channel))
            doing = "writing to"
            if mask & WRITE and channel.sends:
                self._io.written(channel, self.completed_sends)
        except OSError as error:
            if doing == "writing to":
                self._save_last_responses(channel)
            self._fail(channel, self._broken(channel, doing, error))
        except NetworkError as error:
            text = f"could not connect to {channel.address}: {error}" if doing == "connect to" else str(error)
            self._fail(channel, type(error)(text))
        except RemoteProtocolError as error:
            self._fail(channel, RemoteProtocolError(f"{channel.address}: {error}"))
        except Exception as error:
            # A bug, or no memory. Letting it out would lose what this poll has read from the others.
            _log.exception("Unexpected error with the connection to %s", channel.address)
            self._fail(channel, DisconnectedError(f"{doing} {channel.address} failed: {error!r}"))

    def _go_on_connecting(self, channel: KafkaChannel) -> None:
        transport = channel.transport
        if not channel.tcp_connected:
            transport.finish_connect()
            channel.tcp_connected = True
            self.connected.append(channel.connection_id)
        if not transport.is_ready:
            transport.handshake()
        self._io.update(channel)

    def _touch(self, channel: KafkaChannel, now_ms: int) -> None:
        channel.last_active_ms = now_ms
        self._channels.move_to_end(channel.connection_id)

    def _read(self, channel: KafkaChannel, data: memoryview | None) -> None:
        """Take in what was read, if anything. Raises KafkaError when that ended the connection."""
        if data is None:
            return
        if not data:
            where = channel.assembler.describe_position()
            raise DisconnectedError(f"{channel.address} closed the connection {where}")
        frames: list[bytes] = []
        try:
            channel.assembler.feed(data, frames)
        finally:
            source = channel.connection_id
            for payload in frames:
                self.completed_receives.append(NetworkReceive(source, payload))
        if channel.transport.has_buffered_bytes:
            self._buffered.add(channel)
        elif self._buffered:
            self._buffered.discard(channel)

    def _save_last_responses(self, channel: KafkaChannel) -> None:
        """Read what a broken connection still holds: each acknowledgement lost is a record sent twice."""
        if channel.muted:
            return
        data: memoryview | None = None
        with contextlib.suppress(OSError, KafkaError):
            while (data := self._io.received_last(channel)) is not None:
                self._read(channel, data)

    def _close_idle(self, now_ms: int) -> None:
        if self._max_idle_ms < 0:
            return
        while self._channels:
            channel = next(iter(self._channels.values()))
            if now_ms - channel.last_active_ms < self._max_idle_ms:
                return
            if channel.may_expire:
                text = (
                    f"closed the connection to {channel.address}: idle for {self._max_idle_ms} ms"
                    " (connections_max_idle_ms)"
                )
                self._fail(channel, IdleDisconnectError(text))
            else:
                channel.last_active_ms = now_ms
                self._channels.move_to_end(channel.connection_id)

    @staticmethod
    def _broken(channel: KafkaChannel, doing: str, error: OSError) -> KafkaError:
        if doing == "connect to":
            return NetworkError(f"could not connect to {channel.address}: {describe_os_error(error)}")
        return DisconnectedError(f"{doing} {channel.address} failed: {describe_os_error(error)}")

    def _fail(self, channel: KafkaChannel, error: KafkaError) -> None:
        self.disconnected[channel.connection_id] = error
        self._drop(channel)

    def _drop(self, channel: KafkaChannel) -> None:
        """Forget the channel and close its descriptor, whatever state it is in."""
        self._channels.pop(channel.connection_id, None)
        self._buffered.discard(channel)
        self._sending.pop(channel, None)
        try:
            self._io.unregister(channel)
        finally:
            channel.close()
