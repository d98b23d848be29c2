"""From the compression settings to the codec of a producer's batches, and to the buffers that it takes."""

from __future__ import annotations

from kproducer.config.producer_config import ProducerConfig
from kproducer.records.compression import Compression
from kproducer.records.record_batch_builder import largest_buffer_bytes


def compression_of(config: ProducerConfig) -> Compression:
    """The codec and level that the settings ask for."""
    name = config.compression_type
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return Compression.of(name, levels.get(name))


def largest_batch_buffer_bytes(config: ProducerConfig) -> int:
    """The largest buffers that batches with these settings grow to: those a pool should keep for reuse."""
    return largest_buffer_bytes(config.batch_size, config.compression_type != "none")
