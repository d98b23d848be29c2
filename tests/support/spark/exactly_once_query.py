"""A streaming query with its source files, drivers and readers.

``ExactlyOnceQuery`` feeds the query, restarts its driver from the checkpoint whenever it has ended, and
compares the topic with the files. The caller decides what is killed and when.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka.committed_records import await_no_open_transaction
from tests.support.kafka.live_reader import LiveReader
from tests.support.kafka.reader import iterate_topic
from tests.support.spark.driver import SparkDriver, spark_home
from tests.support.spark.exactly_once_job import FAILED
from tests.support.spark.exactly_once_rows import PARTITIONS, SeenRows, Verdict, text_of_file
from tests.support.spark.exactly_once_source import AT_LEAST_ONCE_STEPS, BREAKAGE, FOLDER
from tests.support.spark.step_trap import StepTrap

FILES_PER_BATCH = 3
#: Files to keep waiting, so that the query rarely waits for input.
BACKLOG = 8
MOST_ROWS = 400
PROGRESS_SECONDS = 240.0
SETTLE_SECONDS = 240.0
#: Errors that a replay of the same rows must never cause.
_REFUSAL = re.compile(r"\b(ReplayMismatchError|StaleReplayError|UncertainReplayError|ExactlyOnceError)\b")
_KIND = re.compile(r"\b[A-Z]\w+(?:Error|Exception)\b|\[[A-Z_.]{8,}\]")


class Judgement(NamedTuple):
    """``live``: of the reader that followed the topic; ``final``: of the one that read everything at the
    end.
    """

    live: Verdict
    final: Verdict
    refusals: list[str]

    @property
    def is_good(self) -> bool:
        return self.live.is_good and self.final.is_good and not self.refusals


class ExactlyOnceQuery:
    """Not thread-safe.

    Args:
        servers: bootstrap servers of the cluster.
        topic: an empty topic with ``PARTITIONS`` partitions.
        master: Spark's.
        breakage: ``markers``, ``delivery``, ``isolation`` or empty: what is broken to see the verdict fail.
        say: prints a line.
        backlog: number of files to keep waiting.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        master: str,
        *,
        breakage: str | None = None,
        seed: int = 0,
        lifetime_seconds: int = 3600,
        backlog: int = BACKLOG,
        say: Callable[[str], None] = print,
    ) -> None:
        self._servers = servers
        self.topic = topic
        self._breakage = breakage
        self._lifetime_seconds = lifetime_seconds
        self._say = say
        self._started = time.monotonic()
        self.folder = Path(tempfile.mkdtemp(prefix="exactly-once-"))
        self.trap = StepTrap(self.folder)
        self._write_settings(master)
        self._home = spark_home(self.folder)
        self._seen = SeenRows()
        self._feeder = _Feeder(self.folder / "source", self._seen, seed, backlog)
        self._reader = LiveReader(
            servers, topic, PARTITIONS, self._seen.see, self._seen.at_end, self._isolation_level
        )
        self._drivers: list[SparkDriver] = []
        self._failures_told = self._log_bytes = 0
        #: Why queries failed, only those of drivers that had not been replaced.
        self.failures: Counter[str] = Counter()
        self._refusals: list[str] = []

    def steps_of(self, *steps: str) -> list[str]:
        """Those of the given steps that the sink takes."""
        return [step for step in steps if self._breakage != "delivery" or step in AT_LEAST_ONCE_STEPS]

    # -- while it runs ---------------------------------------------------------------------------------

    @property
    def driver(self) -> SparkDriver:
        """The current driver, running or not."""
        return self._drivers[-1]

    @property
    def runs(self) -> int:
        """How many drivers were started."""
        return len(self._drivers)

    @property
    def batch(self) -> int:
        """The last micro-batch in Spark's commit log; -1: none yet."""
        try:
            names = os.listdir(self.folder / "checkpoint" / "commits")
        except FileNotFoundError:
            return -1
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def tell(self, text: str) -> None:
        """Print a line of the history."""
        self._say(f"[{time.monotonic() - self._started:6.1f} s, batch {self.batch:3}] {text}")

    def start_driver(self) -> None:
        """Start a new driver from the checkpoint; the previous one is left running."""
        name = f"{self.folder.name}-{len(self._drivers)}"
        # Renamed into place, so that a driver never reads a partial name. Replaced drivers stop here.
        (self.folder / "driver.part").write_text(name)
        (self.folder / "driver.part").rename(self.folder / "driver")
        self._failures_told = self._log_bytes = 0
        self._drivers.append(
            SparkDriver(
                name,
                "tests.support.spark.exactly_once_job",
                [str(self.folder)],
                self._home,
                self.folder / f"{name}.log",
                self._lifetime_seconds,
                {FOLDER: str(self.folder), BREAKAGE: self._breakage or ""},
            )
        )

    def follow_driver(self) -> None:
        """Record a failure of the query; start another driver if the current one has ended."""
        has_ended = self.driver.exit_code() not in (None, 0)
        size = self.driver.log_path.stat().st_size
        news = failures_of(self.driver)[self._failures_told :] if size != self._log_bytes else []
        self._log_bytes = size
        for reason in news:
            self._failures_told += 1
            self.tell(f"the query failed and is restarted: {reason[:300]}")
            self.failures[_kind_of(reason)] += 1
            if _REFUSAL.search(reason):
                self._refusals.append(reason)
        if has_ended:
            self.tell(f"the driver ended, see {self.driver.log_path}; starting another")
            self.driver.kill()
            self.start_driver()

    def await_batch(self, number: int) -> None:
        """Wait until Spark's commit log has this micro-batch, restarting drivers as needed."""
        self.wait(lambda: self.batch >= number, f"micro-batch {number}")

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = PROGRESS_SECONDS) -> None:
        """Wait until the condition holds, restarting drivers as needed."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.follow_driver()
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"no success in {seconds:.0f} s while waiting for {what}, see {self.folder}"
                )
            time.sleep(0.02)

    # -- the end ---------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Add no more files, and wait until the query has written everything and ended."""
        self._feeder.stop()
        self.tell("no more files are added")
        (self.folder / "stop").touch()
        self.wait(lambda: self.driver.exit_code() == 0, "the end of the query", SETTLE_SECONDS)
        self.driver.kill()

    def judge(self) -> Judgement:
        """After ``finish``: the verdicts of both readers."""
        ends = await_no_open_transaction(self._servers, self.topic, range(PARTITIONS), SETTLE_SECONDS)
        final = self._feeder.expected()
        for record in iterate_topic(
            self._servers,
            self.topic,
            next_offsets=ends,
            timeout_seconds=SETTLE_SECONDS,
            isolation_level=self._isolation_level,
        ):
            assert record.value is not None
            final.see(record.partition, record.value)
        for partition in range(PARTITIONS):
            final.at_end(partition)
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._seen.verdict().seen < final.verdict().seen and time.monotonic() < deadline:
            time.sleep(0.01)
        self._reader.stop()
        return Judgement(self._seen.verdict(), final.verdict(), self._refusals)

    def close(self) -> None:
        """Kill the remaining processes of all drivers."""
        self._feeder.stop()
        for driver in self._drivers:
            driver.kill()

    def remove_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- helpers ---------------------------------------------------------------------------------------

    @property
    def _isolation_level(self) -> str:
        return "read_uncommitted" if self._breakage == "isolation" else "read_committed"

    def _write_settings(self, master: str) -> None:
        options = {"kafka.bootstrap.servers": self._servers, "topic": self.topic, "summary": "job"}
        # Several batches per partition: without a transaction, readers would see a task in parts.
        options["kafka.batch.size"] = "2000"
        if self._breakage != "delivery":
            # A replaced driver's open transaction is aborted by no driver: this limits how long readers wait.
            options |= {"delivery": "exactly-once", "kafka.transaction.timeout.ms": "60000"}
        settings = {"master": master, "files": FILES_PER_BATCH, "options": options}
        (self.folder / "job.json").write_text(json.dumps(settings))


