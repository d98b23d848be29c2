"""Our bytes against two independent implementations in Python, for every version that both have.

Each peer decodes our bytes to equal values and writes them back unchanged, and its output decodes to our
message. Tables in this file list, with reasons, what a peer refuses on principle or represents with its own
types; where a peer is wrong, Apache Kafka's behaviour decides (see ``test_kafka_agrees``).
"""

from __future__ import annotations

import datetime
import enum
import functools
import importlib
import io
import pkgutil
import uuid

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from codegen.model import MessageType
from codegen.naming import attribute_name, snake_case
from tests.codegen.compiled import CORPUS
from tests.codegen.message_strategies import fields_below, messages, without_unknown_tags

#: While being imported, kafka-python reads its specs with deprecated functions of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

_SETTINGS = settings(
    max_examples=4,
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_BODIES = [case for case in CORPUS if case.spec.type is not MessageType.HEADER]

#: Bit fields, which kafka-python renames and represents as sets of bit numbers, or None if not requested.
_BIT_FIELDS = {
    "cluster_authorized_operations": st.just(-(2**31)) | st.integers(0, 2**12 - 1),
    "topic_authorized_operations": st.just(-(2**31)) | st.integers(0, 2**12 - 1),
    "authorized_operations": st.just(-(2**31)) | st.integers(0, 2**12 - 1),
}


@functools.cache
def kafka_python_classes():
    protocol = importlib.import_module("kafka.protocol")
    found = {}
    for module in pkgutil.walk_packages(protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "stubs" not in module.name:
            found |= vars(importlib.import_module(module.name))
    return found


def bits(number):
    return None if number == -(2**31) else {bit for bit in range(32) if number >> bit & 1}


def assert_equal_values(ours, theirs, fields, structs, version):
    """Compare by attribute names, which kafka-python derives from the same specs."""
    for field in fields:
        if version not in field.versions:
            continue
        name = attribute_name(field.name)
        mine = getattr(ours, name)
        if name in _BIT_FIELDS:
            name = name if hasattr(theirs, name) else "authorized_operations"
            assert getattr(theirs, name) in (mine, bits(mine)), name
            continue
        other = getattr(theirs, name)
        if field.type.name == "uuid" and not field.type.is_array:
            # kafka-python represents the uuid of zeros as None.
            assert mine == (uuid.UUID(int=0) if other is None else other), name
        elif other is None and field.tag is not None:
            # kafka-python has no default for an absent tagged field.
            assert mine == getattr(type(ours)(), name), name
        elif mine is None or other is None:
            assert mine is None, name
            assert other is None, name
        elif field.type.is_struct:
            pairs = [(mine, other)] if not field.type.is_array else list(zip(mine, other, strict=True))
            for a, b in pairs:
                assert_equal_values(a, b, structs[field.type.name].fields, structs, version)
        elif field.type.name == "records":
            assert bytes(mine) == bytes(other)
        elif field.type.is_array:
            assert list(mine) == list(other), name
        else:
            assert mine == other, name


@pytest.mark.parametrize("case", _BODIES, ids=str)
def test_kafka_python_reads_and_writes_the_same(case):
    spec, version = case.spec, case.version
    peer = kafka_python_classes()[spec.name]
    # kafka-python reads an ApiVersions response with an error as version 0, in every version.
    limits = {"error_code": st.just(0)} if spec.name == "ApiVersionsResponse" else _BIT_FIELDS
    options = {"header": False} if spec.type is MessageType.DATA else {}

    # See test_kafka_python_is_wrong_to_refuse_unknown_tags_in_tagged_structs.
    unknown_tags = not any(field.type.is_struct and field.tag is not None for field in fields_below(spec))

    @_SETTINGS
    @given(messages(spec, version, limits=limits, unknown_tags=unknown_tags, module=case.module))
    def check(message):
        decoded = peer.decode(message.encode(version), version=version, **options)
        # kafka-python skips unknown tagged fields and does not write them back.
        message = without_unknown_tags(message)
        data = message.encode(version)
        assert_equal_values(message, decoded, spec.fields, spec.structs(), version)
        if not options:
            decoded._header = None  # kafka-python does not set it when decoding, but requires it for encoding
        written = bytes(decoded.encode(version=version, **options))
        assert written == data
        assert case.message_class.decode(written, version)[0] == message

    check()


_KIO_ERRORS = st.integers(-1, 100)
#: kio converts error codes to an enum and times to dates or durations, and refuses values outside these
#: types.
_KIO_LIMITS = {
    "error_code": _KIO_ERRORS,
    "partition_error_code": _KIO_ERRORS,
    "retention_time_ms": st.integers(-1, 10**12),
    "session_lifetime_ms": st.integers(0, 10**12),
    "log_append_time_ms": st.just(-1) | st.integers(0, 2 * 10**12),
    "transaction_start_time_ms": st.integers(0, 2 * 10**12),
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def kio_value(name, value):
    """Convert a value of kio to our types."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    if value is None and name == "log_append_time_ms":
        return -1
    return value


def assert_equal_to_kio(ours, theirs, fields, structs, version):
    """Compare by attribute names, which kio derives from the same specs, without the time unit."""
    for field in fields:
        if version not in field.versions:
            continue
        name = attribute_name(field.name)
        mine = getattr(ours, name)
        other = getattr(theirs, name, theirs)
        if other is theirs:
            other = getattr(theirs, name.removesuffix("_ms"))
        other = kio_value(name, other)
        if mine is None or not (field.type.is_struct or field.type.is_array or field.type.name == "uuid"):
            assert mine == other, name
            continue
        others = other if field.type.is_array else [other]
        for a, b in zip(mine if field.type.is_array else [mine], others, strict=True):
            if field.type.is_struct:
                assert_equal_to_kio(a, b, structs[field.type.name].fields, structs, version)
            else:
                # kio represents the uuid of zeros as None.
                assert a == (uuid.UUID(int=0) if b is None and field.type.name == "uuid" else b), name


@pytest.mark.parametrize("case", CORPUS, ids=str)
def test_kio_reads_and_writes_the_same(case):
    spec, version = case.spec, case.version
    side = spec.type.value
    api = snake_case(spec.name).removesuffix(f"_{side}") if side != "header" else snake_case(spec.name)
    try:
        peer = getattr(importlib.import_module(f"kio.schema.{api}.v{version}.{side}"), spec.name)
    except ImportError:
        pytest.skip(f"kio does not know {case}")
    read, write = entity_reader(peer), entity_writer(peer)

    @_SETTINGS
    @given(messages(spec, version, limits=_KIO_LIMITS, unknown_tags=False, module=case.module))
    def check(message):
        data = message.encode(version)
        decoded, consumed = read(data, 0)
        assert consumed == len(data)
        assert_equal_to_kio(message, decoded, spec.fields, spec.structs(), version)
        sink = io.BytesIO()
        write(sink, decoded)
        assert sink.getvalue() == data
        assert case.message_class.decode(sink.getvalue(), version)[0] == message

    check()


@pytest.mark.parametrize("name", ["MetadataResponse", "ProduceRequest", "FetchResponse", "JoinGroupRequest"])
def test_kio_is_wrong_to_refuse_unknown_tagged_fields(name):
    """KIP-482 requires readers to skip them, as Apache Kafka does; so kio only gets messages without any."""
    case = [case for case in _BODIES if case.spec.name == name][-1]
    side = case.spec.type.value
    api = snake_case(case.spec.name).removesuffix(f"_{side}")
    peer = getattr(importlib.import_module(f"kio.schema.{api}.v{case.version}.{side}"), case.spec.name)
    data = case.message_class(unknown_tagged_fields={77: b"abc"}).encode(case.version)
    with pytest.raises(KeyError, match="Unknown tagged field tag: 77"):
        entity_reader(peer)(data, 0)


def test_kafka_python_is_wrong_to_refuse_unknown_tags_in_tagged_structs():
    """It asserts that such a struct has none; Kafka reads and writes them."""
    case = next(case for case in _BODIES if str(case) == "ApiVersionsResponse-v3")
    feature = case.module.SupportedFeatureKey(unknown_tagged_fields={5: b""})
    data = case.message_class(supported_features=[feature]).encode(3)
    with pytest.raises(AssertionError):
        kafka_python_classes()["ApiVersionsResponse"].decode(data, version=3)
