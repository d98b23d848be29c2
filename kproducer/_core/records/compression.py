"""The codecs of record batches: none, gzip, snappy, lz4, zstd, each with its level.

A ``Compression`` is a codec with a level. The attribute bits of a batch hold the codec only.

- gzip: one member, RFC 1952.
- snappy: raw Snappy blocks of at most 32 KiB in the framing of the Java library snappy-java ("xerial").
- lz4: frame format, independent blocks of 64 KiB, no content checksum: Kafka's own reader accepts nothing
  else.
- zstd: one frame.

Source: Kafka's ``CompressionType``, ``Lz4BlockOutputStream``, ``SnappyCompression``; KIP-110, KIP-390.
"""

from __future__ import annotations

import enum
import functools
import importlib.util
import struct
import threading
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kproducer._core.kernel import data_plane
from kproducer._core.runtime.fork_safe_import import import_module
from kproducer._core.runtime.guarded_logger import GuardedLogger
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


#: ``CompressionType.NONE``, looked up once: the look-up of an enumeration's member takes as long as a call.
PLAIN: Final = CompressionType.NONE

#: The defaults of Kafka's settings. Snappy has no levels.
_DEFAULT_LEVELS: Final = {CompressionType.GZIP: -1, CompressionType.LZ4: 9, CompressionType.ZSTD: 3}

#: Magic, version, lowest version that can read it.
XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
#: Kafka's readers hold one block in memory; this is the block size of the Java library.
SNAPPY_BLOCK_BYTES: Final = 32 * 1024
_LZ4_BLOCK_64_KIB: Final = 4

_per_thread = threading.local()
_log = GuardedLogger(__name__)


@functools.cache
def load_codec(package: str, codec: str) -> Any:
    """Import a codec's package.

    Raises:
        ConfigError: the package cannot be imported.
    """
    try:
        # Imported through fork_safe_import: a broker that wants metrics may name a codec that no batch uses,
        # and then the I/O thread imports it.
        return import_module(package)
    except ImportError as error:
        distribution = package.partition(".")[0]
        raise ConfigError(f"compression_type={codec} needs the package {distribution}: {error}") from error


class Compression(NamedTuple):
    """A codec and its level. Immutable and thread-safe.

    Attributes:
        type: the codec.
        level: its level in Kafka's numbers: gzip 1-9 or -1 (zlib's own default), lz4 1-17, zstd -131072 to
            22. 0 if the codec has no levels. As in the Java client, lz4's default level 9 means the fast
            compressor and every other level the high-compression one.
    """

    type: CompressionType = CompressionType.NONE
    level: int = 0

    @classmethod
    def of(cls, name: str, level: int | None = None) -> Compression:
        """Return the compression for the setting ``compression_type``.

        Args:
            name: ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``.
            level: within the codec's range; ``None`` is its default.

        Raises:
            ConfigError: the codec's package is missing.
        """
        kind = CompressionType[name.upper()]
        compression = cls(kind, _DEFAULT_LEVELS.get(kind, 0) if level is None else level)
        compression.compress(b"")  # so that a missing package is reported here and not by the first batch
        return compression

    def compress(self, data: Buffer) -> bytes:
        """Return the compressed form of ``data``."""
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
            return bytes(_zstd_compressor(self.level).compress(data))
        if self.type is CompressionType.GZIP:
            gzip = zlib.compressobj(self.level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
            return gzip.compress(data) + gzip.flush()
        if self.type is CompressionType.NONE:
            return bytes(data)
        return _compress_snappy(data)

    def native_codec(self) -> Any:
        """A ``Codec`` of the data plane that makes the same bytes; ``None``: there is none.

        It calls the libraries inside of the codec's packages. Snappy's package does not let others call its.
        """
        if data_plane is None:
            return None
        try:
            if self.type is CompressionType.LZ4:
                library = getattr(load_codec("lz4.frame._frame", "lz4"), "__file__", None)
                codec = data_plane.Codec(self.type, _lz4_level(self.level), library)
            elif self.type is CompressionType.ZSTD:
                # Of the two modules around the library, this one exports its functions. It is not imported.
                spec = importlib.util.find_spec("zstandard._cffi")
                codec = data_plane.Codec(self.type, self.level, spec and spec.origin)
            else:
                codec = data_plane.Codec(self.type, self.level, getattr(zlib, "__file__", ""))
            is_same = all(codec.compress(sample) == self.compress(sample) for sample in _samples(self.type))
        except (ConfigError, ValueError, TypeError, MemoryError) as error:
            # Without a path, it is a TypeError; MemoryError: the library refuses what it is given.
            _log.debug("compression: no native codec for %s: %r", self, error)
            return None
        if not is_same:
            _log.debug("compression: the native codec makes other bytes for %s", self)
        return codec if is_same else None

    def decompress(self, data: Buffer) -> bytes:
        """Return the plain form of what ``compress`` has returned.

        Only for data of this process: the size of the result is not limited.
        """
        if self.type is CompressionType.GZIP:
            return zlib.decompress(data, 16 + zlib.MAX_WBITS)
        if self.type is CompressionType.SNAPPY:
            return _decompress_snappy(data)
        if self.type is CompressionType.LZ4:
            return bytes(load_codec("lz4.frame", "lz4").decompress(data))
        if self.type is CompressionType.ZSTD:
            return bytes(load_codec("zstandard", "zstd").ZstdDecompressor().decompressobj().decompress(data))
        return bytes(data)


@functools.cache
def _samples(kind: CompressionType) -> list[bytes]:
    """What tells whether two codecs make the same bytes. Lz4 has blocks."""
    numbers = b"".join(b"%d " % (number * number) for number in range(10_000))
    return [b"", numbers[:1000], numbers[: 70_000 if kind is CompressionType.LZ4 else 5000]]


def _compress_snappy(data: Buffer) -> bytes:
    """Xerial framing: the header, then for each block its length and the raw Snappy block."""
    compress_raw = load_codec("cramjam", "snappy").snappy.compress_raw
    pieces: list[Buffer] = [XERIAL_HEADER]
    with memoryview(data) as view:
        for start in range(0, len(view), SNAPPY_BLOCK_BYTES):
            block = bytes(compress_raw(view[start : start + SNAPPY_BLOCK_BYTES]))
            pieces.append(len(block).to_bytes(4, "big"))
            pieces.append(block)
    return b"".join(pieces)


def _decompress_snappy(data: Buffer) -> bytes:
    decompress_raw = load_codec("cramjam", "snappy").snappy.decompress_raw
    pieces: list[Buffer] = []
    position = len(XERIAL_HEADER)
    with memoryview(data) as view:
        while position < len(view):
            start = position + 4
            position = start + int.from_bytes(view[position:start], "big")
            pieces.append(decompress_raw(view[start:position]))
    return b"".join(pieces)


def _lz4_level(level: int) -> int:
    """liblz4's level for Kafka's: 9 is the fast compressor (0), others are high compression (3 to 12)."""
    return 0 if level == _DEFAULT_LEVELS[CompressionType.LZ4] else max(3, min(level, 12))


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
