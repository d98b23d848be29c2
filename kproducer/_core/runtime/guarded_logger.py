"""GuardedLogger: its handlers cannot interrupt the code that logs; LogRepeats suppresses repeated messages.

Handlers, filters and formatters belong to the application. An exception from one of them on the I/O thread
would otherwise end the loop, or leave a batch or a connection in an inconsistent state.
``logging.Handler.handleError`` covers only what a handler raises while it writes.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Hashable, Mapping
from functools import partialmethod

from kproducer._core.runtime.threads import is_io_thread
from kproducer.errors import BrokerError, KafkaError

#: Kinds of messages that LogRepeats remembers; the oldest is forgotten first.
_MOST_KINDS = 256


class GuardedLogger:
    """Logs to the logger of a module's package and ignores its exceptions. Thread-safe.

    Applications set levels per package: "kproducer.client", without ``_core``, for all of connections and
    metadata. Log records have ``component``, the name of the module, also when it is compiled and ``logging``
    does not see it.

    If ``logging.raiseExceptions`` is set, the exception is printed to stderr, as ``logging`` does.
    On the I/O thread, ``SystemExit`` and ``KeyboardInterrupt`` are ignored too: Python delivers Ctrl-C to the
    main thread only, so a handler raised them, and a handler must not end the thread that delivers records.
    On other threads they are raised, because they may be meant for the application.

    Args:
        name: ``__name__`` of the module.
    """

    __slots__ = ("_component", "_logger")

    def __init__(self, name: str) -> None:
        package, _, self._component = name.rpartition(".")
        self._logger = logging.getLogger(".".join(package.replace("._core", "").split(".")[:2]))

    def log(
        self,
        level: int,
        text: str,
        *arguments: object,
        exc_info: BaseException | bool | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """See ``logging.Logger.log``. The other methods have the same arguments, without the level.

        Args:
            level, text, arguments, exc_info: as there.
            extra: what the message is about, in the names of docs/guides/operations.md.
        """
        try:
            if not self._logger.isEnabledFor(level):
                return
            fields = {"component": self._component, **(extra or {})}
            # The log record names the caller of this method.
            self._logger.log(level, text, *arguments, exc_info=exc_info, extra=fields, stacklevel=2)
        except _ignored_here():
            # stderr may be closed, or replaced by the application.
            with contextlib.suppress(_ignored_here()):
                if logging.raiseExceptions:
                    traceback.print_exc()

    debug = partialmethod(log, logging.DEBUG)
    info = partialmethod(log, logging.INFO)
    warning = partialmethod(log, logging.WARNING)
    error = partialmethod(log, logging.ERROR)
    exception = partialmethod(log, logging.ERROR, exc_info=True)
    critical = partialmethod(log, logging.CRITICAL)


def error_fields(error: BaseException) -> dict[str, object]:
    """What a log record says of an error: its class, the broker's code, and the outcome of the records."""
    fields: dict[str, object] = {"error_type": type(error).__name__}
    if isinstance(error, BrokerError):
        fields["error_code"] = error.code
    if isinstance(error, KafkaError) and error.outcome is not None:
        fields["outcome"] = error.outcome.value
    return fields


def _ignored_here() -> type[BaseException]:
    return BaseException if is_io_thread() else Exception


class LogRepeats:
    """Suppresses messages of the same kind for a time, and counts them. Not thread-safe.

    A broker that is down for an hour causes thousands of equal errors, which would hide all others in a log.

    Args:
        quiet_ms: for how long a message suppresses the next ones of its kind.
    """

    __slots__ = ("_kinds", "_quiet_ms")

    def __init__(self, quiet_ms: int) -> None:
        self._quiet_ms = quiet_ms
        self._kinds: dict[Hashable, tuple[int, int]] = {}  # kind to (last logged, suppressed since)

    def suffix(self, kind: Hashable, now_ms: int) -> str | None:
        """The text to append to a message: how many were suppressed. ``None``: suppress this one too.

        Args:
            kind: equal for messages that repeat each other.
            now_ms: monotonic.
        """
        last_ms, suppressed = self._kinds.pop(kind, (None, 0))
        if last_ms is not None and now_ms - last_ms < self._quiet_ms:
            self._kinds[kind] = (last_ms, suppressed + 1)
            return None
        while len(self._kinds) >= _MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = (now_ms, 0)
        return f" ({suppressed} more like this since the last such message)" if suppressed else ""
