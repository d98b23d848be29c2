"""A TCP network in memory: sockets and selectors with the interface of the standard library's.

Bytes arrive in order, after a latency from the seed; a send may take, and a read may give, a part of what is
there. ``Network.block`` and ``Connection.reset`` are for faults.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket as real_socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.simulation.scheduler import Scheduler, Task

#: What a socket holds that the peer has not read.
_BUFFER_BYTES = 64 * 1024
_FIRST_DESCRIPTOR = 100_000
_FIRST_PORT = 30_000
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Network:
    """All sockets of a simulation.

    Args:
        scheduler: its time, and its seed for everything that may vary.
        latency_ns: (shortest, longest) of one way.
        partial_rate: the probability that a send or a read moves a part only.

    Attributes:
        blocked_ports: brokers' ports to and from which nothing arrives.
        buffer_bytes: what a connection holds in each direction, sent and not read.
        transfers: how often a socket has taken or given bytes.
        on_sent: called with each (port, is_to_broker, bytes) that is sent.
    """

    def __init__(self, scheduler: Scheduler, latency_ns: tuple[int, int], partial_rate: float) -> None:
        self.scheduler = scheduler
        self.latency_ns = latency_ns
        self.partial_rate = partial_rate
        self.buffer_bytes = _BUFFER_BYTES
        self.blocked_ports: set[int] = set()
        self.listeners: dict[int, Socket] = {}
        self.by_descriptor: dict[int, Socket] = {}
        self.on_sent: Callable[[int, bool, bytes], object] = _ignore
        self._next_descriptor = _FIRST_DESCRIPTOR
        self._next_port = _FIRST_PORT
        self.transfers = 0
        self._held: list[Pipe] = []

    def forget(self) -> None:
        """The simulation is over."""
        self.on_sent = _ignore
        self.by_descriptor.clear()
        self.listeners.clear()
        self._held.clear()

    def new_descriptor(self, sock: Socket) -> int:
        self._next_descriptor += 1
        self.by_descriptor[self._next_descriptor] = sock
        return self._next_descriptor

    def new_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def latency(self) -> int:
        shortest, longest = self.latency_ns
        return shortest + int(self.scheduler.random.random() * (longest - shortest))

    def part_of(self, size: int) -> int:
        """How many of ``size`` bytes are moved at once."""
        random = self.scheduler.random
        if size > 1 and random.random() < self.partial_rate:
            return 1 + int(random.random() * (size - 1))
        return size

    def block(self, port: int) -> None:
        """Deliver nothing from and to this port, and lose attempts to connect."""
        self.blocked_ports.add(port)

    def unblock(self, port: int) -> None:
        """Deliver again, also what was sent meanwhile: TCP sends it again."""
        self.blocked_ports.discard(port)
        held, self._held = self._held, []
        for pipe in held:
            pipe.deliver()

    def hold(self, pipe: Pipe) -> None:
        self._held.append(pipe)

    def socket(
        self, family: int = real_socket.AF_INET, kind: int = real_socket.SOCK_STREAM, *_: Any
    ) -> Socket:
        """``socket.socket``."""
        return Socket(self, family, kind)

    def socketpair(self, *_: Any) -> tuple[Socket, Socket]:
        """``socket.socketpair``: no latency, and its bytes are always moved at once."""
        left, right = Socket(self), Socket(self)
        _connect(left, right, is_local=True)
        return left, right

    def reset_connections(self, port: int) -> None:
        """Break all connections to this port; both ends get ECONNRESET."""
        for sock in list(self.by_descriptor.values()):
            if sock.port == port and sock.peer_name is not None and sock.incoming is not None:
                sock.incoming.fail(errno.ECONNRESET)

    def forget_connections(self, port: int) -> None:
        """The server of this port loses its connections; its clients are not told."""
        for sock in list(self.by_descriptor.values()):
            if (
                sock.port == port
                and sock.name is not None
                and sock.name[1] == port
                and sock.incoming is not None
            ):
                assert sock.outgoing is not None
                sock.outgoing.is_cut = True
                sock.incoming.fail(errno.ECONNRESET)


def _ignore(port: int, is_to_broker: bool, data: bytes) -> None:
    pass


class Pipe:
    """The bytes from one end of a connection to the other."""

    def __init__(
        self, network: Network, receiver: Socket, port: int, is_to_broker: bool, is_local: bool
    ) -> None:
        self._network = network
        self._receiver = receiver
        self.sender: Socket | None = None
        self.port = port
        self._is_to_broker = is_to_broker
        self._is_local = is_local
        self._on_the_way: deque[tuple[int, bytes | None]] = deque()
        self._last_ns = 0
        self.size = 0
        self.received = bytearray()
        self.is_at_end = False
        self.is_cut = False
        self.error = 0

    @property
    def space(self) -> int:
        return self._network.buffer_bytes - self.size

    def write(self, data: bytes | None) -> None:
        """Send bytes; ``None`` is the end of the stream."""
        network = self._network
        if self.is_cut:
            return
        if data is not None:
            self.size += len(data)
            if not self._is_local:
                network.transfers += 1
                network.on_sent(self.port, self._is_to_broker, data)
        if self._is_local:
            self._arrive(data)
            return
        at_ns = max(self._last_ns, network.scheduler.now_ns + network.latency())
        self._last_ns = at_ns
        self._on_the_way.append((at_ns, data))
        network.scheduler.at(at_ns, self.deliver)

    def deliver(self) -> None:
        """Hand over what has arrived by now."""
        network = self._network
        if self.port in network.blocked_ports:
            network.hold(self)
            return
        if self.is_cut:
            self._on_the_way.clear()
        while self._on_the_way and self._on_the_way[0][0] <= network.scheduler.now_ns:
            self._arrive(self._on_the_way.popleft()[1])

    def _arrive(self, data: bytes | None) -> None:
        if data is None:
            self.is_at_end = True
        else:
            self.received += data
        self._receiver.changed()

    def fail(self, code: int) -> None:
        """The receiver's next read fails with this error."""
        self.error = code
        self._receiver.changed()

    def read(self, most: int) -> bytes:
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        if not self.received:
            if self.is_at_end:
                return b""
            raise BlockingIOError(errno.EAGAIN, "nothing has arrived")
        size = min(most, len(self.received))
        if not self._is_local:
            size = self._network.part_of(size)
            self._network.transfers += 1
        data = bytes(self.received[:size])
        del self.received[:size]
        self.size -= size
        if self.sender is not None:
            self.sender.changed()
        return data


