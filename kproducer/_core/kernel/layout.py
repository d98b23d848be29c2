"""Byte layout and limits of record batch v2 (magic 2).

``native/_batch.pxd`` repeats the few numbers that compiled code needs; tests compare the two kernels. All
integers on the wire are big-endian.

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

CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21
#: Size of the header.
RECORD_BATCH_OVERHEAD: Final = 61

#: Bytes that the field "batch length" does not count: those of the base offset and of the field itself.
LOG_OVERHEAD: Final = 12

#: The fields before the checksum.
HEADER_BEFORE_CRC: Final = struct.Struct(">qiib")
#: The fields after the checksum, which covers them.
HEADER_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
CRC: Final = struct.Struct(">I")
#: The bit of the attributes that marks a transactional batch; the lowest three are the codec.
TRANSACTIONAL_MASK: Final = 0x10

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

INT16_MAX: Final = 2**15 - 1

#: Longest encodings: five bytes hold 32 bits, ten hold 64.
MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10

#: Everything in a record but key, value and headers, at its longest: length, attributes, timestamp delta,
#: offset delta, lengths of key and value, number of headers.
MAX_RECORD_OVERHEAD: Final = MAX_VARINT_BYTES + 1 + MAX_VARLONG_BYTES + 4 * MAX_VARINT_BYTES
