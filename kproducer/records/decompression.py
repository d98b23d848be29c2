"""Decompresses the records of a batch, with a bound on the result: the input may be hostile.

The mirror of ``compression.py``. Nothing is allocated on the word of a length in the data; output stops one
byte behind the bound. Reads a little more than we write: several zstd frames, and raw Snappy without framing,
as librdkafka sends it.
"""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Any

from kproducer.records.compression import XERIAL_HEADER, XERIAL_MAGIC, CompressionType, load_codec
from kproducer.records.errors import CorruptRecordBatchError

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_BYTES = 1 << 20
#: What the zstd library itself refuses to go beyond by default, and more than any producer uses.
_ZSTD_MAX_WINDOW_BYTES = 1 << 27
#: A Snappy copy of 64 bytes takes three.
_SNAPPY_MAX_EXPANSION = 22


def decompress(compression_type: CompressionType, data: memoryview, max_bytes: int) -> bytes:
    """Return the plain form of ``data``.

    Args:
        compression_type: the codec; ``NONE`` copies.
        data: everything behind the batch's header.
        max_bytes: the result may not be longer.

    Raises:
        CorruptRecordBatchError: not the codec's format, ends too early, goes on behind its end, or too long.
        ConfigError: the codec's package is not installed.
    """
    plain = _DECOMPRESSORS[compression_type](data, max_bytes)
    if len(plain) > max_bytes:
        raise CorruptRecordBatchError(
            f"{compression_type.name.lower()} data is longer than {max_bytes} bytes"
        )
    return plain


def _plain(data: memoryview, max_bytes: int) -> bytes:
    return bytes(data[: max_bytes + 1])


def _gzip(data: memoryview, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise CorruptRecordBatchError(f"gzip data: {error}") from error
    if len(plain) <= max_bytes:
        if not inflater.eof:
            raise CorruptRecordBatchError("gzip data ends too early")
        if inflater.unused_data:
            raise CorruptRecordBatchError("bytes follow the gzip data")
    return plain


def _snappy(data: memoryview, max_bytes: int) -> bytes:
    snappy = load_codec("cramjam", "snappy").snappy
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _snappy_block(snappy, data, max_bytes, max_bytes)
    pieces: list[bytes] = []
    room = max_bytes
    position = len(XERIAL_HEADER)
    if len(data) < position:
        raise CorruptRecordBatchError("snappy data ends in its header")
    while position < len(data):
        block_start = position + 4
        position = block_start + int.from_bytes(data[position:block_start], "big")
        if position > len(data) or block_start > len(data):
            raise CorruptRecordBatchError(f"snappy block at byte {block_start} runs past the end of the data")
        piece = _snappy_block(snappy, data[block_start:position], room, max_bytes)
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)


def _snappy_block(snappy: Any, block: memoryview, room: int, max_bytes: int) -> bytes:
    try:
        # A block starts with the size of its plain form, which the library allocates at once.
        plain_bytes = snappy.decompress_raw_len(block)
    except Exception as error:  # cramjam's errors have no base of their own
        raise CorruptRecordBatchError(f"snappy data: {error}") from error
    if plain_bytes > room:
        raise CorruptRecordBatchError(f"snappy data is longer than {max_bytes} bytes")
    if plain_bytes > len(block) * _SNAPPY_MAX_EXPANSION:
        raise CorruptRecordBatchError(f"a snappy block of {len(block)} bytes cannot hold {plain_bytes}")
    try:
        return bytes(snappy.decompress_raw(block))
    except Exception as error:
        raise CorruptRecordBatchError(f"snappy data: {error}") from error


def _lz4(data: memoryview, max_bytes: int) -> bytes:
    inflater = load_codec("lz4.frame", "lz4").LZ4FrameDecompressor()
    try:
        plain: bytes = inflater.decompress(data, max_length=max_bytes + 1)
    except (RuntimeError, ValueError, EOFError) as error:
        raise CorruptRecordBatchError(f"lz4 data: {error}") from error
    if len(plain) <= max_bytes:
        if not inflater.eof:
            raise CorruptRecordBatchError("lz4 data ends too early")
        if inflater.unused_data:
            raise CorruptRecordBatchError("bytes follow the lz4 frame")
    return plain


def _zstd(data: memoryview, max_bytes: int) -> bytes:
    zstandard = load_codec("zstandard", "zstd")
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES).stream_reader(
        io.BytesIO(data), read_across_frames=True
    )
    pieces: list[bytes] = []
    room = max_bytes + 1
    try:
        while room:
            piece: bytes = reader.read(min(room, _READ_BYTES))
            if not piece:
                break
            pieces.append(piece)
            room -= len(piece)
    except zstandard.ZstdError as error:
        raise CorruptRecordBatchError(f"zstd data: {error}") from error
    return b"".join(pieces)


_DECOMPRESSORS: dict[CompressionType, Callable[[memoryview, int], bytes]] = {
    CompressionType.NONE: _plain,
    CompressionType.GZIP: _gzip,
    CompressionType.SNAPPY: _snappy,
    CompressionType.LZ4: _lz4,
    CompressionType.ZSTD: _zstd,
}
