"""RowEncoder in Python: makes a key or value of the columns of a row, as an ``EncoderPlan`` says.

The reference for the compiled one. Arrow arrays become lists of plain values (``raw_values``), which the
writers of the formats encode one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kproducer._core.kernel.encoder_plan import (
    CONSTANT,
    ROW,
    EncoderPlan,
    Format,
    Misfit,
    MisfitError,
    PlanNode,
)
from kproducer._core.kernel.pure.avro_writer import write_avro
from kproducer._core.kernel.pure.json_writer import write_json
from kproducer._core.kernel.pure.protobuf_writer import write_protobuf

if TYPE_CHECKING:
    from kproducer._core.kernel.pure.arrow import ArrowSource

#: What a row becomes: its bytes; the number of a node and the reason why its value does not fit; or null.
EncodedRow: TypeAlias = "bytes | tuple[int, int] | None"
#: Writes a value of a child to the output.
WriteChild: TypeAlias = Callable[[PlanNode, Any], None]
#: Writes a value of a node, which is not null, to the output.
WriteValue: TypeAlias = Callable[[bytearray, PlanNode, Any, WriteChild], None]

_WRITERS: Final[dict[Format, WriteValue]] = {
    Format.AVRO: write_avro,
    Format.PROTOBUF: write_protobuf,
    Format.JSON: write_json,
}


class RowEncoder:
    """Encodes rows of the current chunk of a source. For one thread.

    Args:
        plan: how.
    """

    __slots__ = ("_numbers", "_out", "_write", "plan")

    def __init__(self, plan: EncoderPlan) -> None:
        self.plan = plan
        self._write = _WRITERS[plan.format]
        # By identity, because nodes may be equal. The plan keeps the objects alive.
        self._numbers = {id(node): number for number, node in enumerate(plan.nodes)}
        self._out = bytearray()

    def encode_rows(self, source: ArrowSource, first: int, count: int) -> list[EncodedRow]:
        """Encode ``count`` rows from ``first`` on.

        Raises:
            ValueError: the chunk contradicts its schema or the plan.
        """
        root = self.plan.root
        columns = source.raw_columns(_columns_of(root), first, count)
        if root.column == ROW:
            return [self._encode(dict(zip(columns, row, strict=True))) for row in _rows(columns, count)]
        return [None if value is None else self._encode(value) for value in columns[root.column]]

    def _encode(self, value: Any) -> EncodedRow:
        self._out = bytearray(self.plan.prefix)
        try:
            self._write_node(self.plan.root, value)
        except MisfitError as misfit:
            return self._numbers[id(misfit.node)], misfit.reason.value
        return bytes(self._out)

    def _write_node(self, node: PlanNode, value: Any) -> None:
        """Write a value; structs and the row have the values of the children."""
        if node.column == CONSTANT:
            self._out += node.prefix
            return
        if value is None:
            if node.null is None:
                raise MisfitError(Misfit.NULL, node)
            self._out += node.null
            return
        self._out += node.prefix
        try:
            self._write(self._out, node, value, self._write_node)
        except MisfitError as misfit:
            if misfit.node is None:
                misfit.node = node
            raise


def _columns_of(root: PlanNode) -> list[int]:
    nodes = root.children if root.column == ROW else (root,)
    return sorted({node.column for node in nodes if node.column >= 0})


def _rows(columns: Mapping[int, Sequence[Any]], count: int) -> Any:
    return zip(*columns.values(), strict=True) if columns else [()] * count


def raw_values(array: Any) -> list[Any]:
    """The values of an Arrow array as the writers take them; ``None`` for null.

    Numbers, dates, times and durations are numbers in the unit of the type, decimals the unscaled number;
    strings are UTF-8; structs are tuples, lists and maps are lists, unions are the type id and the value.
    """
    import pyarrow as pa

    kind = array.type
    if hasattr(kind, "storage_type"):
        return raw_values(array.storage)
    if pa.types.is_dictionary(kind):
        # Where a struct is null, its field may have any index: one that is missing is not an error.
        values = dict(enumerate(raw_values(array.dictionary)))
        return [values.get(index) for index in array.indices.to_pylist()]
    if pa.types.is_string(kind):
        return array.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_large_string(kind):
        return array.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]
    if kind == pa.string_view():
        return array.cast(pa.binary_view()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_decimal(kind):
        return [None if value is None else _unscaled(value, kind.scale) for value in array.to_pylist()]
    if pa.types.is_floating(kind):
        return [None if value is None else float(value) for value in array.to_pylist()]
    if pa.types.is_struct(kind):
        # field() instead of flatten(): see ArrowSource.
        children = [raw_values(array.field(number)) for number in range(kind.num_fields)]
        rows = zip(*children, strict=True) if children else [()] * len(array)
        return [
            row if is_valid else None
            for row, is_valid in zip(rows, array.is_valid().to_pylist(), strict=True)
        ]
    if pa.types.is_union(kind):
        return _union_values(array)
    if pa.types.is_nested(kind):
        return [raw_values(value.values) if value.is_valid else None for value in array]
    return array.to_pylist()  # type: ignore[no-any-return]


def _union_values(array: Any) -> list[Any]:
    import pyarrow as pa

    kind = array.type
    # The buffers are read, because type_codes and offsets ignore that an array may be a slice.
    buffers, size, offset = array.buffers(), len(array), array.offset
    codes = pa.Array.from_buffers(pa.int8(), size, [None, buffers[1]], offset=offset).to_pylist()
    places = range(size)
    if kind.mode == "dense":
        places = pa.Array.from_buffers(pa.int32(), size, [None, buffers[2]], offset=offset).to_pylist()
    children = {code: raw_values(array.field(number)) for number, code in enumerate(kind.type_codes)}
    return [(code, children[code][place]) for code, place in zip(codes, places, strict=True)]


def _unscaled(value: Any, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits)) or "0") * 10 ** (exponent + scale)
    return -number if sign else number
