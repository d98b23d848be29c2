"""A selector on a manual clock, closed after the test; every test ends with the descriptors it began with.

Each test runs twice, with PortableChannelIo and, where the native kernel is in use, with NativeChannelIo.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import kproducer._core.network.selector as selector_module
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.network.channel_io import PlaintextChannelIo, PortableChannelIo
from kproducer._core.network.selector import Selector
from tests.support.loopback import Listener, open_descriptors, poll_until
from tests.support.manual_clock import ManualClock

MAX_IDLE_MS = 540_000


def connect(selector: Selector, listener: Listener, connection_id: str = "0") -> socket.socket:
    selector.connect(connection_id, listener.address, listener.family)
    peer = listener.accept()
    poll_until(selector, lambda: connection_id in selector.connected)
    return peer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["portable", "native"])
def make_selector(
    clock: ManualClock, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Selector]]:
    made: list[Selector] = []
    if request.param == "native" and PlaintextChannelIo is PortableChannelIo:
        pytest.skip("the native kernel is not in use")
    if request.param == "portable":
        monkeypatch.setattr(selector_module, "PlaintextChannelIo", PortableChannelIo)

    def make(*, arguments: Mapping[str, Any] | None = None, **settings: Any) -> Selector:
        defaults = {
            "connections_max_idle_ms": MAX_IDLE_MS,
            "send_buffer_bytes": -1,
            "receive_buffer_bytes": -1,
        }
        config = ProducerConfig(bootstrap_servers="host:1", **{**defaults, **settings})
        made.append(Selector(config, clock, **(arguments or {})))
        return made[-1]

    gc.collect()
    before = open_descriptors()
    yield make
    for selector in made:
        selector.close()
    assert open_descriptors() <= before, "file descriptors were leaked"


@pytest.fixture
def selector(make_selector: Callable[..., Selector]) -> Selector:
    return make_selector()
