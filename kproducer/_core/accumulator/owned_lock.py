"""OwnedLock: the lock of a partition's queue, of the registry of queues and of the buffer pool.

And what it is based on, a re-entrant lock that knows its owner.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kproducer.errors import IllegalStateError, KafkaError, Outcome

#: A thread that waits longer for a lock checks whether it holds another one itself.
DEADLOCK_CHECK_AFTER_S: Final = 0.1


class ReentrantLock(RLock):  # type: ignore[misc]  # CPython and PyPy let it be subclassed
    """The interpreter's re-entrant lock, which can tell whether the calling thread holds it."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _is_owned(self) -> bool: ...

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread is the owner."""
        return self._is_owned()


class OwnedLock(ReentrantLock):  # type: ignore[misc]
    """A lock that knows its owner. A thread that would deadlock gets an error.

    A thread comes here while it is the owner only if Python interrupted it inside the lock: to run a signal
    handler, or a finalizer that sends, for instance through a logging handler. Waiting would never end.

    Based on the interpreter's re-entrant lock, which sets its owner and takes the lock in one step: no signal
    handler can run in between. Compiled code calls ``acquire()`` and ``release()``, which do not check.

    Args:
        holds_another: whether the calling thread holds another lock of the same accumulator. Interrupted code
            that waits here while it holds one could deadlock with a thread that wants that one.
    """

    __slots__ = ("_holds_another",)

    def __init__(self, holds_another: Callable[[], bool] | None = None) -> None:
        self._holds_another = holds_another

    def take(self) -> bool:
        """Take the lock, as ``with`` does; ``release`` returns it.

        Where it is taken for each record: when ``with`` calls a method in Python, that alone takes as long as
        the method.

        Raises:
            IllegalStateError: waiting would deadlock. Its outcome is ``NOT_SENT``.
        """
        if self._is_owned():
            raise _refusal()
        try:
            if not self.acquire(False):
                self._wait()
        except BaseException:
            # A signal handler, such as that of Ctrl-C, may have raised after the lock was taken: then it has
            # to be released.
            if self._is_owned():
                self.release()
            raise
        return True

    __enter__ = take  # type: ignore[assignment]

    def _wait(self) -> None:
        if not self.acquire(True, DEADLOCK_CHECK_AFTER_S):
            if self._holds_another is not None and self._holds_another():
                raise _refusal()
            self.acquire()


def _refusal() -> KafkaError:
    return IllegalStateError(
        "A signal handler or a finalizer called send() after it had interrupted the producer on the same"
        " thread, which holds a partition's lock: waiting for a lock would deadlock. Set a flag there, and"
        " send later"
    ).with_outcome(Outcome.NOT_SENT)
