"""A selector on a manual clock, closed after the test; every test ends with the descriptors it began with.

Each test runs twice, with the bytes moved call by call and natively; the latter where the kernel was built.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from kproducer.network.selector import Selector
from tests.support.loopback import open_descriptors
from tests.support.manual_clock import ManualClock

MAX_IDLE_MS = 540_000
MAX_FRAME_BYTES = 100 * 1024 * 1024


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


try:
    from kproducer.kernel.native._socket_io import SocketIo
except ImportError:
    SocketIo = None  # type: ignore[assignment,misc]


@pytest.fixture(params=["call by call", "native"])
def make_selector(clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[Callable[..., Selector]]:
    made: list[Selector] = []
    if request.param == "native" and SocketIo is None:
        pytest.skip("the native kernel is not built")

    def make(**settings: object) -> Selector:
        arguments: dict[str, object] = {
            "max_idle_ms": MAX_IDLE_MS,
            "send_buffer_bytes": -1,
            "receive_buffer_bytes": -1,
            "max_frame_bytes": MAX_FRAME_BYTES,
            "clock": clock,
            "socket_io": SocketIo if request.param == "native" else None,
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
