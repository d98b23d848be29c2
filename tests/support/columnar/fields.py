"""The fields of Arrow data, as formats get them."""

from __future__ import annotations

from typing import Any

from kproducer._core.columns.arrow import ArrowSource
from kproducer._core.columns.encoder_plan import ArrowField


def fields_of(data: Any) -> tuple[ArrowField, ...]:
    """The columns of a table or batch."""
    source = ArrowSource(data)
    try:
        return tuple(map(ArrowField.of, source.fields()))
    finally:
        source.close()
