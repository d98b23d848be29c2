"""What a test's handler gets of a request, and the actions that it can tell the fake broker to take.

A handler is ``handler(context) -> Action | None``; ``None`` passes the request on to the next handler
and finally to the broker itself. Actions are data: ``connection.py`` executes them in order, one
request of a connection at a time, as Apache Kafka does. So a delayed response also delays all later
responses of the connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import attrs

from kproducer.testing.fakebroker.cluster_state import ClusterState
from kproducer.testing.fakebroker.model import BrokerState
from kproducer.testing.fakebroker.request_log import LoggedRequest


class Gate:
    """Delays responses until the test opens it. Any thread may open it, once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open = asyncio.Event()
        self._waiting = threading.Event()

    def open(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._open.set)

    def wait_until_reached(self, timeout_s: float = 60.0) -> None:
        """Block the test until a request waits at the gate or has passed it."""
        assert self._waiting.wait(timeout_s), f"no request reached the gate within {timeout_s} s"

    async def passage(self) -> None:
        """Wait for the gate to open. For the I/O thread."""
        self._waiting.set()
        await self._open.wait()


@attrs.frozen
class Reply:
    """Answer with a message.

    Attributes:
        message: instance of the generated response class; ``None`` sends no response, as for ``acks=0``.
        correlation_id: a wrong correlation id to send.
        fragment_bytes: write the frame in pieces of this size, with other tasks running in between.
    """

    message: Any
    correlation_id: int | None = None
    fragment_bytes: int | None = None


@attrs.frozen
class Bytes:
    """Write these bytes unchanged: no size prefix, no header."""

    data: bytes


@attrs.frozen
class Stall:
    """Never answer this or any later request of the connection, which stays open."""


@attrs.frozen
class Silence:
    """Do not answer this request; continue with the next."""


@attrs.frozen
class Close:
    """Close the connection. ``reset`` sends RST instead of FIN."""

    reset: bool = False


@attrs.frozen
class Hold:
    """Wait at ``gate``, then take ``then``: an action, or a handler that is called at that time."""

    gate: Gate
    then: Action | Handler


@attrs.frozen
class Delay:
    """Wait for ``seconds``, then take ``then``."""

    seconds: float
    then: Action


@attrs.frozen
class Steps:
    """Several actions, one after the other."""

    actions: tuple[Action, ...]


def steps(*actions: Action) -> Steps:
    return Steps(actions)


Action = Reply | Bytes | Stall | Silence | Close | Hold | Delay | Steps


@attrs.define(eq=False)
class RequestContext:
    """A request in progress: what handlers get, and what they can apply.

    Attributes:
        process: the broker's own handler of the API; returns the response.
        response_version: the version of the response body.
        must_close: the broker itself decided to close the connection instead of answering.
        must_close_afterwards: it answers first.
    """

    cluster: ClusterState
    broker: BrokerState
    logged: LoggedRequest
    process: Callable[..., Any]
    response_version: int
    must_close: bool = False
    must_close_afterwards: bool = False

    @property
    def message(self) -> Any:
        return self.logged.message

    @property
    def api_key(self) -> int:
        return self.logged.api_key

    @property
    def api_version(self) -> int:
        return self.logged.api_version

    def apply(self, **options: Any) -> Any:
        """Let the broker process this request; the response is returned, not sent."""
        response = self.process(self, **options)
        if hasattr(response, "throttle_time_ms"):  # those of SASL are never throttled
            response.throttle_time_ms = self.broker.throttle_time_ms
        return response

    def answer(self, **options: Any) -> Action:
        """Apply the request and return the action that sends the correct response."""
        message = self.apply(**options)
        if self.must_close_afterwards:
            return Steps((Reply(message), Close()))
        return Close() if self.must_close else Reply(message)


Handler = Callable[[RequestContext], Action | None]


@attrs.define(eq=False)
class Control:
    """A registered handler, or a delay.

    Attributes:
        api_key: the API whose requests it gets; ``None`` for all.
        handler: decides about a request.
        delay_s: instead of a handler's decision, add these seconds to the delay of the response.
        broker_id: the broker whose requests it gets; ``None`` for all.
        remaining: how many more requests it may handle; ``None`` for no limit.
        taken: how many requests it has handled.
    """

    api_key: int | None
    broker_id: int | None
    remaining: int | None
    handler: Handler | None = None
    delay_s: float = 0.0
    taken: int = 0

    def remove(self) -> None:
        """Handle no further requests."""
        self.remaining = 0

    def applies_to(self, api_key: int, broker_id: int) -> bool:
        return self.remaining != 0 and self.api_key in (None, api_key) and self.broker_id in (None, broker_id)

    def note_taken(self) -> None:
        self.taken += 1
        if self.remaining is not None:
            self.remaining -= 1
