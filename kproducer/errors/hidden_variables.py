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
    """The error without its traceback and its context; of its causes, only errors of kproducer stay.

    Their texts show no secrets, while errors of libraries may have one in an attribute. Raise the result
    outside of the ``except`` block, in a function that has no secret or has deleted it.
    """
    cause = error.__cause__
    error.__cause__ = without_frames(cause) if isinstance(cause, KafkaError) else None
    error.__context__ = None
    # Setting a cause also hides the context, which may become the error that the caller handles.
    error.__suppress_context__ = error.__cause__ is not None
    return error.with_traceback(None)


def hides_arguments(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """For functions that take secrets, such as settings.

    The traceback of a ``KafkaError`` ends in the wrapper, which has deleted the arguments. Other errors are
    bugs, and keep their traceback.
    """
    return hides_arguments_in(KafkaError)(function)


def hides_arguments_in(*kinds: type[Exception]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Like ``hides_arguments``, for errors of other classes.

    Args:
        kinds: the classes with which the function refuses its arguments.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                return function(*args, **kwargs)
            except kinds as error:
                failure = without_frames(error)
            del args, kwargs
            try:
                # Raised outside of the block above, so that its context is the error that the caller handles,
                # if any.
                raise failure
            finally:
                del failure  # breaks the cycle: error, traceback, this frame

        return call

    return decorate
