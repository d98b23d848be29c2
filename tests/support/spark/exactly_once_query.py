"""A streaming query, or a pipeline, with its source files, drivers and readers.

``ExactlyOnceQuery`` feeds the query, restarts its driver from the checkpoint whenever it has ended, and
compares the topics with the files. The caller decides what is killed and when.
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
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.committed_records import await_no_open_transaction
from tests.support.kafka.live_reader import LiveReader
from tests.support.kafka.log_dump import DumpedBatch
from tests.support.kafka.reader import iterate_topic
from tests.support.kafka.topics import create_topic
from tests.support.spark.driver import SparkDriver, spark_home
from tests.support.spark.exactly_once_job import FAILED, SESSION
from tests.support.spark.exactly_once_rows import SeenRows, Verdict, text_of_file
from tests.support.spark.exactly_once_source import AT_LEAST_ONCE_STEPS, BREAKAGE, FOLDER
from tests.support.spark.exactly_once_variants import VARIANTS, Variant
from tests.support.spark.run_pipelines import PLUGIN_PATH
from tests.support.spark.step_trap import StepTrap

FILES_PER_BATCH = 3
#: Files to keep waiting, so that the query rarely waits for input, and that a run of a pipeline has several
#: micro-batches.
BACKLOG = 8
PIPELINE_BACKLOG = 40
PIPELINE_MASTER = "local[2,4]"
_PIPELINE = Path(__file__).with_name("exactly_once_pipeline.py")
#: Where a pipeline keeps the checkpoint of its only flow.
_FLOW = "storage/_checkpoints/rows/files/0"
MOST_ROWS = 400
PROGRESS_SECONDS = 240.0
SETTLE_SECONDS = 240.0
#: Errors that a replay of the same rows must never cause.
_REFUSAL = re.compile(r"\b(ReplayMismatchError|StaleReplayError|UncertainReplayError|ExactlyOnceError)\b")
#: What a query or a pipeline prints when it has failed.
_FAILURE = re.compile(rf"(?:{FAILED}|[\d-]+ [\d:]+: (?=Flow .* has FAILED))(.*)")
_KIND = re.compile(r"\b[A-Z]\w+(?:Error|Exception)\b|\[[A-Z_.]{8,}\]")


class Judgement(NamedTuple):
    """Verdicts by topic. ``live``: of the readers that followed; ``final``: of those that read everything at
    the end.
    """

    live: dict[str, Verdict]
    final: dict[str, Verdict]
    refusals: list[str]

    @property
    def is_good(self) -> bool:
        verdicts = (*self.live.values(), *self.final.values())
        return all(each.is_good for each in verdicts) and not self.refusals


class ExactlyOnceQuery:
    """Not thread-safe. Creates its topics.

    Args:
        cluster: of brokers.
        topic: the name of a new topic; another one with dead letters begins with it.
        master: Spark's, unless the variant is a pipeline.
        variant: what is written.
        breakage: ``markers``, ``delivery``, ``isolation`` or empty: what is broken to see the verdict fail.
        say: prints a line.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        master: str,
        *,
        variant: Variant = VARIANTS[0],
        breakage: str | None = None,
        seed: int = 0,
        lifetime_seconds: int = 3600,
        say: Callable[[str], None] = print,
    ) -> None:
        self._cluster = cluster
        self._servers = cluster.bootstrap_servers
        self.topic = topic
        self.variant = variant
        self._breakage = breakage
        self._lifetime_seconds = lifetime_seconds
        self._say = say
        self._started = time.monotonic()
        self.folder = Path(tempfile.mkdtemp(prefix="exactly-once-"))
        self.trap = StepTrap(self.folder)
        self._checkpoint = self.folder / (_FLOW if variant.is_pipeline else "checkpoint")
        self._write_settings(master)
        self._home = spark_home(self.folder)
        self._seen = variant.new_seen(topic)
        for name, seen in self._seen.items():
            create_topic(self._servers, name, seen.partitions)
        backlog = PIPELINE_BACKLOG if variant.is_pipeline else BACKLOG
        self._feeder = _Feeder(self.folder / "source", list(self._seen.values()), seed, backlog)
        self._readers = [
            LiveReader(self._servers, name, seen.partitions, seen.see, seen.at_end, self._isolation_level)
            for name, seen in self._seen.items()
        ]
        self._drivers: list[SparkDriver] = []
        self._failures_told = self._log_bytes = 0
        #: The driver that has to end by itself, counted from 1: it writes the last files.
        self._last_run: int | None = None
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
    def topics(self) -> list[str]:
        """The topic, and that of the dead letters if there is one."""
        return list(self._seen)

    @property
    def runs(self) -> int:
        """How many drivers were started."""
        return len(self._drivers)

    @property
    def batch(self) -> int:
        """The last micro-batch in Spark's commit log; -1: none yet."""
        try:
            names = os.listdir(self._checkpoint / "commits")
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
        module, arguments = "tests.support.spark.exactly_once_job", [str(self.folder)]
        environment = {FOLDER: str(self.folder), BREAKAGE: self._breakage or ""}
        if self.variant.is_pipeline:
            module = "tests.support.spark.run_pipelines"
            settings = [word for pair in SESSION.items() for word in ("--conf", "=".join(pair))]
            spec = str(self.folder / "spark-pipeline.yml")
            arguments = ["run", "--spec", spec, "--remote", PIPELINE_MASTER, *settings]
            environment["PYTHONPATH"] = PLUGIN_PATH
        self._drivers.append(
            SparkDriver(
                name,
                module,
                arguments,
                self._home,
                self.folder / f"{name}.log",
                self._lifetime_seconds,
                environment,
            )
        )

    def follow_driver(self) -> None:
        """Record a failure of the query; start another driver if the current one has ended.

        A run of a pipeline ends by itself when it has written the files that were there when it began.
        """
        code = self.driver.exit_code()
        has_ended = code is not None and not self._is_complete()
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
            self.tell(f"the driver ended ({code}), see {self.driver.log_path}; starting another")
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
        self._last_run = self.runs + (1 if self.variant.is_pipeline else 0)
        self.wait(self._is_complete, "the end of the query", SETTLE_SECONDS)
        self.driver.kill()

    def _is_complete(self) -> bool:
        return self._last_run is not None and self.runs >= self._last_run and self.driver.exit_code() == 0

    def judge(self) -> Judgement:
        """After ``finish``, with all replicas in sync: the verdicts of all readers."""
        final = self.variant.new_seen(self.topic)
        self._feeder.expect_all(final.values())
        ends = {
            topic: await_no_open_transaction(self._servers, topic, range(seen.partitions), SETTLE_SECONDS)
            for topic, seen in final.items()
        }
        log = _Transactions(self._cluster.dump_log(*final, is_deep=False))
        transactions: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for topic, seen in final.items():
            for record in iterate_topic(
                self._servers,
                topic,
                next_offsets=ends[topic],
                timeout_seconds=SETTLE_SECONDS,
                isolation_level=self._isolation_level,
            ):
                assert record.value is not None
                number = seen.see(record.partition, record.value)
                transactions[number].add(log.of(f"{topic}-{record.partition}", record.offset))
            for partition in range(seen.partitions):
                seen.at_end(partition)
        for number, several in transactions.items():
            if len(several) > 1:
                final[self.topic].note_split(number, several)
        deadline = time.monotonic() + SETTLE_SECONDS
        for topic, seen in self._seen.items():
            while seen.verdict().seen < final[topic].verdict().seen and time.monotonic() < deadline:
                time.sleep(0.01)
        for reader in self._readers:
            reader.stop()
        refusals = self._refusals
        if self.variant.is_pipeline:  # the lines that say so are not those of failures
            refusals = [line for each in self._drivers for line in _refusals_in(each.log_path)]
        return Judgement(_verdicts(self._seen), _verdicts(final), refusals)

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
        options |= self.variant.options_for(self.topic, self.folder)
        condition, columns = self.variant.query()
        settings = {
            "master": master,
            "files": FILES_PER_BATCH,
            "options": options,
            "condition": condition,
            "columns": columns,
        }
        (self.folder / "job.json").write_text(json.dumps(settings))
        if self.variant.is_pipeline:
            shutil.copy(_PIPELINE, self.folder)
            spec = {
                "name": "rows",
                "storage": (self.folder / "storage").as_uri(),
                "libraries": [{"glob": {"include": _PIPELINE.name}}],
            }
            # JSON is YAML.
            (self.folder / "spark-pipeline.yml").write_text(json.dumps(spec))


