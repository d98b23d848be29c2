"""One portion of the demo's records: sent with kproducer, read back with confluent-kafka, compared."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from kproducer import KafkaProducer, RecordMetadata
from tests.support.kafka.reader import iterate_topic

#: Records per step of the progress bar.
STEP_RECORDS = 2000
_FLUSH_TIMEOUT_SECONDS = 120
_READ_TIMEOUT_SECONDS = 300

Advance = Callable[[int], None]


@contextmanager
def gives_up_on_interrupt(producer: KafkaProducer) -> Iterator[None]:
    """At Ctrl-C, do not wait for records that are not acknowledged, as the producer's ``with`` block does."""
    try:
        yield
    except KeyboardInterrupt:
        logging.disable()  # the producer would also report how many records it gives up
        producer.close(0)
        raise


class Journey:
    """The state of one portion. The producer's I/O thread stores the results."""

    def __init__(self, values: list[bytes]) -> None:
        self.values = values
        self.sending_seconds = 0.0
        self.latencies_ns = array("q", bytes(8 * len(values)))
        self.errors: list[BaseException] = []
        self._sent_at_ns = array("q", bytes(8 * len(values)))
        self._partitions = array("i", bytes(4 * len(values)))
        self._offsets = array("q", [-1]) * len(values)

    def send(self, producer: KafkaProducer, topic: str, advance: Advance) -> None:
        """Send every value and wait for every result."""
        sent_at_ns, clock, send, answered = (
            self._sent_at_ns,
            time.perf_counter_ns,
            producer.send,
            self._answered,
        )
        started_ns = clock()
        for number, value in enumerate(self.values):
            sent_at_ns[number] = clock()
            send(topic, value, on_delivery=partial(answered, number))
            if number % STEP_RECORDS == STEP_RECORDS - 1:
                advance(STEP_RECORDS)
        producer.flush(_FLUSH_TIMEOUT_SECONDS)
        self.sending_seconds = (clock() - started_ns) / 1e9
        advance(len(self.values) % STEP_RECORDS)

    def _answered(self, number: int, metadata: RecordMetadata, error: BaseException | None) -> None:
        if error is not None:
            self.errors.append(error)
            return
        self.latencies_ns[number] = time.perf_counter_ns() - self._sent_at_ns[number]
        self._partitions[number] = metadata.partition
        self._offsets[number] = metadata.offset

    def partition_of(self, number: int) -> int:
        """The partition and offset of a value, once it is acknowledged."""
        return self._partitions[number]

    def verify(self, bootstrap_servers: str, topic: str, advance: Advance) -> tuple[int, int]:
        """Read the portion back: (values at the reported offsets, unexpected records)."""
        expected: dict[int, dict[int, int]] = {}
        for number, (partition, offset) in enumerate(zip(self._partitions, self._offsets, strict=True)):
            if offset >= 0:
                expected.setdefault(partition, {})[offset] = number
        verified = unexpected = 0
        for record in iterate_topic(
            bootstrap_servers,
            topic,
            start_offsets={partition: min(offsets) for partition, offsets in expected.items()},
            next_offsets={partition: max(offsets) + 1 for partition, offsets in expected.items()},
            partitions=list(expected),
            timeout_seconds=_READ_TIMEOUT_SECONDS,
        ):
            number = expected[record.partition].pop(record.offset, None)
            if number is not None and record.value == self.values[number] and record.key is None:
                verified += 1
                if verified % STEP_RECORDS == 0:
                    advance(STEP_RECORDS)
            else:
                unexpected += 1
        advance(verified % STEP_RECORDS)
        return verified, unexpected
