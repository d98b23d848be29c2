"""ArrowColumns: which columns of Arrow data are keys, values and so on, and the types that these may have.

Checked before anything is sent; an error names the column, its type and the accepted types. Types are
the format texts of ``ArrowSource``. Source: the Arrow C data interface.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from kproducer._core.bulk.column_format import ColumnFormat, ColumnsToEncode, CompiledColumns
from kproducer._core.columns.arrow import TYPE_NAMES
from kproducer._core.columns.encoder_plan import ArrowField
from kproducer._core.runtime.arguments import checked_partition, checked_timestamp
from kproducer.errors import InvalidArgumentError
from kproducer.errors.suggestions import nearest_name

#: The value column if none is named.
_DEFAULT_VALUE = "value"

#: Columns of these names should most likely be written even if the call names no column.
_LIKELY_NAMES = ("key", "headers", "partition", "timestamp", "topic")

_TEXT = r"(?:u|U|vu|dictionary\(\w,(?:u|U|vu)\))"
_BYTES = r"(?:n|u|U|vu|z|Z|vz|w:\d+|dictionary\(\w,(?:u|U|vu|z|Z|vz|w:\d+)\))"
_IS_TEXT = re.compile(_TEXT)
_IS_BYTES = re.compile(_BYTES)
_IS_INTEGER = re.compile(r"[cCsSiIlLn]")
_IS_TIME = re.compile(r"ts[smun]:.*|[lLn]")
_IS_HEADERS = re.compile(
    rf"n|\+(?:l|L|vl|vL)\([^(),]*:\+s\((?:key|name):{_TEXT},value:{_BYTES}\)\)"
    rf"|\+m\([^(),]*:\+s\([^(),]*:{_TEXT},[^(),]*:{_BYTES}\)\)"
)


class ArrowColumns(NamedTuple):
    """The columns of one call, by name; ``None``: not given.

    Attributes:
        value: a name, or a format that makes values of columns. ``None``: the column ``value``, or the only
            one.
        key: a name, or a format.
        headers, topic: names.
        partition, timestamp: a name, or one number for all rows.
        takes_seconds: timestamps may be floating point numbers of seconds.
    """

    value: str | ColumnFormat | None = None
    key: str | ColumnFormat | None = None
    headers: str | None = None
    partition: str | int | None = None
    timestamp: str | int | None = None
    topic: str | None = None
    takes_seconds: bool = False

    def checked(self, topic: object) -> ArrowColumns:
        """Check the arguments of a call, as far as they do not depend on the data.

        Args:
            topic: of all rows; ``None``: there is a column of topics.

        Raises:
            InvalidArgumentError: an argument is neither the name of a column nor, where allowed, a number; or
                there are two topics, or none.
        """
        for role, name in (
            ("value", self.value),
            ("key", self.key),
            ("headers", self.headers),
            ("topic_column", self.topic),
        ):
            if role in ("value", "key") and isinstance(name, ColumnFormat) and not isinstance(name, type):
                continue
            if name is not None and not isinstance(name, str):
                right = "the name of a column"
                if role in ("value", "key"):
                    is_several = isinstance(name, (list, tuple)) and len(name) > 0
                    example = f"Json({name!r:.200})" if is_several else "Avro(...)"
                    right += f", or a format such as kproducer.columnar.{example}"
                raise InvalidArgumentError(f"{role} must be {right}, or None, not {name!r}")
        if topic is None and self.topic is None:
            raise InvalidArgumentError("no topic: pass its name, or a topic_column")
        if topic is not None and self.topic is not None:
            raise InvalidArgumentError("both topic and topic_column were given: leave one of them out")
        partition, timestamp = self.partition, self.timestamp
        if not isinstance(partition, str):
            partition = checked_partition(partition)
        if not isinstance(timestamp, str) and timestamp is not None:
            timestamp = checked_timestamp(timestamp)
        return self._replace(partition=partition, timestamp=timestamp)

    def find(self, names: tuple[str, ...], formats: tuple[str, ...]) -> tuple[int, int, int, int, int, int]:
        """The column numbers of value, key, headers, partition, timestamp and topic; -1: not given.

        Raises:
            InvalidArgumentError: a column is missing, exists twice, or has an unsuitable type.
        """
        given = {
            "key": self.key if isinstance(self.key, str) else None,
            "headers": self.headers,
            "partition": self.partition if isinstance(self.partition, str) else None,
            "timestamp": self.timestamp if isinstance(self.timestamp, str) else None,
            "topic_column": self.topic,
        }
        found = {role: column_number(role, name, names) for role, name in given.items() if name is not None}
        if self.value is None or isinstance(self.value, str):
            names_none = not found and self.key is None
            found["value"] = self._value_number(names, self.value, names_none)
        for role in _RULES:
            if role in found:
                self._check_type(role, names[found[role]], formats[found[role]])
        value, key, headers, partition, timestamp, topic = (found.get(role, -1) for role in _RULES)
        return value, key, headers, partition, timestamp, topic

    def compile_format(
        self, role: str, fields: tuple[ArrowField, ...], topic: str | None
    ) -> CompiledColumns | None:
        """How a format makes values or keys; ``None``: they are a column, or there are no keys.

        Args:
            role: ``"value"`` or ``"key"``.
            fields: the columns of the data.
            topic: of all rows; ``None``: a column has it.

        Raises:
            KafkaError: see ``ColumnFormat.compile_columns``.
        """
        given = self.value if role == "value" else self.key
        if given is None or isinstance(given, str):
            return None
        others = [self.key, self.headers, self.partition, self.timestamp, self.topic]
        if self.value is None or isinstance(self.value, str):
            names = tuple(field.name for field in fields)
            others.append(names[self._value_number(names, self.value, names_none=False)])
        taken = frozenset(name for name in others if isinstance(name, str))
        return given.compile_columns(ColumnsToEncode(fields, taken, topic, role))

    def _value_number(self, names: tuple[str, ...], value: str | None, names_none: bool) -> int:
        if value is not None:
            return column_number("value", value, names)
        if len(names) == 1:
            return 0
        if _DEFAULT_VALUE not in names:
            raise InvalidArgumentError(
                f"there is no column 'value' (columns: {_listed(names)}): pass value='...'"
            )
        likely = [name for name in _LIKELY_NAMES if name in names]
        if names_none and likely:
            raise InvalidArgumentError(
                f"column {likely[0]!r} would not be written: pass {_argument(likely[0])}={likely[0]!r}, "
                "or value='value' to write only the values"
            )
        return column_number("value", _DEFAULT_VALUE, names)

    def _check_type(self, role: str, name: str, text: str) -> None:
        is_right, right, cure = _RULES[role]
        if is_right.fullmatch(text) or (role == "timestamp" and text == "g" and self.takes_seconds):
            return
        shown = f"column {name!r}" if name else "the data"
        raise InvalidArgumentError(
            f"{role}: {shown} is of type {readable(text)} and must be {right}: {cure(text)}"
        )


def readable(text: str) -> str:
    """A format text as Arrow's libraries call the type."""
    if text in TYPE_NAMES:
        return TYPE_NAMES[text]
    if text.startswith("ts") and text[:4] in TYPE_NAMES:
        return f"{TYPE_NAMES[text[:4]][:-1]}, {text[4:]}]"
    if text.startswith("w:"):
        return f"fixed_size_binary[{text[2:]}]"
    if text.startswith("d:"):
        return f"decimal({text[2:]})"
    if text.startswith("dictionary("):
        # The format of the indices has no comma.
        return f"dictionary<{readable(text.partition(',')[2][:-1])}>"
    for start, kind in (("+s", "struct"), ("+m", "map"), ("+", "list")):
        if text.startswith(start):
            return f"{kind} ({text})"
    return f"{text!r} in Arrow's format language"


