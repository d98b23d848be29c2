"""Protobuf: keys or values that are Protobuf messages, made of Arrow columns.

Source: Protocol Buffers documentation, "Encoding"; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from kproducer.bulk.column_format import ColumnsToEncode, CompiledColumns
from kproducer.columnar.chosen_columns import ChosenColumns, checked_columns
from kproducer.columnar.protobuf_plan import ProtobufCompiler
from kproducer.columnar.schema_source import SchemaSource
from kproducer.errors import ConfigError
from kproducer.kernel.encoder_plan import EncoderPlan, Format
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.protobuf import SETTINGS, ProtobufFormat


class Protobuf:
    """A format for ``send_arrow``: keys or values that are Protobuf messages, made of columns. Thread-safe.

    Args:
        message: the class of the messages, as protoc generates it, or the message's ``Descriptor``.
        columns: names of the columns, which are the message's fields (by name or JSON name); one name: that
            struct column is the message, and null makes a null key or value. ``None``: all columns that the
            call does not use for something else.
        registry: registers the message's file or looks it up, and each key or value has its id; ``None``:
            there is no id.
        conf: settings of ``ProtobufSerializer``, such as ``subject.name.strategy``.

    Raises:
        ConfigError: an argument is wrong, or protobuf is not installed.
    """

    def __init__(
        self,
        message: Any,
        columns: str | Sequence[str] | None = None,
        *,
        registry: SchemaRegistryClient | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            from google.protobuf.descriptor import Descriptor
            from google.protobuf.message_factory import GetMessageClass
        except ImportError as error:
            raise ConfigError(
                "Protobuf needs the package protobuf: pip install 'kproducer[protobuf]'"
            ) from error
        self._message = getattr(message, "DESCRIPTOR", message)
        if not isinstance(self._message, Descriptor):
            raise ConfigError(
                "Protobuf: message: expected a class that protoc generates, or the Descriptor of a message, "
                f"not {message!r:.200}"
            )
        self._columns = checked_columns("Protobuf", columns)
        self._source = SchemaSource(
            "Protobuf",
            GetMessageClass(self._message),
            registry,
            conf,
            SETTINGS,
            lambda message_class, conf: ProtobufFormat("Protobuf", message_class, conf),
        )

    def __repr__(self) -> str:
        return f"Protobuf({self._message.full_name}, {self._columns!r})"

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        return self.resolve(wanted).compile_columns(wanted)

    def resolve(self, wanted: ColumnsToEncode) -> ProtobufColumns:
        """The same format with the schema's id for one topic, which needs no registry. May block. Picklable.

        Raises:
            InvalidArgumentError: the topic is a column, but the registry needs to know the topic.
            SerializationError: the registry has no schema, or it has rules or does not have this message.
            SchemaRegistryError: the registry refused the schema, or is not reachable.
        """
        _, found = self._source.find(wanted, None)
        if found is None:
            return ProtobufColumns(self._columns, self._message)
        return ProtobufColumns(self._columns, self._message, found.prefix, found.header)


@attrs.frozen
class ProtobufColumns:
    """A ``ColumnFormat`` that needs no registry. Picklable: pickles have the files of the message.

    Attributes:
        columns: see ``Protobuf``.
        message: the message's ``Descriptor``.
        prefix, header: what names the schema in each record.
    """

    columns: str | tuple[str, ...] | None
    message: Any
    prefix: bytes = b""
    header: tuple[str, bytes] | None = None

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        chosen = ChosenColumns.of(self.columns, wanted)
        compiler = ProtobufCompiler(self.message, wanted.role)
        root = compiler.column(*chosen.columns[0]) if chosen.is_single else compiler.row(chosen)
        return CompiledColumns(EncoderPlan(Format.PROTOBUF, root, self.prefix), self.header)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (
            self.columns,
            _serialized_files(self.message.file),
            self.message.full_name,
            self.prefix,
            self.header,
        )


def _serialized_files(file: Any) -> list[bytes]:
    """A file and those that it imports, in an order in which a pool of descriptors takes them."""
    found: dict[str, bytes] = {}

    def add(each: Any) -> None:
        if each.name not in found:
            for imported in each.dependencies:
                add(imported)
            found[each.name] = each.serialized_pb

    add(file)
    return list(found.values())


def _unpickled(
    columns: str | tuple[str, ...] | None,
    files: list[bytes],
    full_name: str,
    prefix: bytes,
    header: tuple[str, bytes] | None,
) -> ProtobufColumns:
    from google.protobuf.descriptor_pool import DescriptorPool

    # A pool of its own: the process may know other versions of these files.
    pool = DescriptorPool()
    for each in files:
        pool.AddSerializedFile(each)
    return ProtobufColumns(columns, pool.FindMessageTypeByName(full_name), prefix, header)
