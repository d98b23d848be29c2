"""Messages converted to and from dicts and JSON, and their short ``repr``."""

from __future__ import annotations

import base64
import json
import math
import uuid

import pytest
from kproducer_messages import (
    ZERO_UUID,
    DecodeError,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    RequestHeader,
)
from kproducer_messages.metadata_request import MetadataRequestTopic
from kproducer_messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from kproducer_messages.produce_request import PartitionProduceData, TopicProduceData

from tests.codegen.compiled import LANGUAGE

TOPIC_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def produce(records=b"\0\1\2"):
    partition = PartitionProduceData(index=3, records=records)
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[partition])])


def test_a_dict_has_all_fields_in_forms_that_json_knows():
    assert MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=TOPIC_ID, name=None)], unknown_tagged_fields={7: b"x"}
    ).to_dict() == {
        "topics": [{"topic_id": str(TOPIC_ID), "name": None}],
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
        "unknown_tagged_fields": {"7": base64.b64encode(b"x").decode()},
    }


@pytest.mark.parametrize("records", [b"\0\1", bytearray(b"\0\1"), memoryview(b"\0\1"), None])
def test_bytes_of_every_kind_come_back_as_bytes(records):
    back = ProduceRequest.from_json(produce(records).to_json())
    assert back.topic_data[0].partition_data[0].records == (None if records is None else b"\0\1")


def test_json_is_one_line_that_any_parser_accepts():
    text = produce().to_json()
    assert "\n" not in text
    assert json.loads(text)["topic_data"][0]["partition_data"] == [{"index": 3, "records": "AAEC"}]
    assert ProduceRequest.from_json(text.encode()) == produce()


def test_missing_fields_get_their_defaults():
    assert MetadataRequest.from_dict({}) == MetadataRequest()
    (topic,) = MetadataResponse.from_dict({"topics": [{"name": "a"}]}).topics
    assert topic == MetadataResponseTopic(name="a")
    assert topic.topic_id is ZERO_UUID


def test_values_of_the_right_type_are_used_unchanged():
    made = MetadataRequest.from_dict({"topics": [{"topic_id": TOPIC_ID}, MetadataRequestTopic(name="b")]})
    assert made.topics[0].topic_id is TOPIC_ID
    assert made.topics[1].name == "b"
    assert produce() == ProduceRequest.from_dict(
        {
            "acks": -1,
            "topic_data": [{"name": "orders", "partition_data": [{"index": 3, "records": b"\0\1\2"}]}],
        }
    )


def test_the_dict_does_not_share_lists_with_the_message():
    message = MetadataResponse(
        topics=[MetadataResponseTopic(partitions=[MetadataResponsePartition(isr_nodes=[1])])]
    )
    message.to_dict()["topics"][0]["partitions"][0]["isr_nodes"].append(2)
    assert message.topics[0].partitions[0].isr_nodes == [1]


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 1e300, 0.1])
def test_floats_without_a_json_form_round_trip(number):
    case = next(case for case in LANGUAGE if case.spec.name == "LedgerValue")
    text = case.message_class(weights=[number]).to_json()
    assert "NaN" not in text
    assert "Infinity" not in text
    (back,) = case.message_class.from_json(text).weights
    assert back == number or (math.isnan(back) and math.isnan(number))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"topics": [{"nme": "a"}]}',
            "field topics[0].nme: MetadataResponseTopic has no such field; did you mean 'name'?",
        ),
        ('{"zzz": 1}', "field zzz: MetadataResponse has no such field"),
        ('{"topics": [5]}', "field topics[0]: expected a dict for MetadataResponseTopic, found int"),
        ('{"topics": 5}', "field topics: expected a dict for MetadataResponseTopic, found int"),
        ('{"topics": [{"topic_id": "xyz"}]}', "field topics[0].topic_id: expected a uuid, found 'xyz'"),
        ('{"topics": [{"topic_id": 5}]}', "field topics[0].topic_id: expected a uuid, found 5"),
        (
            '{"unknown_tagged_fields": {"a": "AA=="}}',
            "unknown_tagged_fields: expected a dict of base64 by tag",
        ),
        ('{"unknown_tagged_fields": {"5": "!"}}', "unknown_tagged_fields[5]: expected base64, found '!'"),
        ('{"unknown_tagged_fields": []}', "unknown_tagged_fields: expected a dict of base64 by tag"),
        ("[]", "MetadataResponse: expected a dict for MetadataResponse, found list"),
        ("{", "MetadataResponse: not valid JSON: "),
    ],
)
def test_wrong_values_are_refused_with_their_field(text, expected):
    with pytest.raises(DecodeError) as caught:
        MetadataResponse.from_json(text)
    assert str(caught.value).startswith("cannot decode MetadataResponse")
    assert expected in str(caught.value)


def test_a_struct_where_a_list_should_be_is_refused():
    with pytest.raises(DecodeError, match="does not fit MetadataResponse"):
        MetadataResponse.from_dict({"topics": {"name": "a"}})


def test_wrong_base64_is_refused_with_its_field():
    with pytest.raises(DecodeError, match=r"topic_data\[0\]\.partition_data\[0\]\.records: expected base64"):
        ProduceRequest.from_dict({"topic_data": [{"partition_data": [{"records": "%%%"}]}]})


def test_repr_shows_differences_from_the_defaults_but_no_bytes():
    assert repr(MetadataRequest()) == "MetadataRequest()"
    assert repr(produce(b"secret" * 1000)) == (
        "ProduceRequest(acks=-1, topic_data=[TopicProduceData(name='orders', "
        "partition_data=[PartitionProduceData(index=3, records=<6000 bytes>)])])"
    )
    assert repr(RequestHeader(client_id="c", unknown_tagged_fields={3: b"secret"})) == (
        "RequestHeader(client_id='c', unknown_tagged_fields={3: <6 bytes>})"
    )


def test_repr_is_short_however_large_the_message():
    topics = [MetadataResponseTopic(name="x" * 200, topic_id=TOPIC_ID) for _ in range(1000)]
    text = repr(MetadataResponse(topics=topics))
    assert len(text) < 1200
    assert "... 995 more]" in text
    assert "... 200 characters" in text
    assert f"topic_id={TOPIC_ID}" in text


def test_repr_distinguishes_true_from_one_and_null_from_empty():
    assert repr(RequestHeader(client_id=None)) == "RequestHeader(client_id=None)"
    assert "allow_auto_topic_creation=1" in repr(MetadataRequest(allow_auto_topic_creation=1))