def column_number(role: str, name: str, names: tuple[str, ...]) -> int:
    """The number of a column, from 0. Raises ``InvalidArgumentError`` if it is missing or exists twice."""
    count = names.count(name)
    if count == 1:
        return names.index(name)
    if count:
        raise InvalidArgumentError(f"{role}: there are {count} columns named {name!r}: rename all but one")
    if nearest := nearest_name(name, names):
        raise InvalidArgumentError(f"{role}: there is no column {name!r}: did you mean {nearest!r}?")
    raise InvalidArgumentError(f"{role}: there is no column {name!r} (columns: {_listed(names)})")


def _argument(name: str) -> str:
    return "topic=None, topic_column" if name == "topic" else name


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown or "none"


def _cure_bytes(text: str) -> str:
    if text.startswith("+"):
        return "pass a format, such as kproducer.columnar.Json(...), or make it a string before"
    if text.startswith("dictionary"):
        return "decode its dictionary, or cast its values to strings"
    return "cast it to string"


def _cure_time(text: str) -> str:
    if text in ("f", "g"):
        return "cast it to int64, in milliseconds since the epoch"
    if text.startswith("td"):
        return "cast it to timestamp[ms]"
    if _IS_INTEGER.fullmatch(text):
        return "cast it to int64, and see that it has milliseconds since the epoch"
    return "parse it into a timestamp"


#: By role, in the order of the kernel: the accepted formats, their names, and the advice for another one.
_RULES: dict[str, tuple[re.Pattern[str], str, Callable[[str], str]]] = {
    "value": (_IS_BYTES, "strings or binary", _cure_bytes),
    "key": (_IS_BYTES, "strings or binary", _cure_bytes),
    "headers": (
        _IS_HEADERS,
        "list<struct<key: string, value: binary>> or map<string, binary>",
        lambda text: "build it of pairs; values may be strings",
    ),
    "partition": (_IS_INTEGER, "integers", lambda text: "cast it to int32"),
    "timestamp": (_IS_TIME, "timestamps, or int64 of milliseconds since the epoch", _cure_time),
    "topic_column": (_IS_TEXT, "strings", lambda text: "cast it to string"),
}
