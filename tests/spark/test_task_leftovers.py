"""What tasks leave in their worker, with real producers: nothing after a failure, one after success."""

from __future__ import annotations

import os
import threading
from collections import Counter

import pyarrow as pa
import pytest

from kproducer import KafkaProducer
from kproducer.spark.errors import SparkWriteError
from kproducer.spark.partition_writer import write_partition
from kproducer.spark.producer_cache import ProducerCache
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.spark.write_summary import WriteSummary
from tests.spark.fake_producer import close_idle
from tests.support.kafka.reader import read_topic
from tests.support.loopback import open_descriptors

pytestmark = pytest.mark.mock_cluster

TOPIC = "leftovers"
COLUMNS = WriteColumns(("value",), TOPIC)
INVALID_RECORD = 87
PRODUCE = 0


def rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([f"row-{n}" for n in range(count)])], names=["value"])


def write(cluster, cache: ProducerCache, batches) -> WriteSummary:
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": TOPIC, "summary": "off"}
    return write_partition(batches, COLUMNS, WriteOptions.parse(options), cache)


def io_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("kproducer-io")}


def open_sockets() -> set[tuple[str, str]]:
    # Other libraries in this process open pipes at any time.
    return {(number, target) for number, target in open_descriptors() if target.startswith("socket:")}


@pytest.fixture
def cluster(mock_cluster):
    mock_cluster.create_topic(TOPIC, partitions=2)
    return mock_cluster


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files in /proc")
@pytest.mark.parametrize("reason", ["refused", "interrupted"])
def test_a_failed_task_leaves_no_thread_and_no_socket(cluster, reason):
    threads_before, sockets_before = io_threads(), open_sockets()
    cache = ProducerCache(KafkaProducer.from_config)

    def batches():
        yield rows(1000)
        if reason == "interrupted":
            raise KeyboardInterrupt

    if reason == "refused":
        cluster.push_errors(PRODUCE, INVALID_RECORD)
    with pytest.raises(SparkWriteError if reason == "refused" else KeyboardInterrupt):
        write(cluster, cache, batches())
    assert len(cache._idle) == 0
    # What others had open may be closed meanwhile.
    assert io_threads() <= threads_before
    assert open_sockets() <= sockets_before


def test_tasks_one_after_the_other_use_one_producer_which_closes_when_told(cluster):
    threads_before = io_threads()
    cache = ProducerCache(KafkaProducer.from_config)
    for _ in range(3):
        write(cluster, cache, iter([rows(100)]))
    assert len(io_threads() - threads_before) == 1
    close_idle(cache)
    assert io_threads() <= threads_before
    assert len(read_topic(cluster.bootstrap_servers, TOPIC)) == 300


def test_each_task_reports_the_requests_of_its_own(cluster):
    made = []

    def make(settings: dict[str, str]) -> KafkaProducer:
        made.append(KafkaProducer.from_config(settings))
        return made[-1]

    cache = ProducerCache(make)
    first, second = (write(cluster, cache, iter([rows(count)])) for count in (100, 1))
    assert (first.requests, second.requests) == (1, 1)
    assert first.wire_bytes > second.wire_bytes > 0
    metrics = made[0].metrics()["producer-metrics"]
    assert made[0].sent_totals(is_current=True).items() <= metrics.items()
    assert first.wire_bytes + second.wire_bytes == metrics["byte-total"]
    close_idle(cache)


def test_a_speculative_twin_doubles_rows_and_loses_none(cluster):
    # Two workers, so two caches; both attempts of the same partition run to their end.
    caches = [ProducerCache(KafkaProducer.from_config) for _ in range(2)]
    errors: list[BaseException] = []

    def attempt(number: int) -> None:
        try:
            write(cluster, caches[number], iter([rows(500)] * 2))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for cache in caches:
        close_idle(cache)
    assert not errors
    values = Counter(record.value for record in read_topic(cluster.bootstrap_servers, TOPIC))
    assert values == Counter({f"row-{number}".encode(): 4 for number in range(500)})


def test_tasks_that_share_a_producer_fail_alone(cluster):
    cache = ProducerCache(KafkaProducer.from_config)
    started, failed = threading.Event(), threading.Event()

    def batches():
        yield rows(100)
        started.set()
        assert failed.wait(60)
        yield rows(100)

    result: list[int] = []
    good = threading.Thread(target=lambda: result.append(write(cluster, cache, batches()).rows))
    good.start()
    assert started.wait(60)
    too_large = pa.RecordBatch.from_arrays([pa.array(["x" * 2_000_000])], names=["value"])
    with pytest.raises(SparkWriteError, match="RecordTooLargeError"):
        write(cluster, cache, iter([too_large]))
    failed.set()
    good.join(60)
    assert result == [200]
    assert len(read_topic(cluster.bootstrap_servers, TOPIC)) == 200
