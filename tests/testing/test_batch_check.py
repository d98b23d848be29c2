"""The strict reader accepts valid batches and reports each violation."""

from __future__ import annotations

import gzip

import pytest

from kproducer.testing.fakebroker.batch_check import BatchRefusedError, read_batch
from tests.support.raw_client import make_batch


def test_reads_keys_values_and_absolute_timestamps() -> None:
    batch = read_batch(make_batch(b"one", b"two", key=b"k", timestamp_ms=77), 9)
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in batch.records] == [
        (0, 77, b"k", b"one"),
        (1, 77, b"k", b"two"),
    ]


def test_reads_a_compressed_payload() -> None:
    plain = make_batch(b"one", b"two")[61:]
    packed = make_batch(b"one", b"two", codec=1, payload=gzip.compress(plain))
    assert [r.value for r in read_batch(packed, 3).records] == [b"one", b"two"]


@pytest.mark.parametrize(
    ("batch", "code", "reason"),
    [
        (make_batch(b"x")[:40], 2, "too short for a batch"),
        (make_batch(b"x", magic=1), 87, "magic"),
        (make_batch(b"x", crc=1), 2, "CRC"),
        (make_batch(b"x") + make_batch(b"y"), 87, "more than one"),
        (make_batch(b"x")[:-1], 87, "cut short"),
        (make_batch(b"x", base_offset=5), 87, "base offset"),
        (make_batch(b"x", count=2), 87, "last offset delta"),
        (make_batch(b"x", count=2, last_delta=1), 87, "do not parse"),
        (make_batch(b"x", b"y", count=1, last_delta=0), 87, "behind the last record"),
        (make_batch(b"x", count=0, last_delta=-1), 87, "0 records"),
        (make_batch(b"x", attributes=5), 76, "codec 5"),
        (make_batch(b"x", attributes=8), 32, "log append time"),
        (make_batch(b"x", attributes=0x20), 87, "control bits"),
        (make_batch(b"x", max_ts=2000), 32, "max timestamp"),
        (make_batch(b"x", codec=1), 2, "does not decompress"),
        (make_batch(b"x", payload=b"\x7f\x00"), 87, "claims"),
    ],
)
def test_violations_of_the_format_are_refused(batch: bytes, code: int, reason: str) -> None:
    with pytest.raises(BatchRefusedError, match=reason) as caught:
        read_batch(batch, 9)
    assert caught.value.code == code


def test_zstd_needs_produce_7() -> None:
    with pytest.raises(BatchRefusedError, match="zstd in Produce v6"):
        read_batch(make_batch(b"x", codec=4), 6)
