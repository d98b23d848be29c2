"""Tagged fields: known ones are typed, unknown ones are kept and written back, wrong order is refused."""

from __future__ import annotations

import pytest
from kproducer_messages import ApiVersionsResponse, DecodeError, EncodeError, ProduceResponse, ResponseHeader
from kproducer_messages.api_versions_response import SupportedFeatureKey
from kproducer_messages.produce_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    TopicProduceResponse,
)

from tests.codegen.compiled import LANGUAGE

#: ApiVersionsResponse v3 up to its tagged fields: no error, no keys, no throttling.
EMPTY_V3 = b"\0\0" + b"\1" + bytes(4)


def test_unknown_tags_are_stored_compared_and_written_back():
    data = EMPTY_V3 + b"\x02" + b"\x04\x02ab" + b"\x81\x01\x00"
    message, end = ApiVersionsResponse.decode(data, 3)
    assert end == len(data)
    assert message.unknown_tagged_fields == {4: b"ab", 129: b""}
    assert message != ApiVersionsResponse()
    assert message.encode(3) == data


def test_known_and_unknown_tags_are_written_in_increasing_order():
    message = ApiVersionsResponse(
        finalized_features_epoch=5, zk_migration_ready=True, unknown_tagged_fields={9: b"x"}
    )
    data = message.encode(3)
    assert data == EMPTY_V3 + b"\x03" + b"\x01\x08" + (5).to_bytes(8, "big") + b"\x03\x01\x01" + b"\x09\x01x"
    assert ApiVersionsResponse.decode(data, 3)[0] == message


def test_defaults_are_not_written():
    assert ApiVersionsResponse(finalized_features_epoch=-1).encode(3) == EMPTY_V3 + b"\0"


def test_known_tags_are_typed():
    leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=7)
    partition = PartitionProduceResponse(index=1, current_leader=leader)
    endpoint = NodeEndpoint(node_id=2, host="b", port=9092)
    message = ProduceResponse(
        responses=[TopicProduceResponse(name="t", partition_responses=[partition])], node_endpoints=[endpoint]
    )
    decoded, _ = ProduceResponse.decode(message.encode(10), 10)
    assert decoded.responses[0].partition_responses[0].current_leader == leader
    assert decoded.node_endpoints == [endpoint]


def test_absent_tags_give_fresh_defaults():
    topic = TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse()] * 2)
    decoded, _ = ProduceResponse.decode(ProduceResponse(responses=[topic]).encode(10), 10)
    first, second = decoded.responses[0].partition_responses
    first.current_leader.leader_id = 5
    assert second.current_leader.leader_id == -1


def test_extra_bytes_behind_a_known_tagged_value_are_tolerated():
    data = EMPTY_V3 + b"\x01" + b"\x03\x03\x01zz"
    message, end = ApiVersionsResponse.decode(data, 3)
    assert message.zk_migration_ready is True
    assert end == len(data)


def test_a_value_longer_than_its_tagged_size_is_refused():
    data = EMPTY_V3 + b"\x02" + b"\x01\x04" + bytes(8) + b"\x03\x01\x01"
    with pytest.raises(DecodeError, match=r"field finalized_features_epoch.*4 bytes longer"):
        ApiVersionsResponse.decode(data, 3)


@pytest.mark.parametrize(
    "tags", [b"\x02\x07\x00\x05\x00", b"\x02\x05\x00\x05\x00", b"\x02\x03\x01\x01\x03\x01\x01"]
)
def test_tags_that_do_not_increase_are_refused_when_decoding(tags):
    with pytest.raises(DecodeError, match="tags must increase"):
        ApiVersionsResponse.decode(EMPTY_V3 + tags, 3)
    if tags[1] > 3:
        with pytest.raises(DecodeError, match="tags must increase"):
            ResponseHeader.decode(bytes(4) + tags, 1)


def test_tags_that_do_not_increase_are_refused_when_encoding():
    with pytest.raises(EncodeError, match="tag 7; tags must increase"):
        ApiVersionsResponse(unknown_tagged_fields={7: b"", 5: b""}).encode(3)


@pytest.mark.parametrize("tag", [0, 1, 2, 3])
def test_an_unknown_tag_that_clashes_with_a_known_one_is_refused(tag):
    with pytest.raises(EncodeError, match=f"unknown tagged field {tag} clashes"):
        ApiVersionsResponse(unknown_tagged_fields={tag: b"x"}).encode(3)


@pytest.mark.parametrize("tag", [-1, 2**31 - 1, 2**31])
def test_an_unknown_tag_outside_the_range_is_refused(tag):
    with pytest.raises(EncodeError, match=f"tag {tag} is outside"):
        ResponseHeader(unknown_tagged_fields={tag: b""}).encode(1)


def test_the_tag_of_a_field_that_is_tagged_in_later_versions_only_is_refused():
    """node_endpoints has tag 0 since version 10; Kafka refuses the tag in version 9, reading and writing."""
    with pytest.raises(EncodeError, match="unknown tagged field 0 clashes"):
        ProduceResponse(unknown_tagged_fields={0: b""}).encode(9)
    data = ProduceResponse().encode(9)
    assert data.endswith(b"\0")
    with pytest.raises(DecodeError, match=r"tagged_fields, .*tag 0 belongs to a field that is not tagged"):
        ProduceResponse.decode(data[:-1] + b"\x01\x00\x00", 9)


def test_unknown_tags_are_refused_in_versions_without_tags():
    with pytest.raises(
        EncodeError, match=r"field unknown_tagged_fields: .*only versions 3-5 have this field"
    ):
        ApiVersionsResponse(unknown_tagged_fields={9: b"x"}).encode(2)


def test_many_unknown_tags_need_a_long_count():
    tags = {tag: bytes([tag % 256]) * (tag % 3) for tag in range(4, 304)}
    message = ApiVersionsResponse(
        supported_features=[SupportedFeatureKey(name="f")], unknown_tagged_fields=tags
    )
    data = message.encode(3)
    assert len(data) == message.size(3)
    assert ApiVersionsResponse.decode(data, 3)[0] == message


def test_a_tagged_struct_that_is_null_is_written_as_kafka_does():
    """0, unlike the -1 of structs that are not tagged, as in ConsumerGroupMemberMetadataValue."""
    case = next(case for case in LANGUAGE if case.spec.name == "LenientRecord")
    message = case.message_class(struct=None)
    assert message.encode(0) == b"\x01\x01\x01\x00"
    assert case.message_class.decode(b"\x01\x01\x01\x00", 0)[0] == message
    assert case.message_class(struct=case.module.Part(number=5)).encode(0) == b"\x01\x01\x03\x01\x05\x00"


def test_a_default_of_json_null_counts_as_no_default_as_in_kafka():
    case = next(case for case in LANGUAGE if case.spec.name == "LenientRecord")
    assert case.message_class().tagged == []
    assert case.message_class().struct == case.module.Part()
    assert str(case.spec.fields[0].versions) == "0+"
