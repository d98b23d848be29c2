"""Errors without the variables of the functions that handle secrets.

Tools that report errors (Sentry, rich, pytest) show the variables of every function in a traceback.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from kproducer.errors import KafkaError

_E = TypeVar("_E", bound=BaseException)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_frames(error: _E) -> _E:
    """The error without its traceback and its causes.

    Raise the result with ``from None`` in a function that has no secret, or has deleted it.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def hides_arguments(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """For functions that take secrets, such as settings.

    The traceback of a ``KafkaError`` begins here, without a cause and without the arguments. Other errors are
    bugs, and keep their traceback.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except KafkaError as error:
            del args, kwargs
            raise without_frames(error) from None

    return call
