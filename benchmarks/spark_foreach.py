"""The latency of ``KafkaForeachWriter``: ``python -m benchmarks.spark_foreach``.

A producer sends 1,000 rows of 100 bytes per second to a topic; a Spark query (``local[2]``) passes them on,
with micro-batches or in real-time mode, to one of three sinks: ``KafkaForeachWriter``, a writer that only
notes when a row reaches Python, and Spark's own ``format("kafka")`` in the JVM. The difference between the
first two is what kproducer and the broker add; between the last two what Spark's Python foreach runner
adds. Latency: from ``send`` until the broker has appended the record to the second topic (LogAppendTime, in
milliseconds), or until ``process`` is called. One Apache Kafka on the same machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from rich.console import Console
from rich.table import Table

from benchmarks.spark_connector import resolve_connector
from benchmarks.spark_sinks import make_session
from kproducer import KafkaProducer
from kproducer.spark import KafkaForeachWriter
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.reader import iterate_topic
from tests.support.kafka.topics import create_topic

SINKS = ("kproducer", "no-op", "kafka")
TRIGGERS: dict[str, dict[str, str]] = {
    "micro-batches": {"processingTime": "0 seconds"},
    "real time": {"realTime": "10 seconds"},
}
ROWS_A_SECOND = 1000
ROW_BYTES = 100
WARM_UP_SECONDS = 20.0
TIMEOUT_SECONDS = 120


def noting_writer(folder: str) -> Any:
    # Defined in here, so that it is pickled by value.
    class NotingWriter:
        def open(self, partition_id: int, epoch_id: int) -> bool:
            self.path = f"{folder}/{partition_id}-{epoch_id}"
            self.notes: list[tuple[float, bytes]] = []
            return True

        def process(self, row: Any) -> None:
            self.notes.append((time.time(), row.value))

        def close(self, error: BaseException | None) -> None:
            with open(self.path, "w") as file:
                file.writelines(f"{now} {float(value[:20])}\n" for now, value in self.notes)

    return NotingWriter()


@contextmanager
def steady_rows(servers: str, topic: str) -> Iterator[None]:
    """Send rows in another thread, each with the time at which it is sent."""
    is_over = threading.Event()

    def send() -> None:
        started, count = time.monotonic(), 0
        with KafkaProducer(servers, linger_ms=0) as producer:
            while not is_over.is_set():
                due = int((time.monotonic() - started) * ROWS_A_SECOND)
                while count < due:
                    producer.send(topic, f"{time.time():20.6f}".ljust(ROW_BYTES, "x"))
                    count += 1
                is_over.wait(0.001)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def measure(spark: Any, servers: str, name: str, sink: str, trigger: str, seconds: float) -> list[float]:
    """Milliseconds from ``send`` to the sink, for each row after the warm-up."""
    source, target = f"{name}-source", f"{name}-target"
    create_topic(servers, source, 1)
    create_topic(servers, target, 1, config={"message.timestamp.type": "LogAppendTime"})
    kafka = {"kafka.bootstrap.servers": servers, "topic": target}
    with tempfile.TemporaryDirectory() as folder, steady_rows(servers, source):
        rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        rows = rows.option("subscribe", source).option("startingOffsets", "latest").load().select("value")
        writer = rows.writeStream.outputMode("update").option("checkpointLocation", f"{folder}/checkpoint")
        if sink == "kafka":
            writer = writer.format("kafka").options(**kafka)
        else:
            is_ours = sink == "kproducer"
            writer = writer.foreach(KafkaForeachWriter(kafka) if is_ours else noting_writer(folder))
        started = time.time()
        query = writer.trigger(**TRIGGERS[trigger]).start()
        query.awaitTermination(WARM_UP_SECONDS + seconds)
        query.stop()
        if sink == "no-op":
            notes = [line.split() for path in Path(folder).glob("[0-9]*-*") for line in path.open()]
            times = [(float(now), float(sent)) for now, sent in notes]
        else:
            found = iterate_topic(servers, target)
            times = [(each.timestamp_ms / 1000, float(each.value[:20])) for each in found if each.value]
    return [1000 * (seen - sent) for seen, sent in times if sent > started + WARM_UP_SECONDS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--sink", choices=SINKS, action="append")
    parser.add_argument("--trigger", choices=TRIGGERS, action="append")
    arguments = parser.parse_args()
    connector = resolve_connector(pyspark.__version__)
    console = Console()
    table = Table("trigger", "sink", "rows", "p50 ms", "p99 ms", "max ms", "load")
    with KafkaCluster(NEWEST_VERSION, lifetime_seconds=1800) as cluster:
        spark = make_session(connector.jars)
        number = 0
        for trigger in arguments.trigger or TRIGGERS:
            for sink in arguments.sink or SINKS:
                number += 1
                name = f"foreach-{number}"
                delays = measure(spark, cluster.bootstrap_servers, name, sink, trigger, arguments.seconds)
                load = f"{os.getloadavg()[0]:.1f}"
                if len(delays) < 100:
                    table.add_row(trigger, sink, str(len(delays)), "-", "-", "-", load)
                    continue
                cuts = statistics.quantiles(delays, n=100)
                figures = [f"{each:,.1f}" for each in (cuts[49], cuts[98], max(delays))]
                table.add_row(trigger, sink, f"{len(delays):,}", *figures, load)
        spark.stop()
    console.print(f"Spark {pyspark.__version__}, connector {connector.version}")
    console.print(table)


if __name__ == "__main__":
    main()
