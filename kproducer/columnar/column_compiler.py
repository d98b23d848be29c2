"""ColumnCompiler: what the compilers of all formats share: where a value is, and why a column is refused.

Knows no format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from kproducer._core.columns.encoder_plan import ArrowField, Format, PlanNode
from kproducer.columnar.chosen_columns import ChosenColumns
from kproducer.errors import InvalidArgumentError


class DoesNotFitError(Exception):
    """A column and a schema do not fit. Its text becomes that of an ``InvalidArgumentError``.

    Attributes:
        place: of the value; the text then lacks the column, with which the sentence begins. ``None``: the
            text is complete.
    """

    def __init__(self, text: str, place: str | None = None) -> None:
        super().__init__(text)
        self.place = place


class ColumnCompiler(ABC):
    """Compiles the columns of one call.

    Args:
        role: ``"key"`` or ``"value"``.
    """

    #: Which operations the plan has.
    format: ClassVar[Format]

    def __init__(self, role: str) -> None:
        self._role = role
        # The column that is being compiled, for texts of errors.
        self._column = ""

    def compile(self, chosen: ChosenColumns) -> PlanNode:
        """The root of the plan: a node for the row, or for the only column.

        Raises:
            InvalidArgumentError: a column does not fit, or one is missing.
        """
        try:
            if not chosen.is_single:
                return self.row(chosen)
            number, field = chosen.columns[0]
            self._column = field.name
            return self.column(number, field)
        except DoesNotFitError as error:
            where = ""
            if error.place is not None:
                where = f"column {self._column!r} " if self._column else "the data "
                if error.place not in ("", self._column):
                    where = f"{where[:-1]}, at {error.place!r}, "
            raise InvalidArgumentError(f"{self._role}: {where}{error}") from None

    @abstractmethod
    def row(self, chosen: ChosenColumns) -> PlanNode:
        """The node that makes one value of the columns of a row. Raises ``DoesNotFitError``."""

    @abstractmethod
    def column(self, number: int, field: ArrowField) -> PlanNode:
        """The node that writes one column. Raises ``DoesNotFitError``."""


def inner_place(place: str, name: str) -> str:
    """The place of a field; ``place`` is that of the record around it, or empty: the field is a column."""
    return f"{place}.{name}" if place else name


def alternatives(union: ArrowField) -> tuple[tuple[bytes, bytes], ...]:
    """``symbols`` of the node of a union: from each type id to the number of the child."""
    type_ids = filter(None, union.format.partition(":")[2].split(","))
    return tuple((bytes((int(each),)), bytes((number,))) for number, each in enumerate(type_ids))
