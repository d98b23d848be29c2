"""All connections of one client, multiplexed: non-blocking connects, framed sends and receives, idle close.

``poll`` is the unit that tests step. Knows connections and frames, not nodes, requests or retries.

The I/O thread shares the interpreter lock with a busy application, and every system call that releases the
lock may take a switch interval to get it back. So ``send`` only queues. A poll writes what is queued, waits,
and makes one large read per readable socket, for any number of frames. ``ChannelIo`` makes these calls,
either in one native step or one by one (docs/decisions/0029-one-gil-release.md).
Source: Kafka class ``Selector``; KIP-601.
"""

from __future__ import annotations

import contextlib
import socket
from collections import OrderedDict

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.metrics.connection_metrics import ConnectionMetrics
from kproducer._core.network.channel_io import (
    READ,
    READ_SIZE_BYTES,
    WRITE,
    ChannelIo,
    Event,
    NativeChannelIo,
    PlaintextChannelIo,
    PortableChannelIo,
)
from kproducer._core.network.framing import MAX_FIRST_FRAME_BYTES, MAX_FRAME_BYTES
from kproducer._core.network.kafka_channel import KafkaChannel
from kproducer._core.network.network_receive import FrameAssembler, NetworkReceive
from kproducer._core.network.network_send import NetworkSend
from kproducer._core.network.proxy import Proxy
from kproducer._core.network.transport_layer import (
    SocketAddress,
    TransportFactory,
    TransportLayer,
    describe_address,
    describe_os_error,
    open_socket,
    start_connect,
)
from kproducer._core.network.wakeup import Wakeup
from kproducer._core.runtime.clock import NEVER_MS, Clock
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import (
    AuthenticationError,
    DisconnectedError,
    IllegalStateError,
    KafkaError,
    NetworkError,
    RemoteProtocolError,
    printable,
)
from kproducer.errors.internal_errors import IdleDisconnectError

_log = GuardedLogger(__name__)

#: epoll counts milliseconds in 32 bits; an idle poll per hour costs nothing.
_MAX_WAIT_MS = 3_600_000


