"""An independent consumer (confluent-kafka) that follows a topic while it is written, in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition


class LiveReader:
    """Calls back for every record, and each time it reaches the end of a partition.

    Callbacks run on its thread. It survives broker restarts.

    Args:
        on_record: called with partition and value.
        on_end: called with the partition whose end was reached, if no transaction is open in it.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partition_count: int,
        on_record: Callable[[int, bytes], None],
        on_end: Callable[[int], None],
        isolation_level: str = "read_committed",
    ) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "live-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "isolation.level": isolation_level,
                "fetch.wait.max.ms": 20,
                "fetch.error.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._places = [TopicPartition(topic, partition, 0) for partition in range(partition_count)]
        self._on_record = on_record
        self._on_end = on_end
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Raises the error that ended it earlier, if any."""
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._consumer.assign(self._places)
            while not self._is_over.is_set():
                for message in self._consumer.consume(1000, timeout=0.1):
                    self._take(message)
        except BaseException as error:
            self._error = error
        finally:
            self._consumer.close()

    def _take(self, message) -> None:  # type: ignore[no-untyped-def]
        error = message.error()
        if error is None:
            self._on_record(message.partition(), message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            # Otherwise this is only the last stable offset: a transaction is open.
            place = TopicPartition(message.topic(), message.partition())
            if message.offset() == self._consumer.get_watermark_offsets(place, cached=True)[1]:
                self._on_end(message.partition())
        elif error.code() >= 0 and not error.retriable():
            raise KafkaException(error)
