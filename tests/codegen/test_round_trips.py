"""Every message and version of ours: what is encoded decodes to the same, and the size is exact."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.codegen.message_strategies import ALL_VERSIONS, class_of, messages, version_id

_SETTINGS = settings(
    max_examples=12,
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize(("spec", "version"), ALL_VERSIONS, ids=version_id)
def test_a_default_message_round_trips(spec, version):
    message = class_of(spec)()
    data = message.encode(version)
    assert len(data) == message.size(version)
    assert class_of(spec).decode(data, version) == (message, len(data))


@pytest.mark.parametrize(("spec", "version"), ALL_VERSIONS, ids=version_id)
def test_any_message_round_trips_at_its_exact_size(spec, version):
    @_SETTINGS
    @given(messages(spec, version), st.binary(max_size=3), st.binary(max_size=3))
    def check(message, before, after):
        data = message.encode(version)
        assert len(data) == message.size(version)
        decoded, end = class_of(spec).decode(before + data + after, version, len(before))
        assert decoded == message
        assert end == len(before) + len(data)
        assert decoded.encode(version) == data

    check()


@pytest.mark.parametrize(("spec", "version"), ALL_VERSIONS, ids=version_id)
def test_gathered_pieces_equal_the_contiguous_encoding(spec, version):
    @_SETTINGS
    @given(messages(spec, version), st.integers(0, 5))
    def check(message, start):
        small = bytearray(start + message.size(version) - message.zero_copy_size(version))
        gather = []
        end = message.encode_into(small, start, version, gather)
        assert end == len(small)
        whole, last = b"", start
        for position, data in gather:
            whole += small[last:position] + data
            last = position
        assert whole + small[last:] == message.encode(version)

    check()


@pytest.mark.parametrize(("spec", "version"), ALL_VERSIONS, ids=version_id)
def test_every_kind_of_buffer_decodes_to_the_same(spec, version):
    @settings(_SETTINGS, max_examples=5)
    @given(messages(spec, version))
    def check(message):
        data = message.encode(version)
        for buffer in (bytearray(data), memoryview(data), memoryview(bytearray(data))):
            assert class_of(spec).decode(buffer, version) == (message, len(data))

    check()
