"""MetricsFile: the totals of a query, as a file for Prometheus (node_exporter's textfile collector).

The driver commits each micro-batch in a process of its own, which ends with it: only a file can keep totals,
and no port could be scraped. The file is read and written without prometheus_client, because importing it
takes longer than committing an at-least-once micro-batch.
Source: Prometheus' text-based format, version 0.0.4.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kproducer.spark.errors import SparkOptionError
from kproducer.spark.write_summary import TOPIC_COLUMN, WriteSummary

try:
    import fcntl
except ImportError:  # Windows: concurrent drivers may lose an update
    fcntl = None  # type: ignore[assignment]

_PREFIX = "kproducer_spark_"
_BAD_ROWS = f"{_PREFIX}bad_rows_total"
#: A line that this module writes: name, labels, value.
_SAMPLE = re.compile(rf"({_PREFIX}\w+)\{{(.*)\}} (-?\d+(?:\.\d+)?(?:e\+\d+)?)")


class _Counter(NamedTuple):
    """The text that describes it, and how much a write adds to it."""

    help: str
    of: Callable[[WriteSummary], float]


#: The texts must not change: node_exporter refuses a metric that two files describe in different ways.
_COUNTERS = {
    f"{_PREFIX}commits_total": _Counter("Micro-batches, or batch writes, that succeeded.", lambda _: 1),
    f"{_PREFIX}rows_total": _Counter(
        "Acknowledged rows of these, without bad rows.", lambda total: total.rows
    ),
    f"{_PREFIX}content_bytes_total": _Counter("Bytes of keys and values.", lambda total: total.content_bytes),
    f"{_PREFIX}wire_bytes_total": _Counter(
        "Bytes of record batches as sent, compressed and with retries.", lambda total: total.wire_bytes
    ),
    f"{_PREFIX}requests_total": _Counter("Produce requests.", lambda total: total.requests),
    f"{_PREFIX}request_latency_seconds_total": _Counter(
        "Time from each produce request to its response.", lambda total: total.latency_ms / 1000
    ),
    f"{_PREFIX}retried_records_total": _Counter(
        "Records that were sent again.", lambda total: total.retried_records
    ),
    _BAD_ROWS: _Counter("Rows that could not be written (onBadRow).", lambda total: total.bad_rows),
    f"{_PREFIX}repeated_rows_total": _Counter(
        "Rows of a replay that were already committed.", lambda total: total.repeated_rows
    ),
    f"{_PREFIX}commit_seconds_total": _Counter(
        "Time of the driver's commits of transactions.", lambda total: total.commit_ms / 1000
    ),
}
_LAST_BATCH = f"{_PREFIX}last_micro_batch"
_LAST_COMMIT = f"{_PREFIX}last_commit_timestamp_seconds"
_GAUGES = {
    _LAST_BATCH: "Number of the last micro-batch that was committed; -1: none yet.",
    _LAST_COMMIT: "When the last micro-batch, or batch write, succeeded; before the first one, when the file "
    "was created.",
}

#: Every metric that a file can have.
METRIC_NAMES = (*_COUNTERS, *_GAUGES)


class MetricsFile(NamedTuple):
    """The file of one query and topic. Picklable; every call reads the file.

    Attributes:
        path: on the driver.
        query, topic: the labels.
    """

    path: str
    query: str
    topic: str

    @classmethod
    def of(cls, path: str | None, query: str, topic: str | None) -> MetricsFile | None:
        """The file of a write, by its options; ``None``: it has none."""
        return None if path is None else cls(path, query, topic or TOPIC_COLUMN)

    def create(self, *, is_stream: bool) -> None:
        """Write zeros, unless the file exists: so a query that never commits is noticed.

        Called before the tasks of each micro-batch start. An existing file is only read, and if that fails a
        line says so, so that a failing disk does not stop a running query.

        Raises:
            SparkOptionError: the file cannot be created, or is not that of the query and topic.
        """
        values = dict.fromkeys(_COUNTERS, 0.0) | {_LAST_COMMIT: time.time()}
        if is_stream:
            values[_LAST_BATCH] = -1
        try:
            with self._locked():
                if not self._read():
                    self._write(values)
        except ValueError as error:
            raise SparkOptionError(f"option 'metricsFile': {error}") from error
        except OSError as error:
            if os.path.exists(self.path):
                print(f"kproducer: metricsFile cannot be read: {error}", file=sys.__stderr__, flush=True)
                return
            if not os.path.exists(os.path.dirname(self.path)):
                raise SparkOptionError(
                    f"option 'metricsFile': there is no folder for {self.path} on the driver: create it, or "
                    "choose another path"
                ) from None
            raise SparkOptionError(
                f"option 'metricsFile': the driver cannot create {self.path}: {error.strerror}. Its user "
                "needs the right to create files in the folder"
            ) from error

    def add(self, total: WriteSummary) -> None:
        """Add a write. If that fails, print a line to standard error: the rows are written in any case."""
        gauges = {_LAST_COMMIT: time.time()}
        if total.batch_id:
            gauges[_LAST_BATCH] = int(total.batch_id)
        self._update(total.subject, {name: each.of(total) for name, each in _COUNTERS.items()}, gauges)

    def add_bad_rows(self, total: WriteSummary) -> None:
        """Add the bad rows of a write that fails because of them."""
        self._update(total.subject, {_BAD_ROWS: total.bad_rows}, {})

    def _update(self, subject: str, added: Mapping[str, float], gauges: Mapping[str, float]) -> None:
        try:
            with self._locked():
                values = dict.fromkeys(_COUNTERS, 0.0) | self._read()
                sums = {name: values[name] + value for name, value in added.items()}
                self._write({**values, **sums, **gauges})
        except (OSError, ValueError) as error:
            print(f"kproducer: {subject} is missing in metricsFile: {error}", file=sys.__stderr__, flush=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other drivers, and other threads of this one, from updating files in the folder meanwhile."""
        if fcntl is None:
            yield
            return
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # some network file systems have no locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    @property
    def _labels(self) -> str:
        labels = {"query": self.query, "topic": self.topic}
        return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())

    def _read(self) -> dict[str, float]:
        """The values in the file; empty if there is none, or one of zeros, as a power failure leaves it.

        Raises:
            OSError: the file cannot be read.
            ValueError: it was not written for this query and topic.
        """
        try:
            text = Path(self.path).read_bytes().decode()
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError:
            text = "not text"
        values: dict[str, float] = {}
        for line in text.strip("\0").split("\n"):
            if not line or line.startswith("#"):
                continue
            if not (found := _SAMPLE.fullmatch(line)):
                raise ValueError(f"{self.path} has other content: choose another path, or delete the file")
            name, labels, value = found.groups()
            if labels != self._labels:
                raise ValueError(
                    f"{self.path} has the metrics of {labels}, not of {self._labels}: give each query and "
                    "topic a file of its own, or delete this one"
                )
            values[name] = float(value)
        return values

    def _write(self, values: Mapping[str, float]) -> None:
        """Replace the file: a reader sees the old content or the new."""
        lines = []
        for name, value in values.items():
            text, kind = (_COUNTERS[name].help, "counter") if name in _COUNTERS else (_GAUGES[name], "gauge")
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name}{{{self._labels}}} {value!r}"]
        path = os.path.realpath(self.path)
        descriptor, part = tempfile.mkstemp(dir=os.path.dirname(path))
        try:
            with open(descriptor, "wb") as file:
                file.write("".join(f"{line}\n" for line in lines).encode())
            # node_exporter is another user.
            os.chmod(part, os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644)
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
