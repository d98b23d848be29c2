"""Rows of Arrow data as JSON, by both kernels, which have to agree in every byte."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa

from kproducer._core.bulk.column_format import ColumnsToEncode, CompiledColumns
from kproducer._core.columns.encoder_plan import ArrowField, Misfit
from kproducer.columnar import Json
from tests.support.columnar.encoders import Encoders

KERNELS = [Encoders.of("pure")]
with suppress(ImportError):  # not built: the pure kernel is tested alone
    KERNELS.append(Encoders.of("native"))


def compiled(
    given: Json, data: Any, *, topic: str | None = "t", taken: tuple[str, ...] = ()
) -> CompiledColumns:
    fields = tuple(map(ArrowField.of, KERNELS[0].fields(data)))
    return given.compile_columns(ColumnsToEncode(fields, frozenset(taken), topic, "value"))


def written(given: Json, data: Any, **more: Any) -> list[Any]:
    """Each row: its bytes, ``None``, or the place of a value that does not fit and the reason."""
    made = compiled(given, data, **more)
    results = [kernel.encode(data, made.plan) for kernel in KERNELS]
    assert all(rows == results[0] for rows in results)
    nodes = made.plan.nodes
    return [(nodes[row[0]].place, Misfit(row[1])) if isinstance(row, tuple) else row for row in results[0]]


def values(array: pa.Array, **options: Any) -> list[Any]:
    """The values of one column."""
    return written(Json("a", **options), pa.table({"a": array}))
