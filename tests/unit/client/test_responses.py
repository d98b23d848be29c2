"""Responses: the right header, the right correlation id, and broker's bytes that make no sense."""

from __future__ import annotations

import pytest
from kproducer_messages import (
    ApiVersionsResponse,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    ResponseHeader,
)

from kproducer._core.client.api_keys import (
    ApiKey,
    api_name,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)
from kproducer._core.client.responses import parse_response
from kproducer.errors import LocalProtocolError, RemoteProtocolError
from kproducer.errors.internal_errors import CorrelationIdMismatchError


def payload(message, api_key, version, correlation_id=5):
    header = ResponseHeader(correlation_id=correlation_id)
    return header.encode(response_header_version(api_key, version)) + message.encode(version)


@pytest.mark.parametrize(
    ("api_key", "message"),
    [
        (ApiKey.PRODUCE, ProduceResponse(throttle_time_ms=3)),
        (ApiKey.METADATA, MetadataResponse()),
        (ApiKey.API_VERSIONS, ApiVersionsResponse(error_code=35)),
    ],
)
def test_a_response_is_read_in_every_version_whatever_follows_it(api_key, message):
    for version in range(message.MIN_VERSION, message.MAX_VERSION + 1):
        data = payload(message, api_key, version)
        for buffer in (data, memoryview(data), bytearray(data) + b"more"):
            assert parse_response(api_key, version, 5, buffer) == message


def test_tagged_fields_in_the_header_are_read_over():
    body = MetadataResponse(cluster_id="abc")
    header = b"\0\0\0\5" + b"\1" + b"\7\2hi"
    assert parse_response(ApiKey.METADATA, 12, 5, header + body.encode(12)) == body


def test_the_message_survives_the_reuse_of_the_receive_buffer():
    buffer = bytearray(payload(MetadataResponse(cluster_id="abc"), ApiKey.METADATA, 12))
    message = parse_response(ApiKey.METADATA, 12, 5, memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert message.cluster_id == "abc"


def test_another_correlation_id_is_told_apart():
    data = payload(MetadataResponse(), ApiKey.METADATA, 12, correlation_id=6)
    with pytest.raises(CorrelationIdMismatchError, match=r"correlation id 6, .* in flight has 5") as caught:
        parse_response(ApiKey.METADATA, 12, 5, data)
    assert isinstance(caught.value, RemoteProtocolError)


def test_every_truncation_is_the_peers_error():
    data = payload(MetadataResponse(cluster_id="abc"), ApiKey.METADATA, 12)
    for length in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            parse_response(ApiKey.METADATA, 12, 5, data[:length])


def test_flexible_versions_have_flexible_headers_except_for_api_versions_responses():
    assert [response_header_version(ApiKey.API_VERSIONS, version) for version in range(5)] == [0] * 5
    assert [request_header_version(ApiKey.API_VERSIONS, version) for version in range(5)] == [1, 1, 1, 2, 2]
    assert [response_header_version(ApiKey.METADATA, version) for version in (8, 9)] == [0, 1]
    assert [request_header_version(ApiKey.PRODUCE, version) for version in (8, 9)] == [1, 2]


def test_the_registry_reads_the_generated_index():
    assert request_class(ApiKey.PRODUCE) is ProduceRequest
    assert all(request_class(key).API_KEY == response_class(key).API_KEY == key for key in ApiKey)
    assert api_name(18) == "ApiVersions"
    assert api_name(68) == "API 68"
    with pytest.raises(LocalProtocolError, match=r"API 99 .key 99. has no compiled spec"):
        request_class(99)
