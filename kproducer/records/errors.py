"""The error of this package. Kept apart so that every module of it can raise it."""

from __future__ import annotations

from kproducer.errors import RemoteProtocolError


class CorruptRecordBatchError(RemoteProtocolError):
    """The bytes are no valid record batch: wrong checksum, length, count, codec data or record."""