def failures_of(driver: SparkDriver) -> list[str]:
    """Why the queries of a driver failed, as the driver printed it."""
    with driver.log_path.open(errors="replace") as lines:
        return [line.removeprefix(FAILED).rstrip() for line in lines if line.startswith(FAILED)]


def _kind_of(reason: str) -> str:
    kind = _KIND.search(reason)
    return kind.group() if kind else reason[:60]


class _Feeder:
    """Adds files to the source while few are waiting, in its own thread."""

    def __init__(self, folder: Path, seen: SeenRows, seed: int, backlog: int) -> None:
        self._folder = folder
        self._folder.mkdir()
        self._seen = seen
        self._backlog = backlog
        self._chance = random.Random(seed)
        self._files: dict[int, int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def expected(self) -> SeenRows:
        """All files, with no rows seen yet."""
        rows = SeenRows()
        for number, count in self._files.items():
            rows.expect(number, count)
        return rows

    def _run(self) -> None:
        while not self._is_over.wait(self._chance.uniform(0.05, 0.4)):
            missing = self._backlog - len(self._seen.unfinished())
            for _ in range(min(missing, self._chance.randrange(1, 5))):
                self._add_file()

    def _add_file(self) -> None:
        number = len(self._files)
        # Some files have no rows to write: their tasks have nothing to commit.
        rows = 0 if self._chance.random() < 0.1 else self._chance.randrange(1, MOST_ROWS)
        self._files[number] = rows
        self._seen.expect(number, rows)
        # Renamed into place, so that Spark never reads a partial file.
        part = self._folder / f".{number:06}"
        part.write_text(text_of_file(number, rows))
        part.rename(self._folder / f"{number:06}.txt")
