"""Our bytes against two independent implementations, for every version that both sides know.

kafka-python: it decodes our bytes to equal values and writes them back unchanged.
kio: it decodes our bytes and writes them back unchanged; what it refuses on principle is kept out (see
``_KIO_LIMITS``).
"""

from __future__ import annotations

import importlib
import io
import uuid

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from codegen.model import MessageType
from codegen.naming import attribute_name, snake_case
from tests.codegen.message_strategies import ALL_VERSIONS, class_of, messages, version_id

#: kafka-python reads its specs with a function that the standard library has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

_SETTINGS = settings(
    max_examples=10,
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_BODIES = [
    (spec, version)
    for spec, version in ALL_VERSIONS
    if spec.type in (MessageType.REQUEST, MessageType.RESPONSE)
]

#: kio turns error codes into an enum, some times into dates, and checks them.
_KIO_LIMITS = {
    "error_code": st.integers(-1, 100),
    "throttle_time_ms": st.integers(0, 10**6),
    "timeout_ms": st.integers(0, 10**6),
    "log_append_time_ms": st.just(-1) | st.integers(0, 2 * 10**12),
}


#: Bit fields, which kafka-python renames and turns into sets of bit numbers, or None where nobody asked.
_BIT_FIELDS = {
    "cluster_authorized_operations": st.just(-(2**31)) | st.integers(0, 2**12 - 1),
    "topic_authorized_operations": st.just(-(2**31)) | st.integers(0, 2**12 - 1),
}


def bits(number):
    return None if number == -(2**31) else {bit for bit in range(32) if number >> bit & 1}


def kafka_python_class(spec):
    folder = "producer" if spec.api_key == 0 else "metadata"
    return getattr(importlib.import_module(f"kafka.protocol.{folder}"), spec.name)


def equal_values(ours, theirs, fields, version):
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
        if field.type.name == "uuid":
            # kafka-python says None for the uuid of zeros.
            assert mine == (uuid.UUID(int=0) if other is None else other), name
        elif other is None and field.tag is not None:
            # kafka-python has no default for a tagged field that was not there.
            assert mine in ([], type(mine)()), name
        elif mine is None or other is None:
            assert mine is None, name
            assert other is None, name
        elif field.type.is_struct:
            pairs = [(mine, other)] if not field.type.is_array else list(zip(mine, other, strict=True))
            for a, b in pairs:
                equal_values(a, b, field.fields, version)
        elif field.type.name == "records":
            assert bytes(mine) == bytes(other)
        elif field.type.is_array:
            assert list(mine) == list(other), name
        else:
            assert mine == other, name


@pytest.mark.parametrize(("spec", "version"), _BODIES, ids=version_id)
def test_kafka_python_reads_and_writes_the_same(spec, version):
    peer = kafka_python_class(spec)
    # An ApiVersions response with an error is read as version 0 there, whatever version was asked for.
    limits = {"error_code": st.just(0)} if spec.name == "ApiVersionsResponse" else _BIT_FIELDS

    @_SETTINGS
    @given(messages(spec, version, limits=limits, unknown_tags=False))
    def check(message):
        data = message.encode(version)
        decoded = peer.decode(data, version=version)
        equal_values(message, decoded, spec.fields, version)
        decoded._header = None  # kafka-python leaves it unset on what it decodes, and encoding asks for it
        written = decoded.encode(version=version)
        assert bytes(written) == data
        assert class_of(spec).decode(written, version)[0] == message

    check()


@pytest.mark.parametrize(("spec", "version"), _BODIES, ids=version_id)
def test_kio_reads_and_writes_the_same(spec, version):
    side = spec.type.value
    api = snake_case(spec.name).removesuffix(f"_{side}")
    try:
        peer = getattr(importlib.import_module(f"kio.schema.{api}.v{version}.{side}"), spec.name)
    except ImportError:
        pytest.skip(f"kio does not know {spec.name} v{version}")
    read, write = entity_reader(peer), entity_writer(peer)

    @_SETTINGS
    @given(messages(spec, version, limits=_KIO_LIMITS, unknown_tags=False))
    def check(message):
        data = message.encode(version)
        decoded, consumed = read(data, 0)
        assert consumed == len(data)
        sink = io.BytesIO()
        write(sink, decoded)
        assert sink.getvalue() == data

    check()
