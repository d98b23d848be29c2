"""The data classes of a generated module: attributes, annotations, defaults, documentation.

A class serves all versions (docs/decisions/0001-one-class-per-message.md), so an attribute may be null if it
may be null in any of them.
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
    default: str
    parameter: str
    assigned: str
    about: str


@attrs.frozen
class ClassPlan:
    """One generated class."""

    name: str
    spec_name: str
    attributes: tuple[AttributePlan, ...]
    map_keys: tuple[str, ...]
    #: Name of the class for collections that are looked up by the map keys; empty if there is none.
    collection: str
    #: (attribute, class) of the values that plain dicts and JSON cannot represent.
    converted: tuple[tuple[str, str], ...]

    @property
    def key_parameters(self) -> str:
        """The parameters of a look-up."""
        types = {attribute.name: attribute.annotation for attribute in self.attributes}
        return ", ".join(f"{key}: {types[key]}" for key in self.map_keys)

    @property
    def key(self) -> str:
        """The key of a look-up as an expression."""
        return self.map_keys[0] if len(self.map_keys) == 1 else f"({', '.join(self.map_keys)})"


def collection_names(structs: dict[str, StructSpec]) -> dict[str, str]:
    """The collection classes of a message, by the name of the struct they hold."""
    taken = {class_name(name) for name in structs}
    names: dict[str, str] = {}
    for struct in structs.values():
        if any(field.map_key for field in struct.fields):
            name = class_name(f"{struct.name}Collection")
            names[struct.name] = name + "_" * (name in taken)
    return names


def plan_class(struct: StructSpec, collections: dict[str, str]) -> ClassPlan:
    """Plan the class of a struct or message."""
    return ClassPlan(
        name=class_name(struct.name),
        spec_name=struct.name,
        attributes=tuple(_plan_attribute(field, collections) for field in struct.fields),
        map_keys=tuple(attribute_name(field.name) for field in struct.fields if field.map_key),
        collection=collections.get(struct.name, ""),
        converted=tuple(
            (attribute_name(field.name), kind) for field in struct.fields if (kind := _converted(field))
        ),
    )


def _plan_attribute(field: FieldSpec, collections: dict[str, str]) -> AttributePlan:
    return AttributePlan(
        name=attribute_name(field.name),
        annotation=annotation(field, collections),
        default=_field_default(field, collections),
        parameter=_parameter(field, collections),
        assigned=_assigned(field, collections),
        about=_about(field),
    )


def _converted(field: FieldSpec) -> str:
    """The class to convert plain values to; empty if none is needed."""
    if field.type.is_struct:
        return class_name(field.type.name)
    return {"uuid": "UUID", "bytes": "bytes", "records": "bytes", "float64": "float"}.get(field.type.name, "")


def annotation(field: FieldSpec, collections: dict[str, str]) -> str:
    """The attribute's type, over all versions."""
    base = _base_annotation(field)
    if field.type.is_array:
        base = collections.get(field.type.name) or f"list[{base}]"
    return f"{base} | None" if may_be_null(field) else base


def may_be_null(field: FieldSpec) -> bool:
    """Whether the attribute may be null in any version."""
    return bool(field.nullable_versions) or field.default is None


def _base_annotation(field: FieldSpec) -> str:
    name = field.type.name
    if field.type.is_struct:
        return class_name(name)
    if name == "records" or (name == "bytes" and field.zero_copy):
        return "Buffer"
    known = {"bool": "bool", "float64": "float", "uuid": "UUID", "string": "str", "bytes": "bytes"}
    return known.get(name, "int")


def default_expression(field: FieldSpec, collections: dict[str, str]) -> str:
    """The field's default as an expression; a new object each time where it is mutable."""
    if field.default is None:
        return "None"
    if field.type.is_array:
        return f"{collections[field.type.name]}()" if field.type.name in collections else "[]"
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


def _field_default(field: FieldSpec, collections: dict[str, str]) -> str:
    """The default in the class's ``FIELDS``: a value, or the class that makes a new one."""
    default = default_expression(field, collections)
    return "list" if default == "[]" else default.removesuffix("()")


def _parameter(field: FieldSpec, collections: dict[str, str]) -> str:
    """Annotation and default of the field's parameter."""
    default = default_expression(field, collections)
    if field.type.is_array and field.type.name in collections:
        elements = f"Iterable[{class_name(field.type.name)}] | None"
        return f"{elements} = {'None' if default == 'None' else '()'}"
    return f"{annotation(field, collections)} = {'NEW' if default.endswith(('[]', '()')) else default}"


def _assigned(field: FieldSpec, collections: dict[str, str]) -> str:
    """What ``__init__`` assigns to the attribute."""
    name, default = attribute_name(field.name), default_expression(field, collections)
    if field.type.is_array and (collection := collections.get(field.type.name)):
        # A null that no version allows is refused by encoding, as for every other field.
        ignored = "" if may_be_null(field) else "  # type: ignore[assignment]"
        return f"None if {name} is None else {collection}({name}){ignored}"
    return f"{default} if {name} is NEW else {name}" if default.endswith(("[]", "()")) else name


def _about(field: FieldSpec) -> str:
    facts = [f"{field.type}, versions {field.versions}"]
    if field.nullable_versions:
        facts.append(f"nullable in {field.nullable_versions}")
    if field.tag is not None:
        facts.append(f"tag {field.tag} in {field.tagged_versions}")
    if field.ignorable:
        facts.append("dropped if the version does not have it")
    if field.entity_type:
        facts.append(f"a {field.entity_type}")
    about = field.about.strip()
    if about and about[-1] not in ".!?":
        about += "."
    return f"{about} ({'; '.join(facts)})".strip()
