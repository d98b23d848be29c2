"""The size prefix."""

from __future__ import annotations

import pytest

from kproducer._core.network.framing import MAX_FRAME_BYTES, SIZE_PREFIX, parse_size_prefix
from kproducer.errors import RemoteProtocolError


def test_sizes_up_to_the_limit_are_read_anywhere_in_a_buffer():
    for size in (0, 1, 70_000, MAX_FRAME_BYTES):
        assert parse_size_prefix(b"xx" + SIZE_PREFIX.pack(size) + b"y", 2) == size
    assert parse_size_prefix(memoryview(SIZE_PREFIX.pack(9)), max_frame_bytes=9) == 9


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_negative_and_excessive_sizes_are_refused(size):
    with pytest.raises(RemoteProtocolError, match=f"a frame of {size} bytes; at most {MAX_FRAME_BYTES}"):
        parse_size_prefix(SIZE_PREFIX.pack(size))


@pytest.mark.parametrize(("greeting", "what"), [(b"HTTP/1.1 400", "HTTP"), (b"\x15\x03\x03\x00\x02", "TLS")])
def test_a_foreign_server_is_recognised_where_its_size_is_refused(greeting, what):
    with pytest.raises(RemoteProtocolError, match=f"look like an? {what}"):
        parse_size_prefix(greeting, max_frame_bytes=10**6)