class Selector:
    """The connections of one client. I/O thread only, except ``wakeup``.

    Args:
        config: ``connections_max_idle_ms``, ``send_buffer_bytes``, ``receive_buffer_bytes``.
        clock: the time, for idle connections.
        max_frame_bytes: the longest response accepted, after ``expect_long_frames``; before it, at most
            ``MAX_FIRST_FRAME_BYTES``.
        transport_factory: makes the transport layer of a socket to a host; ``None``: plaintext.
        proxy: connections with a ``target`` go through it.
        metrics: counts connections and polls; ``None``: its own.
        channel_io: moves the bytes; by default ``PortableChannelIo`` with a factory, and the fastest without.

    Attributes (results of the last ``poll``):
        connected: ids whose TCP connection came up.
        disconnected: ids of connections that ended, other than by ``close``, and why.
        completed_sends: frames that were completely written since the previous poll.
        completed_receives: frames received; several per connection, in order.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        *,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        transport_factory: TransportFactory | None = None,
        proxy: Proxy | None = None,
        channel_io: type[ChannelIo] | None = None,
        metrics: ConnectionMetrics | None = None,
    ) -> None:
        # fixed after construction
        self._metrics = metrics if metrics is not None else ConnectionMetrics(clock)
        self._config = config
        max_idle_ms = config.connections_max_idle_ms
        # At least 1 ms, as in Kafka: a connection must outlive the poll in which its bytes moved, or none
        # would come up.
        self._max_idle_ms = max(max_idle_ms, 1) if max_idle_ms >= 0 else NEVER_MS
        self._max_frame_bytes = max_frame_bytes
        self._clock = clock
        self._transport_factory = transport_factory
        self._proxy = proxy
        self._wakeup = Wakeup()
        #: Ends the current ``poll``, or makes the next one not wait. Any thread; repeated calls cost little;
        #: never blocks.
        self.wakeup = self._wakeup.signal
        new_io = channel_io or (PlaintextChannelIo if transport_factory is None else PortableChannelIo)
        self._io: ChannelIo = new_io(self._wakeup)
        # I/O thread only
        self._channels: OrderedDict[str, KafkaChannel] = OrderedDict()  # least recently active first
        self._buffered: set[KafkaChannel] = set()  # with bytes inside the transport, which raise no event
        self._sending: dict[KafkaChannel, None] = {}  # with frames queued since the last poll
        self._closed = False
        self._resumed: list[NetworkReceive] = []  # frames that a lane has left behind
        self._unusable: dict[KafkaChannel, KafkaError] = {}  # for the same reason: to be reported
        self._next_idle_ms = NEVER_MS  # no connection is idle for too long before
        self.connected: list[str] = []
        self.disconnected: dict[str, KafkaError] = {}
        self.completed_sends: list[NetworkSend] = []
        self.completed_receives: list[NetworkReceive] = []

    # -- connections ---------------------------------------------------------------------------------

    def connect(
        self,
        connection_id: str,
        address: SocketAddress,
        family: int = socket.AF_INET,
        host: str = "",
        target: tuple[str, int] | None = None,
    ) -> None:
        """Begin to connect; a later ``poll`` reports the id in ``connected`` or ``disconnected``.

        ``host`` is the name of the broker; TLS verifies it. With a ``target`` the address is the proxy's, and
        the proxy is asked to connect to the target (host, port).
        Raises IllegalStateError for an id in use, NetworkError if the connect fails at once (the id stays
        free and no descriptor stays open).
        """
        if self._closed:
            raise IllegalStateError("the selector is closed")
        if connection_id in self._channels:
            raise IllegalStateError(f"a connection with id {connection_id} already exists")
        text = describe_address(address)
        if target is not None:
            # The host may be a name in a broker's metadata.
            text = f"{printable(describe_address(target))} through the proxy {self._proxy}"
        try:
            sock = open_socket(family, self._config.send_buffer_bytes, self._config.receive_buffer_bytes)
        except OSError as error:
            raise NetworkError(f"could not open a socket for {text}: {describe_os_error(error)}") from error
        try:
            start_connect(sock, address)
            new_transport = self._transport_factory
            transport = TransportLayer(sock) if new_transport is None else new_transport(sock, host)
            tunnel = None
            if target is not None:
                assert self._proxy is not None
                tunnel = self._proxy.new_tunnel(sock, target)
            assembler = FrameAssembler(min(MAX_FIRST_FRAME_BYTES, self._max_frame_bytes))
            now_ms = self._clock.monotonic_ms()
            channel = KafkaChannel(connection_id, text, transport, assembler, now_ms, tunnel)
            self._io.register(channel)
        except OSError as error:
            sock.close()
            raise NetworkError(f"could not connect to {text}: {describe_os_error(error)}") from error
        except NetworkError as error:
            sock.close()
            raise NetworkError(f"could not connect to {text}: {error}") from error
        except BaseException:
            sock.close()
            raise
        self._channels[connection_id] = channel
        self._next_idle_ms = min(self._next_idle_ms, now_ms + self._max_idle_ms)

    @property
    def connection_count(self) -> int:
        """Connections and attempts to connect. Any thread."""
        return len(self._channels)

    def is_channel_ready(self, connection_id: str) -> bool:
        """Whether the connection is up and its handshakes have ended."""
        channel = self._channels.get(connection_id)
        return channel is not None and channel.is_ready

    def expect_long_frames(self, connection_id: str) -> None:
        """Accept frames up to ``max_frame_bytes``: the connection is authenticated, or need not be."""
        channel = self._channels.get(connection_id)
        if channel is not None:  # None if the connection ended after its last response
            channel.assembler.max_frame_bytes = self._max_frame_bytes

    def close(self, connection_id: str | None = None) -> None:
        """Close one connection, or without an id everything. Not reported in ``disconnected``. Idempotent."""
        if connection_id is not None:
            channel = self._channels.get(connection_id)
            if channel is not None:
                self._drop(channel)
            return
        self._closed = True
        # Unregisters nothing: in a forked child that would change the epoll instance, which both processes
        # share.
        for channel in self._channels.values():
            channel.close()
            self._metrics.count(self._metrics.closed)
        self._channels.clear()
        self._io.close()
        self._wakeup.close()

    def release_after_fork(self) -> None:
        """In a forked child: close the inherited descriptors without affecting the parent's connections."""
        self._wakeup.release_after_fork()
        self.close()

    # -- lanes ---------------------------------------------------------------------------------------

    @property
    def io(self) -> ChannelIo:
        """Moves the bytes; lanes take part in it."""
        return self._io

    @property
    def allows_lanes(self) -> bool:
        """Whether lanes may use the sockets: they are not encrypted, or natively."""
        return self._transport_factory is None or isinstance(self._io, NativeChannelIo)

    @property
    def is_resuming(self) -> bool:
        """Whether the next poll reports what a lane has left behind."""
        return bool(self._resumed or self._unusable)

    def channel(self, connection_id: str) -> KafkaChannel | None:
        """The channel of a connection."""
        return self._channels.get(connection_id)

    def resume(self, channel: KafkaChannel, received: bytes, unwritten: list[NetworkSend]) -> None:
        """Go on where a lane has stopped: with what it has read, and with frames partly written.

        If that is not possible, ``disconnected`` tells it: this poll or the next one.
        """
        self._io.use_lane(channel, None)
        if channel.is_closed:
            return
        if received:
            frames: list[bytes] = []
            try:
                channel.assembler.feed(memoryview(received), frames)
            except RemoteProtocolError as error:
                self._unusable[channel] = type(error)(f"{channel.address}: {error}")
            self._resumed.extend((channel.connection_id, payload) for payload in frames)
        for send in unwritten:
            send.is_stalled = channel.is_stalled = True
            channel.sends.append(send)
            self._io.queue(channel, send)
        if unwritten:
            self._io.note_full(channel)

    # -- traffic -------------------------------------------------------------------------------------

    def send(self, send: NetworkSend) -> None:
        """Queue a frame for its connection; the next poll writes as much of it as the socket takes.

        A poll lists the frames it completed in ``completed_sends``, but does not return earlier because of
        them. Raises IllegalStateError for an unknown id, a connection that is not ready, and one whose socket
        is full of earlier frames.
        """
        channel = self._channels.get(send.destination)
        if channel is None:
            raise IllegalStateError(f"there is no connection with id {send.destination}")
        if channel.is_stalled or not channel.is_ready:
            raise channel.not_writable()
        self._io.queue(channel, send)
        channel.sends.append(send)
        self._sending[channel] = None

    def poll(self, timeout_ms: int) -> int:
        """Write what is queued, wait up to ``timeout_ms`` for events, and do the I/O that is possible.

        Replaces the four result attributes. Does not wait if a wake-up or a result other than completed sends
        is already there. Returns the time at the end (monotonic).
        """
        if timeout_ms < 0:
            raise ValueError(f"timeout_ms must not be negative: {timeout_ms}")
        self.connected = []
        self.completed_receives = []
        self.completed_sends = []
        self.disconnected = {}
        buffered = list(self._buffered)
        if not self._wakeup.begin_wait() or buffered or self.is_resuming:
            timeout_ms = 0
        sending, self._sending = list(self._sending), {}
        served: dict[KafkaChannel, None] = {}
        try:
            for event in self._io.exchange(sending, min(timeout_ms, _MAX_WAIT_MS)):
                self._take_frames_of_lanes()
                self._serve(event)
                served[event[0]] = None
            self._take_frames_of_lanes()
        finally:
            self._wakeup.end_wait()
        while self._unusable:
            channel, error = self._unusable.popitem()
            if self._channels.get(channel.connection_id) is channel:
                self._fail(channel, error)
        for channel in buffered:
            if channel in self._buffered:
                self._serve((channel, READ))
                served[channel] = None
        now_ms = self._clock.monotonic_ms()
        for channel in self._io.busy_channels():
            served[channel] = None
        for channel in served:
            if not channel.is_closed:
                channel.last_active_ms = now_ms
                self._channels.move_to_end(channel.connection_id)
        metrics = self._metrics
        window = metrics.windows.at(now_ms)
        metrics.polls.add(1.0, window)
        if served:
            metrics.transfers.add(float(len(served)), window)
        if now_ms >= self._next_idle_ms:
            self._close_idle(now_ms)
        return now_ms

    # -- inside --------------------------------------------------------------------------------------

    def _take_frames_of_lanes(self) -> None:
        """Frames for Python that lanes have read: they come before what the next event brings."""
        for channel, payload in self._io.take_frames():
            self.completed_receives.append((channel.connection_id, payload))
        if self._resumed:
            self.completed_receives += self._resumed
            self._resumed.clear()

    def _serve(self, event: Event) -> None:
        """Do what the event allows. An error ends this connection and no other."""
        channel: KafkaChannel = event[0]
        mask: int = event[1]
        if self._channels.get(channel.connection_id) is not channel or channel in self._unusable:
            return  # ended earlier in this poll, or is about to be
        doing = "connect to"
        try:
            if not channel.is_ready:
                self._go_on_connecting(channel)
                return
            doing = "reading from"
            if mask & READ:
                self._read(channel, self._io.received(event))
            doing = "writing to"
            if mask & WRITE:
                self._io.written(event, self.completed_sends)
        except OSError as error:
            refusal = self._save_last_responses(channel) if doing == "writing to" else None
            if refusal is not None:
                self._fail(channel, type(refusal)(f"{channel.address}: {refusal}"))
                return
            reason = describe_os_error(error)
            if doing == "connect to":
                self._fail(channel, NetworkError(f"could not connect to {channel.address}: {reason}"))
            else:
                self._fail(channel, DisconnectedError(f"{doing} {channel.address} failed: {reason}"))
        except (AuthenticationError, NetworkError) as error:
            text = str(error)
            if doing == "connect to":
                text = f"could not connect to {channel.address}: {text}"
            elif str(channel.address) not in text:
                text = f"{channel.address}: {text}"
            self._fail(channel, type(error)(text))
        except RemoteProtocolError as error:
            self._fail(channel, type(error)(f"{channel.address}: {error}"))
        except Exception as error:
            # A bug, or out of memory. Raising it would lose what this poll has read from other connections.
            _log.exception("Unexpected error with the connection to %s", channel.address)
            self._fail(channel, DisconnectedError(f"{doing} {channel.address} failed: {error!r}"))

    def _go_on_connecting(self, channel: KafkaChannel) -> None:
        transport = channel.transport
        if not channel.tcp_connected:
            try:
                transport.finish_connect()
            except NetworkError as error:
                if channel.tunnel is None:
                    raise
                raise NetworkError(f"the proxy cannot be reached: {error}") from error
            channel.tcp_connected = True
            self._metrics.count(self._metrics.created)
            self.connected.append(channel.connection_id)
        if channel.tunnel is not None and channel.tunnel.advance():
            channel.tunnel = None
        if channel.tunnel is None and not transport.is_ready:
            transport.handshake()
        channel.is_ready = channel.tunnel is None and transport.is_ready
        self._io.update(channel)
        if channel.is_ready and transport.has_buffered_bytes:
            self._buffered.add(channel)

    def _read(self, channel: KafkaChannel, data: memoryview | None) -> None:
        """Cut what was read into frames. Raises KafkaError if that ended the connection."""
        if self._transport_factory is not None and channel.transport.has_buffered_bytes:
            self._buffered.add(channel)
        elif self._buffered:
            self._buffered.discard(channel)
        if data is None:
            return
        if not data:
            where = channel.assembler.describe_position()
            raise DisconnectedError(f"{channel.address} closed the connection {where}")
        frames: list[bytes] = []
        try:
            channel.assembler.feed(data, frames)
        finally:
            for payload in frames:
                self.completed_receives.append((channel.connection_id, payload))

    def _save_last_responses(self, channel: KafkaChannel) -> AuthenticationError | None:
        """Read what a broken connection still holds: a lost acknowledgement would cause a retry.

        Returns the broker's refusal of this client, if the connection broke because of one.
        """
        with contextlib.suppress(OSError, KafkaError):
            try:
                # Reads into a buffer of its own: that of ``received`` still holds the bytes of other
                # channels.
                while (data := channel.read(memoryview(bytearray(READ_SIZE_BYTES)))) is not None:
                    self._read(channel, data)
            except AuthenticationError as refusal:
                return refusal
        return None

    def _close_idle(self, now_ms: int) -> None:
        while self._channels:
            channel = next(iter(self._channels.values()))
            idle_ms = channel.last_active_ms + self._max_idle_ms
            if now_ms < idle_ms:
                self._next_idle_ms = idle_ms
                return
            if not channel.sends:
                text = (
                    f"closed the connection to {channel.address}: idle for {self._max_idle_ms} ms"
                    " (connections_max_idle_ms)"
                )
                self._fail(channel, IdleDisconnectError(text))
            else:
                channel.last_active_ms = now_ms
                self._channels.move_to_end(channel.connection_id)
        self._next_idle_ms = NEVER_MS

    def _fail(self, channel: KafkaChannel, error: KafkaError) -> None:
        self.disconnected[channel.connection_id] = error
        self._drop(channel)

    def _drop(self, channel: KafkaChannel) -> None:
        """Forget the channel and close its descriptor, in whatever state it is."""
        if self._channels.pop(channel.connection_id, None) is not None:
            self._metrics.count(self._metrics.closed)
        self._buffered.discard(channel)
        self._sending.pop(channel, None)
        try:
            self._io.unregister(channel)
        finally:
            channel.close()
