"""What a fake schema registry stores: schemas, subjects, levels, associations. Knows no HTTP.

Source: Confluent Schema Registry API reference (error codes, compatibility levels).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from kproducer.testing.schema_registry.avro_resolution import mistakes_of_reading

_TYPES = ("AVRO", "PROTOBUF", "JSON")
_LEVELS = (
    "NONE",
    *(
        f"{direction}{suffix}"
        for direction in ("BACKWARD", "FORWARD", "FULL")
        for suffix in ("", "_TRANSITIVE")
    ),
)
_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}

#: A schema as JSON, with ``id``, ``guid``, ``subject`` and ``version``.
Entry = dict[str, Any]


class RefusedError(Exception):
    """The answer to a request that the registry refuses."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class SchemaStore:
    """The contents of a registry. Not thread-safe."""

    def __init__(self, compatibility: str = "BACKWARD") -> None:
        if compatibility not in _LEVELS:
            raise ValueError(f"compatibility must be one of {', '.join(_LEVELS)}, not {compatibility!r}")
        self._ids: dict[str, int] = {}
        self._by_id: dict[int, Entry] = {}
        self._subjects: dict[str, list[Entry]] = {}
        #: How many versions of a subject are deleted: the oldest ones.
        self._deleted: dict[str, int] = {}
        self._levels: dict[str, str] = {"": compatibility}
        self._associations: list[dict[str, Any]] = []

    def register(self, subject: str, body: Any, normalize: bool) -> Entry:
        """Register a schema, or find it."""
        schema = self._checked(body)
        found = self._find(subject, schema, normalize, deleted=False)
        if found is not None:
            return found
        mistakes = self.mistakes_against(subject, schema, None)
        if mistakes:
            raise RefusedError(409, 409, f"Schema being registered is incompatible: {'; '.join(mistakes)}")
        if normalize and schema["schemaType"] != "PROTOBUF":
            schema["schema"] = _normalized(schema["schema"])
        contents = json.dumps(schema, sort_keys=True)
        schema_id = self._ids.setdefault(contents, len(self._ids) + 1)
        digest = hashlib.sha256(contents.encode()).digest()
        versions = self._subjects.setdefault(subject, [])
        entry = {
            **schema,
            "id": schema_id,
            "guid": str(uuid.UUID(bytes=digest[:16])),
            "subject": subject,
            "version": len(versions) + 1,
        }
        self._by_id.setdefault(schema_id, entry)
        versions.append(entry)
        return entry

    def look_up(self, subject: str, body: Any, normalize: bool, deleted: bool) -> Entry:
        """Find a schema under a subject."""
        self.versions(subject, deleted)
        found = self._find(subject, self._checked(body), normalize, deleted)
        if found is None:
            raise RefusedError(404, 40403, "Schema not found")
        return found

    def by_id(self, schema_id: int) -> Entry:
        """The schema with an id."""
        if schema_id not in self._by_id:
            raise RefusedError(404, 40403, f"Schema {schema_id} not found")
        return self._by_id[schema_id]

    def by_guid(self, guid: str) -> Entry:
        """The schema with a GUID."""
        for entry in self._by_id.values():
            if entry["guid"] == guid:
                return entry
        raise RefusedError(404, 40403, f"Schema {guid} not found")

    def subjects(self) -> list[str]:
        """All subjects that have versions."""
        return sorted(subject for subject in self._subjects if self._versions(subject))

    def versions(self, subject: str, deleted: bool = False) -> list[Entry]:
        """The versions under a subject."""
        found = self._versions(subject, deleted)
        if not found:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        return found

    def _versions(self, subject: str, deleted: bool = False) -> list[Entry]:
        return self._subjects.get(subject, [])[0 if deleted else self._deleted.get(subject, 0) :]

    def version(self, subject: str, version: str, deleted: bool = False) -> Entry:
        """One version; ``latest`` for the newest."""
        versions = self.versions(subject, deleted)
        if version in ("latest", "-1"):
            return versions[-1]
        if not version.isdigit() or version == "0":
            raise RefusedError(422, 42202, f"The specified version '{version}' is not a valid version id.")
        for entry in versions:
            if entry["version"] == int(version):
                return entry
        raise RefusedError(404, 40402, f"Version {version} not found.")

    def with_metadata(self, subject: str, wanted: dict[str, str], deleted: bool) -> Entry:
        """The newest version whose metadata has these properties."""
        for entry in reversed(self.versions(subject, deleted)):
            properties = (entry.get("metadata") or {}).get("properties") or {}
            if wanted.items() <= properties.items():
                return entry
        raise RefusedError(404, 40403, "Schema not found")

    def delete(self, subject: str) -> list[int]:
        """Delete all versions of a subject; they stay readable by id."""
        versions = self.versions(subject)
        self._deleted[subject] = len(self._subjects[subject])
        return [entry["version"] for entry in versions]

    def level(self, subject: str) -> str:
        """The level of compatibility of a subject."""
        return self._levels.get(subject, self._levels[""])

    def set_level(self, subject: str, level: object) -> str:
        """Set the level of compatibility of a subject; ``""``: of all subjects without one."""
        if level not in _LEVELS:
            raise RefusedError(
                422, 42203, f"Invalid compatibility level. Valid values are {', '.join(_LEVELS)}"
            )
        self._levels[subject] = str(level)
        return str(level)

    def mistakes_against(self, subject: str, body: Any, version: str | None) -> list[str]:
        """Why a schema is not compatible; checked for Avro without references only.

        Args:
            subject: where.
            body: the schema as JSON.
            version: compare with this one; ``None``: with those that the level says.
        """
        schema = self._checked(body)
        level = self.level(subject)
        entries = self._versions(subject) if version is None else [self.version(subject, version)]
        if level == "NONE" or not entries:
            return []
        if not level.endswith("_TRANSITIVE"):
            entries = entries[-1:]
        mistakes: list[str] = []
        for entry in entries:
            if entry["schemaType"] != schema["schemaType"]:
                mistakes.append(f"the type was {entry['schemaType']}")
            elif schema["schemaType"] == "AVRO" and not schema.get("references"):
                old, new = json.loads(entry["schema"]), json.loads(schema["schema"])
                if not level.startswith("FORWARD"):
                    mistakes += mistakes_of_reading(new, old)
                if not level.startswith("BACKWARD"):
                    mistakes += mistakes_of_reading(old, new)
        return mistakes

    def associate(self, body: Any) -> dict[str, Any]:
        """Associate subjects with a topic."""
        for each in body["associations"]:
            self._associations.append(
                {
                    "subject": each["subject"],
                    "guid": str(uuid.uuid4()),
                    "resourceName": body["resourceName"],
                    "resourceNamespace": body.get("resourceNamespace") or "-",
                    "resourceId": body.get("resourceId"),
                    "resourceType": body.get("resourceType") or "topic",
                    "associationType": each.get("associationType") or "value",
                    "frozen": bool(each.get("frozen")),
                }
            )
        return dict(body)

    def associations(self, namespace: str, name: str, kinds: list[str]) -> list[dict[str, Any]]:
        """The associations of a topic; the namespace ``-`` finds those of all clusters."""
        return [
            each
            for each in self._associations
            if each["resourceName"] == name
            and namespace in ("-", each["resourceNamespace"])
            and (not kinds or each["associationType"] in kinds)
        ]

    def _checked(self, body: Any) -> dict[str, Any]:
        """The parts of a schema that are stored."""
        if not isinstance(body, dict) or not isinstance(body.get("schema"), str):
            raise RefusedError(422, 42201, "Invalid schema: no text")
        kind = body.get("schemaType") or "AVRO"
        if kind not in _TYPES:
            raise RefusedError(422, 42201, f"Invalid schema: unknown type {kind}")
        for reference in body.get("references") or ():
            try:
                self.version(reference["subject"], str(reference["version"]), deleted=True)
            except RefusedError as error:
                raise RefusedError(422, 42201, f"Invalid schema: no reference {reference}") from error
        text = body["schema"]
        if kind != "PROTOBUF":
            try:
                contents = json.loads(text)
                if kind == "AVRO":
                    _check_avro(contents, bool(body.get("references")))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise RefusedError(422, 42201, f"Invalid schema: {error}") from error
        return {
            "schema": text,
            "schemaType": kind,
            **{name: body[name] for name in ("references", "metadata", "ruleSet") if body.get(name)},
        }

    def _find(self, subject: str, schema: dict[str, Any], normalize: bool, deleted: bool) -> Entry | None:
        wanted = {name: schema[name] for name in ("metadata", "ruleSet") if name in schema}
        for entry in self._versions(subject, deleted):
            if wanted.items() <= entry.items() and _comparable(entry, normalize) == _comparable(
                schema, normalize
            ):
                return entry
        return None


