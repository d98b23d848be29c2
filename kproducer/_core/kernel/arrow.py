"""The Arrow reader of the kernel in use: ``ArrowSource``, ``ArrowRows``, ``RowChecksum`` and ``RowEncoder``.

Apart from ``kproducer._core.kernel``, so that programs without Arrow data do not load it. Where the native
kernel was built without its Arrow modules, the pure ones serve, with pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer._core.kernel import IMPLEMENTATION
from kproducer._core.kernel.arrow_names import REFUSALS, TYPE_NAMES

__all__ = ["REFUSALS", "TYPE_NAMES", "ArrowRows", "ArrowSource", "RowChecksum", "RowEncoder"]

if TYPE_CHECKING or IMPLEMENTATION == "pure":
    from kproducer._core.kernel.pure.arrow import ArrowRows, ArrowSource
    from kproducer._core.kernel.pure.arrow_checksum import RowChecksum
    from kproducer._core.kernel.pure.row_encoder import RowEncoder
else:
    try:
        # Not "from the modules": the import rules see compiled modules only as members of their package.
        from kproducer._core.kernel.native import _arrow_checksum, _arrow_reader, _arrow_rows, _row_encoder
    except ImportError:
        from kproducer._core.kernel.pure.arrow import ArrowRows, ArrowSource
        from kproducer._core.kernel.pure.arrow_checksum import RowChecksum
        from kproducer._core.kernel.pure.row_encoder import RowEncoder
    else:
        ArrowRows = _arrow_rows.ArrowRows
        ArrowSource = _arrow_reader.ArrowSource
        RowChecksum = _arrow_checksum.RowChecksum
        RowEncoder = _row_encoder.RowEncoder
