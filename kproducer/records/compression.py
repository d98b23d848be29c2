"""The codecs of record batches: none, gzip, snappy, lz4, zstd, each with its level.

A ``Compression`` is a codec with a level. It compresses at once, or makes a stream for data that comes in
chunks; ``decompression.py`` is the other direction. The attribute bits of a batch name the codec only.

- gzip: one member, RFC 1952.
- snappy: raw Snappy blocks of at most 32 KiB in the framing of the Java library snappy-java ("xerial").
- lz4: frame format, independent blocks of 64 KiB, no content checksum: all that Kafka's own reader accepts.
- zstd: one frame.

Source: Kafka's ``CompressionType``, ``Lz4BlockOutputStream``, ``SnappyCompression``; KIP-110, KIP-390.
"""

from __future__ import annotations

import enum
import importlib
import struct
import threading
import zlib
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from kproducer.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class CompressionType(enum.IntEnum):
    """The codec; the value is what the attribute bits of a batch hold."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


#: Lowest, highest and default level by codec, as Kafka's settings have them. Snappy has no levels.
_LEVELS: Final[dict[CompressionType, tuple[int, int, int]]] = {
    CompressionType.GZIP: (1, 9, -1),
    CompressionType.LZ4: (1, 17, 9),
    CompressionType.ZSTD: (-131072, 22, 3),
}

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
#: Magic, version, lowest version that can read it.
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
#: Kafka's readers hold one block in memory; this is the size the Java library writes.
SNAPPY_BLOCK_BYTES: Final = 32 * 1024
_LZ4_BLOCK_64_KIB: Final = 4
#: Streams size their zstd tables and window for this much input: a stream of unknown length would take
#: several megabytes for every open batch.
_ZSTD_STREAM_HINT_BYTES: Final = 256 * 1024

_per_thread = threading.local()


class CompressionStream(Protocol):
    """Compresses data that comes in chunks. Not thread-safe."""

    def compress(self, chunk: Buffer) -> bytes:
        """Take ``chunk``; return the output that is ready, which may be empty."""

    def flush(self) -> bytes:
        """Return the rest of the output. The stream cannot be used after it."""


def load_codec(package: str, codec: str) -> Any:
    """Import a codec's package, or say what is missing.

    Raises:
        ConfigError: the package cannot be imported.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        distribution = package.partition(".")[0]
        raise ConfigError(f"compression type {codec} needs the package {distribution}: {error}") from error


