"""A selector on a manual clock, closed after the test; every test ends with the descriptors it began with.

Each test runs twice, with PortableChannelIo and, where the native kernel is in use, with NativeChannelIo.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from kproducer.network.channel_io import PlaintextChannelIo, PortableChannelIo
from kproducer.network.selector import Selector
from tests.support.loopback import open_descriptors
from tests.support.manual_clock import ManualClock

MAX_IDLE_MS = 540_000
MAX_FRAME_BYTES = 100 * 1024 * 1024


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["portable", "native"])
def make_selector(clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[Callable[..., Selector]]:
    made: list[Selector] = []
    if request.param == "native" and PlaintextChannelIo is PortableChannelIo:
        pytest.skip("the native kernel is not in use")

    def make(**settings: object) -> Selector:
        arguments: dict[str, object] = {
            "max_idle_ms": MAX_IDLE_MS,
            "send_buffer_bytes": -1,
            "receive_buffer_bytes": -1,
            "max_frame_bytes": MAX_FRAME_BYTES,
            "clock": clock,
            "plaintext_io": PlaintextChannelIo if request.param == "native" else PortableChannelIo,
        }
        made.append(Selector(**{**arguments, **settings}))  # type: ignore[arg-type]
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
