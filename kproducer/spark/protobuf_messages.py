"""Protobuf messages that no generated class describes: from a file of descriptors, or from a schema registry.

Source: Protocol Buffers' ``descriptor.proto``; Confluent Schema Registry API reference.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from kproducer.columnar.format_plans import FormatPlans
from kproducer.columnar.protobuf import MessageCompiler
from kproducer.columnar.schema_source import SchemaSource
from kproducer.errors import SerializationError
from kproducer.schema_registry import Schema, SchemaRegistryClient
from kproducer.schema_registry.protobuf import SETTINGS, ProtobufFormat
from kproducer.schema_registry.references import referenced_schemas
from kproducer.schema_registry.registry_serializer import FoundSchema, Registration
from kproducer.spark.errors import SparkOptionError

#: Files whose Python modules are installed with protobuf, or with googleapis-common-protos.
_INSTALLED = re.compile(r"google/(?:\w+/)*\w+\.proto")
#: Schemas whose descriptors are kept.
_MOST_SCHEMAS = 16


class _NoMessageError(SerializationError):
    """A file does not have the message of this name."""


def message_of_file(path: str, full_name: str, role: str) -> Descriptor:
    """A message of a ``FileDescriptorSet``, as ``protoc --descriptor_set_out`` writes it.

    Args:
        path: of the file.
        full_name: of the message.
        role: ``"value"`` or ``"key"``, for errors.

    Raises:
        OSError: the file cannot be read.
        SparkOptionError: it is not such a set, or lacks the message or an imported file; names the option.
    """
    try:
        found = FileDescriptorSet.FromString(Path(path).read_bytes())
        return _message({file.name: file for file in found.file}, full_name, path)
    except DecodeError as error:
        raise SparkOptionError(
            f"option '{role}.descriptor.file': {path} is not a set of descriptors, as protoc"
            f" --descriptor_set_out writes: {error}"
        ) from error
    except _NoMessageError as error:
        raise SparkOptionError(f"option '{role}.message': {error}") from None
    except SerializationError as error:
        raise SparkOptionError(f"option '{role}.descriptor.file': {error}") from error.__cause__


def registered_protobuf(
    message: str, column: str | None, registry: SchemaRegistryClient, conf: Mapping[str, Any]
) -> FormatPlans[_RegisteredSchemas]:
    """Protobuf with the message that a schema registry has.

    Args:
        message: its full name; empty: the only one of its file.
        column: see ``Protobuf``.
        registry: has the schema.
        conf: settings of ``ProtobufSerializer`` that choose a registered schema.
    """

    schemas = _RegisteredSchemas(message, registry)

    def compiler(_: object, found: FoundSchema | None) -> MessageCompiler:
        assert found is not None
        return MessageCompiler(schemas.message(found.schema))

    source = SchemaSource("Protobuf", None, registry, conf, SETTINGS, lambda *_: schemas)
    return FormatPlans(column, source, compiler)


class _RegisteredSchemas:
    """See ``SchemaFormat``."""

    schema_type = "PROTOBUF"
    fmt: str | None = "serialized"

    def __init__(self, message: str, registry: SchemaRegistryClient) -> None:
        self._name = message
        self._registry = registry
        self.record_name: str | None = message or None
        self.message = lru_cache(_MOST_SCHEMAS)(self._message)

    def own_schema(self, registration: Registration) -> Schema | None:
        return None

    def message_indexes(self, schema: Schema) -> Sequence[int]:
        message_class = GetMessageClass(self.message(schema))
        return ProtobufFormat("Protobuf", message_class, SETTINGS).message_indexes(schema)

    def encoder(self, schema: Schema, prefix: bytes) -> Any:
        """Not used: columns have a plan instead."""
        raise NotImplementedError

    def _message(self, schema: Schema) -> Descriptor:
        files: dict[str, FileDescriptorProto] = {}
        root = _parsed(schema, "")
        files[root.name] = root
        for reference, found in referenced_schemas(schema, self._registry, self.fmt):
            files.setdefault(reference.name, _parsed(found, reference.name))
        name = self._name
        if not name:
            names = [each.name for each in root.message_type]
            if len(names) != 1:
                raise SerializationError(
                    f"the registered file has the messages {', '.join(names) or '(none)'}: choose one "
                    "with the option 'value.message' or 'key.message'"
                )
            name = f"{root.package}.{names[0]}" if root.package else names[0]
        try:
            return _message(files, name, "the registered file")
        except _NoMessageError as error:
            raise SerializationError(f"{error}, in the option 'value.message' or 'key.message'") from None


def _parsed(schema: Schema, name: str) -> FileDescriptorProto:
    """The file of a registered schema.

    Args:
        schema: as the registry sent it.
        name: under which other files import it; empty: its own.
    """
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(schema.schema_str, validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise SerializationError(
            "the schema registry sent the text of a Protobuf file instead of its descriptors (it does not "
            "know format=serialized): use the option 'value.descriptor.file' or 'key.descriptor.file'"
        ) from error
    file.name = name or file.name or "registered.proto"
    return file


def _message(files: Mapping[str, FileDescriptorProto], full_name: str, source: str) -> Descriptor:
    """The descriptor of a message.

    Args:
        files: by the names under which they are imported.
        full_name: of the message.
        source: of the files, for errors.
    """
    pool = DescriptorPool()
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        file = files.get(name) or _installed(name)
        if file is None:
            raise SerializationError(
                f"{source} imports {name}, which is missing (protoc adds it with --include_imports)"
            )
        for each in file.dependency:
            add(each)
        pool.AddSerializedFile(file.SerializeToString())

    try:
        for name in files:
            add(name)
    except (TypeError, RecursionError) as error:  # the latter: imports within imports
        raise SerializationError(f"{source} is not valid: {error}") from error
    try:
        return pool.FindMessageTypeByName(full_name)
    except KeyError:
        raise _NoMessageError(
            f"{source} has no message {full_name!r}: give its full name, with the package"
        ) from None


def _installed(name: str) -> FileDescriptorProto | None:
    """A file of Google's that programs import without having it."""
    if not _INSTALLED.fullmatch(name):
        return None
    try:
        module = importlib.import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
