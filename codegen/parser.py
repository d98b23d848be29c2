"""From JSON nodes to the typed model.

Checks the form of a spec: unknown keys, missing keys, wrong JSON types, invalid names and ranges. Rules that
involve several keys are in ``check``. Every error names file, line, field and remedy.
JSON types are as lenient as in Kafka's generator, because specs in Kafka's jars rely on it: a number or flag
may be in quotes, a text may be a number, an array of one element needs no brackets, null counts as missing.
Source: the grammar of Kafka's message specs, and Jackson's behaviour with the settings of Kafka's generator.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import hashlib
import json
import re
import uuid
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from codegen.errors import Problem, SpecError
from codegen.loader import Node, load
from codegen.model import (
    INTEGER_RANGES,
    PRIMITIVES,
    FieldSpec,
    FieldType,
    MessageSpec,
    MessageType,
    StructSpec,
)
from codegen.versions import Versions

_MESSAGE_KEYS = [
    *("apiKey", "type", "name", "listeners", "validVersions", "deprecatedVersions", "flexibleVersions"),
    *("fields", "commonStructs", "latestVersionUnstable", "about"),
]
_STRUCT_KEYS = ["name", "versions", "fields", "about"]
_FIELD_KEYS = [
    *("name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "flexibleVersions", "default"),
    *("ignorable", "mapKey", "zeroCopy", "entityType", "about", "fields"),
]
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_STRUCT_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FLAGS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE", "null", ""), False),
}
_Value = TypeVar("_Value")


def parse(path: str, data: bytes) -> MessageSpec:
    """Read one spec file.

    Args:
        path: the name that error messages and generated headers show.
        data: the file's bytes.

    Raises:
        SpecError: with the first problem.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError([Problem(path, line, "", "the file is not UTF-8")]) from None
    try:
        return _Parser(path).message(load(path, text), hashlib.sha256(data).hexdigest())
    except RecursionError:
        raise SpecError([Problem(path, 1, "", "the spec is nested too deeply")]) from None


