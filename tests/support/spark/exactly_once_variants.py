"""What the query of ``exactly_once_chaos`` writes, and how the records are read: with other libraries.

Each variant writes the rows of ``exactly_once_rows``. All but ``text`` make records of columns, and send rows
that cannot be written to a topic of dead letters.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tests.support.spark.exactly_once_rows import (
    GOOD,
    MAX_REQUEST_SIZE,
    SKIPPED,
    Row,
    SeenRows,
    fields_of_text,
    row_of,
)

#: What the name of a topic of dead letters ends with.
DEAD_LETTERS = ".dlq"
_TYPES = {"file": "int", "line": "int", "weight": "int", "ratio": "double", "padding": "string"}
_AVRO_SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": name, "type": kind} for name, kind in _TYPES.items()],
}
_PROTOBUF_TYPES = {
    "int": FieldDescriptorProto.TYPE_INT32,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "string": FieldDescriptorProto.TYPE_STRING,
}
_SQL_TYPES = {"file": "INT", "line": "INT", "partition": "INT", "weight": "BIGINT", "ratio": "DOUBLE"}
_WORDS = {name: f"split(value, ' ')[{number}]" for number, name in enumerate(Row._fields, 1)}


class Variant(NamedTuple):
    """One way to write the rows.

    Attributes:
        name: for people.
        options: of the sink.
        fields_of: decodes a value.
        is_pipeline: ``spark-pipelines run`` writes them, again and again, instead of a query.
    """

    name: str
    options: dict[str, str]
    fields_of: Callable[[bytes], dict[str, Any]]
    is_pipeline: bool = False

    @property
    def has_fields(self) -> bool:
        """Whether records are made of columns, and bad rows are dead letters."""
        return "valueFormat" in self.options

    def query(self) -> tuple[str, list[str]]:
        """The condition for lines of the files, and the columns to write."""
        if not self.has_fields:
            return f"startswith(value, '{GOOD}')", [
                "value",
                f"CAST({_WORDS['partition']} AS INT) AS partition",
            ]
        columns = [f"CAST({_WORDS[name]} AS {_SQL_TYPES.get(name, 'STRING')}) AS {name}" for name in _WORDS]
        return f"NOT startswith(value, '{SKIPPED}')", columns

    def options_for(self, topic: str, folder: Path) -> dict[str, str]:
        """The sink's options for a topic; writes the files that they name into the folder."""
        options = dict(self.options)
        if self.has_fields:
            options["onBadRow"] = f"topic:{topic}{DEAD_LETTERS}"
            options["maxBadRows"] = "100000"  # more than a micro-batch has
            options["kafka.max.request.size"] = str(MAX_REQUEST_SIZE)
        if options.get("valueFormat") == "protobuf":
            file = folder / "rows.desc"
            file.write_bytes(FileDescriptorSet(file=[_protobuf_file()]).SerializeToString())
            options["value.descriptor.file"] = str(file)
        return options

    def new_seen(self, topic: str) -> dict[str, SeenRows]:
        """For one reader, by topic."""
        rows = {topic: SeenRows(self.fields_of)}
        letters = {topic + DEAD_LETTERS: SeenRows(_fields_of_letter, are_bad=True)}
        return rows | letters if self.has_fields else rows


def _protobuf_file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="rows.proto", syntax="proto3")
    message = file.message_type.add(name="Row")
    for number, (name, kind) in enumerate(_TYPES.items(), 1):
        message.field.add(name=name, number=number, type=_PROTOBUF_TYPES[kind], label=1)
    return file


def _message_class() -> Any:
    pool = DescriptorPool()
    pool.AddSerializedFile(_protobuf_file().SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("Row"))


_MESSAGE = _message_class()


def _fields_of_avro(value: bytes) -> dict[str, Any]:
    stream = io.BytesIO(value)
    fields = fastavro.schemaless_reader(stream, _AVRO_SCHEMA, None)
    assert not stream.read(), "bytes follow the Avro value"
    assert isinstance(fields, dict)
    return fields


def _fields_of_message(value: bytes) -> dict[str, Any]:
    message = _MESSAGE.FromString(value)
    return {name: getattr(message, name) for name in _TYPES}


def _fields_of_letter(value: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(value)
    # A cell that is too large for a record has been cut, and JSON has no NaN.
    padding = row_of(fields["file"], fields["line"]).padding
    if fields["padding"] and padding.startswith(fields["padding"]) and len(padding) > MAX_REQUEST_SIZE:
        fields["padding"] = padding
    return {**fields, "ratio": float(fields["ratio"])}


_AVRO = {"valueFormat": "avro", "value.schema": json.dumps(_AVRO_SCHEMA)}
VARIANTS = (
    Variant("text", {}, fields_of_text),
    Variant("avro", _AVRO, _fields_of_avro),
    Variant("json", {"valueFormat": "json"}, json.loads),
    Variant("protobuf", {"valueFormat": "protobuf", "value.message": "Row"}, _fields_of_message),
    Variant("pipeline", _AVRO, _fields_of_avro, is_pipeline=True),
)
