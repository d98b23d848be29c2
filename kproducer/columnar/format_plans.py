"""FormatPlans: from the columns of a call to an ``EncoderPlan``; the same for all formats.

To make a plan takes longer than to send a hundred rows, so a format remembers the last ones, and what they
were made of. The registry is asked in each call, as ``TopicLookUps`` says: an answer may get another schema.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

import attrs

from kproducer._core.bulk.column_format import ColumnsToEncode, CompiledColumns
from kproducer._core.columns.encoder_plan import EncoderPlan, Format, PlanNode
from kproducer.columnar.chosen_columns import ChosenColumns
from kproducer.columnar.schema_source import SchemaSource
from kproducer.schema_registry.registry_serializer import FoundSchema, SchemaFormat

#: How many results of each kind are remembered. The one that was used least recently goes first, and is made
#: again if it is needed.
_MOST_REMEMBERED = 100


class RootMaker(Protocol):
    """Makes the root of a plan from chosen columns: what differs between the formats. Picklable."""

    @property
    def format(self) -> Format:
        """Which operations the plan has."""

    def root(self, chosen: ChosenColumns, role: str) -> PlanNode:
        """The root, for keys or values.

        Raises:
            InvalidArgumentError: the columns do not fit the schema.
        """


M = TypeVar("M", bound=RootMaker, covariant=True)
F = TypeVar("F", bound=SchemaFormat)


# Compared by identity, because the contents of a schema cannot be hashed.
@attrs.frozen(eq=False)
class ResolvedColumns(Generic[M]):
    """A ``ColumnFormat`` with a known schema, which needs no registry. Picklable.

    Attributes:
        columns: names, one name, or ``None``; as the format takes them.
        maker: has the schema.
        prefix, header: what names the schema in each record.
    """

    columns: str | tuple[str, ...] | None
    maker: M = attrs.field(repr=False)
    prefix: bytes = b""
    header: tuple[str, bytes] | None = None

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        root = self.maker.root(ChosenColumns.of(self.columns, wanted), wanted.role)
        return CompiledColumns(EncoderPlan(self.maker.format, root, self.prefix), self.header)


class FormatPlans(Generic[F, M]):
    """The plans of one format. Thread-safe: two threads at most make the same plan twice.

    Args:
        columns: as the format takes them.
        source: of schemas; ``None``: columns are written without one.
        make: from the format of the schema, and what the registry has (``None``: no registry); both are
            ``None`` without a source.
        derive: the schema of columns, if the source wants that.
    """

    def __init__(
        self,
        columns: str | tuple[str, ...] | None,
        source: SchemaSource[F] | None,
        make: Callable[[F | None, FoundSchema | None], M],
        derive: Callable[[ChosenColumns], str] | None = None,
    ) -> None:
        self._source = source

        def derived(wanted: ColumnsToEncode) -> str:
            assert derive is not None
            return derive(ChosenColumns.of(columns, wanted))

        def resolved(schema_format: F | None, found: FoundSchema | None) -> ResolvedColumns[M]:
            names = (b"", None) if found is None else (found.prefix, found.header)
            return ResolvedColumns(columns, make(schema_format, found), *names)

        remember = lru_cache(_MOST_REMEMBERED)
        # Remembered by their arguments: columns without their topic, formats (the same objects, because the
        # source remembers them), and plans.
        self._derived: Callable[[ColumnsToEncode], str] = remember(derived)
        self._resolved: Callable[..., ResolvedColumns[M]] = remember(resolved)
        self._compiled: Callable[..., CompiledColumns] = remember(_compiled)

    def resolve(self, wanted: ColumnsToEncode) -> ResolvedColumns[M]:
        """The format with the schema of one topic. May block for the registry. Raises as ``SchemaSource``."""
        if self._source is None:
            return self._resolved(None, None)
        derived = self._derived(wanted._replace(topic=None)) if self._source.derives else None
        return self._resolved(*self._source.find(wanted, derived))

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        return self._compiled(self.resolve(wanted), wanted._replace(topic=None))


def _compiled(resolved: ResolvedColumns[Any], wanted: ColumnsToEncode) -> CompiledColumns:
    return resolved.compile_columns(wanted)
