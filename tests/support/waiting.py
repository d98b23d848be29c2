"""Waiting for other threads and processes when there is no event to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kproducer import KafkaProducer, MetadataTimeoutError


def wait_until(condition: Callable[[], bool], minutes: int = 1) -> None:
    """Return as soon as ``condition()`` is true; AssertionError after ``minutes`` or more."""
    pause = threading.Event()
    for _ in range(60_000 * minutes):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("condition not met")


def learn_topics(producer: KafkaProducer, *topics: str) -> None:
    """Let a producer fetch the metadata of topics, retrying because ``max_block_ms`` may be short."""
    for topic in topics:
        wait_until(lambda topic=topic: _knows(producer, topic))  # type: ignore[misc]


def _knows(producer: KafkaProducer, topic: str) -> bool:
    try:
        producer.partitions_for(topic)
    except MetadataTimeoutError:
        return False
    return True
