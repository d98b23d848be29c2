"""Spark looks up the format, plans and commits in processes of their own, which import little."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest
from pyspark.sql.types import StructType

from kproducer.spark import KafkaProducerDataSource
from kproducer.spark.write_summary import WriteSummary
from kproducer.testing.fakebroker import FakeCluster
from kproducer.testing.schema_registry import FakeSchemaRegistry

_PLAN = """
import json, sys
from pyspark.sql.types import BinaryType, StructField, StructType
from kproducer.spark import KafkaProducerDataSource

source = KafkaProducerDataSource(json.loads(sys.argv[1]))
writer = source.writer(StructType([StructField("value", BinaryType())]), False)
writer.commit([])
print(*sorted(sys.modules))
"""
#: What only tasks need.
_PRODUCER = (
    "kproducer.kafka_producer",
    "kproducer._core.accumulator",
    "kproducer._core.engine",
    "kproducer._core.security",
    "kproducer._core.sender",
    "kproducer._core.sending",
    "kproducer._core.transactions",
    "kproducer._core.client.connections",
    "kproducer._core.client.metadata",
    "kproducer._core.client.network_client",
    "asyncio",
    "pandas",
)
_HTTP = ("http", "urllib.request", "email")


@pytest.mark.parametrize(
    ("options", "has_registry", "heavy"),
    [
        (
            {"kafka.compression.type": "zstd"},
            False,
            (
                *_HTTP,
                "kproducer._core.kernel",
                "kproducer._core.bulk",
                "kproducer._core.columns",
                "pyarrow",
                "attr",
            ),
        ),
        ({"valueFormat": "json"}, False, (*_HTTP, "fastavro", "google.protobuf")),
        ({"valueFormat": "avro"}, False, (*_HTTP, "google.protobuf")),
        ({"valueFormat": "avro"}, True, ("google.protobuf",)),
    ],
    ids=["bytes", "json", "avro", "registry"],
)
def test_planning_a_write_imports_only_what_it_needs(
    options: dict[str, str], has_registry: bool, heavy: tuple[str, ...]
) -> None:
    with FakeCluster(1) as cluster, FakeSchemaRegistry() as registry:
        cluster.create_topic("t", 1)
        given = {"kafka.bootstrap.servers": cluster.bootstrap_servers[0], "topic": "t", **options}
        if has_registry:
            given["schema.registry.url"] = registry.url
        finished = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _PLAN, json.dumps(given)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    imported = finished.stdout.split()
    assert "kproducer.spark.writers" in imported
    assert [name for name in imported if name.startswith((*_PRODUCER, *heavy))] == []


def test_looking_up_the_format_imports_no_settings() -> None:
    program = (
        "import sys, pyspark_kproducer\n"
        "assert pyspark_kproducer.DefaultSource.name() == 'kproducer'\n"
        "print(*sys.modules)"
    )
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    imported = set(finished.stdout.split())
    assert "kproducer.spark.data_source" in imported
    assert not imported & {"attrs", "kproducer._core.config", "kproducer.errors.broker_errors", "pyarrow"}


_COMMIT = """
import pickle, sys

kind, pickled, schema, messages = pickle.load(sys.stdin.buffer)
made = pickle.loads(pickled)
if kind == "batch":
    made.commit(messages)
    made.abort(messages)
else:
    made.streamWriter(schema, False).commit(messages, 7)
    made.streamWriter(schema, False).abort(messages, 7)
print(*sys.modules)
"""


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_committing_a_write_imports_no_settings(kind: str) -> None:
    schema = StructType().add("value", "string")
    given = {"kafka.bootstrap.servers": "h:1", "topic": "t", "checkTimeoutMs": "0", "Summary": "JOB"}
    source = KafkaProducerDataSource(given)
    pickled = pickle.dumps(source.writer(schema, False) if kind == "batch" else source)
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _COMMIT],
        input=pickle.dumps((kind, pickled, schema, [WriteSummary(tasks=1, rows=3)])),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert b"written by 1 tasks: 3 rows" in finished.stderr
    assert b"1 finished tasks stay in the topic" in finished.stderr
    imported = set(finished.stdout.decode().split())
    assert "kproducer.spark.writers" in imported
    assert not imported & {"attrs", "kproducer._core.config", "kproducer.spark.write_options", "pyarrow"}


def test_committing_exactly_once_imports_neither_producer_nor_arrow() -> None:
    program = "import sys; from kproducer.spark.exactly_once import spark_write; print(*sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    imported = set(finished.stdout.split())
    assert "kproducer._core.transactions.coordinator_session" in imported
    tasks_only = {
        "kproducer.kafka_producer",
        "kproducer._core.accumulator",
        "kproducer._core.bulk",
        "pyarrow",
        "numpy",
    }
    assert not imported & {*tasks_only, "attrs"}
