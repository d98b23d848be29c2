"""Plans the generated code: one straight-line list of steps per version.

The templates get steps with complete names and expressions and know nothing of versions. Versions whose lists
are equal share their functions. A step list never depends on the order of a set, or of a dict other than the
spec's own, so the same specs give the same plan.
Source: KIP-482 (flexible versions) and the encoding rules of the Kafka protocol guide.
"""

from __future__ import annotations

import attrs

from codegen.classes import ClassPlan, collection_names, default_expression, may_be_null, plan_class
from codegen.model import FIXED_FORMATS, FieldSpec, FieldType, MessageSpec, StructSpec
from codegen.naming import attribute_name, class_name, local_name, module_name, snake_case
from codegen.steps import Absent, Group, Single, Step, Tagged, Tags, Value, packing, struct_name, width_of
from codegen.versions import Versions


@attrs.frozen
class CodecPlan:
    """Encoder, decoder and size of one struct for a run of versions in which they are the same."""

    class_name: str
    functions: str = attrs.field(eq=False)
    versions: Versions = attrs.field(eq=False)
    flexible: bool
    decode: tuple[Step, ...]
    encode: tuple[Step, ...]
    base_size: int
    sized: tuple[Value, ...]
    minimum: int
    gathers: bool

    @property
    def title(self) -> str:
        """The versions in words."""
        low, high = self.versions.lowest, self.versions.highest
        return f"Version {low}." if low == high else f"Versions {low}-{high}."

    @property
    def all_values(self) -> list[Value]:
        """All values except plain fixed-size fields, including the tagged ones."""
        values = [step.value for step in self.encode if isinstance(step, Single)]
        return values + [field.value for field in (self.tags.fields if self.tags else ())]

    @property
    def has_loop(self) -> bool:
        """Whether encoding loops over elements itself; structs in arrays have functions for this."""
        elements = [value.element for value in self.all_values if value.kind == "array"]
        return any(element is not None and element.kind != "struct" for element in elements)

    @property
    def can_fail(self) -> bool:
        """Whether decoding reads anything."""
        return any(not isinstance(step, Absent) for step in self.decode)

    @property
    def encodes_anything(self) -> bool:
        """Whether encoding writes or checks anything."""
        return bool(self.absent) or any(not isinstance(step, Absent) for step in self.encode)

    @property
    def absent(self) -> tuple[Absent, ...]:
        """Fields to be checked before anything is written."""
        return tuple(s for s in self.encode if isinstance(s, Absent) and not s.ignorable)

    @property
    def tags(self) -> Tags | None:
        """The tagged fields, if the version is flexible."""
        return next((step for step in self.encode if isinstance(step, Tags)), None)


@attrs.frozen
class ModulePlan:
    """One generated module."""

    name: str
    message: MessageSpec
    message_class: str
    classes: tuple[ClassPlan, ...]
    codecs: tuple[CodecPlan, ...]
    #: For the message itself: pairs of a version and the codec that serves it.
    table: tuple[tuple[int, CodecPlan], ...]

    @property
    def structs(self) -> tuple[tuple[str, str], ...]:
        """Names and formats of all module-level Structs, sorted."""
        codes = {"h", "i"}
        for codec in self.codecs:
            groups = [step for step in codec.decode + codec.encode if isinstance(step, Group)]
            codes |= {group.code for group in groups} | {packing(group.code) for group in groups}
            codes |= {packing(f.value.code) for f in (codec.tags.fields if codec.tags else ())}
        codes |= {
            value.element.code for value in self._values() if value.element and value.element.kind == "uuid"
        }
        return tuple((struct_name(code), code) for code in sorted(codes) if code != "?")

    @property
    def used_alone(self) -> frozenset[str]:
        """Codecs of one struct at a time: the message's own, and those of single struct fields."""
        single = {value.functions for value in self._values() if value.kind == "struct"}
        return frozenset(single | {codec.functions for _, codec in self.table})

    @property
    def used_in_lists(self) -> frozenset[str]:
        """Codecs of the elements of arrays."""
        elements = [value.element for value in self._values() if value.element is not None]
        return frozenset(element.functions for element in elements if element.kind == "struct")

    def _values(self) -> list[Value]:
        return [value for codec in self.codecs for value in codec.all_values]

    @property
    def default_structs(self) -> tuple[str, ...]:
        """Structs of which a default instance is kept, to compare fields with."""
        text = "".join(step.differs for codec in self.codecs for step in codec.absent)
        text += "".join(f.differs for codec in self.codecs if codec.tags for f in codec.tags.fields)
        return tuple(c.name for c in self.classes if f"_DEFAULT_{snake_case(c.spec_name).upper()}" in text)

    @property
    def gathers(self) -> bool:
        """Whether any version has a field that is passed by reference."""
        return any(codec.gathers for codec in self.codecs)


