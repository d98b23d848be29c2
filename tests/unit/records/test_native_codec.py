"""The codecs without the interpreter lock make the same bytes as the packages."""

from __future__ import annotations

import functools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.kernel import data_plane
from kproducer._core.records.compression import Compression

pytestmark = pytest.mark.skipif(data_plane is None, reason="needs the compiled kernel")

CODECS = [
    *[("gzip", level) for level in (None, 1, 9)],
    *[("lz4", level) for level in (None, 1, 12, 17)],
    *[("zstd", level) for level in (None, -5, 1, 19)],
]


@functools.cache
def codec_of(name: str, level: int | None) -> tuple[Compression, object]:
    compression = Compression.of(name, level)
    return compression, compression.native_codec()


@pytest.mark.parametrize(("name", "level"), CODECS)
@given(
    st.lists(st.sampled_from([b"key", b"value", b'{"id": ']) | st.binary(max_size=40)), st.integers(1, 300)
)
def test_the_same_bytes_as_those_of_the_package(
    name: str, level: int | None, words: list[bytes], times: int
) -> None:
    compression, codec = codec_of(name, level)
    data = b"".join(words) * times
    assert codec.compress(data) == compression.compress(data)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 300_000])
def test_what_cannot_be_compressed_fits(name: str, size: int) -> None:
    compression, codec = codec_of(name, None)
    data = random.Random(size).randbytes(size)
    assert compression.decompress(codec.compress(data)) == data  # type: ignore[attr-defined]


def test_a_library_without_the_functions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"/missing\.so has no functions for codec 3"):
        data_plane.Codec(3, 0, "/missing.so")
    assert Compression.of("snappy").native_codec() is None


def test_a_codec_that_makes_other_bytes_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compression, "compress", lambda self, data: b"other")
    assert Compression.of("lz4").native_codec() is None
