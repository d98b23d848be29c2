"""Hypothesis strategies for generated messages, built from the specs themselves.

A strategy fills every field of the version with extreme as well as ordinary values, and leaves the others at
their defaults. ``limits`` replaces the values of fields by name, for references that accept less.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from codegen.compiler import load_folder
from codegen.model import INTEGER_RANGES, FieldSpec, MessageSpec, StructSpec
from codegen.naming import attribute_name, class_name, module_name

SPEC_DIR = Path(__file__).parents[2] / "specs"
SPECS = load_folder(SPEC_DIR)

#: (spec, version) for each version of our messages.
ALL_VERSIONS = [(spec, version) for spec in SPECS for version in spec.valid_versions]


def version_id(value: Any) -> str:
    """A readable test id for a spec or a version."""
    return value.name if isinstance(value, MessageSpec) else f"v{value}"


def module_of(spec: MessageSpec, package: str = "kproducer_messages") -> Any:
    """The generated module of a message."""
    return importlib.import_module(f"{package}.{module_name(spec.name)}")


def class_of(spec: MessageSpec, package: str = "kproducer_messages") -> Any:
    """The generated class of a message."""
    return getattr(module_of(spec, package), class_name(spec.name))


def messages(
    spec: MessageSpec,
    version: int,
    *,
    limits: Mapping[str, st.SearchStrategy[Any]] | None = None,
    unknown_tags: bool = True,
    module: Any = None,
) -> st.SearchStrategy[Any]:
    """Messages of one version; ``module`` has their classes (default: ours)."""
    root = StructSpec(spec.name, spec.valid_versions, spec.fields, spec.line)
    builder = _Builder(spec, version, limits or {}, unknown_tags, module or module_of(spec))
    return builder.struct(root)


class _Builder:
    def __init__(
        self, spec: MessageSpec, version: int, limits: Mapping[str, Any], unknown_tags: bool, module: Any
    ) -> None:
        self.structs = spec.structs()
        self.version = version
        self.flexible = version in spec.flexible_versions
        self.limits = limits
        self.unknown_tags = unknown_tags
        self.module = module

    def struct(self, spec: StructSpec) -> st.SearchStrategy[Any]:
        known = {field.tag for field in spec.fields}
        present = [field for field in spec.fields if self.version in field.versions]
        arguments = {attribute_name(field.name): self.field(field) for field in present}
        if self.flexible and self.unknown_tags:
            tags = st.dictionaries(
                st.integers(0, 2**31 - 2) | st.integers(0, 9), st.binary(max_size=5), max_size=3
            )
            arguments["unknown_tagged_fields"] = st.none() | tags.map(
                lambda raw: {tag: raw[tag] for tag in sorted(raw) if tag not in known} or None
            )
        return st.builds(getattr(self.module, class_name(spec.name)), **arguments)

    def field(self, field: FieldSpec) -> st.SearchStrategy[Any]:
        name = attribute_name(field.name)
        values = self.limits[name] if name in self.limits else self.single(field.type.name)
        if field.type.is_array:
            values = st.lists(values, max_size=3)
            if not field.type.is_struct:
                # Lengths that need more than one byte as a varint.
                values = values | values.filter(bool).map(lambda some: (some * 300)[:300])
        return values | st.none() if self.version in field.nullable_versions else values

    def single(self, kind: str) -> st.SearchStrategy[Any]:
        if kind in self.structs:
            return self.struct(self.structs[kind])
        if kind in INTEGER_RANGES:
            low, high = INTEGER_RANGES[kind]
            return st.sampled_from([low, -1 if low else 1, 0, high]) | st.integers(low, high)
        text = st.text(max_size=8) | st.sampled_from(
            ["", "\0", "h\u00f6he \U0001f600", "x" * 126, "y" * 127, "z" * 9000]
        )
        blob = st.binary(max_size=8) | st.sampled_from([b"", b"\0" * 126, b"\xff" * 127, b"r" * 20000])
        return {
            "bool": st.booleans(),
            "float64": st.floats(allow_nan=False),
            "uuid": st.uuids(allow_nil=True),
            "string": text,
            "bytes": blob,
            "records": blob,
        }[kind]


def without_unknown_tags(message: Any) -> Any:
    """The same message with no unknown tagged fields anywhere, for peers that drop them."""

    def strip(values: Any) -> Any:
        if isinstance(values, list):
            return [strip(value) for value in values]
        if isinstance(values, dict):
            return {key: strip(value) for key, value in values.items() if key != "unknown_tagged_fields"}
        return values

    return type(message).from_dict(strip(message.to_dict()))


def fields_below(spec: MessageSpec) -> Iterator[FieldSpec]:
    """All fields of a message, including those of its structs."""
    yield from spec.fields
    for struct in spec.structs().values():
        yield from struct.fields
