"""What a ``KafkaProxy`` does to the connections of a producer in a duel, at the times of the schedule.

A lost response: the broker has done what was asked, and the connection closes before its response arrives. A
late EndTxn: the connection closes before the request reaches the broker, which gets it some time later on
another connection, as from a network that delivers a packet late.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable

from kproducer_messages import EndTxnResponse, ResponseHeader

from kproducer._core.client.api_keys import ApiKey, response_header_version
from tests.support.duel.schedule import END_LATE, END_RESPONSE_LOST, PRODUCE_RESPONSE_LOST, Fault
from tests.support.kafka.proxy import Frame

#: The version of EndTxn with which the coordinator begins another epoch after each transaction (KIP-890).
FIRST_OF_PROTOCOL_2 = 5
_TIMEOUT_SECONDS = 10.0
_SIZE = struct.Struct(">i")
_OF_ANSWERS = {ApiKey.PRODUCE: PRODUCE_RESPONSE_LOST, ApiKey.END_TXN: END_RESPONSE_LOST}
_OF_REQUESTS = {ApiKey.END_TXN: END_LATE}


class ConnectionFaults:
    """Pass it to ``KafkaProxy``. Thread-safe.

    After a fault, the next request of the same API is answered before another one has a fault: a client that
    tries again now and then would not get through otherwise. Faults that are overdue by then are left out.

    Args:
        faults: of a schedule; those of brokers are ignored.

    Attributes:
        counts: faults that took place, by kind.
        late_answers: what brokers answered to late EndTxn requests: how often which error code.
        end_version: the highest version of EndTxn that the client used, -1 for none.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.counts: Counter[str] = Counter()
        self.late_answers: Counter[int] = Counter()
        self.end_version = -1
        self._lock = threading.Lock()
        self._started: float | None = None
        self._due: dict[str, list[Fault]] = {}
        #: APIs whose last request had a fault.
        self._spared: set[int] = set()
        for fault in sorted(faults, reverse=True):
            self._due.setdefault(fault.kind, []).append(fault)
        self._deliveries: list[threading.Thread] = []

    def start(self) -> None:
        """From now on, times count."""
        self._started = time.monotonic()

    def stop(self) -> None:
        """No faults from now on. Waits for late requests."""
        self._started = None
        for each in self._deliveries:
            each.join()

    def __call__(self, frame: Frame) -> bool:
        if frame.api_key == ApiKey.END_TXN:
            self.end_version = max(self.end_version, frame.api_version)
        kind = (_OF_ANSWERS if frame.is_answer else _OF_REQUESTS).get(frame.api_key)
        fault = self._take(kind, frame) if kind is not None else None
        if fault is None:
            return True
        if fault.kind == END_LATE:
            late = threading.Thread(target=self._deliver, args=(frame, fault.seconds), daemon=True)
            self._deliveries.append(late)
            late.start()
        return False

    def _take(self, kind: str, frame: Frame) -> Fault | None:
        with self._lock:
            if self._started is None:
                return None
            if frame.api_key in self._spared:
                if frame.is_answer:
                    self._spared.remove(frame.api_key)
                return None
            fault, now, later = None, time.monotonic() - self._started, self._due.get(kind, [])
            while later and later[-1].at <= now:
                fault = later.pop()
            if fault is not None:
                self.counts[kind] += 1
                self._spared.add(frame.api_key)
            return fault

    def _deliver(self, frame: Frame, seconds: float) -> None:
        time.sleep(seconds)
        # The broker may be down or frozen: then the packet is lost.
        with contextlib.suppress(OSError, struct.error):
            with socket.create_connection(("127.0.0.1", frame.broker_port), _TIMEOUT_SECONDS) as broker:
                stream = broker.makefile("rwb")
                stream.write(_SIZE.pack(len(frame.data)) + frame.data)
                stream.flush()
                answer = stream.read(*_SIZE.unpack(stream.read(_SIZE.size)))
            version = frame.api_version
            _, position = ResponseHeader.decode(answer, response_header_version(ApiKey.END_TXN, version))
            code = EndTxnResponse.decode(answer, version, position)[0].error_code
            with self._lock:
                self.late_answers[code] += 1
