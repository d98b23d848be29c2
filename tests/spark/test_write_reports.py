"""What is told about writes, where: quiet unless asked, and nothing of a write that left nothing behind."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from kproducer.spark import partition_writer
from kproducer.spark.exactly_once import spark_write
from kproducer.spark.partition_writer import SparkTask
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.spark.write_summary import WriteSummary
from kproducer.spark.writers import BatchWriter, StreamRowWriter

SCHEMA = StructType().add("value", "string")
TASK = WriteSummary(tasks=1, rows=3, content_bytes=9, elapsed_ms=10)
REPEATED = WriteSummary(tasks=1, repeated_rows=20)


def options(**more):
    return WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "t", **more}, is_stream=True)


def stream(**more):
    return StreamRowWriter(SCHEMA, WriteColumns(("value",), "t"), options(**more))


@pytest.fixture
def exactly_once(monkeypatch):
    for step in ("commit", "abort"):
        monkeypatch.setattr(spark_write, step, lambda *arguments, **named: None)
    return {"delivery": "exactly-once"}


@pytest.fixture
def write_task(monkeypatch):
    """Runs task 3 (attempt 1), which writes ``TASK``."""
    monkeypatch.setattr(partition_writer, "write_partition", lambda *arguments: TASK)
    monkeypatch.setattr(SparkTask, "current", classmethod(lambda cls: cls(3, 1)))
    return lambda **more: stream(**more).write(iter(()))


def test_by_default_nothing_is_printed_and_everything_is_logged(write_task, capfd, caplog):
    assert write_task() is TASK
    stream().commit([TASK, TASK], 7)
    BatchWriter(SCHEMA, WriteColumns(("value",), "t"), options()).commit([TASK])
    assert capfd.readouterr().err == ""
    assert "topic t: task 3 (attempt 1): 3 rows" in caplog.text
    assert "micro-batch 7 written by 2 tasks: 6 rows" in caplog.text
    assert "DataFrame written by 1 tasks: 3 rows" in caplog.text


@pytest.mark.parametrize(
    ("summary", "task_lines", "job_lines", "is_logged"),
    [("job", 0, 1, True), ("task", 1, 1, True), ("off", 0, 0, False)],
)
def test_lines_are_printed_as_the_option_says(
    write_task, capfd, caplog, summary, task_lines, job_lines, is_logged
):
    write_task(summary=summary)
    stream(summary=summary).commit([TASK], 7)
    printed = capfd.readouterr().err
    assert printed.count("kproducer: topic t: task 3 (attempt 1): 3 rows") == task_lines
    assert printed.count("kproducer: topic t: micro-batch 7 written by 1 tasks: 3 rows") == job_lines
    assert bool(caplog.records) == is_logged


@pytest.mark.parametrize("messages", [[], [None, None], [WriteSummary(tasks=1), None]])
@pytest.mark.parametrize("summary", ["log", "task"])
def test_a_write_that_ends_early_and_leaves_nothing_is_not_mentioned(capfd, caplog, messages, summary):
    stream(summary=summary).abort(messages, 0)
    assert capfd.readouterr().err == ""
    assert caplog.text == ""


def test_rows_that_a_failed_or_stopped_write_leaves_in_the_topic_are_printed(capfd):
    stream().abort([TASK, None, TASK], 4)
    printed = capfd.readouterr().err
    assert "micro-batch 4 did not finish (it failed or was stopped)" in printed
    assert (
        "the rows of its 2 finished tasks stay in the topic, and a retry writes them again: 6 rows" in printed
    )
    stream(summary="off").abort([TASK], 4)
    assert capfd.readouterr().err == ""


def test_rows_that_nobody_will_see_are_printed_only_on_request(capfd, exactly_once):
    stream(**exactly_once).abort([TASK, None], 4)
    assert capfd.readouterr().err == ""
    stream(**exactly_once, summary="job").abort([TASK, None], 4)
    assert "stay invisible unless they are committed: 3 rows" in capfd.readouterr().err


def test_a_repetition_that_writes_nothing_says_so(capfd, exactly_once):
    stream(**exactly_once, summary="job").commit([REPEATED, REPEATED, None], 4)
    assert (
        "micro-batch 4 repeated by 2 tasks: nothing was written because all 40 rows were already committed"
        in capfd.readouterr().err
    )


def test_a_repetition_that_writes_what_is_missing_tells_both(capfd, exactly_once):
    stream(**exactly_once, summary="job").commit([REPEATED, TASK], 4)
    printed = capfd.readouterr().err
    assert "micro-batch 4 committed by 2 tasks: 3 rows, " in printed
    assert "20 more rows were already committed" in printed


def test_the_driver_names_query_topic_and_micro_batch_of_every_write(monkeypatch, capfd, caplog):
    monkeypatch.setattr(partition_writer, "write_partition", lambda *arguments: WriteSummary(rows=3))
    monkeypatch.setattr(SparkTask, "current", classmethod(lambda cls: cls(3, 1, "id-of-query", "7")))
    # Within foreachBatch, only tasks know the query.
    given = {"kafka.bootstrap.servers": "h:1", "summary": "job"}
    batch = BatchWriter(SCHEMA, WriteColumns(("value", "topic")), WriteOptions.parse(given))
    batch.commit([batch.write(iter(())), None])
    named = stream(summary="job", queryName="orders")
    named.commit([named.write(iter(()))], 7)
    first, second = capfd.readouterr().err.splitlines()
    assert "query id-of-query, column topic: micro-batch 7 written by 1 tasks: 3 rows" in first
    assert "query orders, topic t: micro-batch 7 written by 1 tasks: 3 rows" in second
    context = caplog.records[-1].context
    found = {name: context[name] for name in ("topic", "query_name", "query_id", "batch_id", "rows")}
    assert found == {
        "topic": "t", "query_name": "orders", "query_id": "id-of-query", "batch_id": "7", "rows": "3",
    }  # fmt: skip


def test_only_exactly_once_has_a_commit_whose_time_is_told(capfd, caplog, exactly_once):
    stream(summary="job").commit([TASK], 4)
    assert caplog.records[-1].context["commit_ms"] == "0"
    assert ", committed in" not in capfd.readouterr().err
    stream(**exactly_once, summary="job").commit([TASK], 4)
    assert int(caplog.records[-1].context["commit_ms"]) >= 1
    assert ", committed in " in capfd.readouterr().err
