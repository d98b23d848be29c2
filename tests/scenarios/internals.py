"""The only module of the scenarios that accesses internals of the producer."""

from __future__ import annotations

import threading
from typing import Any

from kproducer import KafkaProducer, TopicPartition


def _engine(producer: KafkaProducer) -> Any:
    return producer._lifecycle.last_engine


def io_thread(producer: KafkaProducer) -> threading.Thread:
    thread: threading.Thread = _engine(producer).thread
    return thread


def buffer_memory(producer: KafkaProducer) -> tuple[int, int]:
    """(free bytes, total bytes)."""
    engine = _engine(producer)
    return engine.pool.available_bytes, engine.config.buffer_memory


def memory_waiters(producer: KafkaProducer) -> int:
    """Number of callers that wait for buffer memory."""
    return len(_engine(producer).pool.waiters)


def in_flight_count(producer: KafkaProducer) -> int:
    count: int = _engine(producer).client.in_flight_request_count()
    return count


def incomplete_count(producer: KafkaProducer) -> int:
    """Batches that are neither acknowledged nor failed."""
    count: int = _engine(producer).accumulator.incomplete_count
    return count


def is_ending_transaction(producer: KafkaProducer) -> bool:
    """Whether a commit or an abort is running in the background."""
    is_ending: bool = _engine(producer).transactions.is_ending
    return is_ending


def accumulator(producer: KafkaProducer) -> Any:
    """The producer's record accumulator."""
    return _engine(producer).accumulator


def purge_of_engine(producer: KafkaProducer) -> int:
    """``purge`` as of a thread that found the producer open just before another one closed it."""
    count: int = _engine(producer).purge(True, True)
    return count


def lanes(producer: KafkaProducer) -> Any:
    """The data plane's lanes; ``None``: not in use."""
    return _engine(producer).sender._lanes


def lane(producer: KafkaProducer) -> Any:
    """One of the lanes; ``None``: there is none now."""
    found = [] if lanes(producer) is None else lanes(producer)._plane.lanes
    return found[0] if found else None


def begin_round(producer: KafkaProducer) -> None:
    """Let the I/O thread begin another round."""
    _engine(producer).client.wakeup()


def armed_partitions(producer: KafkaProducer) -> int:
    """How many partitions the lanes have now."""
    queues = _engine(producer).accumulator.queues.all_queues()
    return sum(queue.slot.part is not None for queue in queues)


def is_armed(producer: KafkaProducer, topic_partition: TopicPartition) -> bool:
    """Whether a lane has the partition."""
    return accumulator(producer).queues.queue_of(topic_partition).slot.part is not None


def uses_transaction_version_2(producer: KafkaProducer) -> bool:
    uses: bool = _engine(producer).transactions.uses_version_2
    return uses


def use_transaction_version(producer: KafkaProducer, version: int) -> None:
    """Let the next transactions have this version, as if the brokers were upgraded or downgraded."""
    transactions = _engine(producer).transactions
    transactions.hooks = transactions.hooks._replace(transaction_version=lambda: version)
