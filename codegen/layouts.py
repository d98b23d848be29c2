"""The wire layout of a struct in a run of versions, as one line of text.

The compiled decoders (runtime/_native.pyx) interpret these lines. They list the fields in wire order as
``attribute:type``, with the type names of the Kafka protocol guide. ``tags`` ends the struct of a flexible
version; it is followed by the tagged fields, ``tag=attribute:type``, and the tags of fields that are not
tagged in this version, ``tag=refused``. All other attributes get their defaults.
"""

from __future__ import annotations

from codegen.model import FIXED_FORMATS
from codegen.steps import Group, Single, Step, Tags, Value

_FIXED_NAMES = {code: name for name, code in FIXED_FORMATS.items()}


def layout_of(steps: tuple[Step, ...]) -> str:
    """The line for the steps of one struct."""
    parts: list[str] = []
    for step in steps:
        if isinstance(step, Group):
            parts += [_field(value) for value in step.values]
        elif isinstance(step, Single):
            parts.append(_field(step.value))
        elif isinstance(step, Tags):
            parts.append("tags")
            parts += [f"{tagged.tag}={_field(tagged.value)}" for tagged in step.fields]
            parts += [f"{tag}=refused" for tag in step.misplaced]
    return " ".join(parts)


def _field(value: Value) -> str:
    compact = "compact_" if value.compact else ""
    nullable = "nullable_" if value.nullable else ""
    return f"{value.attribute}:{compact}{nullable}{_type(value)}"


def _type(value: Value) -> str:
    if value.kind in ("fixed", "uuid"):
        return _FIXED_NAMES[value.code]
    if value.kind == "struct":
        return f"struct({value.functions})"
    if value.element is None:
        return value.kind
    element = value.element
    return f"array({element.functions if element.kind == 'struct' else _type(element)})"
