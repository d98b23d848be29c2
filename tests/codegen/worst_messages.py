"""Messages that make a decoder use memory: valid ones with large objects, and ones with false lengths.

Each valid message fills one array with elements that take few bytes but many objects: numbers and uuids that
Python does not cache, and an unknown tagged field (a dict for two bytes) in every struct that can have one.
Whether strings of two characters and elements in inner arrays increase the memory depends on the struct, so
both are tried.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import attrs

from codegen.model import INTEGER_RANGES, FieldSpec, StructSpec
from codegen.naming import attribute_name, class_name
from codegen.plan import plan_module
from tests.codegen.compiled import Case


@attrs.frozen
class Way:
    """How values are chosen."""

    #: Strings and bytes of two characters, the shortest that Python does not cache.
    own_texts: bool
    #: Arrays inside the elements have one element.
    nested: bool


_WAYS = [Way(*choice) for choice in itertools.product((False, True), repeat=2)]


def distinct(cases: list[Case]) -> list[Case]:
    """One case for all versions that share their functions."""
    tables: dict[tuple[str, str], Any] = {}
    found: dict[tuple[str, str], Case] = {}
    for case in cases:
        table = tables.setdefault((case.package, case.spec.name), None) or dict(plan_module(case.spec).table)
        tables[case.package, case.spec.name] = table
        found.setdefault((case.package, table[case.version].functions), case)
    return list(found.values())


def worst_messages(case: Case, size: int) -> Iterator[tuple[str, Any]]:
    """(path of the array, message) for each array of the message; about ``size`` bytes when encoded."""
    root = StructSpec(case.spec.name, case.spec.valid_versions, case.spec.fields, case.spec.line)
    for way in _WAYS:
        builder = _Builder(case, way, size)
        for path in builder.arrays(root):
            yield ".".join(path), builder.struct(root, path)
    if case.version in case.spec.flexible_versions:
        known = {field.tag for field in case.spec.fields}
        tags = {tag: b"" for tag in range(size // 3) if tag not in known}
        yield "unknown_tagged_fields", case.message_class(unknown_tagged_fields=tags)


def lies(data: bytes, padding: bytes) -> Iterator[bytes]:
    """The message with one length at a time replaced by the largest one that fits the padding behind it."""
    for position in range(min(len(data), 40)):
        # Arrays of elements that take at least one byte, or more.
        for width in (1, 4, 20):
            count = len(padding) // width
            varint = bytes([count + 1 & 0x7F | 0x80, count + 1 >> 7 & 0x7F | 0x80, count + 1 >> 14])
            for claim in (varint, count.to_bytes(4, "big"), min(count, 32767).to_bytes(2, "big")):
                yield data[:position] + claim + padding


class _Builder:
    def __init__(self, case: Case, way: Way, size: int) -> None:
        self.case, self.way, self.size = case, way, size
        self.structs = case.spec.structs()
        self.flexible = case.version in case.spec.flexible_versions
        self.numbers = itertools.count(10_000_000)

    def arrays(self, struct: StructSpec) -> Iterator[tuple[str, ...]]:
        """The paths of all arrays below a struct."""
        for field in self.present(struct):
            name = attribute_name(field.name)
            if field.type.is_array:
                yield (name,)
            if field.type.is_struct:
                yield from ((name, *below) for below in self.arrays(self.structs[field.type.name]))

    def present(self, struct: StructSpec) -> list[FieldSpec]:
        return [field for field in struct.fields if self.case.version in field.versions]

    def struct(self, struct: StructSpec, path: tuple[str, ...] = ()) -> Any:
        """Create an object; the path, if any, leads to the array to fill."""
        values = {}
        for field in self.present(struct):
            name = attribute_name(field.name)
            on_path = bool(path) and path[0] == name
            if on_path or self.case.version not in field.tagged_versions:
                values[name] = self.value(field, path[1:] if on_path else (), on_path)
        if self.flexible:
            known = {field.tag for field in struct.fields}
            values["unknown_tagged_fields"] = {next(tag for tag in range(99) if tag not in known): b""}
        return getattr(self.case.module, class_name(struct.name))(**values)

    def value(self, field: FieldSpec, below: tuple[str, ...], on_path: bool) -> Any:
        kind = field.type.name
        if field.type.is_array:
            if on_path and not below:
                return self.filled(kind)
            wanted = 1 if below or (self.way.nested and not on_path) else 0
            return [self.single(kind, below) for _ in range(wanted)]
        if field.type.is_struct and (below or self.case.version not in field.nullable_versions):
            return self.struct(self.structs[kind], below)
        if field.type.is_struct:
            return None
        return self.single(kind, ())

    def filled(self, kind: str) -> list[Any]:
        if kind in self.structs:
            width = self.width(self.single(kind, ()))
        else:
            width = {"uuid": 16, "int64": 8, "float64": 8}.get(kind, 3)
        return [self.single(kind, ()) for _ in range(self.size // width)]

    def width(self, item: Any) -> int:
        """Approximate encoded size of an object, to choose the number of elements."""
        total = 1
        for name in item.FIELDS:
            value = getattr(item, name)
            total += 4 if type(value) is int else 1
            if isinstance(value, list):
                total += sum(self.width(each) if hasattr(each, "FIELDS") else 3 for each in value)
        return total

    def single(self, kind: str, below: tuple[str, ...]) -> Any:
        if kind in self.structs:
            return self.struct(self.structs[kind], below)
        if kind in INTEGER_RANGES:
            low, high = INTEGER_RANGES[kind]
            return low if high < 300 else next(self.numbers) % (high - 300) + 300
        return {
            "bool": True,
            "float64": 0.5,
            "uuid": uuid.UUID(int=2**100 + next(self.numbers)),
            "string": "ab" if self.way.own_texts else "",
            "bytes": b"ab" if self.way.own_texts else b"",
            "records": b"ab" if self.way.own_texts else b"",
        }[kind]