class _Parser:
    def __init__(self, path: str) -> None:
        self.path = path

    # -- messages and structs ----------------------------------------------------------------------------

    def message(self, node: Node, sha256: str) -> MessageSpec:
        members = self.members(node, _MESSAGE_KEYS, "", "a message")
        name = self.name(members, node, "")
        kinds = {kind.value: kind for kind in MessageType}
        word = self.required(members, "type", as_text, node, name).strip()
        if word not in kinds:
            self.fail(members["type"], name, f"unknown message type {word!r}{near(word, kinds)}")
        kind = kinds[word]
        valid = self.versions(members, "validVersions", None, node, name)
        return MessageSpec(
            path=self.path,
            sha256=sha256,
            name=name,
            type=kind,
            api_key=self.optional(members, "apiKey", as_whole_number, None, name),
            valid_versions=valid,
            # A message without valid versions has no flexible ones.
            flexible_versions=self.versions(
                members, "flexibleVersions", None if valid else Versions.NONE, node, name
            ),
            deprecated_versions=self.versions(members, "deprecatedVersions", Versions.NONE, node, name),
            listeners=self.strings(members, "listeners", name),
            latest_version_unstable=self.optional(members, "latestVersionUnstable", as_flag, False, name),
            fields=self.fields(members, name),
            common_structs=self.structs(members, name),
            line=node.line,
            lines={key: value.line for key, value in members.items()},
        )

    def structs(self, members: dict[str, Node], message: str) -> tuple[StructSpec, ...]:
        found = []
        for node in self.optional(members, "commonStructs", as_list, [], message):
            parts = self.members(node, _STRUCT_KEYS, message, "a common struct")
            name = self.name(parts, node, message)
            found.append(
                StructSpec(
                    name=name,
                    versions=self.versions(parts, "versions", None, node, name),
                    fields=self.fields(parts, name),
                    line=node.line,
                )
            )
        return tuple(found)

    def fields(self, members: dict[str, Node], subject: str) -> tuple[FieldSpec, ...]:
        nodes = self.optional(members, "fields", as_list, [], subject)
        return tuple(self.field(node, subject) for node in nodes)

    def field(self, node: Node, parent: str) -> FieldSpec:
        named = node.value.get("name") if isinstance(node.value, dict) else None
        where = f"{parent}.{named.value}" if named is not None else parent
        members = self.members(node, _FIELD_KEYS, where, "a field")
        name = self.name(members, node, parent)
        subject = f"{parent}.{name}"
        field_type = self.field_type(members, node, subject)
        nullable = self.versions(members, "nullableVersions", Versions.NONE, node, subject)
        tagged = self.versions(members, "taggedVersions", Versions.NONE, node, subject)
        fields = self.fields(members, subject)
        override = self.optional(members, "flexibleVersions", as_text, "", subject)
        entity = self.optional(members, "entityType", as_text, "unknown", subject).strip()
        return FieldSpec(
            name=name,
            type=field_type,
            versions=self.versions(members, "versions", tagged or None, node, subject),
            nullable_versions=nullable,
            tagged_versions=tagged,
            tag=self.optional(members, "tag", as_whole_number, None, subject),
            flexible_versions=(
                self.versions(members, "flexibleVersions", None, node, subject) if override.strip() else None
            ),
            default=self.default(members, field_type, bool(nullable), subject),
            ignorable=self.optional(members, "ignorable", as_flag, False, subject),
            map_key=self.optional(members, "mapKey", as_flag, False, subject),
            zero_copy=self.optional(members, "zeroCopy", as_flag, False, subject),
            entity_type=None if entity == "unknown" else entity,
            about=self.optional(members, "about", as_text, "", subject),
            fields=fields if fields or (field_type.is_struct and "fields" in members) else None,
            lines={key: value.line for key, value in members.items()},
            line=node.line,
        )

    # -- values ------------------------------------------------------------------------------------------

    def field_type(self, members: dict[str, Node], parent: Node, subject: str) -> FieldType:
        text = self.required(members, "type", as_text, parent, subject).strip()
        node = members["type"]
        is_array = text.startswith("[]")
        name = text[2:] if is_array else text
        if name.startswith("[]"):
            self.fail(
                node, subject, f"{text!r} is an array of arrays; put a struct with an array between them"
            )
        if name not in PRIMITIVES and not _STRUCT_NAME.fullmatch(name):
            known = ", ".join(PRIMITIVES)
            hint = (
                near(name, PRIMITIVES) or f"; the types are {known}, or a struct's name, or [] before either"
            )
            self.fail(node, subject, f"unknown type {name!r}{hint}")
        return FieldType(name, is_array)

    def default(self, members: dict[str, Node], kind: FieldType, nullable: bool, subject: str) -> object:
        """The default as a Python value: the type's zero value where the spec gives none."""
        # Some of upstream's specs say null without quotes; Kafka reads it as if no default were given.
        text = self.optional(members, "default", as_text, "", subject)
        if not text:
            return zero_value(kind)
        node = members["default"]
        if kind.can_be_null and text == "null":
            return None
        if kind.is_array:
            self.fail(
                node, subject, f"the default of an array is empty or null: {text!r} is not valid for {kind}"
            )
        if kind.is_struct:
            self.fail(node, subject, f"the default of a struct is null: {text!r} is not valid for {kind}")
        if kind.name in INTEGER_RANGES:
            return self.integer_default(node, kind, subject)
        if kind.name == "bool":
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
            self.fail(node, subject, f"the default of a bool is true or false, not {text!r}")
        if kind.name == "float64":
            try:
                return float(text)
            except ValueError:
                self.fail(node, subject, f"the default {text!r} is not a number")
        if kind.name == "uuid":
            return self.uuid_default(node, subject)
        if kind.name == "string":
            return text
        self.fail(
            node,
            subject,
            f"{text!r} is not a default for {kind}: leave it out{', or write null' * nullable}",
        )

    def integer_default(self, node: Node, kind: FieldType, subject: str) -> int:
        lowest, highest = INTEGER_RANGES[kind.name]
        try:
            number = _integer(node.text)
        except ValueError:
            reason = f"the default {node.text!r} is not a whole number (decimal, 0x hex or 0 octal)"
            self.fail(node, subject, reason)
        if not lowest <= number <= highest:
            self.fail(node, subject, f"the default {node.text} does not fit {kind} ({lowest} to {highest})")
        return number

    def uuid_default(self, node: Node, subject: str) -> uuid.UUID:
        text = node.text
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (ValueError, binascii.Error):
            data = b""
        if len(data) != 16:
            self.fail(node, subject, f"the default {text!r} is not a uuid; write 16 bytes as URL-safe base64")
        return uuid.UUID(bytes=data)

    def versions(
        self, members: dict[str, Node], key: str, missing: Versions | None, parent: Node, subject: str
    ) -> Versions:
        text = self.optional(members, key, as_text, "", subject)
        if not text.strip():
            if missing is None:
                self.fail(members.get(key, parent), subject, f'"{key}" is missing')
            return missing
        try:
            return Versions.parse(text)
        except ValueError as error:
            self.fail(members[key], subject, f'"{key}": {error}')

    def strings(self, members: dict[str, Node], key: str, subject: str) -> tuple[str, ...]:
        nodes = self.optional(members, key, as_list, [], subject)
        for node in nodes:
            if not isinstance(node.value, str):
                self.fail(node, subject, f'"{key}" must be an array of strings')
        return tuple(node.text.strip() for node in nodes)

    def name(self, members: dict[str, Node], parent: Node, subject: str) -> str:
        name = self.required(members, "name", as_text, parent, subject)
        if not _NAME.fullmatch(name):
            reason = f"the name {name!r} must begin with a letter and contain only letters and digits"
            self.fail(members["name"], subject, reason)
        return name

    # -- JSON --------------------------------------------------------------------------------------------

    def members(self, node: Node, known: list[str], subject: str, what: str) -> dict[str, Node]:
        if not isinstance(node.value, dict):
            self.fail(node, subject, f"expected {what} in braces, found {describe(node.value)}")
        members: dict[str, Node] = node.value
        for key, value in members.items():
            if key not in known:
                self.fail(value, subject, f"{what} has no key {key!r}{near(key, known)}")
        return {key: value for key, value in members.items() if value.value is not None}

    def required(
        self,
        members: dict[str, Node],
        key: str,
        read: Callable[[Node], _Value | None],
        parent: Node,
        subject: str,
    ) -> _Value:
        value: _Value | None = self.optional(members, key, read, None, subject)
        if value is None:
            self.fail(parent, subject, f'"{key}" is missing')
        return value

    def optional(
        self,
        members: dict[str, Node],
        key: str,
        read: Callable[[Node], _Value | None],
        missing: Any,
        subject: str,
    ) -> Any:
        if key not in members:
            return missing
        try:
            return read(members[key])
        except ValueError as error:
            self.fail(members[key], subject, f'"{key}" must be {error}')

    def fail(self, node: Node, subject: str, reason: str) -> NoReturn:
        raise SpecError([Problem(self.path, node.line, subject, reason)])


