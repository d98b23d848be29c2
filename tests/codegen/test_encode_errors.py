"""Messages that a version cannot express are refused before any byte is used; the error names the field."""

from __future__ import annotations

import uuid

import pytest
from kproducer_messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    EncodeError,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    RequestHeader,
)
from kproducer_messages.api_versions_response import ApiVersion, SupportedFeatureKey
from kproducer_messages.metadata_request import MetadataRequestTopic
from kproducer_messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from kproducer_messages.produce_request import PartitionProduceData, TopicProduceData
from kproducer_messages.produce_response import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    TopicProduceResponse,
)


def refusal(message, version):
    """The error of encoding; the size is computed first, as callers do."""
    with pytest.raises(EncodeError) as caught:
        message.encode(version)
    return caught.value


def test_a_field_with_a_value_that_the_version_lacks_is_refused():
    error = refusal(MetadataRequest(allow_auto_topic_creation=False), 3)
    assert error.field_path == "allow_auto_topic_creation"
    assert "set to False" in error.reason
    assert "only versions 4-13" in error.reason
    assert str(error).startswith("cannot encode MetadataRequest v3, field allow_auto_topic_creation: ")


def test_an_ignorable_field_that_the_version_lacks_is_dropped_silently():
    message = ApiVersionsRequest(client_software_name="kproducer", client_software_version="1")
    assert message.encode(2) == b""
    response = MetadataResponse(throttle_time_ms=5, cluster_id="c", controller_id=1)
    assert response.encode(0) == MetadataResponse().encode(0)


def test_nested_fields_that_the_version_lacks_are_refused_with_their_path():
    topics = [MetadataResponseTopic(), MetadataResponseTopic(topic_authorized_operations=7)]
    assert refusal(MetadataResponse(topics=topics), 7).field_path == "topics[1].topic_authorized_operations"


def test_a_tagged_struct_that_the_version_lacks_is_refused_unless_it_is_the_default():
    partition = PartitionProduceResponse(current_leader=LeaderIdAndEpoch(leader_id=3))
    message = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
    assert refusal(message, 9).field_path == "responses[0].partition_responses[0].current_leader"
    partition.current_leader = LeaderIdAndEpoch()
    assert message.encode(9)


def test_a_field_at_its_default_may_be_missing_in_the_version():
    assert MetadataRequest(topics=[], allow_auto_topic_creation=True).encode(0) == bytes(4)


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (MetadataRequest(topics=None), 0, "topics"),
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9, "topics[0].name"),
        (MetadataRequest(topics=[None]), 9, "topics[0]"),
        (MetadataRequest(topics=[MetadataRequestTopic(topic_id=None)]), 10, "topics[0].topic_id"),
        (MetadataRequest(include_topic_authorized_operations=None), 8, "include_topic_authorized_operations"),
        (MetadataResponse(controller_id=None), 1, "controller_id"),
        (MetadataResponse(topics=[MetadataResponseTopic(name=None)]), 11, "topics[0].name"),
        (ApiVersionsRequest(client_software_name=None), 3, "client_software_name"),
        (ApiVersionsResponse(supported_features=None), 3, "supported_features"),
        (
            ApiVersionsResponse(supported_features=[SupportedFeatureKey(name=None)]),
            3,
            "supported_features[0].name",
        ),
        (
            ApiVersionsResponse(api_keys=[ApiVersion(), ApiVersion(max_version=None)]),
            0,
            "api_keys[1].max_version",
        ),
        (
            ProduceRequest(topic_data=[TopicProduceData(partition_data=None)]),
            3,
            "topic_data[0].partition_data",
        ),
    ],
)
def test_null_in_a_version_without_null_is_refused(message, version, field):
    error = refusal(message, version)
    assert error.field_path == field
    assert "null" in error.reason


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (MetadataResponsePartition(error_code=2**15), "error_code"),
        (MetadataResponsePartition(partition_index=-(2**31) - 1), "partition_index"),
        (MetadataResponsePartition(leader_epoch=2**31), "leader_epoch"),
        (MetadataResponsePartition(replica_nodes=[1, 2, 2**31]), "replica_nodes[2]"),
        (MetadataResponsePartition(isr_nodes=[1, "2"]), "isr_nodes[1]"),
        (MetadataResponsePartition(isr_nodes=[None]), "isr_nodes[0]"),
        (MetadataResponsePartition(isr_nodes=7), "isr_nodes"),
        (MetadataResponsePartition(leader_id="1"), "leader_id"),
        (MetadataResponsePartition(leader_id=1.5), "leader_id"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(message, field):
    response = MetadataResponse(topics=[MetadataResponseTopic(partitions=[message])])
    assert refusal(response, 9).field_path == f"topics[0].partitions[0].{field}"


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (RequestHeader(client_id=b"bytes"), 1, "client_id"),
        (RequestHeader(client_id="\ud800"), 1, "client_id"),
        (RequestHeader(client_id="x" * 32768), 1, "client_id"),
        (ApiVersionsRequest(client_software_name="x" * 32768), 3, "client_software_name"),
        (MetadataRequest(topics=[MetadataRequestTopic(topic_id="no uuid")]), 10, "topics[0].topic_id"),
        (MetadataRequest(allow_auto_topic_creation="yes"), 4, "allow_auto_topic_creation"),
        (MetadataRequest(topics=["name"]), 4, "topics[0]"),
        (MetadataRequest(topics=3), 4, "topics"),
    ],
)
def test_values_of_a_wrong_type_or_length_are_refused(message, version, field):
    error = refusal(message, version)
    assert error.field_path.startswith(field)


def test_records_must_be_bytes():
    data = PartitionProduceData(records="text")
    message = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[data])])
    assert refusal(message, 9).field_path == "topic_data[0].partition_data[0].records"


def test_a_version_that_does_not_exist_is_refused():
    for version in (2, 14):
        error = refusal(ProduceRequest(), version)
        assert (
            str(error)
            == f"cannot encode ProduceRequest v{version}: there is no version {version}; it has 3 to 13"
        )


def test_a_null_client_id_is_legal():
    assert RequestHeader(client_id=None).encode(1) == bytes(8) + b"\xff\xff"


def test_the_uuid_zero_is_an_ordinary_uuid():
    topic = MetadataRequestTopic(topic_id=uuid.UUID(int=0), name=None)
    assert MetadataRequest(topics=[topic]).encode(12)[1:17] == bytes(16)


def test_repr_hides_record_bytes():
    data = PartitionProduceData(records=b"secret" * 1000)
    assert "secret" not in repr(data)
    assert "<6000 bytes>" in repr(data)
