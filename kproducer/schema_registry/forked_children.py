"""Gives objects with locks or sockets new ones in a forked child. Source: ``os.register_at_fork``."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class ForkAware(Protocol):
    """An object that has locks or sockets."""

    def after_fork_in_child(self) -> None:
        """This process is a fork: let go of what belongs to the parent. Must not lock."""


_live: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def register(each: ForkAware) -> None:
    """Call ``after_fork_in_child`` in each forked child, for as long as the object lives."""
    _live.add(each)


def _after_fork_in_child() -> None:
    for each in list(_live):
        each.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