def zero_value(kind: FieldType) -> object:
    """The default of a type if the spec gives none."""
    if kind.is_array:
        return ()
    if kind.is_struct:
        return ...
    if kind.name in INTEGER_RANGES:
        return 0
    zeros = {"bool": False, "float64": 0.0, "string": "", "uuid": uuid.UUID(int=0)}
    return zeros.get(kind.name, b"")


def near(word: str, known: Any) -> str:
    """A hint with the most similar known word, if there is one."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


# How Jackson reads a value. Each function raises ValueError with what was expected and found.


def as_text(node: Node) -> str:
    """A string; a number or flag as it is spelled."""
    if isinstance(node.value, (dict, list)):
        raise ValueError(f"a string, not {describe(node.value)}")
    return node.text


def as_flag(node: Node) -> bool:
    """True or false, in quotes or not; a whole number is true unless it is 0."""
    if isinstance(node.value, str) and node.text.strip() in _FLAGS:
        return _FLAGS[node.text.strip()]
    if isinstance(node.value, int):
        return bool(node.value)
    raise ValueError(f"true or false, not {describe(node.value)}")


def as_whole_number(node: Node) -> int | None:
    """A whole number, in quotes or not; ``None`` for empty quotes."""
    if isinstance(node.value, str) and node.text.strip() in ("", "null"):
        return None
    if isinstance(node.value, str) and _WHOLE.fullmatch(node.text.strip()) and len(node.text) < 100:
        return int(node.text)
    if isinstance(node.value, float) and node.value.is_integer():
        return int(node.value)
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    raise ValueError(f"a whole number, not {describe(node.value)}")


def as_list(node: Node) -> list[Node]:
    """An array; anything else is its only element."""
    return node.value if isinstance(node.value, list) else [node]


def describe(value: object) -> str:
    """A JSON value for an error message; arrays and objects only by their kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return repr(value) if isinstance(value, str) else json.dumps(value)


def _integer(text: str) -> int:
    """Decimal, hex (0x...) and octal (0...), as Java's ``Integer.decode`` reads them."""
    text = text.strip()
    digits = text.lstrip("+-")
    if not re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)", text):
        raise ValueError(text)
    if re.fullmatch(r"0[0-7]+", digits):
        return int(text.replace(digits, "0o" + digits[1:]), 8)
    return int(text, 16) if digits.lower().startswith("0x") else int(text, 10)
