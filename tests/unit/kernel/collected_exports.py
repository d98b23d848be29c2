"""The collector finds buffers before the compiled objects that hold their bytes, in one cycle with them.

It clears memoryviews and arrays like all else that it finds, held or not; giving back what was cleared is a
crash. A crash is the end of the process, so ``test_native_robustness.py`` runs this as one of its own.
"""

from __future__ import annotations

import gc
import socket
from array import array
from collections.abc import Callable

from kproducer._core.kernel.native._batch import BatchWriter
from kproducer._core.network._native_channel_io import NativeSocket, SocketIo

SIZE = 8192


class Cycle:
    """Keeps itself and its parts until the collector comes."""

    def __init__(self, buffer: object) -> None:
        self.itself = self
        self.buffer = buffer
        self.holder: object = None


def queued(buffer: memoryview, near: socket.socket, far: socket.socket) -> NativeSocket:
    """A socket that was given a buffer, and has not written it."""
    native_socket = SocketIo(near.fileno(), bytearray(SIZE), SIZE).register(far.fileno(), None)
    native_socket.queue([buffer])
    return native_socket


def main() -> None:
    near, far = socket.socketpair()
    holders: list[Callable[[object], object]] = [
        lambda buffer: SocketIo(near.fileno(), buffer, SIZE),  # type: ignore[arg-type]
        lambda buffer: queued(buffer, near, far),  # type: ignore[arg-type]
        lambda buffer: BatchWriter(buffer),  # type: ignore[arg-type]
    ]
    buffers: list[Callable[[], object]] = [
        lambda: bytearray(SIZE),
        lambda: memoryview(bytearray(SIZE)),
        lambda: memoryview(bytearray(SIZE))[10:-10],
        lambda: array("b", bytes(SIZE)),
        lambda: memoryview(array("b", bytes(SIZE))),
    ]
    gc.disable()
    held = 0
    for hold in holders:
        for make in buffers:
            cycle = Cycle(make())
            try:
                cycle.holder = hold(cycle.buffer)
                held += 1
            except TypeError:
                pass
            del cycle
            assert gc.collect() > 0
    near.close()
    far.close()
    print(f"{held} collected")


if __name__ == "__main__":
    main()
