# DO NOT EDIT: generated from codegen/runtime/_plain.py (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: d1e212228ebc5a41c0e1fc8dc0c29db9347bc6eb5ab45aa4ff03474ac7072ec0
"""Messages as plain dicts, as JSON, and as short text: for logs, tests and tools.

Copied into every generated package. Works from the ``FIELDS`` of the classes and from their ``CONVERTED``
tables, and costs nothing until it is used.
"""

from __future__ import annotations

import base64
import binascii
import math
import operator
from collections.abc import Mapping
from typing import Any, ClassVar, SupportsIndex, TypeVar
from uuid import UUID

from ._wire import DecodeError, byte_length

M = TypeVar("M", bound="Plain")

_TAGS = "unknown_tagged_fields"
_MOST_ELEMENTS = 5
_MOST_CHARACTERS = 60


class Plain:
    """The conversions of all generated classes."""

    __slots__ = ()

    #: Field names to defaults. A class makes a new default for each message.
    FIELDS: ClassVar[dict[str, Any]] = {}

    #: Fields whose values need a conversion for JSON: UUID, bytes and float, and structs by their class.
    CONVERTED: ClassVar[dict[str, type[Any]]] = {}

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, ready for JSON: uuids as text, bytes as base64, structs as dicts.

        Unknown tagged fields appear only if there are any, as base64 by tag.
        """
        return _to_dict(self)

    @classmethod
    def from_dict(cls: type[M], values: Mapping[str, Any]) -> M:
        """A message from the result of ``to_dict``; missing fields get their defaults.

        Bytes and ``UUID`` objects are also accepted. The ranges of numbers are checked when encoding.

        Raises:
            DecodeError: a field does not exist, or a value has the wrong form; names the field.
        """
        try:
            return _from_dict(cls, values)
        except DecodeError as error:
            error.message_name = cls.__name__
            raise

    def to_json(self) -> str:
        """``to_dict`` as JSON text on one line."""
        import json  # not at the top: producers do not need it

        return json.dumps(_to_dict(self), allow_nan=False)

    @classmethod
    def from_json(cls: type[M], text: str | bytes) -> M:
        """A message from the result of ``to_json``. Raises DecodeError as ``from_dict`` does."""
        import json

        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            failure = DecodeError(f"not valid JSON: {error}")
            failure.message_name = cls.__name__
            raise failure from None
        return cls.from_dict(values)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle protocols 0 and 1 cannot store objects with slots, so these classes use 2 instead."""
        return super().__reduce_ex__(max(operator.index(protocol), 2))

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return [getattr(self, name) for name in self.FIELDS] == [getattr(other, name) for name in self.FIELDS]

    def __repr__(self) -> str:
        """The fields that differ from their defaults; long texts and lists are cut, bytes only counted."""
        parts = []
        for name, default in self.FIELDS.items():
            value = getattr(self, name)
            if isinstance(default, type):
                default = default()
            if value != default or type(value) is not type(default):
                parts.append(f"{name}={_short(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _short(value: Any) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{byte_length(value)} bytes>"
    if isinstance(value, list):
        shown = [_short(element) for element in value[:_MOST_ELEMENTS]]
        if len(value) > _MOST_ELEMENTS:
            shown.append(f"... {len(value) - _MOST_ELEMENTS} more")
        return f"[{', '.join(shown)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{tag}: {_short(data)}" for tag, data in value.items()) + "}"
    if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
        return f"{value[:_MOST_CHARACTERS]!r}... {len(value)} characters"
    return str(value) if isinstance(value, UUID) else repr(value)


def _to_dict(item: Any) -> dict[str, Any]:
    converted = item.CONVERTED
    values: dict[str, Any] = {}
    for name in item.FIELDS:
        value = getattr(item, name)
        if name == _TAGS:
            if value:
                values[name] = {str(tag): _to_plain(data) for tag, data in value.items()}
        elif name not in converted:
            values[name] = list(value) if isinstance(value, (list, tuple)) else value
        elif isinstance(value, (list, tuple)):
            values[name] = [_to_plain(element) for element in value]
        else:
            values[name] = _to_plain(value)
    return values


def _to_plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Plain):
        return _to_dict(value)
    # JSON has no infinities and no NaN.
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _from_dict(cls: type[M], values: Any) -> M:
    if not isinstance(values, Mapping):
        raise DecodeError(f"expected a dict for {cls.__name__}, found {type(values).__name__}")
    converted = cls.CONVERTED
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name not in cls.FIELDS:
            import difflib  # no message needs it

            near = difflib.get_close_matches(str(name), cls.FIELDS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise DecodeError(f"{cls.__name__} has no such field{hint}", str(name))
        if name == _TAGS and value is not None:
            value = _tags(value)
        elif name in converted:
            value = _from_plain(converted[name], value, name)
        arguments[name] = value
    try:
        return cls(**arguments)
    except TypeError as error:
        raise DecodeError(f"a value does not fit {cls.__name__}: {error}") from None


def _from_plain(kind: type[Any], value: Any, path: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_from_plain(kind, element, f"{path}[{index}]") for index, element in enumerate(value)]
    if value is None or isinstance(value, (kind, bytes, bytearray, memoryview)):
        return value
    if issubclass(kind, Plain):
        try:
            return _from_dict(kind, value)
        except DecodeError as error:
            error.field_path = f"{path}.{error.field_path}" if error.field_path else path
            raise
    try:
        return base64.b64decode(value, validate=True) if kind is bytes else kind(value)
    except (ValueError, TypeError, AttributeError, binascii.Error):
        wanted = "base64" if kind is bytes else f"a {kind.__name__.lower()}"
        raise DecodeError(f"expected {wanted}, found {value!r}", path) from None


def _tags(values: Any) -> dict[int, bytes]:
    try:
        return {int(tag): _from_plain(bytes, data, f"{_TAGS}[{tag}]") for tag, data in values.items()}
    except (ValueError, AttributeError) as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError("expected a dict of base64 by tag", _TAGS) from None
