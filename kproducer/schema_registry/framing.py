"""How a record says which schema it was written with: the id before the data, or the GUID in a header.

Source: Confluent Schema Registry, "Wire format": magic byte 0 and the id in four bytes, big-endian; or magic
byte 1 and the GUID in 16 bytes, in the header ``__key_schema_id`` or ``__value_schema_id``. For Protobuf,
the position of the message in its file follows, as zigzag varints.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence

from kproducer._core.kernel.varint import encode_varint
from kproducer.errors import SerializationError
from kproducer.schema_registry.schemas import RegisteredSchema

_MAGIC_ID = 0
_MAGIC_GUID = 1
_ID = struct.Struct(">bI")


def prefix_schema_id_serializer(registered: RegisteredSchema, message_indexes: Sequence[int] = ()) -> bytes:
    """The bytes before the data: magic byte 0 and the schema's id. For ``schema.id.serializer``."""
    if registered.schema_id is None:
        raise SerializationError(f"the schema of subject {registered.subject!r} has no id")
    return _ID.pack(_MAGIC_ID, registered.schema_id) + _encoded_indexes(message_indexes)


def header_schema_id_serializer(registered: RegisteredSchema, message_indexes: Sequence[int] = ()) -> bytes:
    """The value of the header: magic byte 1 and the schema's GUID. For ``schema.id.serializer``.

    Raises:
        SerializationError: the registry did not send a GUID.
    """
    if registered.guid is None:
        raise SerializationError(
            f"the schema registry sent no GUID for the schema of subject {registered.subject!r}, so it is "
            "too old for header_schema_id_serializer; leave schema.id.serializer out to write the schema's id"
        )
    return bytes((_MAGIC_GUID,)) + uuid.UUID(registered.guid).bytes + _encoded_indexes(message_indexes)


def header_name(field: str) -> str:
    """The header for the GUID of a ``key`` or a ``value``."""
    return f"__{field}_schema_id"


def _encoded_indexes(indexes: Sequence[int]) -> bytes:
    if not indexes:
        return b""
    if list(indexes) == [0]:  # the format has a short form for the usual case
        return b"\x00"
    return b"".join(map(encode_varint, (len(indexes), *indexes)))