def _comparable(schema: dict[str, Any], normalize: bool) -> tuple[Any, ...]:
    """What makes two schemas the same: not spaces, and if they are normalized not the order of attributes."""
    text = schema["schema"]
    if schema["schemaType"] != "PROTOBUF":
        text = _normalized(text) if normalize else json.dumps(json.loads(text))
    return schema["schemaType"], text, json.dumps(schema.get("references") or [], sort_keys=True)


def _normalized(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def _check_avro(schema: Any, has_references: bool) -> None:
    """Raise an error for what is clearly no Avro schema."""
    names: set[str] = set()

    def check(part: Any) -> None:
        if isinstance(part, list):
            for each in part:
                check(each)
        elif isinstance(part, str):
            if part not in _PRIMITIVES and part.rpartition(".")[2] not in names and not has_references:
                raise ValueError(f"{part} is not defined")
        elif part["type"] in ("record", "error", "enum", "fixed"):
            names.add(part["name"].rpartition(".")[2])
            if part["type"] == "enum":
                list(part["symbols"])
            elif part["type"] == "fixed":
                int(part["size"])
            else:
                for field in part["fields"]:
                    str(field["name"])
                    check(field["type"])
        elif part["type"] in ("array", "map"):
            check(part["items" if part["type"] == "array" else "values"])
        else:
            check(part["type"])

    check(schema)
