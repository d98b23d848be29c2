"""Loopback sockets for tests of the network layer: a listener, its accepted peers, hand-written frames.

Everything runs on the test's own thread: the kernel completes loopback connects and buffers small writes, so
a test alternates between the two ends and needs no server thread.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterator

from kproducer._core.network.selector import Selector

HOST = "127.0.0.1"

#: Limit of every wait; only a failing test reaches it.
PATIENCE_S = 60.0


class Listener:
    """A listening socket and the connections accepted from it. Use as a context manager."""

    def __init__(self, family: int = socket.AF_INET, receive_buffer_bytes: int = -1) -> None:
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer_bytes != -1:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._listener.bind(("::1" if family == socket.AF_INET6 else HOST, 0))
        self._listener.listen(512)
        self._listener.settimeout(PATIENCE_S)
        self.family = family
        self.address = self._listener.getsockname()
        self.peers: list[socket.socket] = []

    def accept(self) -> socket.socket:
        peer, _ = self._listener.accept()
        peer.settimeout(PATIENCE_S)
        self.peers.append(peer)
        return peer

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for peer in self.peers:
            peer.close()


def frame(payload: bytes) -> bytes:
    """A size-prefixed frame."""
    return struct.pack(">i", len(payload)) + payload


def receive_exactly(peer: socket.socket, count: int) -> bytes:
    """Read ``count`` bytes from a blocking socket."""
    data = bytearray()
    while len(data) < count:
        piece = peer.recv(min(count - len(data), 1 << 20))
        assert piece, f"the connection ended after {len(data)} of {count} bytes"
        data += piece
    return bytes(data)


def poll_until(selector: Selector, condition: Callable[[], bool], rounds: int = 5000) -> None:
    """Poll until the condition holds; each poll blocks until something happens."""
    for _ in range(rounds):
        selector.poll(int(PATIENCE_S * 1000))
        if condition():
            return
    raise AssertionError(f"not reached in {rounds} polls")


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses connections: it is bound, but nothing listens and no other process can bind it."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        yield int(sock.getsockname()[1])


def open_descriptors() -> set[tuple[str, str]]:
    """The open file descriptors of this process and what they refer to: sockets by their inode."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this directory listing
            found.add((descriptor, os.readlink(f"/proc/self/fd/{descriptor}")))
    return found
