"""Deliveries: what became of each record, and the limit of how many may be undecided at a time.

A thread waits for the results in the order in which they were sent, writes what was not delivered to stderr
and to the file of rejected input, and forgets the rest. The main thread only reads and sends.
"""

from __future__ import annotations

import base64
import json
import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import RawIOBase
from typing import NamedTuple

from kproducer import Outcome, SendManyResult
from kproducer.cli.rejected_topic import RejectedTopic
from kproducer.errors import KafkaError, printable

#: If there is a file of rejected input, stderr shows this many of its entries.
_SHOWN_ENTRIES = 20
_HOW = {
    Outcome.REJECTED: "rejected",
    Outcome.NOT_SENT: "not sent",
    Outcome.UNKNOWN: "outcome unknown, it may have been written",
}


class Origin(NamedTuple):
    """Where the records of one call come from.

    Attributes:
        file: the input, as the user named it.
        lines: the line, or the row of a binary file, of each record.
        original: what the input has there, by the index of the record.
    """

    file: str
    lines: Sequence[int]
    original: Callable[[int], bytes]


class Deliveries:
    """Counts and reports the outcomes of records. Thread-safe.

    Args:
        limit: bytes of undecided records above which ``wait_for_room`` waits.
        echo: writes a line to stderr.
        rejected: the file of rejected input. Without a buffer, in which entries that could not be written
            would stay.
        dead_letters: the topic of rejected input.
    """

    def __init__(
        self,
        limit: int,
        echo: Callable[[str], object],
        rejected: RawIOBase | None,
        dead_letters: RejectedTopic | None = None,
    ) -> None:
        self._limit, self._echo, self._rejected, self._dead_letters = limit, echo, rejected, dead_letters
        self._sent: queue.SimpleQueue[tuple[SendManyResult, Origin, int] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        # Guarded by _changed:
        self._pending_bytes = 0
        self._entries = 0
        self._write_failed = False
        #: How many accepted records have no outcome yet.
        self.undecided = 0
        self.delivered = 0
        self.failed: Counter[Outcome] = Counter()
        self._thread = threading.Thread(target=self._run, name="kproducer-cli-deliveries", daemon=True)
        self._thread.start()

    def wait_for_room(self, size: int) -> None:
        """Wait until ``size`` more bytes are within the limit, or nothing else is undecided."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._pending_bytes or self._pending_bytes + size <= self._limit
            )

    def add(self, result: SendManyResult, origin: Origin, size: int) -> None:
        """Count and report the outcomes of a result once they are known."""
        with self._changed:
            self._pending_bytes += size
            self.undecided += len(result)
        self._sent.put((result, origin, size))

    def report(
        self, origin: Origin, index: int, reason: object, outcome: Outcome, *, is_of_record: bool = True
    ) -> None:
        """Count and report a record that was not delivered, or input from which no record can be made.

        Args:
            origin, index: where it comes from.
            reason: an error, or a text.
            outcome: what is known of the record.
            is_of_record: whether the reason concerns this record, and not the whole run.
        """
        with self._changed:
            self.failed[outcome] += 1
            self._entries += 1
            file, line, original = origin.file, origin.lines[index], origin.original(index)
            text = f"{file}, line {line}: {_HOW[outcome]}: {printable(str(reason))}"
            is_in_file = self._write(file, line, original, reason, outcome)
            dead_letters = self._dead_letters
            if dead_letters is not None and not (is_of_record and dead_letters.takes(reason, outcome)):
                dead_letters = None
            is_kept = is_in_file or dead_letters is not None
            if not is_kept or self._entries <= _SHOWN_ENTRIES:
                self._echo(text if is_kept else text + _shown(original))
            elif self._entries == _SHOWN_ENTRIES + 1:
                place = "file" if is_in_file else "topic"
                self._echo(f"Further entries are only in the {place} of rejected input.")
        if dead_letters is None:
            return

        def lost(error: KafkaError) -> None:
            shown = "" if is_in_file else _shown(original)
            self._echo(f"{file}, line {line}: no dead letter was written: {printable(str(error))}{shown}")

        # Without the lock: this waits if the producer of the dead letters has no memory left.
        dead_letters.send(file, line, original, reason, lost)

    @property
    def failed_count(self) -> int:
        """Records that were not delivered, or whose outcome is unknown, so far."""
        with self._changed:
            return sum(self.failed.values())

    def _write(self, file: str, line: int, original: bytes, reason: object, outcome: Outcome) -> bool:
        """Whether the entry is in the file of rejected input."""
        if self._rejected is None:
            return False
        entry = {"file": file, "line": line, "outcome": outcome.value, "reason": str(reason)}
        try:
            entry["input"] = original.decode()
        except UnicodeDecodeError:
            entry["input_base64"] = base64.b64encode(original).decode()
        data = memoryview(json.dumps(entry).encode() + b"\n")
        written = 0
        try:
            while written < len(data):
                written += self._rejected.write(data[written:]) or 0
        except OSError as error:
            if written:
                # A full disk may have taken a part of the entry; pipes cannot be truncated.
                with suppress(OSError):
                    self._rejected.truncate(self._rejected.tell() - written)
            if not self._write_failed:
                self._write_failed = True
                self._echo(
                    f"The file of rejected input cannot be written: {error.strerror}; entries that it does"
                    " not have are shown here"
                )
            return False
        return True

    def finish(self) -> None:
        """Wait until the outcome of every record, and of every dead letter, is known and reported."""
        self._sent.put(None)
        self._thread.join()
        if self._dead_letters is not None:
            self._dead_letters.close()

    def _run(self) -> None:
        while (sent := self._sent.get()) is not None:
            result, origin, size = sent
            result.wait()
            failures = result.failures()
            for index, error in failures:
                # An error without an outcome says nothing about the record.
                outcome = error.outcome or Outcome.UNKNOWN
                try:
                    self.report(origin, index, error, outcome)
                except Exception as mistake:  # such as MemoryError; the outcome is counted
                    self._echo(f"{origin.file}, line {origin.lines[index]}: {_HOW[outcome]}: {mistake!r}")
            with self._changed:
                self._pending_bytes -= size
                self.undecided -= len(result)
                self.delivered += len(result) - len(failures)
                self._changed.notify_all()


def _shown(original: bytes) -> str:
    return f"; input: {printable(original.decode('utf-8', 'backslashreplace'))}"
