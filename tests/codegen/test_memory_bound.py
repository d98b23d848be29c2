"""Memory depends on the bytes that were read, never on the lengths that they claim.

Two limits, measured with CPython 3.11. A byte that was read becomes at most 82 bytes of objects in upstream's
messages and ours, and 94 in specs written as extreme cases: elements of four or five bytes, each with an
unknown tagged field, which is a dict. A byte that was not read costs at most 3: for text that is not UTF-8,
Python holds the bytes, the beginning of the text, and the copy in the error. Object sizes differ slightly in
other versions of Python.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import tracemalloc

import pytest

from tests.codegen.compiled import CORPUS, LANGUAGE, OURS
from tests.codegen.worst_messages import distinct, lies, worst_messages

#: Bytes of objects per byte read: real messages, and our language specs.
_REAL, _EXTREME = 85, 97
#: Per byte of input that was not read.
_UNREAD = 3.1
#: The message itself, the error, varying remainders.
_CONSTANT = 3000

_LATEST = [case for case in CORPUS if case.version == case.spec.valid_versions.highest]
_CASES = _LATEST + distinct(LANGUAGE + OURS)

#: Bytes that claim large or small lengths in as many places as possible.
_PATTERNS = [
    *(bytes([byte]) * 3000 for byte in (0, 1, 2, 3, 0x7F, 0x80, 0xFF)),
    b"\x7f\xff\xff\xff" * 750,
    b"\xff\xff\xff\xff\x07" * 600,
    b"\x00\x02" * 1500,
    b"\x00\x00\x00\x01" * 750,
    *(random.Random(seed).randbytes(3000) for seed in range(20)),
]


def decoders_of(case):
    """The decoder in use and, if that is compiled, also the generated function."""
    used = case.module._DECODE[case.version]
    found = (used,) if case.decoder() is None else (used, case.decoder().generated)
    for decode in found:
        # Memory allocated on first use does not belong to the message.
        with contextlib.suppress(case.decode_error):
            decode(case.readable(bytes(100)), 0, 100)
    return found


def factor(case):
    return _EXTREME if case in LANGUAGE else _REAL


def peak_and_end(case, decode, data):
    """Peak memory of decoding, and the position at which it ended."""
    readable = case.readable(data)
    tracemalloc.start()
    try:
        _, end = decode(readable, 0, len(data))
    except case.decode_error as error:
        end = error.offset
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, end


def assert_bounded(case, decoders, data):
    for decode in decoders:
        peak, end = peak_and_end(case, decode, data)
        assert peak <= _CONSTANT + factor(case) * end + _UNREAD * (len(data) - end)


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_the_worst_valid_messages(case):
    for path, message in worst_messages(case, 2000):
        data = message.encode(case.version)
        for decode in decoders_of(case):
            peak, end = peak_and_end(case, decode, data)
            assert end == len(data)
            assert peak <= _CONSTANT + factor(case) * len(data), path


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_false_lengths(case):
    messages = [message for _, message in worst_messages(case, 1)]
    longest = max((message.encode(case.version) for message in messages), key=len, default=b"")
    decoders = decoders_of(case)
    for byte in (b"\x80", b"a"):
        for data in lies(longest, byte * 20_000):
            assert_bounded(case, decoders, data)


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_truncated_messages(case):
    decoders = decoders_of(case)
    for _, message in worst_messages(case, 400):
        data = message.encode(case.version)
        for length, decode in itertools.product(range(0, len(data), 97), decoders):
            # All bytes may have been read: errors in tagged fields report where the fields begin.
            peak, _ = peak_and_end(case, decode, data[:length])
            assert peak <= _CONSTANT + factor(case) * length


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_patterns(case):
    decoders = decoders_of(case)
    for data in _PATTERNS:
        assert_bounded(case, decoders, data)


def test_the_limits_are_tight():
    """The limits at the top of this file are tight: some message comes close to each."""

    def most(cases):
        found = 0.0
        for case in cases:
            for _, message in worst_messages(case, 6000):
                data = message.encode(case.version)
                found = max(found, peak_and_end(case, decoders_of(case)[-1], data)[0] / len(data))
        return found

    assert most([case for case in _LATEST if case.spec.name == "CreatePartitionsRequest"]) > 0.8 * _REAL
    assert most([case for case in LANGUAGE if case.spec.name == "AllTagsRequest"]) > 0.8 * _EXTREME
