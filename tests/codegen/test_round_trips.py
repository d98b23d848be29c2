"""Encoded messages decode to the same values, with exact sizes, from any kind of buffer and any position.

Run for every version of upstream's messages, of our language specs, and of the messages we ship.
"""

from __future__ import annotations

import functools

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.codegen.compiled import CORPUS, LANGUAGE, OURS
from tests.codegen.message_strategies import messages

_SETTINGS = settings(
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
#: (case, examples): there are many of upstream's messages and few others, so these get more examples.
_CASES = [(case, 4) for case in CORPUS] + [(case, 10) for case in LANGUAGE + OURS]


@functools.cache
def _kinds_of_buffer():
    return (bytearray, memoryview, lambda data: memoryview(bytearray(data)))


@pytest.mark.parametrize(("case", "examples"), _CASES, ids=str)
def test_any_message_round_trips(case, examples):
    version = case.version

    @settings(_SETTINGS, max_examples=examples)
    @given(messages(case.spec, version, module=case.module), st.binary(max_size=3), st.sampled_from(range(3)))
    def check(message, around, kind):
        data = message.encode(version)
        assert len(data) == message.size(version)
        decoded, end = type(message).decode(data, version)
        assert end == len(data)
        assert decoded == message
        assert decoded.encode(version) == data

        # In the middle of another kind of buffer.
        buffer = _kinds_of_buffer()[kind](around + data + around)
        assert type(message).decode(buffer, version, len(around)) == (message, len(around) + len(data))

        assert _joined(message, version, len(around)) == data

        assert type(message).from_json(message.to_json()) == message

    check()


def _joined(message, version, start):
    """Join the pieces that ``encode_into`` writes and gathers."""
    small = bytearray(start + message.size(version) - message.zero_copy_size(version))
    gather = []
    end = message.encode_into(small, start, version, gather)
    assert end == len(small)
    whole, last = b"", start
    for position, data in gather:
        whole += small[last:position] + data
        last = position
    return whole + small[last:]


@pytest.mark.parametrize("case", CORPUS + LANGUAGE + OURS, ids=str)
def test_a_default_message_round_trips(case):
    message = case.message_class()
    data = message.encode(case.version)
    assert len(data) == message.size(case.version)
    assert type(message).decode(data, case.version) == (message, len(data))
