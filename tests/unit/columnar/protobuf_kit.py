"""Protobuf messages without protoc: a parser of .proto files, as far as tests need it; and both kernels."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kproducer._core.bulk.column_format import ColumnsToEncode, CompiledColumns
from kproducer._core.columns.encoder_plan import ArrowField, Misfit
from kproducer.columnar import Protobuf
from tests.support.columnar.encoders import Encoders

KERNELS = [Encoders.of("pure")]
with suppress(ImportError):  # not built: the pure kernel alone is compared with protobuf
    KERNELS.append(Encoders.of("native"))

Field = descriptor_pb2.FieldDescriptorProto
KNOWN_FILES = [
    each.DESCRIPTOR
    for each in (
        any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    )
]  # fmt: skip
_FIELD = re.compile(
    r"(?:(optional|required|repeated)\s+)?(group\b|map<\s*\w+\s*,\s*[\w.]+\s*>|[\w.]+)\s+(\w+)\s*=\s*(\d+)\s*(?:\[(.*)\])?"
)


def proto(text: str, package: str = "t", name: str = "t.proto") -> Any:
    """A file. ``text``: messages, enums, oneofs and fields; each statement on its own line."""
    syntax, edition = "proto3", None
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package)
    file.dependency.extend(each.name for each in KNOWN_FILES)
    scopes: list[Any] = [file]
    oneof: int | None = None
    for line in filter(None, (each.strip().rstrip(";").strip() for each in text.splitlines())):
        scope = scopes[-1]
        if line.startswith("syntax"):
            syntax = line.split('"')[1]
        elif line.startswith("edition"):
            edition = f"EDITION_{line.split(chr(34))[1]}"
        elif line == "}":
            if oneof is not None:
                oneof = None
            else:
                scopes.pop()
        elif line.startswith("message "):
            nested = scope.message_type if scope is file else scope.nested_type
            scopes.append(nested.add(name=line.split()[1]))
        elif line.startswith("enum "):
            scopes.append(scope.enum_type.add(name=line.split()[1]))
        elif line.startswith("oneof "):
            scope.oneof_decl.add(name=line.split()[1])
            oneof = len(scope.oneof_decl) - 1
        elif isinstance(scope, descriptor_pb2.EnumDescriptorProto):
            if line.startswith("option allow_alias"):
                scope.options.allow_alias = True
            else:
                value, number = line.split("=")
                scope.value.add(name=value.strip(), number=int(number))
        else:
            _add_field(scope, line, syntax, package, scopes, oneof)
    if edition is not None:
        file.syntax, file.edition = "editions", descriptor_pb2.Edition.Value(edition)
    else:
        file.syntax = syntax
    # Synthetic oneofs are the last ones.
    for message in file.message_type:
        _number_synthetic_oneofs(message)
    return file


def _add_field(
    scope: Any, line: str, syntax: str, package: str, scopes: list[Any], oneof: int | None
) -> None:
    match = _FIELD.fullmatch(line)
    assert match, line
    label, kind, name, number, options = match.groups()
    field = scope.field.add(
        name=name, number=int(number), label=getattr(Field, f"LABEL_{(label or 'optional').upper()}")
    )
    path = ".".join(("", package, *(each.name for each in scopes[1:])))
    if kind.startswith("map<"):
        key, value = kind[4:-1].split(",")
        entry = scope.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _set_type(entry.field.add(name="key", number=1, label=1), key.strip(), package)
        _set_type(entry.field.add(name="value", number=2, label=1), value.strip(), package)
        field.label = Field.LABEL_REPEATED
        field.type, field.type_name = Field.TYPE_MESSAGE, f"{path}.{entry.name}"
    elif kind == "group":
        field.type, field.type_name = Field.TYPE_GROUP, f"{path}.{name.title()}"
    else:
        _set_type(field, kind, package)
    if oneof is not None:
        field.oneof_index = oneof
    elif syntax == "proto3" and label == "optional":
        field.proto3_optional = True
    for option in filter(None, (options or "").split(",")):
        key, value = map(str.strip, option.split("="))
        if key == "packed":
            field.options.packed = value == "true"
        elif key == "default":
            field.default_value = value.strip('"')
        elif key == "presence":
            field.options.features.field_presence = descriptor_pb2.FeatureSet.FieldPresence.Value(value)
        elif key == "encoding":
            field.options.features.message_encoding = descriptor_pb2.FeatureSet.MessageEncoding.Value(value)
        else:
            assert key == "json_name", option
            field.json_name = value.strip('"')


def _set_type(field: Any, kind: str, package: str) -> None:
    if f"TYPE_{kind.upper()}" in Field.Type.keys():  # noqa: SIM118
        field.type = Field.Type.Value(f"TYPE_{kind.upper()}")
    else:
        # Whether it is a message or an enum is found out by the pool.
        field.ClearField("type")
        field.type_name = f".{kind}" if kind.startswith("google.") else f".{package}.{kind}"


def _number_synthetic_oneofs(message: Any) -> None:
    for field in message.field:
        if field.proto3_optional:
            message.oneof_decl.add(name=f"_{field.name}")
            field.oneof_index = len(message.oneof_decl) - 1
    for nested in message.nested_type:
        _number_synthetic_oneofs(nested)


def pool_of(*files: Any) -> Any:
    pool = DescriptorPool()
    for each in KNOWN_FILES:
        pool.AddSerializedFile(each.serialized_pb)
    for each in files:
        pool.AddSerializedFile(each.SerializeToString())
    return pool


def message_class(text: str, name: str = "M") -> Any:
    """The class of one message of a file."""
    return GetMessageClass(pool_of(proto(text)).FindMessageTypeByName(f"t.{name}"))


def compiled(
    given: Any, data: Any, *, taken: tuple[str, ...] = (), topic: str | None = "t", role: str = "value"
) -> CompiledColumns:
    """How a format makes the keys or values of a call."""
    fields = tuple(map(ArrowField.of, KERNELS[-1].fields(data)))
    plan: CompiledColumns = given.compile_columns(ColumnsToEncode(fields, frozenset(taken), topic, role))
    return plan


def encode(given: Any, data: Any, **more: Any) -> list[bytes | tuple[str, Misfit] | None]:
    """All rows, as both kernels encode them: bytes, ``None``, or the place and reason of a misfit."""
    plan = compiled(given, data, **more).plan
    encoded, *others = [kernel.encode(data, plan) for kernel in KERNELS]
    assert all(each == encoded for each in others)
    nodes = plan.nodes
    return [(nodes[row[0]].place, Misfit(row[1])) if isinstance(row, tuple) else row for row in encoded]


def parsed(message: Any, rows: list[Any]) -> list[Any]:
    """What protobuf reads of the rows; misfits and null as they are."""
    return [message.FromString(row) if isinstance(row, bytes) else row for row in rows]


def rows(message: Any, data: Any, **more: Any) -> list[Any]:
    """The messages of the rows, which are the bytes that protobuf writes, too."""
    encoded = encode(Protobuf(message, **more), data)
    messages = parsed(message, encoded)
    for data_of_row, each in zip(encoded, messages, strict=True):
        if isinstance(data_of_row, bytes):
            assert each.SerializeToString(deterministic=True) == data_of_row
    return messages
