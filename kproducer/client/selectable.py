"""What the network client uses of a selector, so that tests can bring one without sockets.

Source: Kafka interface ``Selectable``; the real one is ``kproducer.network.selector.Selector``.
"""

from __future__ import annotations

from typing import Protocol

from kproducer.errors import KafkaError
from kproducer.network.network_receive import NetworkReceive
from kproducer.network.network_send import NetworkSend
from kproducer.network.transport_layer import SocketAddress


class Selectable(Protocol):
    """See ``kproducer.network.selector.Selector`` for what each member means."""

    connected: list[str]
    disconnected: dict[str, KafkaError]
    completed_sends: list[NetworkSend]
    completed_receives: list[NetworkReceive]

    def connect(self, connection_id: str, address: SocketAddress, family: int = ...) -> None: ...
    def send(self, send: NetworkSend) -> None: ...
    def poll(self, timeout_ms: int) -> None: ...
    def wakeup(self) -> None: ...
    def close(self, connection_id: str | None = None) -> None: ...
    def is_channel_ready(self, connection_id: str) -> bool: ...
    def release_after_fork(self) -> None: ...
