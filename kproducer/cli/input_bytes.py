"""Reads files and stdin: a signal can end a read, and lines that were read do not wait for more."""

from __future__ import annotations

import io
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, BinaryIO

#: The longest line. Anything longer is probably no text with lines, and reading on would need memory without
#: limit.
LONGEST_LINE = 64 * 1024 * 1024
_READ_BYTES = 256 * 1024
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptedInputError(Exception):
    """Nothing more is read, because of a signal or because the producer accepts no more records.

    Args:
        line: the first line, or row of a binary file, that was not read to its end: nothing was sent from
            there on. 0: nothing was read.
    """

    def __init__(self, line: int = 0) -> None:
        super().__init__(line)
        self.line = line


class BrokenInputError(InterruptedInputError):
    """An input cannot be read any further.

    Args:
        file: as the user named it.
        line: as for the base class.
        reason: what is wrong.
    """

    def __init__(self, file: str, line: int, reason: object) -> None:
        super().__init__(line)
        self.reason = f"{file}, line {line}: {reason}" if line else f"{file}: {reason}"

    def __str__(self) -> str:
        return self.reason


class StopSignals:
    """SIGINT, SIGTERM and SIGHUP while a command runs: the first one stops the input, a later one gives up.

    A signal that was ignored when the command started stays ignored: ``nohup`` and background jobs need it.

    Args:
        stop: called once, on a thread of its own, after the first signal.
        give_up: called on a thread of its own after each later one.
    """

    def __init__(self, stop: Callable[[], object], give_up: Callable[[], object]) -> None:
        self._stop, self._give_up = stop, give_up
        self._previous: dict[int, Any] = {}
        self._ends_call = False
        #: The number of the first signal; 0: there was none.
        self.received = 0
        #: Becomes readable with the first signal.
        self.readable, self._writable = os.pipe()

    def __enter__(self) -> StopSignals:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self.readable)
        os.close(self._writable)

    @contextmanager
    def ending_call(self) -> Iterator[None]:
        """For a call that would continue after a signal, such as one that opens a pipe without a writer.

        Raises:
            InterruptedInputError: there was a signal, before the call or during it.
        """
        self._ends_call = True
        try:
            if self.received:
                raise InterruptedInputError
            yield
        finally:
            self._ends_call = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # The threads may take locks that the interrupted code holds.
        is_first = not self.received
        if is_first:
            self.received = number
            os.write(self._writable, b"!")
        threading.Thread(target=self._stop if is_first else self._give_up, daemon=True).start()
        if self._ends_call:
            raise InterruptedInputError


class InputBytes(io.RawIOBase):
    """The bytes of one input.

    Args:
        file: is not closed.
        signals: end a read that waits.
        on_idle: called before each read, which may wait; raises InterruptedInputError to prevent it.
    """

    def __init__(self, file: BinaryIO, signals: StopSignals, on_idle: Callable[[], object]) -> None:
        self._file, self._signals, self._on_idle = file, signals, on_idle
        try:
            self._descriptor = file.fileno()
        except OSError:  # not a file of the operating system
            self._descriptor = -1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for bytes and read those that are there; 0 at the end.

        Raises:
            InterruptedInputError: there was a signal.
            OSError: the file cannot be read.
        """
        self._on_idle()
        if self._descriptor < 0:
            data = self._file.read(len(buffer))
            buffer[: len(data)] = data
            return len(data)
        # A signal before or during the wait ends the wait. Otherwise there are bytes, and the read below does
        # not wait.
        ready, _, _ = select.select([self._descriptor, self._signals.readable], [], [])
        if self._signals.readable in ready:
            raise InterruptedInputError
        return os.readv(self._descriptor, [buffer])

    def lines(self, name: str) -> Iterator[bytes]:
        """Each line without its line feed, as soon as it was read; the last one may have had none.

        Raises:
            InterruptedInputError: nothing more is read, and all complete lines were returned before.
            BrokenInputError: a line is too long, or the file cannot be read.
        """
        parts: list[bytes] = []
        length, count = 0, 0
        while True:
            try:
                data = self.read(_READ_BYTES)
            except InterruptedInputError:
                raise InterruptedInputError(count + 1) from None
            except OSError as error:
                raise BrokenInputError(name, count + 1, error.strerror) from None
            if not data:
                break
            first, *others = data.split(b"\n")
            parts.append(first)
            length += len(first)
            if length > LONGEST_LINE:
                reason = f"the line is longer than {LONGEST_LINE} bytes"
                raise BrokenInputError(name, count + 1, reason)
            if others:
                *complete, last = others
                yield b"".join(parts)
                yield from complete
                count += 1 + len(complete)
                parts, length = [last], len(last)
        if length:
            yield b"".join(parts)
