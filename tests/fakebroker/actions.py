"""What an interceptor may tell the fake broker to do with a request.

A handler is ``handler(context) -> Action | None``; ``None`` leaves the request to the next handler
and in the end to the broker itself. Actions are data: ``connection.py`` carries them out, in order,
one request of a connection at a time, as Apache Kafka does: whoever holds an answer back holds back
every later answer of that connection too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from tests.fakebroker.connection import RequestContext


class Gate:
    """A door that answers wait at until the test opens it. Any thread may open it, once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open = asyncio.Event()
        self._waiting = threading.Event()

    def open(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._open.set)

    def wait_until_reached(self, timeout_s: float = 60.0) -> None:
        """Block the test until something waits at (or went through) the gate."""
        assert self._waiting.wait(timeout_s), f"nothing reached the gate within {timeout_s} s"

    async def passage(self) -> None:
        """I/O thread: wait here."""
        self._waiting.set()
        await self._open.wait()


@attrs.frozen
class Reply:
    """Answer with a message.

    Attributes:
        message: the generated response class; ``None`` sends nothing (what ``acks=0`` gets).
        correlation_id: a wrong one, on purpose.
        api_version: encode the body as of another version.
        fragment_bytes: write the frame in pieces of so many bytes, letting the loop run in between.
    """

    message: Any
    correlation_id: int | None = None
    api_version: int | None = None
    fragment_bytes: int | None = None


@attrs.frozen
class Bytes:
    """Write these bytes as they are: no size prefix, no header."""

    data: bytes


@attrs.frozen
class Stall:
    """Never answer this request nor any later one of the connection, which stays open."""


@attrs.frozen
class Silence:
    """Do not answer this request; go on with the next."""


@attrs.frozen
class Close:
    """Close the connection. ``reset`` sends RST instead of FIN."""

    reset: bool = False


@attrs.frozen
class Hold:
    """Wait at ``gate``, then do ``then``: an action, or a handler that is called at that time."""

    gate: Gate
    then: Action | Handler


@attrs.frozen
class Steps:
    """Several actions, one after the other."""

    actions: tuple[Action, ...]


def steps(*actions: Action) -> Steps:
    return Steps(actions)


Action = Reply | Bytes | Stall | Silence | Close | Hold | Steps
Handler = Callable[["RequestContext"], "Action | None"]


@attrs.define(eq=False)
class Control:
    """A registered handler.

    Attributes:
        api_key: which API it sees; ``None`` for all.
        broker_id: which broker's requests it sees; ``None`` for all.
        remaining: how many more requests it may take; ``None`` for no limit.
        taken: how many it took so far.
    """

    api_key: int | None
    handler: Handler
    broker_id: int | None
    remaining: int | None
    taken: int = 0

    def remove(self) -> None:
        """From now on take no request."""
        self.remaining = 0

    def applies_to(self, api_key: int, broker_id: int) -> bool:
        return self.remaining != 0 and self.api_key in (None, api_key) and self.broker_id in (None, broker_id)

    def note_taken(self) -> None:
        self.taken += 1
        if self.remaining is not None:
            self.remaining -= 1
