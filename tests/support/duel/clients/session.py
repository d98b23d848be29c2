"""What the worker of a duel needs of a client."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.support.chaos.idempotence_ledger import Result
from tests.support.chaos.transaction_ledger import State
from tests.support.duel.ledger import Told


class ProducerOverError(Exception):
    """The client says that the producer can no longer be used, or that it could not be initialized."""


class Session(ABC):
    """One producer. For one thread, except ``told``, to which any thread may append.

    Attributes:
        told: what the client has said about records.
        has_refused: set by ``send``: the client did not accept the record, and ``told`` says so.
    """

    def __init__(self) -> None:
        self.told: deque[Told] = deque()
        self.has_refused = False

    @abstractmethod
    def send(self, topic: str, partition: int, value: bytes, number: int) -> None:
        """Send a record. Raises ProducerOverError."""

    def poll(self, seconds: float) -> None:
        """Run callbacks for up to this time."""
        time.sleep(seconds)

    def check(self) -> None:  # noqa: B027, most clients report this otherwise
        """Raises ProducerOverError if the client has said so."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction. Raises ProducerOverError."""

    def are_delivered(self) -> bool:
        """Before a commit, of clients whose commits do not fail if a record did: whether all were written."""
        return True

    @abstractmethod
    def commit(self) -> State:
        """Commit it, or abort it if that is what the client's errors require.

        Returns:
            COMMITTED or ABORTED.

        Raises:
            ProducerOverError: the client does not say whether it was committed.
        """

    @abstractmethod
    def abort(self) -> None:
        """Raises ProducerOverError."""

    @abstractmethod
    def close(self) -> None:
        """Wait for every record, and close the producer."""

    def acknowledge(self, number: int, partition: int, offset: int) -> None:
        self.told.append(Told(number, Result.ACKNOWLEDGED, partition, offset))

    def fail(self, number: int, error: object, is_definite: bool) -> None:
        result = Result.REJECTED if is_definite else Result.UNKNOWN
        self.told.append(Told(number, result, error=f"{type(error).__name__}: {error}"))

    def refuse(self, number: int, error: object) -> None:
        self.fail(number, error, is_definite=True)
        self.has_refused = True


class DuelClient(ABC):
    """Creates producers of one client with its defaults.

    Args:
        delivery_seconds: the timeout of a record; of a request, half of it. ``None``: the client's defaults.
    """

    def __init__(self, delivery_seconds: float | None) -> None:
        self.delivery_ms = None if delivery_seconds is None else int(delivery_seconds * 1000)

    @property
    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def open(self, servers: str, transactional_id: str | None) -> Session:
        """A producer, initialized. Raises ProducerOverError."""


def until_done(call: Callable[[], Any], must_repeat: Callable[[Exception], bool]) -> None:
    """Repeat a call while its error says so."""
    while True:
        try:
            call()
            return
        except Exception as error:
            if not must_repeat(error):
                raise
