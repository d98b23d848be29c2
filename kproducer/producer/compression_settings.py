"""From the compression settings to the codec that a producer's batches use."""

from __future__ import annotations

from kproducer.config import ProducerConfig
from kproducer.records.compression import Compression


def compression_of(config: ProducerConfig) -> Compression:
    """The codec and level that the settings ask for."""
    name = config.compression_type
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return Compression.of(name, levels.get(name))
