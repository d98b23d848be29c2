"""From JSON nodes to the typed model.

Judges the form of a spec: unknown keys, missing keys, values of the wrong JSON type, names and ranges that
do not read. What the parts mean together is for check. Every failure says file, line, field and remedy.
Source: the grammar of Kafka's message specs.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import hashlib
import re
import uuid
from typing import Any, NoReturn

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
_JSON_TYPES = {dict: "an object", list: "an array", str: "a string", int: "a number", bool: "true or false"}


def parse(path: str, data: bytes) -> MessageSpec:
    """Read one spec file.

    Args:
        path: the name that error messages and generated headers show.
        data: the file's bytes.

    Raises:
        SpecError: with one problem, the first that was met.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError([Problem(path, line, "", "the file is not UTF-8")]) from None
    try:
        return _Parser(path).message(load(path, text), hashlib.sha256(data).hexdigest())
    except RecursionError:
        raise SpecError([Problem(path, 1, "", "the spec is nested too deeply to be read")]) from None


class _Parser:
    def __init__(self, path: str) -> None:
        self.path = path

    # -- messages and structs ----------------------------------------------------------------------------

    def message(self, node: Node, sha256: str) -> MessageSpec:
        members = self.members(node, _MESSAGE_KEYS, "", "a message")
        name = self.name(members, node, "")
        kinds = {kind.value: kind for kind in MessageType}
        type_node = self.required(members, "type", str, node, name)
        if type_node.value not in kinds:
            self.fail(
                type_node, name, f"unknown message type {type_node.value!r}{near(type_node.value, kinds)}"
            )
        kind = kinds[type_node.value]
        valid = self.versions(members, "validVersions", None, node, name)
        # A message that may not be sent any more needs no fields, and no form that could be flexible.
        retired = not valid and "fields" not in members
        return MessageSpec(
            path=self.path,
            sha256=sha256,
            name=name,
            type=kind,
            api_key=self.optional(members, "apiKey", int, None, name),
            valid_versions=valid,
            flexible_versions=self.versions(
                members, "flexibleVersions", None if valid else Versions.NONE, node, name
            ),
            deprecated_versions=self.versions(members, "deprecatedVersions", Versions.NONE, node, name),
            listeners=self.strings(members, "listeners", name),
            latest_version_unstable=self.optional(members, "latestVersionUnstable", bool, False, name),
            fields=() if retired else self.fields(self.required(members, "fields", list, node, name), name),
            common_structs=self.structs(members, name),
            line=node.line,
            lines={key: value.line for key, value in members.items()},
        )

    def structs(self, members: dict[str, Node], message: str) -> tuple[StructSpec, ...]:
        found = []
        for node in self.optional(members, "commonStructs", list, [], message):
            parts = self.members(node, _STRUCT_KEYS, message, "a common struct")
            name = self.name(parts, node, message)
            found.append(
                StructSpec(
                    name=name,
                    versions=self.versions(parts, "versions", None, node, name),
                    fields=self.fields(self.required(parts, "fields", list, node, name), name),
                    line=node.line,
                )
            )
        return tuple(found)

    def fields(self, node: Node, subject: str) -> tuple[FieldSpec, ...]:
        return tuple(self.field(child, subject) for child in node.value)

    def field(self, node: Node, parent: str) -> FieldSpec:
        named = node.value.get("name") if isinstance(node.value, dict) else None
        where = f"{parent}.{named.value}" if named is not None else parent
        members = self.members(node, _FIELD_KEYS, where, "a field")
        name = self.name(members, node, parent)
        subject = f"{parent}.{name}"
        type_node = self.required(members, "type", str, node, subject)
        field_type = self.field_type(type_node, subject)
        nullable = self.versions(members, "nullableVersions", Versions.NONE, node, subject)
        tagged = self.versions(members, "taggedVersions", Versions.NONE, node, subject)
        fields = members.get("fields")
        if fields is not None and not isinstance(fields.value, list):
            self.fail(fields, subject, '"fields" must be an array of fields')
        return FieldSpec(
            name=name,
            type=field_type,
            versions=self.versions(members, "versions", tagged or None, node, subject),
            nullable_versions=nullable,
            tagged_versions=tagged,
            tag=self.optional(members, "tag", int, None, subject),
            flexible_versions=(
                self.versions(members, "flexibleVersions", None, node, subject)
                if "flexibleVersions" in members
                else None
            ),
            default=self.default(members.get("default"), field_type, bool(nullable), subject),
            ignorable=self.optional(members, "ignorable", bool, False, subject),
            map_key=self.optional(members, "mapKey", bool, False, subject),
            zero_copy=self.optional(members, "zeroCopy", bool, False, subject),
            entity_type=self.optional(members, "entityType", str, None, subject),
            about=self.optional(members, "about", str, "", subject),
            fields=None if fields is None else self.fields(fields, subject),
            lines={key: value.line for key, value in members.items()},
            line=node.line,
        )

    # -- values ------------------------------------------------------------------------------------------

    def field_type(self, node: Node, subject: str) -> FieldType:
        text = node.value.strip()
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

    def default(self, node: Node | None, kind: FieldType, nullable: bool, subject: str) -> object:
        """The default as a Python value: the type's zero value where the spec gives none."""
        if node is None or (node.value == "" and not (kind.name == "string" and not kind.is_array)):
            return zero_value(kind)
        value = node.value
        if value is None and kind.can_be_null:
            # Some of upstream's specs say so; Kafka reads it as if no default were given, not as null.
            return zero_value(kind)
        if isinstance(value, (dict, list)) or value is None:
            self.fail(node, subject, 'a default is a number, true, false or a string; write "null" for null')
        if kind.can_be_null and value == "null":
            return None
        if kind.is_array:
            self.fail(
                node, subject, f"an array is empty by default, or null: {value!r} is no default for {kind}"
            )
        if kind.is_struct:
            self.fail(node, subject, f"a struct has no default but null: {value!r} is none for {kind}")
        if kind.name in INTEGER_RANGES:
            return self.integer_default(node, kind, subject)
        if kind.name == "bool":
            if value in (True, False) and isinstance(value, bool):
                return value
            if value in ("true", "false"):
                return bool(value == "true")
            self.fail(node, subject, f"the default of a bool is true or false, not {value!r}")
        if kind.name == "float64":
            try:
                return float(value)
            except ValueError:
                self.fail(node, subject, f"the default {value!r} is no number")
        if kind.name == "uuid":
            return self.uuid_default(node, subject)
        if kind.name == "string" and isinstance(value, str):
            return value
        self.fail(
            node, subject, f"{value!r} is no default for {kind}: leave it out{', or write null' * nullable}"
        )

    def integer_default(self, node: Node, kind: FieldType, subject: str) -> int:
        lowest, highest = INTEGER_RANGES[kind.name]
        value = node.value
        if isinstance(value, (bool, float)):
            self.fail(node, subject, f"the default of an {kind} is a whole number, not {value!r}")
        try:
            number = _integer(value) if isinstance(value, str) else int(value)
        except ValueError:
            self.fail(node, subject, f"the default {value!r} is no whole number (decimal, 0x hex or 0 octal)")
        if not lowest <= number <= highest:
            self.fail(node, subject, f"the default {value} does not fit {kind} ({lowest} to {highest})")
        return number

    def uuid_default(self, node: Node, subject: str) -> uuid.UUID:
        text = str(node.value)
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (ValueError, binascii.Error):
            data = b""
        if len(data) != 16:
            self.fail(node, subject, f"the default {text!r} is no uuid; write 16 bytes as URL-safe base64")
        return uuid.UUID(bytes=data)

    def versions(
        self, members: dict[str, Node], key: str, missing: Versions | None, parent: Node, subject: str
    ) -> Versions:
        if key not in members and missing is not None:
            return missing
        node = self.required(members, key, str, parent, subject)
        try:
            return Versions.parse(node.value)
        except ValueError as error:
            self.fail(node, subject, f'"{key}": {error}')

    def strings(self, members: dict[str, Node], key: str, subject: str) -> tuple[str, ...]:
        nodes = self.optional(members, key, list, [], subject)
        for node in nodes:
            if not isinstance(node.value, str):
                self.fail(node, subject, f'"{key}" must be an array of strings')
        return tuple(node.value for node in nodes)

    def name(self, members: dict[str, Node], parent: Node, subject: str) -> str:
        node = self.required(members, "name", str, parent, subject)
        if not _NAME.fullmatch(node.value):
            reason = f"the name {node.value!r} must begin with a letter and hold letters and digits only"
            self.fail(node, subject, reason)
        assert isinstance(node.value, str)
        return node.value

    # -- JSON --------------------------------------------------------------------------------------------

    def members(self, node: Node, known: list[str], subject: str, what: str) -> dict[str, Node]:
        if not isinstance(node.value, dict):
            self.fail(node, subject, f"expected {what} in braces, found {describe(node.value)}")
        members: dict[str, Node] = node.value
        for key, value in members.items():
            if key not in known:
                self.fail(value, subject, f"{what} has no key {key!r}{near(key, known)}")
        return members

    def required(self, members: dict[str, Node], key: str, kind: type, parent: Node, subject: str) -> Node:
        if key not in members:
            self.fail(parent, subject, f'"{key}" is missing')
        self.optional(members, key, kind, None, subject)
        return members[key]

    def optional(self, members: dict[str, Node], key: str, kind: type, missing: Any, subject: str) -> Any:
        if key not in members:
            return missing
        node = members[key]
        if not isinstance(node.value, kind) or (kind is int and isinstance(node.value, bool)):
            self.fail(node, subject, f'"{key}" must be {_JSON_TYPES[kind]}, not {describe(node.value)}')
        return node.value

    def fail(self, node: Node, subject: str, reason: str) -> NoReturn:
        raise SpecError([Problem(self.path, node.line, subject, reason)])


def zero_value(kind: FieldType) -> object:
    """The default of a type for which the spec gives none."""
    if kind.is_array:
        return ()
    if kind.is_struct:
        return ...
    if kind.name in INTEGER_RANGES:
        return 0
    zeros = {"bool": False, "float64": 0.0, "string": "", "uuid": uuid.UUID(int=0)}
    return zeros.get(kind.name, b"")


def near(word: str, known: Any) -> str:
    """A hint that names the most similar known word, if one is similar."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def describe(value: object) -> str:
    """What kind of JSON value this is."""
    return "null" if value is None else _JSON_TYPES.get(type(value), "a number")


def _integer(text: str) -> int:
    """Decimal, hex (0x...) and octal (0...), as Java's ``Integer.decode`` reads them."""
    text = text.strip()
    digits = text.lstrip("+-")
    if not re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)", text):
        raise ValueError(text)
    if re.fullmatch(r"0[0-7]+", digits):
        return int(text.replace(digits, "0o" + digits[1:]), 8)
    return int(text, 16) if digits.lower().startswith("0x") else int(text, 10)
