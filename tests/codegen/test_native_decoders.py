"""The compiled decoders agree with the generated functions: same values, same types, same errors.

They are compared through ``attempt``, so a compiled decoder that gives up where the generated function
succeeds is noticed, too. Runs for every version of upstream's messages, of our language specs, and of ours.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import uuid

import kproducer_messages
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kproducer_messages import MetadataResponse, ProduceRequest
from kproducer_messages._decoders import IMPLEMENTATION
from kproducer_messages._plain import Plain
from kproducer_messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from tests.codegen.compiled import CORPUS, LANGUAGE, OURS
from tests.codegen.message_strategies import messages

pytestmark = pytest.mark.skipif(IMPLEMENTATION != "native", reason="the compiled decoders are not in use")

_SETTINGS = settings(
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_CASES = CORPUS + LANGUAGE + OURS
#: Bytes with a meaning in many places.
_TELLING = st.sampled_from([0, 1, 2, 3, 4, 0x7F, 0x80, 0x81, 0xFE, 0xFF])


def assert_same(found, expected):
    """Equal, with equal types at every level."""
    assert type(found) is type(expected)
    if isinstance(found, Plain):
        for name in found.FIELDS:
            assert_same(getattr(found, name), getattr(expected, name))
    elif isinstance(found, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        # Compares the text as well, because NaN differs from itself and 0.0 equals -0.0.
        assert found == expected or repr(found) == repr(expected)


def check_bytes(case, data, position=0):
    """Let both decoders read the bytes; return whether they form a message."""
    decoder, readable = case.decoder(), case.readable(data)
    found = decoder.attempt(readable, position, len(data))
    expected = outcome(case, decoder.generated, readable, position)
    if isinstance(expected, str):
        assert found is None
        assert outcome(case, decoder.decode, readable, position) == expected
        return False
    assert found is not None
    assert found[1] == expected[1]
    assert_same(found[0], expected[0])
    return True


def outcome(case, decode, readable, position):
    """The returned message, or the text of the error."""
    try:
        return decode(readable, position, len(readable))
    except case.decode_error as error:
        return str(error)


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_complete_truncated_and_damaged_messages(case):
    @settings(_SETTINGS, max_examples=5)
    @given(
        messages(case.spec, case.version, module=case.module),
        st.lists(st.tuples(st.integers(0, 10**6), _TELLING | st.integers(0, 255)), min_size=1, max_size=4),
        st.lists(st.integers(0, 10**6), min_size=4, max_size=4),
        st.binary(max_size=3),
    )
    def check(message, damage, cuts, around):
        data = message.encode(case.version)
        assert check_bytes(case, around + data + around, len(around))
        for cut in cuts if data else ():
            part = data[: cut % len(data)]
            assert not check_bytes(case, part)
            words = rf"^cannot decode {case.spec.name} v{case.version}, field \w"
            with pytest.raises(case.decode_error, match=words):
                case.message_class.decode(part, case.version)
        damaged = bytearray(data)
        for position, byte in damage:
            if damaged:
                damaged[position % len(damaged)] = byte
                check_bytes(case, bytes(damaged))

    check()


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_any_bytes(case):
    @settings(_SETTINGS, max_examples=10)
    @given(st.binary(max_size=60) | st.lists(_TELLING, max_size=60).map(bytes))
    def check(data):
        check_bytes(case, data)

    check()
    for byte in (0, 1, 2, 0x7F, 0x80, 0xFF):
        check_bytes(case, bytes([byte]) * 300)


def large_metadata():
    partitions = [
        MetadataResponsePartition(partition_index=i, leader_id=i * 1000, replica_nodes=[*range(i, i + 400)])
        for i in range(100)
    ]
    topics = [
        MetadataResponseTopic(name=f"t{i}", topic_id=uuid.UUID(int=2**64 + i), partitions=partitions)
        for i in range(3)
    ]
    return MetadataResponse(topics=topics)


def test_arrays_beyond_a_byte_of_length():
    data = large_metadata().encode(12)
    decoder = sys.modules[MetadataResponse.__module__]._DECODE[12].__self__
    found, end = decoder.attempt(data, 0, len(data))
    assert end == len(data)
    assert_same(found, large_metadata())


def test_uuids_are_complete():
    topic = MetadataResponseTopic(topic_id=uuid.uuid4())
    message, _ = MetadataResponse.decode(MetadataResponse(topics=[topic]).encode(12), 12)
    found = message.topics[0].topic_id
    assert (hash(found), str(found), found.is_safe) == (
        hash(topic.topic_id),
        str(topic.topic_id),
        uuid.SafeUUID.unknown,
    )


def test_records_are_views_of_the_input():
    request = ProduceRequest.from_dict(
        {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": "AAEC"}]}]}
    )
    data = bytearray(request.encode(9))
    found, _ = ProduceRequest.decode(data, 9)
    records = found.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    data[data.index(b"\0\1\2") + 1] = 7
    assert records == b"\0\7\2"


@pytest.mark.parametrize(("position", "end"), [(-1, 4), (3, 2), (0, 5), (5, 5)])
def test_positions_outside_the_buffer_are_not_read(position, end):
    decoder = sys.modules[MetadataResponse.__module__]._DECODE[0].__self__
    assert decoder.attempt(bytes(4), position, end) is None


@pytest.mark.parametrize(
    "case", [case for case in OURS + LANGUAGE if case.version == case.spec.valid_versions.highest], ids=str
)
def test_nothing_leaks(case):
    """Neither objects nor references leak, whether decoding succeeds or fails."""
    examples = []

    @settings(_SETTINGS, max_examples=4, database=None, derandomize=True)
    @given(messages(case.spec, case.version, module=case.module))
    def collect(message):
        examples.append(message.encode(case.version))

    collect()
    data = max(examples, key=len)
    cuts = [data[:length] for length in range(0, len(data), max(len(data) // 20, 1))]
    decoder = case.decoder()

    def work():
        for each in (data, *cuts):
            decoder.attempt(case.readable(each), 0, len(each))

    objects = [None, True, False, *vars(case.module).values(), kproducer_messages.ZERO_UUID]

    def counts():
        gc.collect()
        return [sys.getallocatedblocks(), *(sys.getrefcount(each) for each in objects)]

    work()
    counts()
    before = counts()
    for _ in range(100):
        work()
    # A leak of one object per round would be a hundred.
    changes = [new - old for new, old in zip(counts(), before, strict=True)]
    assert all(-50 < change < 50 for change in changes)


def test_the_garbage_collector_tracks_decoded_objects():
    """Objects are tracked by the garbage collector, and cycles through them are collected."""
    message, _ = MetadataResponse.decode(large_metadata().encode(12), 12)
    topic = message.topics[0]
    assert gc.is_tracked(topic)
    assert gc.is_tracked(topic.partitions)
    assert topic.partitions[0] in gc.get_referents(topic.partitions)
    # Except lists of numbers, which contain no references.
    assert not gc.is_tracked(topic.partitions[0].replica_nodes)

    class Witness(list):
        gone = False

        def __del__(self):
            Witness.gone = True

    topic.partitions = Witness([message])
    del message, topic
    gc.collect()
    assert Witness.gone


def test_garbage_collection_during_decoding_is_harmless():
    """The garbage collector may run between any two allocations and sees partly built objects."""
    data = large_metadata().encode(12)
    seen = []

    def look(phase, info):
        if phase == "stop":
            seen.append(sum(isinstance(each, Plain) and bool(slots_of(each)) for each in gc.get_objects()))

    before = gc.get_threshold()
    gc.set_threshold(50, 2, 2)
    gc.callbacks.append(look)
    try:
        found, _ = MetadataResponse.decode(data, 12)
    finally:
        gc.callbacks.remove(look)
        gc.set_threshold(*before)
    assert any(seen)
    assert_same(found, large_metadata())


def slots_of(item):
    return [getattr(item, name, None) for name in item.FIELDS]


def run_with(kernel):
    code = "from kproducer_messages._decoders import IMPLEMENTATION; print(IMPLEMENTATION)"
    environment = {**os.environ, "KPRODUCER_KERNEL": kernel}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("kernel", "expected"), [("pure", "pure"), ("auto", "native"), ("native", "native")])
def test_the_environment_variable_selects_the_decoders(kernel, expected):
    assert run_with(kernel).stdout.strip() == expected


def test_unsupported_classes_use_the_generated_function():
    decoder_class = type(OURS[0].decoder())

    def generated(buffer, position, end):
        return "as generated", end

    class NoSlots:
        unknown_tagged_fields = None

    broker = MetadataResponseBroker
    for layout in (
        (NoSlots, list, ""),
        (broker, list, "node_id:int256"),
        (broker, list, "nodes:int32"),
        (broker, list, "rack:struct(y)"),
        (broker, list, "tags x=rack:string"),
        (str, list, ""),
    ):
        decoder = decoder_class(generated, "x", {"x": layout}, {})
        assert decoder.attempt(b"", 0, 0) is None
        assert decoder.decode(b"", 0, 0) == ("as generated", 0)