def _verdicts(seen: dict[str, SeenRows]) -> dict[str, Verdict]:
    return {topic: each.verdict() for topic, each in seen.items()}


class _Transactions:
    """In which transaction each record was written: id and epoch of a producer. Each task has a new epoch."""

    def __init__(self, batches: Iterable[DumpedBatch]) -> None:
        places: dict[str, set[tuple[int, int, int]]] = defaultdict(set)
        for each in batches:
            batch = (each.base_offset, each.producer_id, each.producer_epoch)
            places[Path(each.file).parent.name].add(batch)  # again by the next replica
        self._batches = {place: sorted(found) for place, found in places.items()}

    def of(self, place: str, offset: int) -> tuple[int, int]:
        """Of the record at an offset of a place, ``TOPIC-PARTITION``."""
        batches = self._batches[place]
        _, producer, epoch = batches[bisect_right(batches, offset, key=lambda batch: batch[0]) - 1]
        return producer, epoch


def failures_of(driver: SparkDriver) -> list[str]:
    """Why the queries of a driver failed, as the driver printed it."""
    with driver.log_path.open(errors="replace") as lines:
        return [found[1] for line in lines if (found := _FAILURE.match(line))]


def _refusals_in(log_path: Path) -> list[str]:
    with log_path.open(errors="replace") as lines:
        return [line.rstrip()[:300] for line in lines if _REFUSAL.search(line)]


def _kind_of(reason: str) -> str:
    kind = _KIND.search(reason)
    return kind.group() if kind else reason[:60]


class _Feeder:
    """Adds files to the source while few are waiting, in its own thread."""

    def __init__(self, folder: Path, seen: list[SeenRows], seed: int, backlog: int) -> None:
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

    def expect_all(self, seen: Iterable[SeenRows]) -> None:
        """Register all files."""
        for rows in seen:
            for number, count in self._files.items():
                rows.expect(number, count)

    def _run(self) -> None:
        while not self._is_over.wait(self._chance.uniform(0.05, 0.4)):
            missing = self._backlog - len(set().union(*(each.unfinished() for each in self._seen)))
            for _ in range(min(missing, self._chance.randrange(1, 5))):
                self._add_file()

    def _add_file(self) -> None:
        number = len(self._files)
        # Some files have no rows to write: their tasks have nothing to commit.
        rows = 0 if self._chance.random() < 0.1 else self._chance.randrange(1, MOST_ROWS)
        self._files[number] = rows
        for seen in self._seen:
            seen.expect(number, rows)
        # Renamed into place, so that Spark never reads a partial file.
        part = self._folder / f".{number:06}"
        part.write_text(text_of_file(number, rows))
        part.rename(self._folder / f"{number:06}.txt")
