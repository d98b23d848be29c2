"""Compares two folders of specs and reports each incompatible change.

The meaning of the bytes of a released version must never change. So the wire layouts of each old version are
compared, including the names, because callers use them. Besides, tags are never reused, and versions are
removed only after they were deprecated. Source: Kafka's rules for changing its specs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from codegen.model import FieldSpec, MessageSpec, StructSpec
from codegen.versions import Versions


@attrs.frozen
class Change:
    """One incompatible change: where, what, and in which versions (empty: in all of them)."""

    path: str
    line: int
    subject: str
    reason: str
    versions: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = f" (in {_in_words(self.versions)})" if self.versions else ""
        return f"{self.path}:{self.line}: {self.subject}: {self.reason}{where}"


@attrs.frozen
class _Found:
    """A change in one version, before equal changes are merged."""

    line: int
    subject: str
    reason: str


def incompatible_changes(old: Sequence[MessageSpec], new: Sequence[MessageSpec]) -> list[Change]:
    """All incompatible changes from one set of checked specs to another, by message and line."""
    by_name = {spec.name: spec for spec in new}
    changes: list[Change] = []
    for before in old:
        after = by_name.get(before.name)
        if after is None:
            reason = "the message was removed; deprecate its versions first, then make validVersions 'none'"
            changes.append(Change(before.path, before.line, before.name, reason))
        else:
            changes += sorted(_message(before, after), key=lambda change: change.line)
    return changes


def _message(old: MessageSpec, new: MessageSpec) -> Iterator[Change]:
    def change(key: str, reason: str) -> Change:
        return Change(new.path, new.lines.get(key, new.line), new.name, reason)

    if old.type is not new.type:
        yield change("type", f"the {old.type.value} is now a {new.type.value}")
    if old.api_key != new.api_key:
        yield change("apiKey", f"the API key has changed from {old.api_key} to {new.api_key}")
    for listener in old.listeners:
        if listener not in new.listeners:
            yield change("listeners", f"the listener {listener} was removed")
    stable = _stable(old)
    gone = tuple(v for v in stable if v not in new.valid_versions and v not in old.deprecated_versions)
    if gone:
        verb = "was" if len(gone) == 1 else "were"
        reason = f"{_in_words(gone)} {verb} removed without deprecation"
        yield change("validVersions", reason)
    yield from _tags(old, new)
    shared = [version for version in stable if version in new.valid_versions]
    flexible = tuple(v for v in shared if (v in old.flexible_versions) is not (v in new.flexible_versions))
    if flexible:
        verb = "was" if len(flexible) == 1 else "were"
        state = "flexible" if flexible[0] in old.flexible_versions else "not flexible"
        reason = f"{_in_words(flexible)} {verb} {state}; this cannot change"
        yield change("flexibleVersions", reason)
    found: dict[_Found, list[int]] = {}
    for version in shared:
        if version not in flexible:
            for item in _Layouts(old, new, version).compare():
                found.setdefault(item, []).append(version)
    for item, versions in found.items():
        everywhere = versions == shared
        shown = () if everywhere else tuple(versions)
        yield Change(new.path, item.line, item.subject, item.reason, shown)


def _stable(spec: MessageSpec) -> list[int]:
    """The released versions: without the latest one if it is marked unstable."""
    versions = list(spec.valid_versions)
    return versions[:-1] if spec.latest_version_unstable else versions


def _tags(old: MessageSpec, new: MessageSpec) -> Iterator[Change]:
    """Tags that were reused for another field, in any version."""
    new_structs = {new.name: _root(new), **new.structs()}
    for name, struct in {old.name: _root(old), **old.structs()}.items():
        if name not in new_structs:
            continue
        taken = {field.tag: field for field in new_structs[name].fields if field.tag is not None}
        names = {field.name for field in new_structs[name].fields}
        for field in struct.fields:
            if field.tag is None:
                continue
            other = taken.get(field.tag)
            subject = name if name == new.name else f"{new.name}.{name}"
            if other is not None and other.name != field.name:
                reason = f"tag {field.tag} was {field.name}'s and cannot be used again"
                line = other.lines.get("tag", other.line)
                yield Change(new.path, line, f"{subject}.{other.name}", reason)
            elif other is None and field.name not in names:
                line = new_structs[name].line
                reason = f"the tagged field {field.name} was removed, so tag {field.tag} could be used again"
                yield Change(new.path, line, subject, f"{reason}; keep it and end its versions")


def _root(spec: MessageSpec) -> StructSpec:
    return StructSpec(spec.name, spec.valid_versions, spec.fields, spec.line)


class _Layouts:
    """One version of a message, as the old and as the new specs describe it."""

    def __init__(self, old: MessageSpec, new: MessageSpec, version: int) -> None:
        self.old = old
        self.new = new
        self.old_structs = old.structs()
        self.new_structs = new.structs()
        self.version = version

    def compare(self) -> Iterator[_Found]:
        yield from self.struct(self.new.name, _root(self.old), _root(self.new))

    def struct(self, path: str, old: StructSpec, new: StructSpec) -> Iterator[_Found]:
        before, after = self.present(old), self.present(new)
        old_names = {field.name: field for field in before}
        new_names = {field.name: field for field in after}
        renamed = self.renamed(before, after)
        for field in before:
            if field.name not in new_names and field.name not in renamed:
                yield _Found(new.line, path, f"the field {field.name} was removed")
        for field in after:
            subject = f"{path}.{field.name}"
            other = old_names.get(field.name)
            if other is None and (was := _key_of(renamed, field.name)):
                reason = f"the field was renamed from {was}: the bytes are the same, but callers break"
                yield _Found(field.lines.get("name", field.line), subject, reason)
                other = old_names[was]
            if other is None:
                yield _Found(field.line, subject, "the field was added to a version that already exists")
            else:
                yield from self.field(subject, other, field)
        yield from self.order(path, before, after)
        yield from self.ignorable(path, old, new)

    def ignorable(self, path: str, old: StructSpec, new: StructSpec) -> Iterator[_Found]:
        """Fields that were ignorable in versions without them and no longer are."""
        dropped = {
            field.name for field in old.fields if field.ignorable and self.version not in field.versions
        }
        for field in new.fields:
            if field.name in dropped and not field.ignorable and self.version not in field.versions:
                reason = "the field is no longer ignorable, so messages that set it fail"
                yield _Found(field.lines.get("ignorable", field.line), f"{path}.{field.name}", reason)

    def present(self, struct: StructSpec) -> list[FieldSpec]:
        return [field for field in struct.fields if self.version in field.versions]

    def renamed(self, before: list[FieldSpec], after: list[FieldSpec]) -> dict[str, str]:
        """Old name to new name of the fields that were only renamed."""
        if len(before) != len(after):
            return {}
        old_names = {field.name for field in before}
        new_names = {field.name for field in after}
        return {
            a.name: b.name
            for a, b in zip(before, after, strict=True)
            if a.name not in new_names and b.name not in old_names and str(a.type) == str(b.type)
        }

    def order(self, path: str, before: list[FieldSpec], after: list[FieldSpec]) -> Iterator[_Found]:
        """Fields in another order, except tagged ones, which are sorted by their tags."""
        shared = {field.name for field in before} & {field.name for field in after}
        old = [field.name for field in before if self.is_plain(field) and field.name in shared]
        new = [field for field in after if self.is_plain(field) and field.name in shared]
        if sorted(old) != sorted(field.name for field in new):
            return
        for was, field in zip(old, new, strict=True):
            if was != field.name:
                yield _Found(
                    field.line, f"{path}.{field.name}", f"the field has the former position of {was}"
                )
                return

    def is_plain(self, field: FieldSpec) -> bool:
        return self.version not in field.tagged_versions

    def field(self, subject: str, old: FieldSpec, new: FieldSpec) -> Iterator[_Found]:
        def found(key: str, reason: str) -> _Found:
            return _Found(new.lines.get(key, new.line), subject, reason)

        version = self.version
        if _shape(old) != _shape(new):
            yield found("type", f"the type has changed from {old.type} to {new.type}")
        elif old.type.is_struct:
            if old.type.name != new.type.name:
                yield found("type", f"the struct {old.type.name} is now called {new.type.name}")
            yield from self.struct(subject, self.old_structs[old.type.name], self.new_structs[new.type.name])
        if version in old.nullable_versions and version not in new.nullable_versions:
            yield found("nullableVersions", "the field may no longer be null")
        if version in new.nullable_versions and version not in old.nullable_versions:
            yield found("nullableVersions", "the field may now be null, which old readers refuse")
        yield from self.tagging(old, new, found)
        if _shape(old) == _shape(new) and _flexible(old, self.old, version) != _flexible(
            new, self.new, version
        ):
            yield found("flexibleVersions", "the length has another encoding")
        if old.map_key is not new.map_key:
            yield found("mapKey", f"the field is {'no longer' if old.map_key else 'now'} a map key")

    def tagging(
        self, old: FieldSpec, new: FieldSpec, found: Callable[[str, str], _Found]
    ) -> Iterator[_Found]:
        if self.is_plain(old) is not self.is_plain(new):
            was, now = ("plain", "tagged") if self.is_plain(old) else ("tagged", "plain")
            yield found("taggedVersions", f"the field was {was} and is now {now}")
        elif not self.is_plain(old):
            if old.tag != new.tag:
                yield found("tag", f"the tag has changed from {old.tag} to {new.tag}")
            if old.default != new.default:
                reason = f"the default has changed from {old.default!r} to {new.default!r}"
                yield found("default", f"{reason}, and an absent tagged field means its default")


def _shape(field: FieldSpec) -> tuple[bool, str]:
    """The type on the wire: structs are compared by their fields, not by their names."""
    name = "struct" if field.type.is_struct else field.type.name
    # records and bytes travel in the same form.
    return field.type.is_array, "bytes" if name == "records" else name


def _flexible(field: FieldSpec, spec: MessageSpec, version: int) -> bool:
    versions = spec.flexible_versions if field.flexible_versions is None else field.flexible_versions
    return field.type.has_length_prefix and version in versions


def _key_of(renamed: dict[str, str], value: str) -> str:
    return next((key for key, name in renamed.items() if name == value), "")


def _in_words(versions: Sequence[int]) -> str:
    """``version 3``, ``versions 3-5``, ``versions 3-5 and 8``."""
    runs: list[Versions] = []
    for version in versions:
        if runs and runs[-1].highest == version - 1:
            runs[-1] = Versions(runs[-1].lowest, version)
        else:
            runs.append(Versions(version, version))
    shown = " and ".join(str(run) for run in runs)
    return f"version{'s' * (len(versions) > 1)} {shown}"
