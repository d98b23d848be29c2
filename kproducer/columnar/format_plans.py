"""FormatPlans: from the columns of a call to the kernel's plan: the base class of all formats.

To make a plan takes longer than to send a hundred rows, so a format remembers the last ones, and what they
were made of. The registry is asked in each call, as ``TopicLookUps`` says: an answer may get another schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

import attrs

from kproducer._core.bulk.column_format import ColumnsToEncode, CompiledColumns
from kproducer._core.columns.encoder_plan import EncoderPlan
from kproducer.columnar.chosen_columns import ChosenColumns, checked_columns
from kproducer.columnar.column_compiler import ColumnCompiler
from kproducer.columnar.schema_source import SchemaSource
from kproducer.schema_registry.registry_serializer import FoundSchema, SchemaFormat

#: How many results of each kind are remembered. The one that was used least recently goes first, and is made
#: again if it is needed.
_MOST_REMEMBERED = 100


F = TypeVar("F", bound=SchemaFormat)


# Compared by identity, because the contents of a schema cannot be hashed.
@attrs.frozen(eq=False)
class ResolvedColumns:
    """A ``ColumnFormat`` with a known schema, which needs no registry. Picklable.

    Attributes:
        columns: names, one name, or ``None``; as the format takes them.
        compiler: from the role to a compiler, which has the schema.
        prefix, header: what names the schema in each record.
    """

    columns: str | tuple[str, ...] | None
    compiler: Callable[[str], ColumnCompiler] = attrs.field(repr=False)
    prefix: bytes = b""
    header: tuple[str, bytes] | None = None

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        compiler = self.compiler(wanted.role)
        root = compiler.compile(ChosenColumns.of(self.columns, wanted))
        return CompiledColumns(EncoderPlan(compiler.format, root, self.prefix), self.header)


class FormatPlans(Generic[F]):
    """A ``ColumnFormat`` with its plans. Thread-safe: two threads at most make the same plan twice.

    Args:
        columns: as the application gave them.
        source: of schemas; ``None``: columns are written without one.
        compiler: what ``ResolvedColumns`` get, picklable: from the format of the schema, and what the
            registry has (``None``: no registry); both are ``None`` without a source.
        derive: the schema of columns, if the source wants that.

    Raises:
        ConfigError: ``columns`` is wrong.
    """

    def __init__(
        self,
        columns: str | Sequence[str] | None,
        source: SchemaSource[F] | None,
        compiler: Callable[[F | None, FoundSchema | None], Callable[[str], ColumnCompiler]],
        derive: Callable[[ChosenColumns], str] | None = None,
    ) -> None:
        self._columns = names = checked_columns(type(self).__name__, columns)
        self._source = source

        def derived(wanted: ColumnsToEncode) -> str:
            assert derive is not None
            return derive(ChosenColumns.of(names, wanted))

        def resolved(schema_format: F | None, found: FoundSchema | None) -> ResolvedColumns:
            id_of_schema = (b"", None) if found is None else (found.prefix, found.header)
            return ResolvedColumns(names, compiler(schema_format, found), *id_of_schema)

        remember = lru_cache(_MOST_REMEMBERED)
        # Remembered by their arguments: columns without their topic, formats (the same objects, because the
        # source remembers them), and plans.
        self._derived: Callable[[ColumnsToEncode], str] = remember(derived)
        self._resolved: Callable[..., ResolvedColumns] = remember(resolved)
        self._compiled: Callable[..., CompiledColumns] = remember(ResolvedColumns.compile_columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._columns!r})"

    def resolve(self, wanted: ColumnsToEncode) -> ResolvedColumns:
        """The same format with the schema of one topic, which needs no registry. May block. Picklable.

        Raises:
            InvalidArgumentError: the columns are missing; no schema can be derived from their types; or the
                topic is a column, but the registry needs to know the topic.
            SerializationError: there is no schema, or it is not valid or has rules.
            SchemaRegistryError: the registry refused the schema, or is not reachable.
        """
        if self._source is None:
            return self._resolved(None, None)
        derived = self._derived(wanted._replace(topic=None)) if self._source.derives else None
        return self._resolved(*self._source.find(wanted, derived))

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        return self._compiled(self.resolve(wanted), wanted._replace(topic=None))
