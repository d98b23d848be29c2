"""The data classes of a generated module: attributes, annotations, defaults, documentation.

A class serves all versions, so an attribute may be null if it may be null in any of them.
"""

from __future__ import annotations

import json

import attrs

from codegen.model import FIXED_FORMATS, FieldSpec, StructSpec
from codegen.naming import attribute_name, class_name


@attrs.frozen
class AttributePlan:
    """One attribute of a generated class."""

    name: str
    annotation: str
    definition: str
    about: str


@attrs.frozen
class ClassPlan:
    """One generated class."""

    name: str
    spec_name: str
    attributes: tuple[AttributePlan, ...]
    map_keys: tuple[str, ...]


def plan_class(struct: StructSpec, structs: dict[str, StructSpec]) -> ClassPlan:
    """Plan the class of a struct or message."""
    return ClassPlan(
        name=class_name(struct.name),
        spec_name=struct.name,
        attributes=tuple(_plan_attribute(field) for field in struct.fields),
        map_keys=tuple(attribute_name(field.name) for field in struct.fields if field.map_key),
    )


def _plan_attribute(field: FieldSpec) -> AttributePlan:
    return AttributePlan(
        name=attribute_name(field.name),
        annotation=annotation(field),
        definition=_definition(field),
        about=_about(field),
    )


def annotation(field: FieldSpec) -> str:
    """The attribute's type, over all versions."""
    base = _base_annotation(field)
    if field.type.is_array:
        base = f"list[{base}]"
    return f"{base} | None" if may_be_null(field) else base


def may_be_null(field: FieldSpec) -> bool:
    """Whether the attribute may be null, in whatever version."""
    return bool(field.nullable_versions) or field.default is None


def _base_annotation(field: FieldSpec) -> str:
    name = field.type.name
    if field.type.is_struct:
        return class_name(name)
    if name == "records" or (name == "bytes" and field.zero_copy):
        return "Buffer"
    known = {"bool": "bool", "float64": "float", "uuid": "UUID", "string": "str", "bytes": "bytes"}
    return known.get(name, "int")


def default_expression(field: FieldSpec) -> str:
    """The field's default as an expression; a new object each time where it is mutable."""
    if field.default is None:
        return "None"
    if field.type.is_array:
        return "[]"
    if field.type.is_struct:
        return f"{class_name(field.type.name)}()"
    if field.type.name == "uuid":
        number = getattr(field.default, "int", 0)
        return "ZERO_UUID" if number == 0 else f"UUID(int={number:#034x})"
    if field.type.name == "float64":
        text = repr(field.default)
        return text if text[-1].isdigit() else f'float("{text}")'
    if field.type.name in FIXED_FORMATS:
        return repr(field.default)
    if field.type.name == "string":
        return json.dumps(field.default)
    return 'b""'


def _definition(field: FieldSpec) -> str:
    default = default_expression(field)
    if default == "[]":
        default = "attrs.field(factory=list)"
    elif default.endswith("()"):
        default = f"attrs.field(factory={default[:-2]})"
    if field.type.name in ("bytes", "records") and not field.type.is_array:
        return f"attrs.field(default={default}, repr=short_bytes)"
    return default


def _about(field: FieldSpec) -> str:
    facts = [f"{field.type}, versions {field.versions}"]
    if field.nullable_versions:
        facts.append(f"nullable in {field.nullable_versions}")
    if field.tag is not None:
        facts.append(f"tag {field.tag} in {field.tagged_versions}")
    if field.ignorable:
        facts.append("dropped where a version lacks it")
    if field.entity_type:
        facts.append(f"a {field.entity_type}")
    about = field.about.strip()
    if about and about[-1] not in ".!?":
        about += "."
    return f"{about} ({'; '.join(facts)})".strip()
