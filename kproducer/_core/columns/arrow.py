"""What reads Arrow data in this process: ``ArrowSource``, ``ArrowRows``, ``RowChecksum`` and ``RowEncoder``.

Compiled with the native kernel; the pure ones, which need pyarrow, with the pure kernel and where the
compiled Arrow modules are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer._core.columns.arrow_names import REFUSALS, TYPE_NAMES
from kproducer._core.kernel import IMPLEMENTATION

__all__ = ["REFUSALS", "TYPE_NAMES", "ArrowRows", "ArrowSource", "RowChecksum", "RowEncoder"]

if TYPE_CHECKING or IMPLEMENTATION == "pure":
    from kproducer._core.columns.pure import ArrowRows, ArrowSource, RowChecksum, RowEncoder
else:
    try:
        # Not "from the modules": the import rules see compiled modules only as members of their package.
        from kproducer._core.columns.native import _arrow_checksum, _arrow_reader, _arrow_rows, _row_encoder
    except ImportError:
        from kproducer._core.columns.pure import ArrowRows, ArrowSource, RowChecksum, RowEncoder
    else:
        ArrowRows = _arrow_rows.ArrowRows
        ArrowSource = _arrow_reader.ArrowSource
        RowChecksum = _arrow_checksum.RowChecksum
        RowEncoder = _row_encoder.RowEncoder
