"""kproducer's usual method of sending with portable I/O, which applications cannot choose."""

from __future__ import annotations

from benchmarks.kproducer_sessions import KeptFutureSession
from benchmarks.sessions import Target
from kproducer._core.network import selector
from kproducer._core.network.channel_io import PortableChannelIo


class PortableIoSession(KeptFutureSession):
    """It makes the system calls that systems without epoll make, but on this system."""

    def __init__(self, target: Target) -> None:
        selector.PlaintextChannelIo = PortableChannelIo
        super().__init__(target)
