"""A proxy in front of Apache Kafka that passes each request and each response to a test before forwarding it.

Clients that bootstrap through the proxy stay with it: it replaces broker addresses in responses by its own.
The test may delay a frame (by not returning), drop it and close the connection, kill the process that waits
for it, replace a response, or answer a request in place of the broker. Uses threads, loopback, and one
listening socket for each broker.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

from tests.support.loopback_service import LoopbackService, read

_HOST = b"127.0.0.1"
_SIZE = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">hhi")
_API_VERSIONS = 18
_NO_CLIENT_ID = b"\xff\xff"


class Frame(NamedTuple):
    """One request or response.

    Attributes:
        api_key, api_version: of the request; a response has those of its request.
        is_answer: true for a response, false for a request.
        data: header and body, without the size prefix.
        broker_port: where a request is sent, and where a response is from.
    """

    api_key: int
    api_version: int
    is_answer: bool
    data: bytes
    broker_port: int = 0


class _Asked(NamedTuple):
    """A request sent to the broker. ``forged``: what the client gets instead of the broker's response."""

    api_key: int
    api_version: int
    forged: bytes | None


class KafkaProxy(LoopbackService):
    """Runs from construction to ``close``. A callback that still delays a frame must return before.

    Args:
        bootstrap_servers: ``127.0.0.1:port`` of every broker, comma-separated.
        passes: called with each frame, on the connection's thread; ``False`` closes the connection instead.
            Bytes are the response that the client gets: in place of a response, or for a request, which the
            broker then never sees, after the responses to earlier requests.

        Attributes:
        bootstrap_servers: for the clients that shall use the proxy.
    """

    def __init__(self, bootstrap_servers: str, passes: Callable[[Frame], bool | bytes]) -> None:
        self._passes = passes
        super().__init__()
        self._addresses: dict[bytes, bytes] = {}
        listeners = []
        for server in bootstrap_servers.split(","):
            port = int(server.rpartition(":")[2])
            listener = self.listen()
            own_port = listener.getsockname()[1]
            self._addresses[_HOST + _SIZE.pack(port)] = _HOST + _SIZE.pack(own_port)
            listeners.append((listener, port, own_port))
        self.bootstrap_servers = ",".join(f"127.0.0.1:{own_port}" for _, _, own_port in listeners)
        for listener, port, _ in listeners:
            self.start(self._accept, listener, port)

    def _accept(self, listener: socket.socket, port: int) -> None:
        while True:
            try:
                client = self.keep(listener.accept()[0])
            except OSError:
                return
            try:
                broker = self.keep(socket.create_connection(("127.0.0.1", port), 5))
                broker.settimeout(None)
            except OSError:
                self.drop(client)
                continue
            for each in (client, broker):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            asked: dict[int, _Asked] = {}
            self.start(self._pass_requests, client, broker, port, asked)
            self.start(self._pass_answers, client, broker, port, asked)
            if self._is_closed:
                # These two are not served yet, so no other thread closes them.
                self.drop(client, broker)
                return

    def _pass_requests(
        self, client: socket.socket, broker: socket.socket, port: int, asked: dict[int, _Asked]
    ) -> None:
        is_cut = False
        with contextlib.suppress(OSError, EOFError):
            while not is_cut:
                frame = _read_frame(client)
                api_key, version, correlation_id = _REQUEST_HEADER.unpack_from(frame)
                verdict = self._passes(Frame(api_key, version, False, frame, port))
                forged = verdict if isinstance(verdict, bytes) else None
                asked[correlation_id] = _Asked(api_key, version, forged)
                if forged is not None:
                    # Clients expect responses in the order of their requests: the broker gets a harmless
                    # request, and its response is replaced.
                    frame = _REQUEST_HEADER.pack(_API_VERSIONS, 0, correlation_id) + _NO_CLIENT_ID
                is_cut = not verdict
                if not is_cut:
                    broker.sendall(_SIZE.pack(len(frame)) + frame)
        self.drop(client)
        if is_cut or not asked:
            # Otherwise requests that the client sent before it left reach the broker, which ends with its
            # answer.
            self.drop(broker)

    def _pass_answers(
        self, client: socket.socket, broker: socket.socket, port: int, asked: dict[int, _Asked]
    ) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                frame = _read_frame(broker)
                (correlation_id,) = _SIZE.unpack_from(frame)
                request = asked.pop(correlation_id)
                if request.forged is not None:
                    frame = request.forged
                else:
                    verdict = self._passes(Frame(request.api_key, request.api_version, True, frame, port))
                    if not verdict:
                        break
                    if isinstance(verdict, bytes):
                        frame = verdict
                for address, own in self._addresses.items():
                    frame = frame.replace(address, own)
                client.sendall(_SIZE.pack(len(frame)) + frame)
        self.drop(client, broker)


def _read_frame(source: socket.socket) -> bytes:
    return read(source, _SIZE.unpack(read(source, _SIZE.size))[0])
