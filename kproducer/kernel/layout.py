"""Byte layout and limits of record batch v2 (magic 2), shared by every kernel.

Python code takes these numbers from here; native code declares the few that it needs itself (``_batch.pxd``).
All integers on the wire are big-endian.

    offset  size  field                       offset  size  field
         0     8  base offset                      23     4  last offset delta
         8     4  batch length (after it)          27     8  base timestamp
        12     4  partition leader epoch           35     8  max timestamp
        16     1  magic                            43     8  producer id
        17     4  CRC-32C of byte 21 onwards       51     2  producer epoch
        21     2  attributes                       53     4  base sequence
                                                   57     4  record count; records follow at 61

Source: KIP-98; Kafka's ``DefaultRecordBatch`` and ``DefaultRecord``.
"""

from __future__ import annotations

import struct
from typing import Final

MAGIC: Final = 2

BASE_OFFSET_OFFSET: Final = 0
BATCH_LENGTH_OFFSET: Final = 8
LEADER_EPOCH_OFFSET: Final = 12
MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21
LAST_OFFSET_DELTA_OFFSET: Final = 23
BASE_TIMESTAMP_OFFSET: Final = 27
MAX_TIMESTAMP_OFFSET: Final = 35
PRODUCER_ID_OFFSET: Final = 43
PRODUCER_EPOCH_OFFSET: Final = 51
BASE_SEQUENCE_OFFSET: Final = 53
RECORD_COUNT_OFFSET: Final = 57
RECORD_BATCH_OVERHEAD: Final = 61

#: What "batch length" does not count: the base offset and itself.
LOG_OVERHEAD: Final = 12

#: Everything in front of the checksum, the checksum left out.
HEADER_BEFORE_CRC: Final = struct.Struct(">qiib")
#: Everything between the checksum and the first record; the checksum covers these bytes.
HEADER_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
CRC: Final = struct.Struct(">I")
#: The whole header at once, for readers.
HEADER: Final = struct.Struct(">qiibIhiqqqhii")

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

INT16_MAX: Final = 2**15 - 1

#: Longest encodings: five bytes hold 32 bits, ten hold 64.
MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10

#: Length prefix, attributes, timestamp delta and offset delta at their longest.
MAX_RECORD_OVERHEAD: Final = MAX_VARINT_BYTES + 1 + MAX_VARLONG_BYTES + MAX_VARINT_BYTES

#: The shortest record: length, attributes, two deltas, null key, null value, no headers.
MIN_RECORD_BYTES: Final = 7
