"""ColumnFormat: what ``send_arrow`` needs of a format that makes keys or values of columns.

``kproducer.columnar`` has the formats. Knows Arrow fields and plans, but no format.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from kproducer._core.columns.encoder_plan import REASONS, ArrowField, EncoderPlan, Misfit


class ColumnsToEncode(NamedTuple):
    """What a format is asked for.

    Attributes:
        fields: the columns of the data.
        taken: the names of columns that the call uses for something else.
        topic: of all records; ``None``: a column has it.
        role: ``"key"`` or ``"value"``.
    """

    fields: tuple[ArrowField, ...]
    taken: frozenset[str]
    topic: str | None
    role: str


class CompiledColumns(NamedTuple):
    """How the keys or values of a call are made.

    Attributes:
        plan: for the kernel.
        header: added to the headers of each record, such as one with the schema's GUID; ``None``: nothing.
    """

    plan: EncoderPlan
    header: tuple[str, bytes] | None = None

    def misfit(self, detail: int) -> str:
        """What is wrong with a row, from the detail that ``ArrowRows.refusal`` returns."""
        place = self.place(detail)
        return f"{f'field {place!r}' if place else 'the value'} {REASONS[Misfit(detail & 0xFF)]}"

    def place(self, detail: int) -> str:
        """The field that does not fit, from the same detail; empty: there is only one."""
        return self.plan.nodes[detail >> 8].place


@runtime_checkable
class ColumnFormat(Protocol):
    """A format, such as ``kproducer.columnar.Avro``."""

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """Make a plan for some columns. May block for a schema registry.

        Raises:
            InvalidArgumentError: a column is missing, or its type does not fit the schema.
            SerializationError: the schema is not valid, or the registry has none.
        """
