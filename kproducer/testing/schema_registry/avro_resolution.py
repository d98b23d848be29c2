"""Whether data of one Avro schema can be read with another: the rule behind ``BACKWARD`` and ``FORWARD``.

Source: Avro specification 1.12, "Schema Resolution".
"""

from __future__ import annotations

from typing import Any

_PROMOTIONS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}


def mistakes_of_reading(reader: Any, writer: Any) -> list[str]:
    """Why data of ``writer`` cannot be read with ``reader``; empty if it can.

    Args:
        reader, writer: schemas as JSON gives them.
    """
    check = _Resolution(_definitions(reader), _definitions(writer))
    check.compare(reader, writer, "")
    return check.mistakes


class _Resolution:
    def __init__(self, reader_names: dict[str, Any], writer_names: dict[str, Any]) -> None:
        self.mistakes: list[str] = []
        self._reader_names = reader_names
        self._writer_names = writer_names
        #: Pairs of records that were or are being compared: a record may contain itself.
        self._seen: set[tuple[str, str]] = set()

    def compare(self, reader: Any, writer: Any, path: str) -> None:
        reader, writer = _resolved(reader, self._reader_names), _resolved(writer, self._writer_names)
        if isinstance(writer, list):
            for branch in writer:
                self.compare(reader, branch, path)
            return
        if isinstance(reader, list):
            if not any(self._can_read(branch, writer) for branch in reader):
                self._mistake(path, f"the union has no branch for {_kind(writer)}")
            return
        reader_kind, writer_kind = _kind(reader), _kind(writer)
        if reader_kind != writer_kind:
            if reader_kind not in _PROMOTIONS.get(writer_kind, ()):
                self._mistake(path, f"{writer_kind} cannot be read as {reader_kind}")
        elif reader_kind in ("record", "error"):
            self._compare_records(reader, writer, path)
        elif reader_kind == "enum":
            missing = set(writer["symbols"]) - set(reader["symbols"])
            if missing and "default" not in reader:
                self._mistake(path, f"the enum lacks {', '.join(sorted(missing))} and has no default")
        elif reader_kind == "fixed":
            if reader["size"] != writer["size"]:
                self._mistake(path, "the size of fixed differs")
        elif reader_kind == "array":
            self.compare(reader["items"], writer["items"], f"{path}/items")
        elif reader_kind == "map":
            self.compare(reader["values"], writer["values"], f"{path}/values")

    def _compare_records(self, reader: Any, writer: Any, path: str) -> None:
        pair = reader["name"], writer["name"]
        if pair in self._seen:
            return
        self._seen.add(pair)
        if reader["name"].rpartition(".")[2] != writer["name"].rpartition(".")[2]:
            self._mistake(path, f"the record {writer['name']} is now {reader['name']}")
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            names = [field["name"], *field.get("aliases", ())]
            found = next((written[name] for name in names if name in written), None)
            if found is not None:
                self.compare(field["type"], found["type"], f"{path}/{field['name']}")
            elif "default" not in field:
                self._mistake(f"{path}/{field['name']}", "the field is new and has no default")

    def _can_read(self, reader: Any, writer: Any) -> bool:
        attempt = _Resolution(self._reader_names, self._writer_names)
        attempt._seen = set(self._seen)
        attempt.compare(reader, writer, "")
        return not attempt.mistakes

    def _mistake(self, path: str, text: str) -> None:
        self.mistakes.append(f"{path or '/'}: {text}")


def _kind(schema: Any) -> str:
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def _resolved(schema: Any, names: dict[str, Any]) -> Any:
    while True:
        if isinstance(schema, str) and schema in names:
            return names[schema]
        if not isinstance(schema, dict) or isinstance(schema["type"], str):
            return schema
        schema = schema["type"]


def _definitions(schema: Any) -> dict[str, Any]:
    """The named types in a schema, by name and by full name."""
    found: dict[str, Any] = {}

    def collect(part: Any, namespace: str) -> None:
        if isinstance(part, list):
            for each in part:
                collect(each, namespace)
        elif isinstance(part, dict):
            if "name" in part and part.get("type") in ("record", "error", "enum", "fixed"):
                name = part["name"]
                namespace = name.rpartition(".")[0] or part.get("namespace", namespace)
                found[name.rpartition(".")[2]] = found[name] = part
                found[f"{namespace}.{name.rpartition('.')[2]}"] = part
            for each in part.get("fields", ()):
                collect(each["type"], namespace)
            for name in ("type", "items", "values"):
                if isinstance(part.get(name), (dict, list)):
                    collect(part[name], namespace)

    collect(schema, "")
    return found
