"""Codecs and levels: what the bytes look like, and what is refused."""

from __future__ import annotations

import gzip
import importlib
import random
from types import ModuleType

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.records import compression as compression_module
from kproducer._core.records.compression import Compression, CompressionType
from kproducer.errors import ConfigError

CODECS = ["gzip", "snappy", "lz4", "zstd"]
TEXT = b"".join(b'{"id": %d, "name": "user-%d"}\n' % (i, i * 7919 % 1000) for i in range(6000))
NOISE = random.Random(5).randbytes(100_000)


@pytest.mark.parametrize("name", ["none", *CODECS])
@pytest.mark.parametrize("data", [b"", b"x", TEXT, NOISE], ids=["empty", "one", "text", "noise"])
def test_compressed_and_read_back(name: str, data: bytes) -> None:
    compression = Compression.of(name)
    assert compression.decompress(compression.compress(memoryview(bytearray(data)))) == data


@pytest.mark.parametrize("name", CODECS)
@given(parts=st.lists(st.binary(max_size=3000), max_size=6), repeat=st.integers(1, 30))
def test_any_data_is_read_back(name: str, parts: list[bytes], repeat: int) -> None:
    data = b"".join([part * repeat for part in parts])
    compression = Compression.of(name)
    assert compression.decompress(compression.compress(data)) == data


@pytest.mark.parametrize("name", CODECS)
def test_text_gets_smaller(name: str) -> None:
    assert len(Compression.of(name).compress(TEXT)) < len(TEXT) / 2


def test_attribute_bits_are_those_of_kafka() -> None:
    assert {kind.name.lower(): kind.value for kind in CompressionType} == {
        "none": 0,
        "gzip": 1,
        "snappy": 2,
        "lz4": 3,
        "zstd": 4,
    }


def test_gzip_is_what_the_standard_library_reads() -> None:
    assert gzip.decompress(Compression.of("gzip").compress(TEXT)) == TEXT


def test_snappy_has_the_java_library_header_and_blocks_of_32_kib() -> None:
    compressed = Compression.of("snappy").compress(TEXT)
    assert compressed[:16] == b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
    position, sizes = 16, []
    while position < len(compressed):
        size = int.from_bytes(compressed[position : position + 4], "big")
        block = compressed[position + 4 : position + 4 + size]
        sizes.append(len(bytes(cramjam.snappy.decompress_raw(block))))
        position += 4 + size
    assert position == len(compressed)
    assert sizes == [32768] * (len(TEXT) // 32768) + [len(TEXT) % 32768]


def test_lz4_frames_are_what_kafka_reads() -> None:
    compression = Compression.of("lz4")
    compressed = compression.compress(TEXT)
    info = lz4.frame.get_frame_info(compressed)
    assert info["block_linked"] is False
    assert info["block_size"] == 64 * 1024
    assert info["content_checksum"] is False
    assert info["block_checksum"] is False
    assert info["content_size"] == 0
    assert compressed[4] == 0b01_1_0_0_0_00  # version 1, independent blocks, nothing else
    assert lz4.frame.decompress(compressed) == TEXT


def test_zstd_is_one_frame() -> None:
    compression = Compression.of("zstd")
    compressed = compression.compress(TEXT)
    inflater = zstandard.ZstdDecompressor().decompressobj()
    assert inflater.decompress(compressed) == TEXT
    assert inflater.eof
    assert inflater.unused_data == b""


@pytest.mark.parametrize(("name", "low", "high"), [("gzip", 1, 9), ("lz4", 3, 12), ("zstd", -50, 19)])
def test_a_higher_level_compresses_better(name: str, low: int, high: int) -> None:
    def size(level: int) -> int:
        compression = Compression.of(name, level)
        compressed = compression.compress(TEXT)
        assert compression.decompress(compressed) == TEXT
        return len(compressed)

    assert size(high) < size(low)


def test_lz4_level_nine_is_the_fast_compressor_as_in_java() -> None:
    fast = Compression.of("lz4", 9).compress(TEXT)
    assert fast == Compression.of("lz4").compress(TEXT)
    assert len(Compression.of("lz4", 8).compress(TEXT)) < len(fast)
    assert len(Compression.of("lz4", 1).compress(TEXT)) < len(fast)


@pytest.mark.parametrize(
    ("name", "default", "allowed"),
    [("gzip", -1, [-1, 1, 9]), ("lz4", 9, [1, 17]), ("zstd", 3, [-131072, 22])],
)
def test_levels(name: str, default: int, allowed: list[int]) -> None:
    assert Compression.of(name) == Compression.of(name, default)
    for level in allowed:
        compression = Compression.of(name, level)
        assert compression.level == level
        assert compression.decompress(compression.compress(b"abc")) == b"abc"


@pytest.mark.parametrize(("name", "package"), [("snappy", "cramjam"), ("lz4", "lz4"), ("zstd", "zstandard")])
def test_a_missing_package_is_named_at_once(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    def nothing_installed(name: str) -> ModuleType:
        raise ImportError(f"No module named {name!r}")

    compression_module.load_codec.cache_clear()
    monkeypatch.setattr(importlib, "import_module", nothing_installed)
    monkeypatch.setattr(compression_module._per_thread, "zstd_compressors", {}, raising=False)
    with pytest.raises(ConfigError, match=f"compression_type={name} needs the package {package}"):
        Compression.of(name)
