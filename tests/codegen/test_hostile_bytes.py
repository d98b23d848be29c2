"""Invariant: for any bytes, a decoder returns a message or raises DecodeError.

test_memory_bound checks how much memory it uses.
"""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kproducer_messages import DecodeError, MetadataResponse, ProduceRequest, ProduceResponse, RequestHeader
from kproducer_messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from tests.codegen.compiled import LANGUAGE, OURS
from tests.codegen.message_strategies import messages

_SETTINGS = settings(
    max_examples=4,
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


#: Our language specs and the messages that we ship: test_native_decoders passes truncated, damaged and
#: arbitrary bytes to both decoders of each version of upstream's messages.
_CASES = LANGUAGE + OURS


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_any_bytes_yield_a_message_or_a_decode_error(case):
    @settings(_SETTINGS, max_examples=8)
    @given(
        messages(case.spec, case.version, module=case.module),
        st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=6),
        st.binary(max_size=100),
    )
    def check(message, damage, noise):
        data = bytearray(message.encode(case.version))
        for position, byte in damage:
            if data:
                data[position % len(data)] = byte
        decode_or_refuse(case, bytes(data))
        decode_or_refuse(case, noise)

    check()


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_truncation_anywhere_is_a_decode_error(case):
    @settings(_SETTINGS, max_examples=2)
    @given(messages(case.spec, case.version, module=case.module))
    def check(message):
        data = message.encode(case.version)
        # Every position of short messages; the edges and a sample of positions of long ones.
        step = 1 if len(data) < 100 else len(data) // 30
        for length in {*range(0, len(data), step), *range(max(len(data) - 20, 0), len(data))}:
            with pytest.raises(case.decode_error) as caught:
                case.message_class.decode(data[:length], case.version)
            assert case.spec.name in str(caught.value)
            assert f"v{case.version}" in str(caught.value)
            assert caught.value.field_path
            assert 0 <= caught.value.offset <= length

    check()


def decode_or_refuse(case, data):
    try:
        message, end = case.message_class.decode(data, case.version)
    except case.decode_error:
        return
    assert 0 <= end <= len(data)
    assert isinstance(message, case.message_class)


@pytest.mark.parametrize(
    ("message_class", "version", "data", "field"),
    [
        (MetadataResponse, 1, b"\x7f\xff\xff\xff", "brokers"),
        (MetadataResponse, 1, b"\xff\xff\xff\xff", "brokers"),
        (MetadataResponse, 1, b"\x80\x00\x00\x00", "brokers"),
        (MetadataResponse, 12, bytes(4) + b"\xff\xff\xff\xff\x0f", "brokers"),
        (MetadataResponse, 12, bytes(4) + b"\xff\xff\xff\xff\x1f", "brokers"),
        (MetadataResponse, 12, bytes(4) + b"\xff\xff\xff\xff\xff\x01", "brokers"),
        (MetadataResponse, 12, bytes(4) + b"\x00", "brokers"),
        (ProduceRequest, 3, b"\x7f\xff", "transactional_id"),
        (ProduceRequest, 3, b"\xff\xfe", "transactional_id"),
        (ProduceRequest, 9, b"\xff\xff\xff\xff\x0f", "transactional_id"),
        (ProduceRequest, 9, b"\x00" + bytes(6) + b"\xff\xff\xff\x7f", "topic_data"),
        (ProduceResponse, 10, b"\x01" + bytes(4) + b"\xff\xff\xff\xff\x0f", "tagged_fields"),
        (ProduceResponse, 10, b"\x01" + bytes(4) + b"\x01\x00\xff\xff\xff\x7f", "tagged_fields"),
        (RequestHeader, 1, bytes(8) + b"\x80\x00", "client_id"),
    ],
)
def test_hostile_lengths_are_refused_before_anything_is_allocated(message_class, version, data, field):
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError) as caught:
            message_class.decode(data, version)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.field_path == field
    assert peak < 50_000


def test_an_array_may_not_claim_more_elements_than_bytes_can_hold():
    """30 bytes are left, and a partition takes at least 18: two do not fit."""
    topic = MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition()])
    data = bytearray(MetadataResponse(topics=[topic]).encode(9))
    position = data.index(b"\x02t\x00") + 3
    assert data[position] == 2
    data[position] = 4
    with pytest.raises(
        DecodeError, match=r"claims 3 elements of at least 18 bytes, and only \d+ bytes are left"
    ):
        MetadataResponse.decode(bytes(data), 9)


def test_the_error_names_message_version_field_and_offset():
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(host="a"), MetadataResponseBroker(host="b")],
        topics=[
            MetadataResponseTopic(name="first"),
            MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(replica_nodes=[1, 2])]),
        ],
    )
    data = response.encode(12)
    end = data.index(b"\x00\x00\x00\x01\x00\x00\x00\x02") + 6
    with pytest.raises(DecodeError) as caught:
        MetadataResponse.decode(data[:end], 12)
    error = caught.value
    assert (error.message_name, error.version) == ("MetadataResponse", 12)
    assert error.field_path == "topics[1].partitions[0].replica_nodes"
    assert error.offset == end - 6
    assert str(error).startswith(
        f"cannot decode MetadataResponse v12, field topics[1].partitions[0].replica_nodes, offset {end - 6}: "
    )


def test_errors_in_a_group_of_fixed_fields_name_the_exact_field():
    data = MetadataResponse(topics=[MetadataResponseTopic(partitions=[MetadataResponsePartition()])]).encode(
        0
    )
    partition = len(data) - 18
    for cut, field in ((1, "error_code"), (3, "partition_index"), (9, "leader_id"), (12, "replica_nodes")):
        with pytest.raises(DecodeError) as caught:
            # The whole element must fit before any of it is read; damage the length to get past this check.
            MetadataResponse.decode(data[: partition + cut], 0)
        assert caught.value.field_path in (
            f"topics[0].partitions[0].{field}",
            "topics[0].partitions",
            "topics",
        )


def test_text_that_is_not_utf8_is_a_decode_error():
    data = MetadataResponse(cluster_id="abc").encode(9).replace(b"abc", b"\xff\xfe\xfd")
    with pytest.raises(DecodeError, match=r"field cluster_id, .*not UTF-8"):
        MetadataResponse.decode(data, 9)


def test_a_compact_text_of_more_than_32767_bytes_is_a_decode_error():
    data = MetadataResponse(cluster_id="x" * 32767).encode(9)
    position = data.index(b"x")
    longer = data[: position - 3] + b"\x81\x80\x02" + b"x" + data[position:]
    with pytest.raises(DecodeError, match="cluster_id"):
        MetadataResponse.decode(longer, 9)


@pytest.mark.parametrize("version", [-1, 14, 10**9])
def test_a_version_that_does_not_exist_is_a_decode_error(version):
    with pytest.raises(DecodeError, match=f"no version {version}; it has 0 to 13"):
        MetadataResponse.decode(b"", version)


@pytest.mark.parametrize("position", [-1, 5])
def test_a_position_outside_the_buffer_is_a_decode_error(position):
    with pytest.raises(DecodeError, match="outside the buffer of 4 bytes"):
        MetadataResponse.decode(bytes(4), 0, position)
