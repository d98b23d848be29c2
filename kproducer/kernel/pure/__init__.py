"""The reference kernel in plain Python. Reached through ``kproducer.kernel`` only.

A twin is a package with exactly these names; ``tests/unit/kernel`` holds each one to the same signatures.
"""

from __future__ import annotations

from kproducer.kernel.pure.batch_reader import RawRecord, RecordFormatError, decode_records
from kproducer.kernel.pure.batch_v2 import BatchWriter, record_size_upper_bound, write_batch_header
from kproducer.kernel.pure.crc32c import crc32c
from kproducer.kernel.pure.murmur2 import murmur2

__all__ = [
    "BatchWriter",
    "RawRecord",
    "RecordFormatError",
    "crc32c",
    "decode_records",
    "murmur2",
    "record_size_upper_bound",
    "write_batch_header",
]