def plan_module(spec: MessageSpec) -> ModulePlan:
    """Plan the module of one message that passed the checks."""
    return _Planner(spec).module()


class _Planner:
    def __init__(self, spec: MessageSpec) -> None:
        self.spec = spec
        self.structs = spec.structs()
        self.collections = collection_names(self.structs)
        self.codecs: list[CodecPlan] = []
        self.found: dict[tuple[str, int], CodecPlan] = {}

    def module(self) -> ModulePlan:
        spec = self.spec
        root = StructSpec(spec.name, spec.valid_versions, spec.fields, spec.line)
        table = []
        for version in spec.valid_versions:
            for struct_spec in self.structs.values():
                if self.is_used(struct_spec.name, version):
                    self.plan_codec(struct_spec, version)
            table.append((version, self.plan_codec(root, version)))
        # A merged run of versions replaces its first part; the table must name the final plans.
        final = {codec.functions: codec for codec in self.codecs}
        order = [*self.structs, root.name]
        names = [class_name(name) for name in order]
        codecs = sorted(final.values(), key=lambda c: (names.index(c.class_name), c.versions.lowest))
        return ModulePlan(
            name=module_name(spec.name),
            message=spec,
            message_class=class_name(spec.name),
            classes=tuple(plan_class(s, self.collections) for s in [*self.structs.values(), root]),
            codecs=tuple(codecs),
            table=tuple((version, final[codec.functions]) for version, codec in table),
        )

    def is_used(self, name: str, version: int) -> bool:
        """Whether any field holds this struct in this version, seen from the message down."""

        def search(fields: tuple[FieldSpec, ...]) -> bool:
            for field in fields:
                if version not in field.versions or not field.type.is_struct:
                    continue
                if field.type.name == name or search(self.structs[field.type.name].fields):
                    return True
            return False

        return search(self.spec.fields)

    def plan_codec(self, spec: StructSpec, version: int) -> CodecPlan:
        flexible = version in self.spec.flexible_versions
        present = [f for f in spec.fields if version in f.versions and version not in f.tagged_versions]
        tagged = [f for f in spec.fields if version in f.versions and version in f.tagged_versions]
        tagged.sort(key=lambda field: field.tag or 0)
        values = [self.value(field, version) for field in present]
        absent = [self.absent(f, version) for f in spec.fields if version not in f.versions]
        other = [f.tag for f in spec.fields if f.tag is not None and version not in f.tagged_versions]
        tags = self.tags(tagged, sorted(other), version) if flexible else None
        if not flexible:
            absent.append(self.absent_tags())
        steps = _encode_steps(values)
        minimum = sum(_minimum(value) for value in values) + flexible
        plan = CodecPlan(
            class_name=class_name(spec.name),
            functions=f"{snake_case(spec.name)}_v{version}",
            versions=Versions(version, version),
            flexible=flexible,
            decode=(*absent, *_decode_steps(values, tags)),
            encode=(*absent, *steps, *((tags,) if tags else ())),
            base_size=sum(value.base_size for value in values) + flexible,
            sized=tuple(value for value in values if value.kind not in ("fixed", "uuid")),
            minimum=minimum,
            gathers=False,
        )
        plan = attrs.evolve(plan, gathers=any(value.gathers for value in plan.all_values))
        return self.merge(spec.name, version, plan)

    def merge(self, name: str, version: int, plan: CodecPlan) -> CodecPlan:
        """Let a version share the functions of the one before it if nothing differs."""
        before = self.found.get((name, version - 1))
        if before is not None and before == plan:
            plan = attrs.evolve(before, versions=Versions(before.versions.lowest, version))
            self.codecs[:] = [plan if codec.functions == plan.functions else codec for codec in self.codecs]
        else:
            self.codecs.append(plan)
        self.found[name, version] = plan
        return plan

    def value(self, field: FieldSpec, version: int) -> Value:
        attribute = attribute_name(field.name)
        flexible = self.spec.flexible_versions if field.flexible_versions is None else field.flexible_versions
        value = self.typed(
            field.type,
            attribute,
            local_name(attribute),
            compact=version in flexible,
            nullable=version in field.nullable_versions,
            version=version,
            zero_copy=field.zero_copy,
        )
        return attrs.evolve(value, guarded=may_be_null(field) and not value.nullable)

    def typed(
        self,
        kind: FieldType,
        attribute: str,
        local: str,
        *,
        compact: bool,
        nullable: bool,
        version: int,
        zero_copy: bool = False,
    ) -> Value:
        if kind.is_array:
            element = self.typed(
                FieldType(kind.name), "", local + "_element", compact=compact, nullable=False, version=version
            )
            return Value(
                kind="numbers" if element.kind == "fixed" else "array",
                attribute=attribute,
                local=local,
                annotation=self.collections.get(kind.name) or f"list[{element.annotation}]",
                empty=f"{self.collections[kind.name]}()" if kind.name in self.collections else "[]",
                code=element.code,
                compact=compact,
                nullable=nullable,
                gathers=element.gathers,
                element=element,
                minimum=element.minimum,
            )
        if kind.is_struct:
            codec = self.found[kind.name, version]
            return Value(
                kind="struct",
                attribute=attribute,
                local=local,
                annotation=codec.class_name,
                nullable=nullable,
                functions=codec.functions,
                gathers=codec.gathers,
                minimum=codec.minimum,
            )
        if kind.name in FIXED_FORMATS:
            code = FIXED_FORMATS[kind.name]
            name = "uuid" if kind.name == "uuid" else "fixed"
            annotations = {"?": "bool", "d": "float", "16s": "UUID"}
            return Value(name, attribute, local, annotations.get(code, "int"), code, minimum=width_of(code))
        view = kind.name == "records" or zero_copy
        name = "view" if view else kind.name
        annotation = {"string": "str", "bytes": "bytes", "view": "Buffer"}[name]
        value = Value(name, attribute, local, annotation, "", compact, nullable, gathers=view)
        return attrs.evolve(value, minimum=value.prefix_width)

    def absent(self, field: FieldSpec, version: int) -> Absent:
        attribute = attribute_name(field.name)
        return Absent(
            attribute=attribute,
            local=local_name(attribute),
            annotation="",
            default=default_expression(field, self.collections),
            differs=differs_expression(field, f"item.{attribute}"),
            versions=str(field.versions & self.spec.valid_versions or field.versions),
            ignorable=field.ignorable,
        )

    def absent_tags(self) -> Absent:
        """Unknown tagged fields, in a version that cannot have any."""
        name = "unknown_tagged_fields"
        flexible = self.spec.flexible_versions & self.spec.valid_versions
        return Absent(name, name, "", "None", f"item.{name}", str(flexible), ignorable=False)

    def tags(self, fields: list[FieldSpec], misplaced: list[int], version: int) -> Tags:
        known = []
        low = 0
        for field in fields:
            assert field.tag is not None
            value = attrs.evolve(self.value(field, version), tagged=True)
            known.append(
                Tagged(
                    tag=field.tag,
                    value=value,
                    default=default_expression(field, self.collections),
                    differs=differs_expression(field, value.access),
                    gap_from=low if low < field.tag else None,
                )
            )
            low = field.tag + 1
        return Tags(tuple(known), tuple(misplaced))