class Socket:
    """``socket.socket``, non-blocking and TCP over IPv4 only."""

    proto = real_socket.IPPROTO_TCP

    def __init__(
        self, network: Network, family: int = real_socket.AF_INET, kind: int = real_socket.SOCK_STREAM
    ) -> None:
        self.network = network
        self.family = family
        self.type = kind
        self._descriptor = network.new_descriptor(self)
        self.port = 0
        self._is_listening = False
        self._accepting: deque[Socket] = deque()
        self.name: tuple[str, int] | None = None
        self.peer_name: tuple[str, int] | None = None
        self.incoming: Pipe | None = None
        self.outgoing: Pipe | None = None
        self._connect_error = 0
        self._resets = False
        self.watchers: list[Selector] = []

    # -- state -------------------------------------------------------------------------------------------

    def events(self) -> int:
        """What a selector would report."""
        if self._is_listening:
            return _READ if self._accepting else 0
        if self._connect_error:
            return _READ | _WRITE
        if self.incoming is None or self.outgoing is None:
            return 0
        pipe = self.incoming
        mask = _READ if pipe.received or pipe.is_at_end or pipe.error else 0
        return mask | _WRITE if self.outgoing.space > 0 or pipe.error else mask

    def changed(self) -> None:
        for watcher in self.watchers:
            watcher.notify(self)

    def fileno(self) -> int:
        return self._descriptor

    def setblocking(self, _: bool) -> None:
        pass

    def gettimeout(self) -> float:
        return 0.0

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if level == real_socket.SOL_SOCKET and option == real_socket.SO_LINGER:
            self._resets = True

    def getsockopt(self, level: int, option: int) -> int:
        if level == real_socket.SOL_SOCKET and option == real_socket.SO_ERROR:
            code, self._connect_error = self._connect_error, 0
            return code
        return 0

    def getsockname(self) -> tuple[str, int]:
        return self.name or ("127.0.0.1", self.port)

    def getpeername(self) -> tuple[str, int]:
        if self.peer_name is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self.peer_name

    # -- listening ---------------------------------------------------------------------------------------

    def bind(self, address: tuple[str, int]) -> None:
        self.port = address[1] or self.network.new_port()
        self.name = (address[0], self.port)

    def listen(self, _: int = 0) -> None:
        self._is_listening = True
        self.network.listeners[self.port] = self

    def accept(self) -> tuple[Socket, tuple[str, int]]:
        if not self._accepting:
            raise BlockingIOError(errno.EAGAIN, "nobody connects")
        accepted = self._accepting.popleft()
        return accepted, accepted.getpeername()

    # -- connecting --------------------------------------------------------------------------------------

    def connect_ex(self, address: tuple[str, int]) -> int:
        network = self.network
        self.port = address[1]
        network.scheduler.after(network.latency() + network.latency(), lambda: self._arrive_at(address))
        return errno.EINPROGRESS

    def _arrive_at(self, address: tuple[str, int]) -> None:
        if self._descriptor < 0 or address[1] in self.network.blocked_ports:
            return
        listener = self.network.listeners.get(address[1])
        if listener is None:
            self._connect_error = errno.ECONNREFUSED
        else:
            accepted = Socket(self.network, self.family, self.type)
            self.name, self.peer_name = ("127.0.0.1", self.network.new_port()), address
            accepted.name, accepted.peer_name = self.peer_name, self.name
            accepted.port = address[1]
            _connect(self, accepted)
            listener._accepting.append(accepted)
            listener.changed()
        self.changed()

    # -- traffic -----------------------------------------------------------------------------------------

    def send(self, data: Any, flags: int = 0) -> int:
        return self.sendmsg([data])

    def sendmsg(self, buffers: Iterable[Any], *_: Any) -> int:
        network = self.network
        network.scheduler.pause()
        if self._descriptor < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self.incoming is None or self.outgoing is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if self.incoming.error:
            raise OSError(self.incoming.error, os.strerror(self.incoming.error))
        if self.outgoing._receiver._descriptor < 0:
            # The peer has closed the connection, and answers with RST.
            self.incoming.error = errno.ECONNRESET
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        data = b"".join(buffers)
        space = self.outgoing.space
        if space <= 0:
            raise BlockingIOError(errno.EAGAIN, "the buffer is full")
        size = min(len(data), space)
        if not self.outgoing._is_local:
            size = network.part_of(size)
        self.outgoing.write(data[:size])
        return size

    def recv(self, most: int, flags: int = 0) -> bytes:
        self.network.scheduler.pause()
        if self._descriptor < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self.incoming is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self.incoming.read(most)

    def recv_into(self, buffer: Any, most: int = 0, flags: int = 0) -> int:
        data = self.recv(most or len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def shutdown(self, _: int) -> None:
        if self.outgoing is not None:
            self.outgoing.write(None)
        if self.incoming is not None:
            self.incoming.is_at_end = True
            self.changed()

    def close(self) -> None:
        if self._descriptor < 0:
            return
        if self._is_listening:
            self.network.listeners.pop(self.port, None)
            for waiting in list(self._accepting):
                waiting._resets = True
                waiting.close()
        if self.outgoing is not None:
            if self.outgoing.is_cut:
                pass
            elif self._resets or (self.incoming is not None and self.incoming.received):
                # As TCP does: what was received and not read is answered with RST.
                self.outgoing._on_the_way.clear()
                self.network.scheduler.after(
                    self.network.latency(), lambda pipe=self.outgoing: pipe.fail(errno.ECONNRESET)
                )
            else:
                self.outgoing.write(None)
        del self.network.by_descriptor[self._descriptor]
        self._descriptor = -1
        self.changed()

    def detach(self) -> int:
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor


def _connect(client: Socket, server: Socket, is_local: bool = False) -> None:
    network, port = client.network, server.port
    client.outgoing = server.incoming = Pipe(network, server, port, True, is_local)
    server.outgoing = client.incoming = Pipe(network, client, port, False, is_local)
    client.outgoing.sender, server.outgoing.sender = client, server


class Selector:
    """``selectors.DefaultSelector`` of one network."""

    network: Network

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._sockets: dict[int, Socket] = {}
        # Sockets that may be ready: those that were, and those that have changed since.
        self._to_check: dict[int, None] = {}
        self._waiting: Task | None = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if descriptor in self._keys:
            raise KeyError(f"{fileobj!r} is already registered")
        sock = self.network.by_descriptor.get(descriptor)
        if sock is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        key = self._keys[descriptor] = selectors.SelectorKey(fileobj, descriptor, events, data)
        self._sockets[descriptor] = sock
        self._to_check[descriptor] = None
        sock.watchers.append(self)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys.pop(descriptor)
        self._to_check.pop(descriptor, None)
        self._sockets.pop(descriptor).watchers.remove(self)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[descriptor] = selectors.SelectorKey(fileobj, descriptor, events, data)
        self._to_check[descriptor] = None
        return key

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj if isinstance(fileobj, int) else fileobj.fileno()]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def notify(self, sock: Socket) -> None:
        """One of the sockets has changed."""
        descriptor = sock._descriptor
        if descriptor in self._keys:
            self._to_check[descriptor] = None
        if self._waiting is not None:
            self.network.scheduler.wake(self._waiting)

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        found = []
        for descriptor in list(self._to_check):
            key = self._keys[descriptor]
            events = self._sockets[descriptor].events() & key.events
            if events:
                found.append((key, events))
            else:
                del self._to_check[descriptor]
        if len(found) > 1:
            self.network.scheduler.random.shuffle(found)
        return found

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        scheduler = self.network.scheduler
        scheduler.give_way()
        deadline_ns = None if timeout is None else scheduler.now_ns + int(max(timeout, 0) * 1e9)
        while True:
            found = self._ready()
            if found:
                return found
            left_ns = None if deadline_ns is None else deadline_ns - scheduler.now_ns
            if left_ns is not None and left_ns <= 0:
                return found
            self._waiting = scheduler.current
            try:
                scheduler.block("events of sockets", left_ns)
            finally:
                self._waiting = None

    def close(self) -> None:
        for descriptor in list(self._keys):
            self._sockets[descriptor].watchers.remove(self)
        self._keys.clear()
        self._sockets.clear()
        self._to_check.clear()
