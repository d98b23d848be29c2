"""Forged answers to Produce requests are what a broker might send, in every version."""

from __future__ import annotations

from uuid import UUID

import pytest
from kproducer_messages import ProduceRequest, ProduceResponse, RequestHeader, ResponseHeader
from kproducer_messages.produce_request import PartitionProduceData, TopicProduceData
from kproducer_messages.produce_response import PartitionProduceResponse, TopicProduceResponse

from kproducer._core.client.api_keys import ApiKey, request_header_version, response_header_version
from kproducer._core.client.responses import parse_response
from tests.support.chaos.produce_faults import ERRORS_AFTER_APPEND, REJECTIONS, ProduceFaults, Rates
from tests.support.kafka.proxy import Frame

CORRELATION_ID = 71
VERSIONS = range(ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION + 1)


def request(version: int) -> Frame:
    header = RequestHeader(
        request_api_key=ApiKey.PRODUCE,
        request_api_version=version,
        correlation_id=CORRELATION_ID,
        client_id="c",
    )
    partitions = [PartitionProduceData(index=index, records=b"records") for index in (4, 2)]
    body = ProduceRequest(acks=-1, timeout_ms=1)
    body.topic_data.append(TopicProduceData(name="t", topic_id=UUID(int=9), partition_data=partitions))
    data = header.encode(request_header_version(ApiKey.PRODUCE, version)) + body.encode(version)
    return Frame(ApiKey.PRODUCE, version, False, data)


def answer(version: int, *codes: int) -> Frame:
    header = ResponseHeader(correlation_id=CORRELATION_ID)
    partitions = [
        PartitionProduceResponse(index=index, error_code=code, base_offset=10 + index)
        for index, code in enumerate(codes)
    ]
    body = ProduceResponse()
    body.responses.append(
        TopicProduceResponse(name="t", topic_id=UUID(int=9), partition_responses=partitions)
    )
    data = header.encode(response_header_version(ApiKey.PRODUCE, version)) + body.encode(version)
    return Frame(ApiKey.PRODUCE, version, True, data)


def parsed(frame: bytes | bool, version: int) -> list[tuple[int, int, int]]:
    """Index, error and base offset of each partition."""
    assert isinstance(frame, bytes)
    (topic,) = parse_response(ApiKey.PRODUCE, version, CORRELATION_ID, frame).responses
    assert topic.topic_id == UUID(int=9) if version >= 13 else topic.name == "t"
    return [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rejection_answers_for_every_partition_of_the_request(version):
    faults = ProduceFaults(seed=1)
    faults.rates = Rates(rejected=1)
    found = parsed(faults(request(version)), version)
    assert [(index, offset) for index, _, offset in found] == [(4, -1), (2, -1)]
    assert {code for _, code, _ in found} <= set(REJECTIONS)
    assert faults.counts["rejected"] == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_success_becomes_an_error_and_an_error_stays(version):
    faults = ProduceFaults(seed=1)
    faults.rates = Rates(failed_after_append=1)
    forged, real = parsed(faults(answer(version, 0, 45)), version)
    assert forged[1] in ERRORS_AFTER_APPEND
    assert forged[2] == -1
    assert real == (1, 45, 11)
    assert faults.counts["failed after append"] == 1


def test_a_dropped_answer_ends_the_connection():
    faults = ProduceFaults(seed=1)
    faults.rates = Rates(dropped=1)
    assert faults(request(9)) is True
    assert faults(answer(9, 0)) is False


def test_other_requests_and_rates_of_zero_change_nothing():
    faults = ProduceFaults(seed=1)
    assert faults(request(9)) is True
    assert faults(answer(9, 0)) is True
    faults.rates = Rates(1, 1, 1)
    assert faults(Frame(ApiKey.METADATA, 9, False, b"")) is True
    assert faults(Frame(ApiKey.METADATA, 9, True, b"")) is True
