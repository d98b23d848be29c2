"""A Spark cluster of two hosts on which speculative copies run: ``speculation_job FOLDER SERVERS TOPIC...``

Spark starts a copy of a slow task only on another host. A local cluster has one host, so this program starts
a master and workers, each worker on its own loopback address. Each plan has one topic and one write, in which
attempts of the second task wait at steps of the protocol; then the write is repeated until it is complete.
``FOLDER/errors.json`` has the errors by plan, ``FOLDER/events`` is Spark's event log.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kproducer.spark import KafkaProducerDataSource
from kproducer.spark.writers import BatchWriter
from tests.support.spark.stepping_ports import SteppingTaskPort
from tests.support.spark.wrapped_ports import WrapsPorts

HOSTS = ("127.0.0.2", "127.0.0.3")
ROWS = 40
REPETITIONS = 5
#: Local property of Spark jobs: the plan of the job.
PLAN = "speculation.plan"
SERVERS_SECONDS = 120.0
#: Time for one attempt to reach its step, and for Spark to end the other attempt.
STANDSTILL_SECONDS = 240.0
NEVER = "never"
#: By the attempt that Spark takes: for each attempt, the steps at which it waits, and the step of the other
#: attempt that it waits for. ``NEVER``: it waits until Spark ends it after taking the other attempt.
#: The copy does not initialize before the original has written, however slowly the original starts: otherwise
#: the original would fence the copy.
PLANS: dict[str, dict[str, dict[str, str]]] = {
    # The copy fences the original after it has sent its rows.
    "copy": {
        "original": {"add_marker": NEVER},
        "copy": {"initialize": "original add_marker"},
    },
    # The copy fences the original after it has prepared its transaction.
    "original": {
        "original": {"prepared": "copy marker"},
        "copy": {"initialize": "original prepared", "begin": NEVER},
    },
}

#: Pickled with the writer, because that belongs to the main module.
FOLDER = Path(sys.argv[1] if __name__ == "__main__" else "")


class WaitingWriter(WrapsPorts, BatchWriter):  # type: ignore[misc]
    """Attempts of the second task wait for each other at steps of the protocol."""

    def wrap_task_port(self, port: Any) -> Any:
        return SteppingTaskPort(port, self.on_step)

    def on_step(self, name: str) -> None:
        task = TaskContext.get()
        plan = "" if task is None else task.getLocalProperty(PLAN)
        if task is None or not plan or task.partitionId() != 1:
            return
        who = "original" if task.attemptNumber() == 0 else "copy"
        reached = FOLDER / plan
        (reached / f"{who} {name}").touch()
        other = PLANS[plan][who].get(name)
        deadline = time.monotonic() + STANDSTILL_SECONDS
        while other is not None and not (reached / other).exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the {who} timed out at {name} while waiting for: {other}")
            time.sleep(0.01)


class WaitingSource(KafkaProducerDataSource):
    """``format("waiting")``."""

    batch_writer = WaitingWriter

    @classmethod
    def name(cls) -> str:
        return "waiting"


@contextmanager
def _servers(folder: Path) -> Iterator[str]:
    """Run a master and workers; yields the master's address."""
    started = []

    def start(name: str, *arguments: str) -> str:
        log = folder / f"{name}.log"
        with log.open("wb") as output:
            command = [str(Path(os.environ["SPARK_HOME"]) / "bin" / "spark-class"), *arguments]
            # Without the master's REST server, whose fixed port collides with other masters.
            java = "-XX:TieredStopAtLevel=1 -Dspark.master.rest.enabled=false"
            environment = {**os.environ, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": java}
            started.append(
                subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
            )
        deadline = time.monotonic() + SERVERS_SECONDS
        while time.monotonic() < deadline and started[-1].poll() is None:
            for line in log.read_text().splitlines():
                if "Starting Spark master at" in line or "Successfully registered with master" in line:
                    return next(word for word in line.split() if word.startswith("spark://"))
            time.sleep(0.05)
        raise RuntimeError(f"{name} did not start: {log.read_text()[-2000:]}")

    try:
        package = "org.apache.spark.deploy"
        master = start(
            "master", f"{package}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        for host in HOSTS:
            worker = (f"{package}.worker.Worker", "--host", host, "--port", "0", "--webui-port", "0")
            start(
                f"worker-{host}",
                *worker,
                "--cores",
                "1",
                "--memory",
                "600m",
                "--work-dir",
                str(folder / host),
                master,
            )
        yield master
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def _session(master: str, folder: Path) -> SparkSession:
    (folder / "events").mkdir()
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.cores.max": "2",
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.5",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Dlog4j2.level=ERROR",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _write(session: SparkSession, servers: str, topic: str) -> str:
    """Write, and return the text of the error."""
    frame = session.range(0, ROWS, 1, 2).select(f.format_string("%02d", "id").alias("value"))
    writer = frame.write.format("waiting").mode("append").option("kafka.bootstrap.servers", servers)
    try:
        writer.options(topic=topic, delivery="exactly-once", writeId=topic).save()
    except Exception as error:
        return str(error)
    return ""


def main(servers: str, topics: dict[str, str]) -> None:
    """``topics``: one per plan."""
    with _servers(FOLDER) as master:
        session = _session(master, FOLDER)
        session.dataSource.register(WaitingSource)
        errors = {}
        for plan, topic in topics.items():
            (FOLDER / plan).mkdir()
            session.sparkContext.setLocalProperty(PLAN, plan)
            errors[plan] = [_write(session, servers, topic)]
            session.sparkContext.setLocalProperty(PLAN, "")
            # On a slow machine, the repetition may have speculative copies, too.
            while len(errors[plan]) <= REPETITIONS:
                errors[plan].append(_write(session, servers, topic))
                if not errors[plan][-1]:
                    break
        session.stop()
    (FOLDER / "errors.json").write_text(json.dumps(errors))


if __name__ == "__main__":
    main(sys.argv[2], dict(zip(PLANS, sys.argv[3:], strict=True)))
