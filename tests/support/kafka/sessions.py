"""Load during which sessions end, and the check that no record is lost, repeated or reordered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kproducer import KafkaProducer
from tests.support.kafka.reader import read_topic


def send_numbers(producer: KafkaProducer, topic: str, seconds: float, partitions: int = 1) -> list[int]:
    """Send 0, 1, 2, ... to each partition, from a thread per partition; return the partitions' counts.

    Raises:
        AssertionError: a record failed.
    """

    def load(partition: int) -> int:
        futures = numbers(lambda value: producer.send(topic, value, partition=partition), seconds)
        assert [error for future in futures if (error := future.exception(30))] == []
        return len(futures)

    with ThreadPoolExecutor(partitions) as threads:
        return list(threads.map(load, range(partitions)))


def numbers(send: Callable[[bytes], Any], seconds: float) -> list[Any]:
    """Call ``send`` with b"0", b"1", b"2", ... for some seconds; return what it returned."""
    sent: list[Any] = []
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        sent += [send(b"%d" % (len(sent) + at)) for at in range(10)]
        time.sleep(0.005)
    return sent


def check_numbers(bootstrap_servers: str, topic: str, counts: Iterable[int]) -> None:
    """Each partition has the numbers below its count, each once and in order."""
    read = read_topic(bootstrap_servers, topic)
    for partition, count in enumerate(counts):
        values = [int(each.value or b"") for each in read if each.partition == partition]
        assert values == list(range(count))


def leader_authentications(caplog: pytest.LogCaptureFixture) -> int:
    """Authentications of connections to leaders. Needs the logger ``kproducer.client`` at level DEBUG."""
    messages = [record.getMessage() for record in caplog.records]
    return sum(each.startswith("Authenticated with") and "bootstrap" not in each for each in messages)
