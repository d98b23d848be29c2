"""What a ``KafkaProxy`` does to Produce requests and responses, at random and at adjustable rates.

``dropped``: the broker appends the records, and the connection closes before its response arrives.
``rejected``: the broker never sees the request, and the proxy answers each partition with a retriable error.
``failed after append``: the broker appends the records, and the proxy answers with an error that leaves the
outcome unknown.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import NamedTuple

from kproducer_messages import ProduceRequest, ProduceResponse, RequestHeader, ResponseHeader
from kproducer_messages.produce_response import PartitionProduceResponse, TopicProduceResponse

from kproducer._core.client.api_keys import ApiKey, request_header_version, response_header_version
from tests.support.kafka.proxy import Frame

#: NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, UNKNOWN_TOPIC_OR_PARTITION,
#: LEADER_NOT_AVAILABLE.
REJECTIONS = (6, 7, 19, 3, 5)
#: REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
ERRORS_AFTER_APPEND = (7, 20)


class Rates(NamedTuple):
    """Probability of each fault per request (``failed_after_append``: per partition of a response)."""

    dropped: float = 0.0
    rejected: float = 0.0
    failed_after_append: float = 0.0


class ProduceFaults:
    """Pass it to ``KafkaProxy``. Thread-safe.

    Attributes:
        counts: number of faults so far, by name.
        rates: may be changed at any time.
    """

    def __init__(self, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.rates = Rates()
        self._chance = random.Random(seed)
        self._lock = threading.Lock()

    def __call__(self, frame: Frame) -> bool | bytes:
        if frame.api_key != ApiKey.PRODUCE:
            return True
        rates = self.rates
        if not frame.is_answer:
            return self._rejection(frame) if self._happens("rejected", rates.rejected) else True
        if self._happens("dropped", rates.dropped):
            return False
        return self._failed(frame, rates.failed_after_append)

    def _happens(self, what: str, rate: float) -> bool:
        with self._lock:
            happens = self._chance.random() < rate
            self.counts[what] += happens
        return happens

    def _rejection(self, frame: Frame) -> bytes:
        header, position = RequestHeader.decode(
            frame.data, request_header_version(frame.api_key, frame.api_version)
        )
        request, _ = ProduceRequest.decode(frame.data, frame.api_version, position)
        with self._lock:
            code = self._chance.choice(REJECTIONS)
        answer = ProduceResponse()
        for topic in request.topic_data:
            answer.responses.append(
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(index=each.index, error_code=code, base_offset=-1)
                        for each in topic.partition_data
                    ],
                )
            )
        return _encoded(answer, header.correlation_id, frame.api_version)

    def _failed(self, frame: Frame, rate: float) -> bool | bytes:
        if not rate:
            return True
        header, position = ResponseHeader.decode(
            frame.data, response_header_version(frame.api_key, frame.api_version)
        )
        answer, _ = ProduceResponse.decode(frame.data, frame.api_version, position)
        is_changed = False
        for topic in answer.responses:
            for partition in topic.partition_responses:
                if partition.error_code == 0 and self._happens("failed after append", rate):
                    with self._lock:
                        partition.error_code = self._chance.choice(ERRORS_AFTER_APPEND)
                    partition.base_offset = -1
                    is_changed = True
        return _encoded(answer, header.correlation_id, frame.api_version) if is_changed else True


def _encoded(answer: ProduceResponse, correlation_id: int, version: int) -> bytes:
    header = ResponseHeader(correlation_id=correlation_id)
    return header.encode(response_header_version(ApiKey.PRODUCE, version)) + answer.encode(version)