def differs_expression(field: FieldSpec, access: str) -> str:
    """The condition under which a field does not have its default."""
    if field.default is None:
        return f"{access} is not None"
    if field.type.is_array:
        return f"({access} is None or len({access}) > 0)"
    if field.type.is_struct:
        return f"{access} != _DEFAULT_{snake_case(field.type.name).upper()}"
    if field.type.name in ("bytes", "records"):
        return f"({access} is None or len({access}) > 0)"
    if field.type.name == "bool":
        return f"not {access}" if field.default else access
    return f"{access} != {default_expression(field, {})}"


def _minimum(value: Value) -> int:
    """The minimum size of a field in bytes."""
    if value.kind in ("fixed", "uuid"):
        return value.width
    if value.kind == "struct":
        return 1 if value.nullable else value.minimum
    return value.prefix_width


def _encode_steps(values: list[Value]) -> list[Step]:
    steps: list[Step] = []
    group: list[Value] = []
    for value in values:
        if value.kind in ("fixed", "uuid"):
            group.append(value)
            continue
        if group:
            steps.append(Group(tuple(group)))
            group = []
        steps.append(Single(value))
    if group:
        steps.append(Group(tuple(group)))
    return steps


def _decode_steps(values: list[Value], tags: Tags | None) -> list[Step]:
    """As encoding, but a group also reads the length prefix, or the tag count, that follows it."""
    steps: list[Step] = []
    for step in [*_encode_steps(values), *((tags,) if tags else ())]:
        before = steps[-1] if steps else None
        if isinstance(before, Group) and isinstance(step, Single) and step.value.kind != "struct":
            steps[-1] = attrs.evolve(before, prefix=step.value.prefix, prefix_of=step.value.attribute)
            step = Single(step.value, prefix_read=True)
        elif isinstance(before, Group) and isinstance(step, Tags):
            steps[-1] = attrs.evolve(before, prefix="B", prefix_of="tagged_fields")
            step = attrs.evolve(step, prefix_read=True)
        steps.append(step)
    return steps