@attrs.frozen(slots=True)
class Compression:
    """A codec and its level. Immutable; any thread may use it.

    Attributes:
        type: the codec.
        level: its level in Kafka's numbers: gzip 1-9 or -1 (zlib's own default), lz4 1-17, zstd -131072 to
            22. 0 where the codec has none. As in the Java client, lz4's default level 9 means the fast
            compressor and every other level the high-compression one.
    """

    type: CompressionType = CompressionType.NONE
    level: int = 0

    @classmethod
    def of(cls, name: str, level: int | None = None) -> Compression:
        """Return the compression called ``name`` (``none``, ``gzip``, ``snappy``, ``lz4``, ``zstd``).

        Args:
            name: Kafka's name of the codec.
            level: ``None`` is the codec's default. Ignored for codecs without levels.

        Raises:
            ConfigError: unknown name, level out of range, or the codec's package is missing.
        """
        try:
            kind = CompressionType[name.upper()]
        except (KeyError, AttributeError):
            known = ", ".join(member.name.lower() for member in CompressionType)
            raise ConfigError(f"compression_type={name!r} is none of {known}") from None
        bounds = _LEVELS.get(kind)
        if bounds is None:
            compression = cls(kind)
        else:
            low, high, default = bounds
            chosen = default if level is None else level
            if chosen != default and not low <= chosen <= high:
                raise ConfigError(f"compression_{name}_level={chosen} must be {low} to {high}, or {default}")
            compression = cls(kind, chosen)
        compression.compress(b"")  # a missing package shows here, not at the first batch
        return compression

    def compress(self, data: Buffer) -> bytes:
        """Compress ``data`` at once; faster than a stream of one chunk."""
        if self.type is CompressionType.LZ4:
            frame = load_codec("lz4.frame", "lz4")
            result: bytes = frame.compress(
                data,
                compression_level=_lz4_level(self.level),
                block_size=_LZ4_BLOCK_64_KIB,
                block_linked=False,
                store_size=False,
            )
            return result
        if self.type is CompressionType.ZSTD:
            result = _zstd_compressor(self.level).compress(data)
            return result
        if self.type is CompressionType.NONE:
            return bytes(data)
        stream = self.stream()
        return stream.compress(data) + stream.flush()

    def stream(self) -> CompressionStream:
        """Make a stream for data that comes in chunks.

        Raises:
            ValueError: this is no compression at all.
        """
        if self.type is CompressionType.GZIP:
            return zlib.compressobj(self.level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        if self.type is CompressionType.SNAPPY:
            return _SnappyStream()
        if self.type is CompressionType.LZ4:
            return _Lz4Stream(self.level)
        if self.type is CompressionType.ZSTD:
            zstandard = load_codec("zstandard", "zstd")
            parameters = zstandard.ZstdCompressionParameters.from_level(
                self.level, source_size=_ZSTD_STREAM_HINT_BYTES
            )
            # A compressor serves one stream at a time, so each stream has one of its own.
            stream: CompressionStream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
            return stream
        raise ValueError("there is no stream for uncompressed data")


class _SnappyStream:
    """Snappy in xerial framing: the header, then (length, raw Snappy block) for each block."""

    __slots__ = ("_compress_raw", "_is_started")

    def __init__(self) -> None:
        self._compress_raw = load_codec("cramjam", "snappy").snappy.compress_raw
        self._is_started = False

    def compress(self, chunk: Buffer) -> bytes:
        pieces: list[Buffer] = []
        if not self._is_started:
            self._is_started = True
            pieces.append(XERIAL_HEADER)
        with memoryview(chunk) as view:
            for start in range(0, len(view), SNAPPY_BLOCK_BYTES):
                block = bytes(self._compress_raw(view[start : start + SNAPPY_BLOCK_BYTES]))
                pieces.append(len(block).to_bytes(4, "big"))
                pieces.append(block)
        return b"".join(pieces)

    def flush(self) -> bytes:
        return b""


class _Lz4Stream:
    """LZ4 frame format as Kafka's reader wants it."""

    __slots__ = ("_compressor", "_is_started")

    def __init__(self, level: int) -> None:
        frame = load_codec("lz4.frame", "lz4")
        self._compressor = frame.LZ4FrameCompressor(
            compression_level=_lz4_level(level), block_size=_LZ4_BLOCK_64_KIB, block_linked=False
        )
        self._is_started = False

    def compress(self, chunk: Buffer) -> bytes:
        compressed: bytes = self._compressor.compress(chunk) if self._is_started else self._start(chunk)
        return compressed

    def _start(self, chunk: Buffer) -> bytes:
        self._is_started = True
        started: bytes = self._compressor.begin() + self._compressor.compress(chunk)
        return started

    def flush(self) -> bytes:
        rest: bytes = (
            self._compressor.flush() if self._is_started else self._start(b"") + self._compressor.flush()
        )
        return rest


def _lz4_level(level: int) -> int:
    """Translate Kafka's level: 9 is the fast compressor, others high compression (liblz4: 3 to 12)."""
    return 0 if level == _LEVELS[CompressionType.LZ4][2] else max(3, min(level, 12))


def _zstd_compressor(level: int) -> Any:
    """Return this thread's compressor: making one costs more than compressing a small batch."""
    compressors: dict[int, Any] | None = getattr(_per_thread, "zstd_compressors", None)
    if compressors is None:
        compressors = _per_thread.zstd_compressors = {}
    compressor = compressors.get(level)
    if compressor is None:
        compressor = load_codec("zstandard", "zstd").ZstdCompressor(level=level)
        compressors[level] = compressor
    return compressor
