"""The rules for valid specs that involve several keys or fields.

Every rule is one function that yields problems; all problems of a message are reported together. The rules
about structure (unknown structs, cycles) come first, because the other rules traverse it. Source: the rules
that Kafka's generator enforces, and a few that it does not check.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from codegen.errors import Problem
from codegen.model import PRIMITIVES, FieldSpec, MessageSpec, MessageType, StructSpec
from codegen.naming import attribute_name, snake_case
from codegen.parser import near
from codegen.versions import Versions

_LISTENERS = ("broker", "controller", "zkBroker")
_ENTITY_TYPES = {
    "transactionalId": "string",
    "producerId": "int64",
    "groupId": "string",
    "topicName": "string",
    "brokerId": "int32",
}
#: A use of a struct: its path, its fields, the versions in which it can occur, and whether it is inside of an
#: array.
_Place = tuple[str, tuple[FieldSpec, ...], Versions, bool]
_KEYED = (MessageType.REQUEST, MessageType.RESPONSE)
#: The highest API key, because keys are int16.
_HIGHEST_KEY = 32767


def check(spec: MessageSpec) -> list[Problem]:
    """All problems of one message, in the order of their lines."""
    checker = _Checker(spec)
    problems = [*checker.message(), *checker.structure()]
    if not problems:
        for path, fields, versions, in_array in checker.walk():
            problems += checker.struct(path, fields, versions, in_array)
    unique = list(dict.fromkeys(problems))
    return sorted(unique, key=lambda problem: problem.line)


@attrs.define
class _Checker:
    spec: MessageSpec
    common: dict[str, StructSpec] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.common = {struct.name: struct for struct in self.spec.common_structs}

    def problem(self, subject: str, reason: str, line: int) -> Problem:
        return Problem(self.spec.path, line, subject, reason)

    def at(self, key: str, subject: str, field: FieldSpec, reason: str) -> Problem:
        return self.problem(subject, reason, field.lines.get(key, field.line))

    # -- the message itself ------------------------------------------------------------------------------

    def message(self) -> Iterator[Problem]:
        spec = self.spec
        kind = spec.type.value

        def problem(key: str, reason: str) -> Problem:
            return self.problem(spec.name, reason, spec.lines.get(key, spec.line))

        if spec.type in _KEYED:
            if spec.api_key is None:
                yield problem("type", f'a {kind} needs an "apiKey"')
            elif not 0 <= spec.api_key <= _HIGHEST_KEY:
                yield problem("apiKey", f"an API key is between 0 and {_HIGHEST_KEY}, not {spec.api_key}")
            if not spec.name.endswith(kind.capitalize()):
                yield problem("name", f"the name of a {kind} must end with {kind.capitalize()}")
        elif spec.api_key is not None and spec.type in (MessageType.HEADER, MessageType.DATA):
            yield problem("apiKey", f'only requests and responses have an "apiKey"; this is a {kind} message')
        if spec.listeners and spec.type is not MessageType.REQUEST:
            yield problem("listeners", f"only requests have listeners; this is a {kind}")
        for listener in spec.listeners:
            if listener not in _LISTENERS:
                hint = near(listener, _LISTENERS) or f"; known are {', '.join(_LISTENERS)}"
                yield problem("listeners", f"unknown listener {listener!r}{hint}")
        if spec.valid_versions.is_open:
            yield problem(
                "validVersions", f"{spec.valid_versions} has no end; give the newest version, as in '0-3'"
            )
        if not spec.deprecated_versions <= spec.valid_versions:
            reason = (
                f"deprecated versions {spec.deprecated_versions} are not all valid ({spec.valid_versions})"
            )
            yield problem("deprecatedVersions", reason)
        if spec.flexible_versions and spec.valid_versions and not self.flexible:
            reason = f"no valid version ({spec.valid_versions}) is in {spec.flexible_versions}; write 'none'"
            if spec.flexible_versions.lowest != spec.valid_versions.highest + 1:
                yield problem("flexibleVersions", reason)

    @property
    def flexible(self) -> Versions:
        return self.spec.flexible_versions & self.spec.valid_versions

    # -- struct definitions ------------------------------------------------------------------------------

    def structure(self) -> Iterator[Problem]:
        seen: dict[str, int] = {self.spec.name: self.spec.line}
        for struct in self.spec.common_structs:
            yield from self.define(struct.name, f"{self.spec.name}", struct.line, seen)
        yield from self.fields_of(self.spec.name, self.spec.fields, seen)
        for struct in self.spec.common_structs:
            yield from self.fields_of(struct.name, struct.fields, seen)
        yield from self.cycles()

    def define(self, name: str, subject: str, line: int, seen: dict[str, int]) -> Iterator[Problem]:
        alike = next((other for other in seen if snake_case(other) == snake_case(name)), None)
        if alike is not None and name not in seen:
            reason = f"{alike} (line {seen[alike]}) and {name} are the same name in Python; rename one"
            yield self.problem(subject, reason, line)
        if name in seen:
            reason = f"the struct {name} is defined twice (first on line {seen[name]}); rename one"
            if name == self.spec.name:
                reason = f"the struct {name} has the name of the message; rename it"
            yield self.problem(subject, reason, line)
        seen.setdefault(name, line)

    def fields_of(self, path: str, fields: tuple[FieldSpec, ...], seen: dict[str, int]) -> Iterator[Problem]:
        for field in fields:
            subject = f"{path}.{field.name}"
            name = field.type.name
            if field.fields is not None:
                if not field.type.is_struct:
                    reason = f"a field of type {field.type} cannot have fields; make it a struct"
                    yield self.at("fields", subject, field, reason)
                    continue
                yield from self.define(name, subject, field.line, seen)
                yield from self.fields_of(subject, field.fields, seen)
            elif field.type.is_struct and name not in self.common:
                hint = near(name, [*self.common, *PRIMITIVES])
                if name in seen:
                    hint = "; move that struct to commonStructs to use it twice"
                reason = f'the struct {name} is not defined: add "fields", or name one of commonStructs{hint}'
                yield self.at("type", subject, field, reason)

    def cycles(self) -> Iterator[Problem]:
        done: set[str] = set()

        def visit(name: str, fields: tuple[FieldSpec, ...], trail: tuple[str, ...]) -> Iterator[Problem]:
            for field in fields:
                inner = field.fields
                struct = self.common.get(field.type.name)
                if inner is None and struct is not None:
                    if struct.name in trail:
                        way = " -> ".join([*trail[trail.index(struct.name) :], struct.name])
                        reason = f"the struct contains itself ({way}), so it would be infinite"
                        yield self.at("type", f"{name}.{field.name}", field, reason)
                    elif struct.name not in done:
                        yield from visit(struct.name, struct.fields, (*trail, struct.name))
                        done.add(struct.name)
                elif inner is not None:
                    yield from visit(f"{name}.{field.name}", inner, trail)

        yield from visit(self.spec.name, self.spec.fields, ())
        for struct in self.spec.common_structs:
            if struct.name not in done:
                yield from visit(struct.name, struct.fields, (struct.name,))

    # -- fields ------------------------------------------------------------------------------------------

    def walk(self) -> Iterator[_Place]:
        """Every use of every struct."""

        valid = self.spec.valid_versions

        def below(path: str, fields: tuple[FieldSpec, ...], versions: Versions) -> Iterator[_Place]:
            for field in fields:
                if not field.type.is_struct:
                    continue
                if field.fields is not None:
                    name, inner, reach = f"{path}.{field.name}", field.fields, versions & field.versions
                else:
                    struct = self.common[field.type.name]
                    name, inner, reach = struct.name, struct.fields, valid & struct.versions
                yield name, inner, reach, field.type.is_array
                yield from below(name, inner, reach)

        yield self.spec.name, self.spec.fields, valid, False
        yield from below(self.spec.name, self.spec.fields, valid)

    def struct(
        self, path: str, fields: tuple[FieldSpec, ...], versions: Versions, in_array: bool
    ) -> Iterator[Problem]:
        names: dict[str, FieldSpec] = {}
        for field in fields:
            subject = f"{path}.{field.name}"
            other = names.setdefault(attribute_name(field.name), field)
            if other is not field:
                reason = f"the field is defined twice (first on line {other.line})"
                if other.name != field.name:
                    reason = f"{other.name} (line {other.line}) and {field.name} are the same name in Python"
                yield self.problem(subject, reason, field.line)
            yield from self.versions(subject, field, versions)
            yield from self.nullability(subject, field)
            yield from self.tagging(subject, field)
            yield from self.marks(subject, field, is_message=path == self.spec.name)
        yield from self.tags(path, fields)
        if in_array:
            yield from self.empty_elements(path, fields, versions)

    def versions(self, subject: str, field: FieldSpec, parent: Versions) -> Iterator[Problem]:
        valid = self.spec.valid_versions
        if not field.versions:
            yield self.at("versions", subject, field, "the field is in no version; remove it")
        elif valid and not field.versions & parent and field.versions.highest >= valid.lowest:
            # Kafka keeps fields of versions that it has removed; these are older than any valid version.
            where = f"what contains it ({parent})" if parent != valid else f"the message ({valid})"
            reason = f"the field is in versions {field.versions}, which {where} does not have"
            yield self.at("versions", subject, field, reason)
        elif valid and not field.versions.is_open and field.versions.highest > valid.highest:
            reason = (
                f"versions {field.versions} go beyond the valid ones ({valid}); leave the end open with +"
            )
            yield self.at("versions", subject, field, reason)
        common = self.common.get(field.type.name) if field.fields is None else None
        if common is not None and not field.versions & parent <= common.versions:
            reason = (
                f"the field is in versions {field.versions & parent}, but {common.name} in {common.versions}"
            )
            yield self.at("versions", subject, field, reason)
        if field.nullable_versions and not field.nullable_versions & field.versions:
            reason = (
                f'"nullableVersions" {field.nullable_versions} and "versions" {field.versions} do not overlap'
            )
            yield self.at("nullableVersions", subject, field, reason)
        if not field.tagged_versions & valid <= field.versions:
            reason = f'"taggedVersions" {field.tagged_versions} goes beyond "versions" {field.versions}'
            yield self.at("taggedVersions", subject, field, reason)

    def nullability(self, subject: str, field: FieldSpec) -> Iterator[Problem]:
        if field.nullable_versions and not field.type.can_be_null:
            reason = f"the type {field.type} has no null; strings, bytes, records, arrays and structs do"
            yield self.at("nullableVersions", subject, field, reason)
        elif field.default is None:
            present = field.versions & self.spec.valid_versions
            if not field.nullable_versions:
                yield self.at("default", subject, field, 'the default is null; that needs "nullableVersions"')
            elif not present <= field.nullable_versions:
                nullable = field.nullable_versions
                reason = f"the default is null, but not all of versions {present} are nullable ({nullable})"
                yield self.at("default", subject, field, reason)

    def tagging(self, subject: str, field: FieldSpec) -> Iterator[Problem]:
        tagged = field.tagged_versions
        if field.tag is None:
            if tagged:
                yield self.at("taggedVersions", subject, field, '"taggedVersions" needs a "tag"')
            return
        if field.tag < 0:
            yield self.at("tag", subject, field, f"the first tag is 0, not {field.tag}")
        if not tagged:
            yield self.at("tag", subject, field, 'a "tag" needs "taggedVersions"')
        elif not tagged.is_open and tagged.highest != self.spec.flexible_versions.highest:
            reason = f"{tagged} has an end; a tagged field stays tagged, so write '{tagged.lowest}+'"
            yield self.at("taggedVersions", subject, field, reason)
        elif not tagged & self.spec.valid_versions <= self.spec.flexible_versions:
            reason = f"tagged in {tagged}, but only versions {self.flexible} are flexible and can have tags"
            yield self.at("taggedVersions", subject, field, reason)

    def tags(self, path: str, fields: tuple[FieldSpec, ...]) -> Iterator[Problem]:
        """Tags are unique and without gaps."""
        taken: dict[int, FieldSpec] = {}
        for field in fields:
            if field.tag is None:
                continue
            other = taken.setdefault(field.tag, field)
            if other is not field:
                reason = f"tag {field.tag} already belongs to {other.name} (line {other.line})"
                yield self.at("tag", f"{path}.{field.name}", field, reason)
        for expected, tag in enumerate(sorted(taken)):
            if tag != expected and tag >= 0:
                reason = f"tag {expected} is not used yet; use it before tag {tag}"
                yield self.at("tag", f"{path}.{taken[tag].name}", taken[tag], reason)
                break

    def marks(self, subject: str, field: FieldSpec, is_message: bool) -> Iterator[Problem]:
        if field.zero_copy and (field.type.name != "bytes" or field.type.is_array):
            yield self.at("zeroCopy", subject, field, f"only bytes can be zeroCopy, not {field.type}")
        if field.flexible_versions is not None and not field.type.has_length_prefix:
            reason = f"a field of type {field.type} has no length, so it is the same in flexible versions"
            yield self.at("flexibleVersions", subject, field, reason)
        if field.map_key and (is_message or field.type.is_array or field.type.is_struct):
            reason = "only plain fields of structs inside arrays can be map keys"
            yield self.at("mapKey", subject, field, reason)
        if field.entity_type is not None:
            wanted = _ENTITY_TYPES.get(field.entity_type)
            if wanted is None:
                hint = near(field.entity_type, _ENTITY_TYPES) or f"; known are {', '.join(_ENTITY_TYPES)}"
                reason = f"unknown entity type {field.entity_type!r}{hint}"
                yield self.at("entityType", subject, field, reason)
            elif field.type.name != wanted:
                reason = f"a {field.entity_type} is of type {wanted}, not {field.type.name}"
                yield self.at("entityType", subject, field, reason)

    def empty_elements(
        self, path: str, fields: tuple[FieldSpec, ...], versions: Versions
    ) -> Iterator[Problem]:
        """Elements without bytes would allow a length to claim any number of them."""
        for version in versions & self.spec.valid_versions:
            if version not in self.spec.flexible_versions and not any(version in f.versions for f in fields):
                line = fields[0].line if fields else self.spec.line
                reason = f"the struct has no fields in version {version}, so an array of it has no limit"
                yield self.problem(path, reason, line)
                return
