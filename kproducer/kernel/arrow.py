"""The Arrow reader of the kernel in use: ``ArrowSource``, ``ArrowRows`` and ``RowChecksum``.

A room of its own, so that a program without Arrow data does not load it. Where the native kernel was built
without its Arrow rooms, the pure ones (and pyarrow) serve: both hand out records in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer.kernel import IMPLEMENTATION

__all__ = ["ArrowRows", "ArrowSource", "RowChecksum"]

if TYPE_CHECKING or IMPLEMENTATION == "pure":
    from kproducer.kernel.pure.arrow import ArrowRows, ArrowSource
    from kproducer.kernel.pure.arrow_checksum import RowChecksum
else:
    try:
        from kproducer.kernel.native import _arrow, _arrow_checksum, _arrow_source
    except ImportError:
        from kproducer.kernel.pure.arrow import ArrowRows, ArrowSource
        from kproducer.kernel.pure.arrow_checksum import RowChecksum
    else:
        ArrowRows = _arrow.ArrowRows
        ArrowSource = _arrow_source.ArrowSource
        RowChecksum = _arrow_checksum.RowChecksum
