"""The option ``metricsFile``: totals that survive restarts, and a file that can never stop a write."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql.types import StructType

from kproducer.spark import KafkaProducerDataSource, SparkOptionError, SparkWriteError
from kproducer.spark.metrics_file import METRIC_NAMES, MetricsFile
from kproducer.spark.write_summary import WriteSummary

SCHEMA = StructType().add("value", "string")
WRITE = WriteSummary(
    tasks=2, rows=30, content_bytes=900, wire_bytes=400, requests=4, retried_records=5, latency_ms=250,
    bad_rows=2, repeated_rows=7, commit_ms=80, batch_id="6",
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "orders.prom")


def samples(path: str) -> dict[str, float]:
    """As prometheus_client reads them; without labels."""
    families = text_string_to_metric_families(Path(path).read_text(encoding="utf-8"))
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_totals_continue_in_every_process_that_commits(path):
    MetricsFile(path, "orders", "t").create(is_stream=True)
    found = samples(path)
    assert found.pop("kproducer_spark_last_commit_timestamp_seconds") > 1.7e9  # an alert needs it
    assert found.pop("kproducer_spark_last_micro_batch") == -1
    assert len(found) == len(METRIC_NAMES) - 2
    assert set(found.values()) == {0}
    for batch_id in ("6", "7"):
        MetricsFile(path, "orders", "t").add(WriteSummary(**{**vars(WRITE), "batch_id": batch_id}))
        MetricsFile(path, "orders", "t").create(is_stream=True)
    found = samples(path)
    assert found.pop("kproducer_spark_last_commit_timestamp_seconds") > 1.7e9
    assert found == {
        "kproducer_spark_commits_total": 2,
        "kproducer_spark_rows_total": 60,
        "kproducer_spark_content_bytes_total": 1800,
        "kproducer_spark_wire_bytes_total": 800,
        "kproducer_spark_requests_total": 8,
        "kproducer_spark_request_latency_seconds_total": 0.5,
        "kproducer_spark_retried_records_total": 10,
        "kproducer_spark_bad_rows_total": 4,
        "kproducer_spark_repeated_rows_total": 14,
        "kproducer_spark_commit_seconds_total": 0.16,
        "kproducer_spark_last_micro_batch": 7,
    }
    assert {*found, "kproducer_spark_last_commit_timestamp_seconds"} == set(METRIC_NAMES)


def test_labels_may_be_any_text(path):
    name = 'a "b" \\ {c} \n\r\u2028 d'
    for _ in range(2):
        MetricsFile(path, name, "column topic").add(WRITE)
    (family,) = [
        each
        for each in text_string_to_metric_families(Path(path).read_bytes().decode())
        if each.name == "kproducer_spark_rows"
    ]
    assert family.type == "counter"
    assert [(each.labels, each.value) for each in family.samples] == [
        ({"query": name, "topic": "column topic"}, 60)
    ]


def test_a_file_that_cannot_be_replaced_stays_whole_and_a_line_says_so(path, monkeypatch, capfd):
    file = MetricsFile(path, "orders", "t")
    file.add(WRITE)
    before = Path(path).read_bytes()

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    file.add(WRITE)
    file.create(is_stream=True)
    assert os.listdir(Path(path).parent) == [Path(path).name]
    assert Path(path).read_bytes() == before
    (line,) = capfd.readouterr().err.splitlines()
    assert "micro-batch 6 is missing in metricsFile: " in line
    assert "No space left" in line


def test_no_update_of_writes_that_end_together_is_lost(path):
    file = MetricsFile(path, "orders", "t")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: file.add(WRITE), range(40)))
    assert samples(path)["kproducer_spark_commits_total"] == 40


def test_a_commit_without_a_micro_batch_keeps_the_number_of_the_last_one(path):
    file = MetricsFile(path, "orders", "t")
    file.add(WRITE)
    file.add(WriteSummary(rows=1))
    assert samples(path)["kproducer_spark_last_micro_batch"] == 6


def test_other_users_can_read_the_file_and_its_mode_stays(path):
    file = MetricsFile(path, "orders", "t")
    before = os.umask(0o077)
    try:
        file.create(is_stream=False)
        assert os.stat(path).st_mode & 0o777 == 0o644
        os.chmod(path, 0o640)
        file.add(WRITE)
        assert os.stat(path).st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_what_a_power_failure_leaves_begins_again(path):
    Path(path).write_bytes(bytes(4096))
    MetricsFile(path, "orders", "t").add(WRITE)
    assert samples(path)["kproducer_spark_rows_total"] == 30


def test_a_file_that_cannot_be_read_does_not_stop_a_query(path, monkeypatch, capfd):
    file = MetricsFile(path, "orders", "t")
    file.add(WRITE)

    def fail(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fail)
    file.create(is_stream=True)
    assert "metricsFile cannot be read: [Errno 5]" in capfd.readouterr().err


def test_bad_rows_of_a_failed_write_are_counted(path):
    given = source(topic="t", metricsFile=path, onBadRow="skip", maxBadRows="1")
    writer = given.streamWriter(SCHEMA, False)
    with pytest.raises(SparkWriteError, match="more than maxBadRows=1"):
        writer.commit([WRITE], 6)
    found = samples(path)
    assert (found["kproducer_spark_bad_rows_total"], found["kproducer_spark_commits_total"]) == (2, 0)
    assert found["kproducer_spark_last_micro_batch"] == -1


def test_epochs_of_continuous_processing_are_no_commits(path):
    source(topic="t", metricsFile=path).streamWriter(SCHEMA, False).commit([None], 6)
    assert samples(path)["kproducer_spark_commits_total"] == 0


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        (b"node_load1 0.5\n", "has other content: choose another path"),
        (b'kproducer_spark_rows_total{query="orders",topic="t"} x\n', "has other content"),
        (b"\xff", "has other content"),
        (
            b'kproducer_spark_rows_total{query="others",topic="t"} 3.0\n',
            'metrics of query="others",topic="t", not of query="orders",topic="t": give each',
        ),
    ],
)
def test_another_file_is_refused_and_never_changed(path, content, mistake, capfd):
    Path(path).write_bytes(content)
    file = MetricsFile(path, "orders", "t")
    with pytest.raises(SparkOptionError, match="option 'metricsFile': ") as caught:
        file.create(is_stream=True)
    assert mistake in str(caught.value)
    file.add(WRITE)
    assert mistake in capfd.readouterr().err
    assert Path(path).read_bytes() == content


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("missing/orders.prom", "there is no folder for .*missing/orders.prom on the driver: create it"),
        ("file/orders.prom", "cannot create .*orders.prom: Not a directory. Its user needs"),
    ],
)
def test_a_path_that_cannot_be_written_fails_before_tasks_start(tmp_path, name, mistake):
    (tmp_path / "file").touch()
    with pytest.raises(SparkOptionError, match=mistake):
        source(topic="t", metricsFile=str(tmp_path / name)).streamWriter(SCHEMA, False)


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        ({"metricsFile": "orders.prom"}, "option 'metricsFile': expected an absolute path that ends with"),
        (
            {"metricsFile": "/tmp/orders.txt"},
            "option 'metricsFile': expected an absolute path that ends with",
        ),
        ({"metricsFile": "/tmp/orders.prom", "queryName": " "}, r"requires a name .*queryName\('orders'\)"),
    ],
)
def test_wrong_options_are_named(options, mistake):
    with pytest.raises(SparkOptionError, match=mistake):
        source(topic="t", **options).streamWriter(SCHEMA, False)


@pytest.mark.parametrize("topic", [{}, {"topic": " Orders "}])
def test_driver_processes_find_the_same_file(path, topic, capfd):
    given = source(metricsFile=path, **topic)
    schema = SCHEMA if topic else StructType(SCHEMA.fields).add("topic", "string")
    given.streamWriter(schema, False)
    assert samples(path)["kproducer_spark_rows_total"] == 0
    # The process that commits a micro-batch gets the source, not the writer.
    pickle.loads(pickle.dumps(given)).streamWriter(schema, False).commit([WRITE], 6)
    assert samples(path)["kproducer_spark_rows_total"] == 30
    assert capfd.readouterr().err.count("\n") == 1  # the bad rows
    os.remove(path)
    os.rmdir(os.path.dirname(path))
    pickle.loads(pickle.dumps(given)).streamWriter(schema, False).commit([WRITE], 7)
    assert "micro-batch 7 is missing in metricsFile" in capfd.readouterr().err


def source(**more: str) -> KafkaProducerDataSource:
    given = {"kafka.bootstrap.servers": "h:1", "checkTimeoutMs": "0", "queryName": "orders"}
    return KafkaProducerDataSource({**given, **more})
