"""The parts of ``threading`` that block, on a Scheduler instead of the operating system.

Outside of a task, as in an action of a timer, they work as long as nobody has to wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.simulation.scheduler import Scheduler, SimulationError, Task

#: ``threading.get_ident`` of code that runs on no task.
_NO_TASK = 0


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
        deadline_ns = None if timeout < 0 else scheduler.now_ns + int(timeout * 1e9)
        while self._is_held:
            left_ns = None if deadline_ns is None else deadline_ns - scheduler.now_ns
            if left_ns is not None and left_ns <= 0:
                return False
            self._waiting.append(task)
            try:
                scheduler.block("a lock", left_ns)
            finally:
                if task in self._waiting:
                    self._waiting.remove(task)
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
            if me is scheduler:
                raise SimulationError(f"{self._owner} holds a lock, and nobody can wait here")
            deadline_ns = None if timeout < 0 else scheduler.now_ns + int(timeout * 1e9)
            while self._owner is not None:
                left_ns = None if deadline_ns is None else deadline_ns - scheduler.now_ns
                if left_ns is not None and left_ns <= 0:
                    return False
                self._waiting.append(me)  # type: ignore[arg-type]
                try:
                    scheduler.block("a re-entrant lock", left_ns)
                finally:
                    if me in self._waiting:
                        self._waiting.remove(me)  # type: ignore[arg-type]
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
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            self.scheduler.wake(task)
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
        deadline_ns = None if timeout is None else scheduler.now_ns + int(max(timeout, 0) * 1e9)
        while not self._is_set:
            left_ns = None if deadline_ns is None else deadline_ns - scheduler.now_ns
            if left_ns is not None and left_ns <= 0:
                break
            self._waiting.append(task)
            scheduler.block("an event", left_ns)
            if task in self._waiting:
                self._waiting.remove(task)
        return self._is_set


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
        deadline_ns = None if timeout is None else scheduler.now_ns + int(max(timeout, 0) * 1e9)
        while not task.has_ended:
            me = scheduler.current
            assert me is not None
            left_ns = None if deadline_ns is None else deadline_ns - scheduler.now_ns
            if left_ns is not None and left_ns <= 0:
                return
            task.on_end.append(partial(scheduler.wake, me))
            scheduler.block(f"the end of {task.name}", left_ns)


class Local:
    """``threading.local``, also of classes derived from it.

    Args:
        defaults: values that every thread begins with.
    """

    scheduler: Scheduler

    def __init__(self, **defaults: Any) -> None:
        object.__setattr__(self, "_defaults", defaults)

    def _values(self) -> dict[str, Any]:
        task = self.scheduler.current
        holder = task.locals if task is not None else _outside
        return holder.setdefault(id(self), dict(self._defaults))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values()[name] = value


_outside: dict[int, dict[str, Any]] = {}


def get_ident(scheduler: Scheduler) -> int:
    """``threading.get_ident``."""
    return _NO_TASK if scheduler.current is None else scheduler.current.number
