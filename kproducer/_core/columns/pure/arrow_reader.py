"""ArrowSource in Python: reads Arrow data with pyarrow, where the compiled reader is missing.

Source: the Arrow C data interface (format texts) and PyCapsule interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kproducer._core.columns.arrow_names import TYPE_NAMES
from kproducer.errors import ConfigError

#: How many levels deep the types of a column may contain each other, if a format makes values of it.
_DEEPEST_FIELD: Final = 32
_NESTED: Final = {
    "list": "+l", "large_list": "+L", "list_view": "+vl", "large_list_view": "+vL", "struct": "+s",
    "map": "+m", "run_end_encoded": "+r",
}  # fmt: skip


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ConfigError(
            "Arrow data need the native kernel, which this installation does not have or use, or else "
            "pyarrow: pip install 'kproducer[arrow]'"
        ) from error
    return pyarrow


class ArrowSource:
    """One table, record batch, array or stream. For one thread.

    Args:
        data: has ``__arrow_c_array__`` or ``__arrow_c_stream__``.

    Attributes:
        names, formats: of the columns; formats as in the C data interface, children in brackets. Data that is
            not a struct is one column without a name.
        chunk_rows: rows of the current chunk.

    Raises:
        ValueError: it has neither, or what it exports is not valid.
        ConfigError: pyarrow is not installed.
    """

    __slots__ = ("_chunk", "_chunks", "_fields", "_is_struct", "chunk_rows", "formats", "names")

    def __init__(self, data: object) -> None:
        pa = _pyarrow()
        self._chunk: Any = None
        self.chunk_rows = 0
        try:
            kind = self._open(pa, data)
        except (pa.ArrowException, TypeError) as error:
            raise ValueError(f"invalid Arrow data: {': '.join(map(str, error.args))}") from error
        self._is_struct = pa.types.is_struct(kind)
        self._fields = list(kind) if self._is_struct else [pa.field("", kind)]
        self.names = tuple(field.name for field in self._fields)
        self.formats = tuple(_format_of(field.type) for field in self._fields)

    def _open(self, pa: Any, data: object) -> Any:
        """Set ``_chunks``; return the type of a row."""
        if hasattr(data, "__arrow_c_array__"):
            array = pa.array(data)
            self._chunks = iter([array])
            return array.type
        if not hasattr(data, "__arrow_c_stream__"):
            raise ValueError(
                f"{type(data).__name__} has no Arrow interface (__arrow_c_stream__ or __arrow_c_array__): "
                "make a table of it, for example with pyarrow.Table.from_pylist(rows)"
            )
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except pa.ArrowInvalid:
            # Not a stream of record batches: try a stream of arrays. Raises if it is neither.
            chunked = pa.chunked_array(data)
            self._chunks = iter(chunked.chunks)
            return chunked.type
        self._chunks = (batch.to_struct_array() for batch in reader)
        return pa.struct(list(reader.schema))

    def close(self) -> None:
        """Release everything; there are no more chunks. Idempotent."""
        self._chunks = iter(())
        self._chunk = None
        self.chunk_rows = 0

    def next_chunk(self) -> int:
        """Release the current chunk and go to the next one.

        Returns:
            The number of its rows; -1: there are no more chunks.

        Raises:
            ValueError: the source failed; has its own message.
        """
        self._chunk = None
        self.chunk_rows = 0
        try:
            self._chunk = next(self._chunks, None)
        except Exception as error:  # a generator behind a stream may raise anything
            raise ValueError(f"the Arrow stream failed: {error}") from error
        if self._chunk is None:
            return -1
        self.chunk_rows = len(self._chunk)
        return self.chunk_rows

    def fields(self) -> tuple[Any, ...]:
        """The columns with all that they contain, as ``ArrowField`` has it, in plain tuples."""
        return tuple(map(_described, self._fields))

    def raw_columns(self, numbers: Sequence[int], first: int, count: int) -> dict[int, list[Any]]:
        """Some columns of some rows of the current chunk, as ``raw_values``."""
        if not (0 <= first <= self.chunk_rows and 0 <= count <= self.chunk_rows - first):
            raise IndexError(first)
        if self._chunk is None:
            raise ValueError("no chunk of Arrow data is loaded: call next_chunk() first, until it returns -1")
        return {number: raw_values(self.column(number, first, count)) for number in numbers}

    def column(self, number: int, first: int, count: int) -> Any:
        """A column of some rows of the current chunk. Null rows have any value."""
        block = self._chunk.slice(first, count)
        # flatten() would apply the nulls of the rows, but pyarrow aborts the process if there are unions.
        return block.field(number) if self._is_struct else block

    def null_rows(self, first: int, count: int) -> list[bool]:
        """Which rows of the current chunk are null themselves."""
        if not self._is_struct:
            return [False] * count
        nulls: list[bool] = self._chunk.slice(first, count).is_null().to_pylist()
        return nulls


def _format_of(kind: Any) -> str:
    """The type as text: Arrow's format, children in brackets; ``dictionary(i,u)`` for encoded ones."""
    types = _pyarrow().types
    if hasattr(kind, "storage_type"):
        return _format_of(kind.storage_type)
    if types.is_dictionary(kind):
        return f"dictionary({_format_of(kind.index_type)},{_format_of(kind.value_type)})"
    inner = ",".join(f"{child.name}:{_format_of(child.type)}" for child in _children_of(kind))
    return f"{_plain_format(kind)}({inner})" if inner else _plain_format(kind)


def _children_of(kind: Any) -> list[Any]:
    """The fields that a type contains."""
    return [kind.field(number) for number in range(kind.num_fields)]


def _plain_format(kind: Any) -> str:
    """Arrow's format of a type that is neither a dictionary nor an extension, without children."""
    types = _pyarrow().types
    if types.is_fixed_size_binary(kind):
        return f"w:{kind.byte_width}"
    if types.is_fixed_size_list(kind):
        return f"+w:{kind.list_size}"
    if types.is_union(kind):
        codes = ",".join(map(str, kind.type_codes))
        return f"+u{kind.mode[0]}:{codes}"
    if types.is_decimal(kind):
        bits = "" if kind.bit_width == 128 else f",{kind.bit_width}"
        return f"d:{kind.precision},{kind.scale}{bits}"
    if types.is_timestamp(kind):
        return f"ts{kind.unit[0]}:{kind.tz or ''}"
    if types.is_time(kind):
        return f"tt{kind.unit[0]}"
    if types.is_duration(kind):
        return f"tD{kind.unit[0]}"
    if types.is_interval(kind):
        return "tin"
    nested = _NESTED.get(str(kind).partition("<")[0])
    return nested or next((text for text, name in TYPE_NAMES.items() if kind == name), str(kind))


def _described(field: Any, depth: int = 0) -> tuple[Any, ...]:
    """A field as in ``ArrowField``, children included."""
    if depth > _DEEPEST_FIELD:
        raise ValueError(f"the types of a column contain each other more than {_DEEPEST_FIELD} levels deep")
    pa = _pyarrow()
    kind = field.type
    extension = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode("utf-8", "replace")
    if hasattr(kind, "storage_type"):
        kind, extension = kind.storage_type, kind.extension_name
    dictionary = None
    if pa.types.is_dictionary(kind):
        dictionary = _described(pa.field("", kind.value_type), depth + 1)
        kind = kind.index_type
    children = tuple(_described(child, depth + 1) for child in _children_of(kind))
    return field.name, _plain_format(kind), field.nullable, children, dictionary, extension


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
