"""Dead letters: input that could not be written, as a record for another topic that says why.

The headers are those that Kafka Connect writes into its dead letter queues, because consoles and programs
that triage such topics look for these names; those of Kafka Streams (KIP-1034) say less.
``__connect.errors.topic`` and ``.partition`` are where the record should have gone, and there is no offset.
Connect has no names for a column and for cells that were cut: these headers begin with
``__kproducer.errors.``.
Source: Kafka's ``DeadLetterQueueReporter`` and ``Stage``; KIP-298.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

from kproducer.errors import InvalidArgumentError, RecordTooLargeError, SerializationError
from kproducer.errors.broker_errors import InvalidRecordError, InvalidTimestampError, InvalidTopicError
from kproducer.types import NO_OFFSET, UNKNOWN_PARTITION

#: Errors of records that were not sent, if the cause is what is in them.
CONTENT_ERRORS: Final = (RecordTooLargeError, SerializationError, InvalidArgumentError, InvalidTopicError)
#: Errors of records that a broker rejected, if the cause is what is in them.
REJECTED_CONTENT_ERRORS: Final = (RecordTooLargeError, InvalidRecordError, InvalidTimestampError)

_CONNECT: Final = "__connect.errors."
_OWN: Final = "__kproducer.errors."

#: Kafka Connect's stages of the errors that one of ``REFUSALS`` describes. All others occur while producing.
_STAGES: Final = {
    "key": "KEY_CONVERTER",
    "value": "VALUE_CONVERTER",
    "header is null": "HEADER_CONVERTER",
    "header name": "HEADER_CONVERTER",
}
#: Bytes of an error's message, so that small limits of a record's size leave room for the content.
_LONGEST_MESSAGE: Final = 1000
#: Kafka's limit for the name of a topic; a row may have a longer text, which is no topic.
_LONGEST_TOPIC: Final = 249
#: What a character may take in JSON: a control character is written as ``\\u001f``.
_CHARACTER_BYTES: Final = 6


class DeadLetterCause(NamedTuple):
    """Why a record could not be written, and where it should have gone.

    Attributes:
        error: the reason.
        message: the text of the error, without secrets.
        topic: of the record; empty: it has none.
        partition: of the record; -1: it has none.
        reason: one of ``REFUSALS``, or any other text.
        column: that is the cause; empty: not known.
    """

    error: BaseException
    message: str
    topic: str = ""
    partition: int = UNKNOWN_PARTITION
    reason: str = ""
    column: str = ""

    def headers(self, writer: str, task: int, **own: str) -> list[tuple[str, bytes]]:
        """The headers of the dead letter.

        Args:
            writer: what wrote it, as Connect's name of a connector.
            task: the number of the task; -1: there are no tasks.
            own: more headers of this package, by the end of their names; empty ones are left out.
        """
        kind = type(self.error)
        connect = {
            "topic": _beginning(self.topic, _LONGEST_TOPIC),
            "partition": str(self.partition),
            "offset": str(NO_OFFSET),
            "connector.name": writer,
            "task.id": str(task),
            "stage": _STAGES.get(self.reason, "KAFKA_PRODUCE"),
            "exception.class.name": f"{kind.__module__}.{kind.__qualname__}",
            "exception.message": _beginning(self.message, _LONGEST_MESSAGE),
        }
        own = {"column": self.column, **own}
        return [
            *((f"{_CONNECT}{name}", text.encode("utf-8", "replace")) for name, text in connect.items()),
            *((f"{_OWN}{name}", text.encode("utf-8", "replace")) for name, text in own.items() if text),
        ]


class JsonRow(NamedTuple):
    """A row as JSON.

    Attributes:
        value: an object of all columns.
        cut: columns whose cell did not fit: a text with the beginning of its JSON, or of the text it was.
    """

    value: bytes
    cut: list[str]

    @classmethod
    def of(cls, row: Mapping[str, Any], limit: int) -> JsonRow:
        """Write a row, in ``limit`` bytes if the names of the columns leave room for any content.

        Binary cells become Base64, times ISO 8601, decimals, NaN and infinities texts.
        """
        cells = {name: _plain(cell) for name, cell in row.items()}
        texts = {name: _json(cell) for name, cell in cells.items()}
        names = {name: _json(name) for name in cells}
        size = (
            sum(len(text.encode()) for each in (texts, names) for text in each.values()) + 2 * len(cells) + 2
        )
        if size <= limit:
            return cls(_object(names, texts), [])
        for_names = sum(len(name.encode()) + 4 for name in names.values()) + 2
        share = max(limit - for_names, 0) // max(len(cells), 1)
        cut = [name for name, text in texts.items() if len(text.encode()) > share]
        for name in cut:
            cell = cells[name]
            text = cell if isinstance(cell, str) else texts[name]
            texts[name] = _json(text[: share // _CHARACTER_BYTES])
        return cls(_object(names, texts), cut)


def _beginning(text: str, size: int) -> str:
    """At most this many bytes of a text."""
    return text[:size].encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


def longest_cell(row: Mapping[str, Any]) -> str:
    """The column whose cell is the longest as JSON."""
    return max(row, key=lambda name: len(_json(_plain(row[name]))), default="")


def readable_cell(column: Any, index: int) -> Any:
    """A cell of an Arrow column, as text if Python has no such value: texts not in UTF-8, the year 10000."""
    try:
        return column[index].as_py()
    except Exception:  # pyarrow raises errors of many types here
        return column.slice(index, 1).to_string()


def _object(names: Mapping[str, str], texts: Mapping[str, str]) -> bytes:
    return f"{{{','.join(f'{names[name]}:{text}' for name, text in texts.items())}}}".encode()


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate, which is not UTF-8.
    return text.encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    """A value of Python as one that JSON has."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else str(value)
