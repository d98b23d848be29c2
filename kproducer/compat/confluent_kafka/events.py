"""What ``poll`` reports besides messages: errors of connections, statistics, and log lines.

The engine has no events: errors and statistics are looked at when ``poll`` or ``flush`` runs.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from kproducer._core.engine.engine_lifecycle import EngineLifecycle
from kproducer.compat.confluent_kafka.delivery_reports import DeliveryReports
from kproducer.compat.confluent_kafka.errors import converted, new_error
from kproducer.compat.confluent_kafka.settings import ProducerSettings
from kproducer.kafka_producer import KafkaProducer, lifecycle_of

_LOOK_INTERVAL_S = 0.1


class ErrorEvents:
    """Calls ``error_cb`` once for each error of a connection, when it begins.

    Args:
        callback: gets a ``KafkaError``.
        lifecycle: has the engine.
    """

    def __init__(self, callback: Callable[[Any], object], lifecycle: EngineLifecycle) -> None:
        self._callback = callback
        self._lifecycle = lifecycle
        self._known: set[str] = set()
        self._next_look_s = 0.0

    def serve(self) -> int:
        """Report new errors; returns how many."""
        now_s = time.monotonic()
        engine = self._lifecycle.engine
        if now_s < self._next_look_s or engine is None:
            return 0
        self._next_look_s = now_s + _LOOK_INTERVAL_S
        refusals, lost, is_down = engine.connection_failures()
        texts = {str(each): converted(each) for each in refusals}
        texts.update({text: new_error("_TRANSPORT", text) for text in lost if text not in texts})
        new = [event for text, event in texts.items() if text not in self._known]
        self._known = set(texts)
        if new and is_down and not refusals:
            new.append(new_error("_ALL_BROKERS_DOWN", f"no broker can be reached: {engine.last_errors()}"))
        for event in new:
            self._callback(event)
        return len(new)


class Statistics:
    """Calls ``stats_cb`` with JSON at intervals; the keys are those of librdkafka that kproducer can fill.

    Args:
        settings: callback, interval and limits.
        producer: has the counters.
        reports: has the length of the queue.
    """

    def __init__(self, settings: ProducerSettings, producer: KafkaProducer, reports: DeliveryReports) -> None:
        assert settings.stats_cb is not None
        self._callback = settings.stats_cb
        self._interval_s = settings.statistics_s
        self._settings = settings
        self._producer = producer
        self._reports = reports
        self._started_s = time.monotonic()
        self._next_s = self._started_s + self._interval_s

    def serve(self) -> int:
        """Report if the interval has passed."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return 0
        self._next_s = now_s + self._interval_s
        self._callback(json.dumps(self.values(now_s)))
        return 1

    def values(self, now_s: float) -> dict[str, Any]:
        """The statistics as a dictionary."""
        config = self._producer.config
        engine = lifecycle_of(self._producer).running_engine()
        metrics = self._producer.metrics()["producer-metrics"]
        return {
            "name": config.client_id,
            "client_id": config.client_id,
            "type": "producer",
            "ts": int(now_s * 1e6),
            "time": int(time.time()),
            "age": int((now_s - self._started_s) * 1e6),
            "msg_cnt": self._reports.count,
            "msg_size": int(metrics["buffer-total-bytes"] - metrics["buffer-available-bytes"]),
            "msg_max": self._settings.most_messages,
            "msg_size_max": config.buffer_memory,
            "tx": int(metrics["request-total"]),
            "txmsgs": int(metrics["record-send-total"]),
            "txmsg_bytes": int(metrics["byte-total"]),
            "txretries": int(metrics["record-retry-total"]),
            "metadata_cache_cnt": len(engine.topics.snapshot.topics),
            "brokers": {},
            "topics": {},
        }


class ForwardedLog(logging.Handler):
    """Passes kproducer's log to the application's ``logger``, as confluent-kafka does with librdkafka's.

    Producers with the same logger share one, so that it gets each line once.
    """

    _lock = threading.Lock()

    def __init__(self, logger: Any) -> None:
        super().__init__()
        self._target = logger
        self._users = 1  # guarded by _lock

    @classmethod
    def forget_after_fork(cls) -> None:
        """In a forked child: a thread that is gone may hold the lock."""
        cls._lock = threading.Lock()

    @classmethod
    def begin(cls, logger: Any) -> ForwardedLog | None:
        """Begin to pass the log to this logger, unless it has these lines already."""
        source = logging.getLogger("kproducer")
        ancestors = {source.name, "root", ""}
        if not callable(getattr(logger, "log", None)):
            raise TypeError("logger must have a method log(level, text)")
        if getattr(logger, "name", None) in ancestors:
            return None
        with cls._lock:
            for each in source.handlers:
                if isinstance(each, cls) and each._target is logger:
                    each._users += 1
                    return each
            handler = cls(logger)
            source.addHandler(handler)
            return handler

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one line."""
        self._target.log(record.levelno, record.getMessage())

    def end(self) -> None:
        """Note that a producer has ended; stop after the last one."""
        with self._lock:
            self._users -= 1
            if not self._users:
                logging.getLogger("kproducer").removeHandler(self)
