"""The parts of ``threading`` that block, on a Scheduler instead of the operating system.

Outside of a task, as in an action of a timer, they work as long as nobody has to wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from tests.simulation.scheduler import Scheduler, SimulationError, Task

#: ``threading.get_ident`` of code that runs on no task.
_NO_TASK = 0


def _wait(
    scheduler: Scheduler,
    task: Task,
    waiting: deque[Task],
    is_over: Callable[[], bool],
    what: str,
    timeout_s: float,
) -> bool:
    """Suspend the current task until it is woken and ``is_over()``; ``False``: the timeout.

    Args:
        task: the current one.
        waiting: from where it is woken.
        is_over: there may be nothing to wait for.
        what: for people.
        timeout_s: negative: none.
    """
    deadline_ns = None if timeout_s < 0 else scheduler.now_ns + int(timeout_s * 1e9)
    while not is_over():
        left_ns = None if deadline_ns is None else deadline_ns - scheduler.now_ns
        if left_ns is not None and left_ns <= 0:
            return False
        waiting.append(task)
        try:
            scheduler.block(what, left_ns)
        finally:
            if task in waiting:
                waiting.remove(task)
    return True


class Lock:
    """``threading.Lock``."""

    scheduler: Scheduler

    __slots__ = ("_is_held", "_waiting")

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: deque[Task] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = self.scheduler
        scheduler.pause()
        if not self._is_held:
            self._is_held = True
            return True
        if not blocking or timeout == 0:
            return False
        task = scheduler.current
        if task is None:
            raise SimulationError("a lock is held, and nobody can wait here")
        if not _wait(scheduler, task, self._waiting, lambda: not self._is_held, "a lock", timeout):
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False
        if self._waiting:
            self.scheduler.wake(self._waiting.popleft())
        self.scheduler.pause()

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


class RLock:
    """``threading.RLock``; also the base of ``OwnedLock``, which has an ``__init__`` of its own."""

    scheduler: Scheduler
    _owner: Task | Scheduler | None
    _depth: int
    _waiting: deque[Task]

    def __new__(cls, *_: object) -> Any:
        made = object.__new__(cls)
        made._owner = None
        made._depth = 0
        made._waiting = deque()
        return made

    def _me(self) -> Task | Scheduler:
        return self.scheduler.current or self.scheduler

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = self.scheduler
        me = self._me()
        if self._owner is me:
            self._depth += 1
            return True
        scheduler.pause()
        if self._owner is not None:
            if not blocking or timeout == 0:
                return False
            if not isinstance(me, Task):
                raise SimulationError(f"{self._owner} holds a lock, and nobody can wait here")
            is_free = lambda: self._owner is None  # noqa: E731
            if not _wait(scheduler, me, self._waiting, is_free, "a re-entrant lock", timeout):
                return False
        self._owner = me
        self._depth = 1
        return True

    def release(self) -> None:
        if self._owner is not self._me():
            raise RuntimeError("cannot release un-acquired lock")
        self._depth -= 1
        if not self._depth:
            self._owner = None
            if self._waiting:
                self.scheduler.wake(self._waiting.popleft())
            self.scheduler.pause()

    def _is_owned(self) -> bool:
        return self._owner is self._me()

    # For ``threading.Condition``.
    def _release_save(self) -> int:
        depth, self._depth = self._depth, 1
        self.release()
        return depth

    def _acquire_restore(self, depth: int) -> None:
        self.acquire()
        self._depth = depth

    def __enter__(self) -> Any:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Event:
    """``threading.Event``."""

    scheduler: Scheduler

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: deque[Task] = deque()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        while self._waiting:
            self.scheduler.wake(self._waiting.popleft())
        self.scheduler.pause()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = self.scheduler
        scheduler.pause()
        if self._is_set:
            return True
        task = scheduler.current
        if task is None:
            raise SimulationError("nobody can wait for an event here")
        limit_s = -1 if timeout is None else max(timeout, 0)
        return _wait(scheduler, task, self._waiting, lambda: self._is_set, "an event", limit_s)


class SimpleQueue:
    """``queue.SimpleQueue``, as far as the producer uses it."""

    scheduler: Scheduler

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: deque[Task] = deque()

    @classmethod
    def __class_getitem__(cls, _: object) -> type[SimpleQueue]:
        return cls

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._waiting:
            self.scheduler.wake(self._waiting.popleft())
        self.scheduler.pause()

    def get(self) -> Any:
        while not self._items:
            task = self.scheduler.current
            if task is None:
                raise SimulationError("nobody can wait for a queue here")
            self._waiting.append(task)
            self.scheduler.block("a queue")
        return self._items.popleft()


class Thread:
    """``threading.Thread``: a task."""

    scheduler: Scheduler

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Any = (),
        kwargs: Any = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self.name = name or "thread"
        self.daemon = bool(daemon)
        self._call = (target, args, kwargs or {})
        self._task: Task | None = None

    @property
    def ident(self) -> int | None:
        return None if self._task is None else self._task.number

    def start(self) -> None:
        self._task = self.scheduler.spawn(self.name, self.run)
        self._task.thread = self
        self.scheduler.pause()

    def run(self) -> None:
        target, args, kwargs = self._call
        if target is not None:
            target(*args, **kwargs)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.has_ended

    def join(self, timeout: float | None = None) -> None:
        task, scheduler = self._task, self.scheduler
        assert task is not None
        scheduler.join(task, None if timeout is None else int(max(timeout, 0) * 1e9))


class Local:
    """``threading.local``, also of classes derived from it.

    Args:
        defaults: values that every thread begins with.
    """

    scheduler: Scheduler

    def __init__(self, **defaults: Any) -> None:
        object.__setattr__(self, "_defaults", defaults)
        object.__setattr__(self, "_outside", dict(defaults))

    def _values(self) -> dict[str, Any]:
        task = self.scheduler.current
        if task is None:
            outside: dict[str, Any] = self._outside
            return outside
        return task.locals.setdefault(id(self), dict(self._defaults))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values()[name] = value


def get_ident(scheduler: Scheduler) -> int:
    """``threading.get_ident``."""
    return _NO_TASK if scheduler.current is None else scheduler.current.number
