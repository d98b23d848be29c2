"""ChosenColumns: the columns that a format writes, and what messages call their types.

For all formats; knows none.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from kproducer._core.bulk.arrow_columns import column_number, readable
from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer._core.columns.arrow import ArrowSource
from kproducer._core.columns.encoder_plan import ArrowField
from kproducer.errors import ConfigError, InvalidArgumentError
from kproducer.errors.suggestions import nearest_name

TEXT: Final = frozenset({"u", "U", "vu"})
BINARY: Final = frozenset({"z", "Z", "vz"})
SIGNED_INTEGERS: Final = frozenset("csil")
INTEGERS: Final = SIGNED_INTEGERS | frozenset("CSIL")
LISTS: Final = ("+l", "+L", "+vl", "+vL", "+w:")
MS_PER_DAY: Final = 86_400_000
#: The extension type of UUIDs.
UUID_EXTENSION: Final = "arrow.uuid"
#: By unit of a time or timestamp: how many of it are a second.
TICKS_PER_SECOND: Final = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}

_NESTED_NAMES: Final = {
    "+s": "struct",
    "+m": "map",
    "+us": "sparse_union",
    "+ud": "dense_union",
    "+r": "run_end_encoded",
}
_TIME_NAMES: Final = {
    "tts": "time32[s]", "ttm": "time32[ms]", "ttu": "time64[us]", "ttn": "time64[ns]",
    "tDs": "duration[s]", "tDm": "duration[ms]", "tDu": "duration[us]", "tDn": "duration[ns]",
    "tiM": "month_interval", "tiD": "day_time_interval", "tin": "month_day_nano_interval",
}  # fmt: skip


class ChosenColumns(NamedTuple):
    """The columns of one key or value.

    Attributes:
        columns: number and field of each, in the order of the call.
        others: the columns that the call uses for something else. If it names no columns for the format, a
            schema that has such a field gets them, too.
        is_single: the key or value is the one column itself, and not a record of columns.
    """

    columns: tuple[tuple[int, ArrowField], ...]
    is_single: bool
    others: tuple[tuple[int, ArrowField], ...] = ()

    @classmethod
    def of(cls, given: str | tuple[str, ...] | None, wanted: ColumnsToEncode) -> ChosenColumns:
        """Find the columns in the data.

        Args:
            given: the name of one column; names; ``None``: all that the call does not use for something else.
            wanted: the call.

        Raises:
            InvalidArgumentError: a column is missing or exists twice, or there is none.
        """
        names = tuple(field.name for field in wanted.fields)
        if given is None:
            if names == ("",):
                return cls(((0, wanted.fields[0]),), is_single=True)
            chosen = [name for name in names if name not in wanted.taken]
            if not chosen:
                found = "all are used for something else" if names else "the data have no columns"
                raise InvalidArgumentError(f"{wanted.role}: there is no column for it: {found}")
        else:
            chosen = [given] if isinstance(given, str) else list(given)
        numbers = [column_number(wanted.role, name, names) for name in chosen]
        columns = tuple((number, wanted.fields[number]) for number in numbers)
        if given is not None:
            return cls(columns, isinstance(given, str))
        others = tuple(column for column in enumerate(wanted.fields) if column[0] not in numbers)
        return cls(columns, is_single=False, others=others)

    def with_others(self, names: Container[str]) -> list[tuple[int, ArrowField]]:
        """The columns, and the others that have one of these names; then in the order of the data."""
        others = [column for column in self.others if column[1].name in names]
        return sorted([*self.columns, *others]) if others else list(self.columns)

    @classmethod
    def of_data(cls, given: str | list[str] | None, data: Any) -> ChosenColumns:
        """Find the columns in Arrow data, or in a schema of pyarrow.

        Raises:
            InvalidArgumentError: as ``of``; or it is neither.
        """
        if hasattr(data, "empty_table"):
            import pyarrow as pa

            # Made of no batches, because empty_table() does not know unions.
            data = pa.Table.from_batches([], schema=data)
        try:
            source = ArrowSource(data)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from error
        with closing(source):
            fields = tuple(map(ArrowField.of, source.fields()))
        names = tuple(given) if isinstance(given, list) else given
        return cls.of(names, ColumnsToEncode(fields, frozenset(), None, "value"))


def checked_columns(owner: str, given: object) -> str | tuple[str, ...] | None:
    """The argument ``columns`` of a format.

    Raises:
        ConfigError: it is neither a name, names, nor ``None``; or there are no names, or one of them twice.
    """
    if given is None or isinstance(given, str):
        return given
    names = tuple(given) if isinstance(given, Sequence) and not isinstance(given, bytes) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ConfigError(
            f"{owner}: columns: expected the name of one column, a list of different names, or None for all, "
            f"not {given!r:.200}"
        )
    return names


def not_in_schema(what: str, unknown: Sequence[str], place: str, schema: str, fields: Sequence[str]) -> str:
    """The text of an error: columns, or the fields of a struct, that the schema does not have.

    Args:
        what: ``"column"`` or ``"field"``.
        unknown: their names, at least one.
        place: of the struct; empty: they are columns.
        schema: ``"Avro schema"``, or ``"Protobuf message"`` and its name.
        fields: those of the schema, at this place.
    """
    is_one = len(unknown) == 1
    near = {name: found for name in unknown if (found := nearest_name(name, fields))}
    hints = [repr(found) if is_one else f"{found!r} for {name!r}" for name, found in near.items()]
    hint = f"did you mean {' and '.join(hints)}? " if hints else ""
    where, how = (f" in {place!r}", "") if place else ("", ", with columns=[...]")
    names, verb, them = f"s {listed(unknown)}", "are", "them"
    if is_one:
        names, verb, them = f" {unknown[0]!r}", "is", "it"
    return (
        f"{what}{names}{where} {verb} not in the {schema} ({hint}fields: {listed(fields)}): leave {them}"
        f" out{how}, or add {them} to the {schema.split()[1]}"
    )


def type_name(field: ArrowField) -> str:
    """The type of a field as Arrow's libraries call it."""
    if field.dictionary is not None:
        return f"dictionary<{type_name(field.dictionary)}>"
    text = field.format
    if text.startswith("d:") and "," in text:
        precision, scale, *bits = text[2:].split(",")
        return f"decimal{bits[0] if bits else 128}({precision}, {scale})"
    if text.startswith(LISTS) and field.children:
        return f"list<{type_name(field.children[0])}>"
    return _TIME_NAMES.get(text) or _NESTED_NAMES.get(text.partition(":")[0]) or readable(text)


def listed(names: Sequence[str]) -> str:
    """Names in an error: the first 20."""
    return ", ".join([*map(repr, names[:20]), *(["..."] if len(names) > 20 else [])]) or "none"
