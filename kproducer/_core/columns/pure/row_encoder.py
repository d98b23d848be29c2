"""RowEncoder in Python: makes a key or value of the columns of a row, as an ``EncoderPlan`` says.

The reference for the compiled one. Arrow arrays become lists of plain values (``raw_values``), which the
writers of the formats encode one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kproducer._core.columns.encoder_plan import (
    CONSTANT,
    ROW,
    EncoderPlan,
    Format,
    Misfit,
    MisfitError,
    PlanNode,
)
from kproducer._core.columns.pure.avro_writer import write_avro
from kproducer._core.columns.pure.json_writer import write_json
from kproducer._core.columns.pure.protobuf_writer import write_protobuf

if TYPE_CHECKING:
    from kproducer._core.columns.pure.arrow_reader import ArrowSource

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
