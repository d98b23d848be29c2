"""Frames are exactly the size prefix, the header and the message."""

from __future__ import annotations

import pytest
from kproducer_messages import MetadataRequest, ProduceRequest, RequestHeader
from kproducer_messages.metadata_request import MetadataRequestTopic
from kproducer_messages.produce_request import PartitionProduceData, TopicProduceData

from kproducer._core.client.api_keys import ApiKey, request_header_version
from kproducer._core.client.send_builder import build_request
from kproducer.errors import LocalProtocolError

VERSIONS = range(ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION + 1)


def produce(*records):
    partitions = [PartitionProduceData(index=index, records=data) for index, data in enumerate(records)]
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(partition_data=partitions)])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_frame_is_size_prefix_header_and_body(version):
    message = produce(b"a" * 300, None, b"", bytearray(b"c" * 5), memoryview(b"d"))
    frame = b"".join(build_request(ApiKey.PRODUCE, version, 7, "me", message))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, position = RequestHeader.decode(frame, request_header_version(ApiKey.PRODUCE, version), 4)
    assert (header.request_api_key, header.request_api_version) == (0, version)
    assert (header.correlation_id, header.client_id) == (7, "me")
    decoded, end = ProduceRequest.decode(frame, version, position)
    assert end == len(frame)
    assert decoded == message
    assert frame[position:] == message.encode(version)


def test_null_and_empty_records_have_their_own_prefixes():
    for version, null, empty in ((8, b"\xff\xff\xff\xff", bytes(4)), (9, b"\x00", b"\x01")):
        index = bytes(4)
        assert index + null in b"".join(build_request(ApiKey.PRODUCE, version, 1, None, produce(None)))[-12:]
        assert index + empty in b"".join(build_request(ApiKey.PRODUCE, version, 1, None, produce(b"")))[-12:]


def test_a_null_client_id_is_legal():
    frame = b"".join(build_request(ApiKey.METADATA, 0, 1, None, MetadataRequest()))
    assert RequestHeader.decode(frame, 1, 4)[0].client_id is None


def test_views_of_other_item_sizes_count_in_bytes():
    import array

    numbers = array.array("i", [1, 2, 3])
    views = build_request(ApiKey.PRODUCE, 9, 1, "c", produce(memoryview(numbers)))
    frame = b"".join(views)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert numbers.tobytes() in frame


def test_what_cannot_be_encoded_is_our_own_error_and_names_the_field():
    topic = MetadataRequestTopic(name=None)
    with pytest.raises(LocalProtocolError, match=r"MetadataRequest v9, field topics\[0\].name: null"):
        build_request(ApiKey.METADATA, 9, 1, "c", MetadataRequest(topics=[topic]))


def test_an_api_without_a_spec_is_our_own_error():
    with pytest.raises(LocalProtocolError, match=r"API 999 .*no compiled spec"):
        build_request(999, 0, 1, "c", MetadataRequest())


def test_a_message_too_large_for_a_frame_is_refused_before_it_is_laid_out():
    class Huge:
        def size(self, version):
            return 2**31

        def encode_into(self, buffer, position, version):
            raise AssertionError("not reached")

    with pytest.raises(LocalProtocolError, match="a frame ends at 2147483647"):
        build_request(ApiKey.METADATA, 0, 1, "c", Huge())


def test_a_message_that_changes_while_it_is_encoded_never_reaches_the_wire():
    class Fickle(MetadataRequest):
        def size(self, version):
            return super().size(version) + 1

    with pytest.raises(LocalProtocolError, match="changed while it was being encoded"):
        build_request(ApiKey.METADATA, 1, 1, "c", Fickle())
