"""GuardedLogger: a logger whose handlers and filters cannot interrupt the code that logs.

Handlers, filters and formatters belong to the application. What one of them raises on the I/O thread would
otherwise end the loop, or leave a batch or a connection half done. Source: ``logging.Handler.handleError``,
which covers what a handler raises while it writes, and nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback

from kproducer.runtime.io_thread import is_io_thread


class GuardedLogger:
    """Logs to ``logging.getLogger(name)``; its methods do not raise what that raises. Thread-safe.

    The exception is printed to stderr if ``logging.raiseExceptions`` is set, as ``logging`` does, and then
    ignored. On the I/O thread this includes ``SystemExit`` and ``KeyboardInterrupt``: Python delivers Ctrl-C
    to the main thread only, so a handler has raised them, and a handler cannot end a thread that all records
    depend on. On any other thread they are raised, because they may be meant for the application.

    Args:
        name: of the logger.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, text: str, *arguments: object) -> None:
        """See ``logging.Logger.debug``."""
        self._emit(logging.DEBUG, text, arguments)

    def info(self, text: str, *arguments: object) -> None:
        """See ``logging.Logger.info``."""
        self._emit(logging.INFO, text, arguments)

    def warning(self, text: str, *arguments: object) -> None:
        """See ``logging.Logger.warning``."""
        self._emit(logging.WARNING, text, arguments)

    def error(self, text: str, *arguments: object, exc_info: BaseException | None = None) -> None:
        """See ``logging.Logger.error``."""
        self._emit(logging.ERROR, text, arguments, exc_info)

    def exception(self, text: str, *arguments: object) -> None:
        """See ``logging.Logger.exception``."""
        self._emit(logging.ERROR, text, arguments, sys.exc_info()[1])

    def critical(self, text: str, *arguments: object, exc_info: BaseException | None = None) -> None:
        """See ``logging.Logger.critical``."""
        self._emit(logging.CRITICAL, text, arguments, exc_info)

    def log(self, level: int, text: str, *arguments: object) -> None:
        """See ``logging.Logger.log``."""
        self._emit(level, text, arguments)

    def _emit(
        self, level: int, text: str, arguments: tuple[object, ...], exc_info: BaseException | None = None
    ) -> None:
        try:
            # The record names the caller of our caller.
            self._logger.log(level, text, *arguments, exc_info=exc_info, stacklevel=3)
        except _ignored_here():
            # stderr may be closed, or an object of the application.
            with contextlib.suppress(_ignored_here()):
                if logging.raiseExceptions:
                    traceback.print_exc()


def _ignored_here() -> type[BaseException]:
    return BaseException if is_io_thread() else Exception
