"""Rows of Arrow data as JSON, by both kernels, which have to agree in every byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kproducer._core.bulk.column_format import ColumnsToEncode, CompiledColumns
from kproducer._core.columns.encoder_plan import ArrowField, EncoderPlan, Misfit
from kproducer._core.columns.pure.arrow_reader import ArrowSource
from kproducer._core.columns.pure.row_encoder import RowEncoder
from kproducer.columnar import Json

KERNELS: list[tuple[Callable[[Any], Any], Callable[[EncoderPlan], Any]]] = [(ArrowSource, RowEncoder)]
try:
    from kproducer._core.columns.native import _arrow_reader, _row_encoder
except ImportError:  # the pure kernel is tested alone
    pass
else:
    KERNELS.append((_arrow_reader.ArrowSource, _row_encoder.RowEncoder))


def compiled(
    given: Json, data: Any, *, topic: str | None = "t", taken: tuple[str, ...] = ()
) -> CompiledColumns:
    source = ArrowSource(data)
    fields = tuple(map(ArrowField.of, source.fields()))
    source.close()
    return given.compile_columns(ColumnsToEncode(fields, frozenset(taken), topic, "value"))


def written(given: Json, data: Any, **more: Any) -> list[Any]:
    """Each row: its bytes, ``None``, or the place of a value that does not fit and the reason."""
    made = compiled(given, data, **more)
    results = []
    for open_source, encoder in KERNELS:
        source = open_source(data)
        rows: list[Any] = []
        while (count := source.next_chunk()) >= 0:
            rows += encoder(made.plan).encode_rows(source, 0, count)
        results.append(rows)
    assert all(rows == results[0] for rows in results)
    nodes = made.plan.nodes
    return [(nodes[row[0]].place, Misfit(row[1])) if isinstance(row, tuple) else row for row in results[0]]


def values(array: pa.Array, **options: Any) -> list[Any]:
    """The values of one column."""
    return written(Json("a", **options), pa.table({"a": array}))
