"""Schemas as a schema registry sends them: what it stores, and where. Immutable.

Metadata and rules are dictionaries, as in the registry's JSON.
Source: Confluent Schema Registry API reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from kproducer.errors import ConfigError, SerializationError
from kproducer.schema_registry import answers

#: Rules of these modes apply when a value is written; those of other modes concern consumers.
_WRITE_MODES = ("WRITE", "WRITEREAD", None)
#: The lists of a rule set that may have such rules.
_WRITE_LISTS = ("domainRules", "encodingRules")


@attrs.frozen
class SchemaReference:
    """A schema that another one refers to.

    Attributes:
        name: what the other schema calls it: an Avro full name, an imported file, a ``$ref``.
        subject: where it is registered.
        version: its version there.
    """

    name: str
    subject: str
    version: int

    def to_dict(self) -> dict[str, Any]:
        """As in the registry's JSON."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


def _references(given: Iterable[SchemaReference]) -> tuple[SchemaReference, ...]:
    references = tuple(given)
    for each in references:
        if not isinstance(each, SchemaReference):
            raise ConfigError(
                "Schema: references: expected objects of SchemaReference(name, subject, version), "
                f"got {type(each).__name__}"
            )
    return references


@attrs.frozen
class Schema:
    """A schema that may be registered.

    Attributes:
        schema_str: the schema's text; for Protobuf a file, or its ``FileDescriptorProto`` in base64.
        schema_type: ``AVRO``, ``PROTOBUF`` or ``JSON``.
        references: the schemas that it refers to; at most 1,000, directly and through others, nested at most
            100 deep, with 32 Mi characters of text in total.
        metadata: tags and properties, as in the registry's JSON.
        rule_set: data-contract rules, as in the registry's JSON.

    Raises:
        ConfigError: the references are something else.
    """

    schema_str: str
    schema_type: str = "AVRO"
    references: tuple[SchemaReference, ...] = attrs.field(default=(), converter=_references)
    metadata: Mapping[str, Any] | None = attrs.field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = attrs.field(default=None, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """As in the registry's JSON."""
        fields: dict[str, Any] = {"schema": self.schema_str, "schemaType": self.schema_type}
        if self.references:
            fields["references"] = [each.to_dict() for each in self.references]
        if self.metadata is not None:
            fields["metadata"] = dict(self.metadata)
        if self.rule_set is not None:
            fields["ruleSet"] = dict(self.rule_set)
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Schema:
        """Read the registry's JSON.

        Raises:
            ValueError: the JSON is not that of a schema; names the field.
        """
        fields = answers.mapping(fields)
        references = []
        given_references = fields.get("references")
        for given in [] if given_references is None else answers.array(given_references, "references"):
            each = answers.mapping(given, "references")
            references.append(
                SchemaReference(
                    answers.text(each.get("name"), "references.name"),
                    answers.text(each.get("subject"), "references.subject"),
                    answers.number(each.get("version"), "references.version", 1),
                )
            )
        kind, metadata, rule_set = (fields.get(name) for name in ("schemaType", "metadata", "ruleSet"))
        return cls(
            answers.text(fields.get("schema"), "schema"),
            "AVRO" if kind is None else answers.text(kind, "schemaType"),
            references,
            None if metadata is None else answers.mapping(metadata, "metadata"),
            None if rule_set is None else answers.mapping(rule_set, "ruleSet"),
        )


@attrs.frozen
class RegisteredSchema:
    """A schema in a registry.

    Attributes:
        subject: where it is registered; ``None`` if the registry was asked for an id.
        version: its version there; ``None`` if the registry did not say.
        schema_id: its number, unique in the registry.
        guid: its unique name in all registries; ``None`` if the registry is too old to have them.
        schema: the schema.
    """

    subject: str | None
    version: int | None
    schema_id: int | None
    guid: str | None
    schema: Schema


@attrs.frozen
class Association:
    """A subject that a registry associates with a topic.

    Attributes:
        subject: the subject.
        resource_name: the topic.
        resource_namespace: the Kafka cluster; ``-`` for any.
        association_type: ``key`` or ``value``.
    """

    subject: str
    resource_name: str
    resource_namespace: str
    association_type: str


def check_rules(schema: Schema, subject: str) -> None:
    """Refuse a schema whose rules a producer has to apply, such as encryption.

    Raises:
        SerializationError: it has such rules, or rules that cannot be read. Values that are written without
            them would break the contract.
    """
    rule_set = schema.rule_set or {}
    names = [name for each in _WRITE_LISTS for name in _write_rules(rule_set.get(each) or (), subject)]
    if names:
        raise SerializationError(
            f"the schema of subject {subject!r} has data-contract rules for producers ({', '.join(names)}), "
            "which kproducer does not apply, so the value was not written; remove or disable these rules, or "
            "serialize with a client that applies them"
        )


def _write_rules(rules: object, subject: str) -> list[str]:
    if not isinstance(rules, (list, tuple)) or not all(isinstance(rule, Mapping) for rule in rules):
        raise SerializationError(
            f"the rules of the schema of subject {subject!r} are not a list of objects, so it is not known "
            "whether producers have to apply them; correct its ruleSet"
        )
    return [
        answers.shown(f"{rule.get('name')} of type {rule.get('type')}")
        for rule in rules
        if rule.get("disabled") is not True and rule.get("mode") in _WRITE_MODES
    ]
