"""Protobuf: keys or values that are Protobuf messages, made of Arrow columns.

Source: Protocol Buffers documentation, "Encoding"; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from kproducer._core.runtime.extra_packages import need_package
from kproducer.columnar.format_plans import FormatPlans
from kproducer.columnar.protobuf_plan import ProtobufCompiler
from kproducer.columnar.schema_source import SchemaSource
from kproducer.errors import ConfigError
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.protobuf import SETTINGS, ProtobufFormat


class Protobuf(FormatPlans[ProtobufFormat]):
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
        need_package("Protobuf", "protobuf", "google.protobuf.descriptor", "protobuf")
        from google.protobuf.descriptor import Descriptor
        from google.protobuf.message_factory import GetMessageClass

        self._message = getattr(message, "DESCRIPTOR", message)
        if not isinstance(self._message, Descriptor):
            raise ConfigError(
                "Protobuf: message: expected a class that protoc generates, or the Descriptor of a message, "
                f"not {message!r:.200}"
            )
        source = SchemaSource(
            "Protobuf",
            GetMessageClass(self._message),
            registry,
            conf,
            SETTINGS,
            lambda message_class, conf: ProtobufFormat("Protobuf", message_class, conf),
        )
        compiler = MessageCompiler(self._message)
        super().__init__(columns, source, lambda *_: compiler)

    def __repr__(self) -> str:
        return f"Protobuf({self._message.full_name}, {self._columns!r})"


@attrs.frozen
class MessageCompiler:
    """From a role to the compiler of one message. Pickles have the files of the message.

    Attributes:
        message: the message's ``Descriptor``.
    """

    message: Any

    def __call__(self, role: str) -> ProtobufCompiler:
        return ProtobufCompiler(self.message, role)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (_serialized_files(self.message.file), self.message.full_name)


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


def _unpickled(files: list[bytes], full_name: str) -> MessageCompiler:
    from google.protobuf.descriptor_pool import DescriptorPool

    # A pool of its own: the process may know other versions of these files.
    pool = DescriptorPool()
    for each in files:
        pool.AddSerializedFile(each)
    return MessageCompiler(pool.FindMessageTypeByName(full_name))
