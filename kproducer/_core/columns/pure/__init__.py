"""Readers and encoders of columns in plain Python, reached through ``kproducer._core.columns.arrow`` only."""

from __future__ import annotations

from kproducer._core.columns.pure.arrow_checksum import RowChecksum
from kproducer._core.columns.pure.arrow_reader import ArrowSource
from kproducer._core.columns.pure.arrow_rows import ArrowRows
from kproducer._core.columns.pure.row_encoder import RowEncoder

__all__ = ["ArrowRows", "ArrowSource", "RowChecksum", "RowEncoder"]
