"""One node of the fake cluster: its port, listener, connections and supported API versions.

Runs on the cluster's event loop. A second socket, which is bound but never listens, reserves the port
for the life of the cluster: while the broker is down, no other process can take the port, and
connections are refused, as with a dead broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import weakref

from kproducer.testing.fakebroker.connection import Connection
from kproducer.testing.fakebroker.model import BrokerState
from kproducer.testing.fakebroker.scripted_cluster import ScriptedCluster

#: By API key: the versions that Apache Kafka 4.4 offers, for the APIs of this cluster.
NEWEST_VERSIONS = {
    0: (3, 13),
    3: (0, 13),
    9: (1, 10),
    10: (0, 6),
    17: (0, 1),
    18: (0, 5),
    22: (0, 5),
    24: (0, 3),
    25: (0, 4),
    26: (0, 5),
    28: (0, 6),
    36: (0, 2),
}
HOST = "127.0.0.1"


class FakeBroker(BrokerState):
    """A node with its sockets."""

    def __init__(self, cluster: ScriptedCluster, node_id: int) -> None:
        self._reservation = _bound_socket(0)
        self.port: int = self._reservation.getsockname()[1]
        super().__init__(node_id, dict(NEWEST_VERSIONS), (HOST, self.port))
        self.cluster = cluster
        self.receive_buffer_bytes: int | None = None
        self.is_reading = True
        self.accepted_count = 0
        self.connections: dict[Connection, asyncio.Task[None]] = {}
        self._listener: socket.socket | None = None
        self._opening: dict[asyncio.Task[None], socket.socket] = {}
        self._sockets = weakref.WeakSet([self._reservation])

    async def start(self) -> None:
        assert self._listener is None
        listener = _bound_socket(self.port)
        if self.receive_buffer_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
        listener.setblocking(False)
        listener.listen(256)
        self._sockets.add(listener)
        asyncio.get_running_loop().add_reader(listener, self._take_waiting)
        self._listener = listener
        self.up = True

    async def stop(self, *, reset: bool = False) -> None:
        """Stop listening and close every connection. Does nothing if the broker is down."""
        self.up = False
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        await self.drop_connections(reset=reset)

    async def drop_connections(self, *, reset: bool = False) -> None:
        for accepted in self._opening.values():
            with contextlib.suppress(OSError):  # the client has left
                accepted.shutdown(socket.SHUT_RDWR)  # the client may never end its TLS handshake
        await asyncio.gather(*self._opening)
        tasks = list(self.connections.values())
        for connection in list(self.connections):
            connection.close(reset=reset)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # lets the transports close their sockets

    async def release(self) -> None:
        await self.stop()
        self._reservation.close()

    def close_sockets_after_fork(self) -> None:
        # The sockets are closed directly, because the child shares the event loop's epoll with the parent.
        for each in list(self._sockets):
            each.close()

    async def stall_reading(self) -> None:
        self.is_reading = False
        for connection in self.connections:
            connection.pause()

    async def resume_reading(self) -> None:
        self.is_reading = True
        for connection in self.connections:
            connection.resume()

    def _take_waiting(self) -> None:
        # Not asyncio's server: if it is closed between accept and the next step of the loop, it leaks the
        # accepted socket. This happens often with brokers that are killed.
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            accepted, _ = self._listener.accept()
            self._sockets.add(accepted)
            task = asyncio.get_running_loop().create_task(self._open(accepted))
            self._opening[task] = accepted
            task.add_done_callback(self._opening.pop)

    async def _open(self, accepted: socket.socket) -> None:
        try:
            if self.cluster.tls is None:
                reader, writer = await asyncio.open_connection(sock=accepted)
            else:
                reader, writer = await self._open_tls(accepted, self.cluster.tls)
        except OSError:  # also SSLError: the client refuses the certificate, does not speak TLS or leaves
            return
        if not self.up:
            writer.transport.abort()
            return
        number = next(self.cluster.connection_numbers)
        connection = Connection(self.cluster, self, number, reader, writer)
        self.accepted_count += 1
        if not self.is_reading:
            connection.pause()
        task = asyncio.get_running_loop().create_task(connection.serve())
        self.connections[connection] = task
        task.add_done_callback(lambda done: self._ended(connection, done))
        self.cluster.notify()

    async def _open_tls(
        self, accepted: socket.socket, context: ssl.SSLContext
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, protocol = await loop.connect_accepted_socket(
            lambda: asyncio.StreamReaderProtocol(reader), accepted, ssl=context
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _ended(self, connection: Connection, task: asyncio.Task[None]) -> None:
        self.connections.pop(connection, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.cluster.note_internal_error(error)
        self.cluster.notify()


def _bound_socket(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    return bound
