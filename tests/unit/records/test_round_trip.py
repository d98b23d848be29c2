"""Whole batches, every codec, read by three readers that are independent of the builder, and by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproducer._core.kernel import record_size_upper_bound
from kproducer._core.records.batch_sizing import TopicCompressionRatio
from kproducer._core.records.compression import Compression
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer.testing.fakebroker.batch_check import read_batch
from tests.support.units.foreign_records import aiokafka_records, kafka_python_records

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
CLIENTS = {"aiokafka": aiokafka_records, "kafka-python": kafka_python_records}
#: kafka-python brings no snappy of its own.
ABLE = [
    (client, codec) for client in CLIENTS for codec in CODECS if (client, codec) != ("kafka-python", "snappy")
]
TS = 1_700_000_000_000

payloads = st.one_of(
    st.none(),
    st.binary(max_size=100),
    st.builds(lambda b, n: b * n, st.binary(max_size=9), st.integers(0, 300)),
)
headers = st.lists(st.tuples(st.text(max_size=6), st.one_of(st.none(), st.binary(max_size=9))), max_size=3)
timestamps = st.integers(TS - 100_000_000, TS + 100_000_000)
record_lists = st.lists(st.tuples(timestamps, payloads, payloads, headers), min_size=1, max_size=25)


def written(codec: str, records: list[tuple[Any, Any, Any, Any]], ratio: float) -> tuple[bytes, list[Any]]:
    """Return a batch of as many records as it takes, and those records. The builder reads them back."""
    estimate = TopicCompressionRatio()
    estimate.ratio = ratio
    buffer = bytearray(max(2048, record_size_upper_bound(*records[0][1:])))
    builder = RecordBatchBuilder(buffer, Compression.of(codec), estimate, 2048)
    taken = [record for record in records if builder.try_append(*record)]
    assert builder.records() == taken
    return bytes(builder.close()), taken


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None)
@given(records=record_lists, ratio=st.sampled_from([0.1, 0.5, 1.0, 1.2]))
def test_we_read_what_we_wrote(codec: str, records: list[Any], ratio: float) -> None:
    wire, taken = written(codec, records, ratio)
    batch = read_batch(wire)
    assert batch.max_timestamp_ms == max(record[0] for record in taken)
    read = [(r.timestamp_ms, r.key, r.value, list(r.headers)) for r in batch.records]
    assert read == taken


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None)
@given(records=record_lists, ratio=st.sampled_from([0.1, 1.0]))
def test_other_clients_read_what_we_wrote(codec: str, records: list[Any], ratio: float) -> None:
    wire, taken = written(codec, records, ratio)
    for client in CLIENTS:
        if (client, codec) not in ABLE:
            continue
        batch = CLIENTS[client].DefaultRecordBatch(wire)
        assert batch.validate_crc()
        read = [(r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
        assert read == taken


@pytest.mark.parametrize("codec", CODECS)
def test_null_empty_and_repeated_stay_distinct(codec: str) -> None:
    records: list[Any] = [
        (TS, None, None, []),
        (TS, b"", b"", [("", b""), ("", None)]),
        (TS, None, b"", [("same", b"1"), ("same", b"2"), ("same", b"1")]),
        (TS, b"key", None, [("\u65e5\u672c", b"\x00")]),
    ]
    wire, taken = written(codec, records, 1.0)
    assert taken == records
    assert [(r.timestamp_ms, r.key, r.value, list(r.headers)) for r in read_batch(wire).records] == records


@pytest.mark.parametrize("codec", CODECS)
def test_a_megabyte_record_goes_through(codec: str) -> None:
    value = bytes(range(256)) * 4096
    wire, taken = written(codec, [(TS, b"big", value, [])], 1.0)
    assert len(taken) == 1
    assert read_batch(wire).records[0].value == value
