"""FormatOptions: how columns become keys or values in Avro, JSON or Protobuf, as the options of a write say.

Parsed on the driver only, and never pickled for tasks: they may contain the credentials of a schema registry.
Errors show no value of ``schema.registry.*``. Independent of Spark's classes; imports no format.
Source: the settings of Confluent's serializers for Java, whose names these options have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kproducer._core.config.setting import (
    Setting,
    boolean,
    choice,
    document,
    from_text,
    integer,
    path,
    refused,
    shown,
    special,
    text,
)
from kproducer.errors import ConfigError
from kproducer.errors.suggestions import nearest_name

REGISTRY_PREFIX = "schema.registry."
#: The options that choose formats, by the part of a record.
FORMAT_OPTIONS = {"value": "valueFormat", "key": "keyFormat"}

_PREFIXES = (*(f"{role}." for role in FORMAT_OPTIONS), REGISTRY_PREFIX)
_FORMAT_OF_LOWER = {option.lower(): role for role, option in FORMAT_OPTIONS.items()}
_CHOICE = choice("avro", "json", "protobuf")
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
#: How long the latest version of a subject is used. A driver may write for weeks.
LATEST_TTL_S = 60
#: Settings that cannot be options, or that only Java's client has, and what to do instead.
REFUSED_SETTINGS = {
    "bearer.auth.custom.provider.function": "options are texts, not functions",
    "bearer.auth.custom.provider.config": "options are texts, not functions",
    "basic.auth.credentials.source": f"leave it out; '{REGISTRY_PREFIX}basic.auth.user.info' is enough",
    "ssl.truststore.location": f"'{REGISTRY_PREFIX}ssl.ca.location' takes a file in PEM format",
    "ssl.keystore.location": f"'{REGISTRY_PREFIX}ssl.certificate.location' and "
    f"'{REGISTRY_PREFIX}ssl.key.location' take files in PEM format",
}


def _parse_class_or_choice(setting: Setting, name: str, value: str) -> str:
    """One of the choices, or the Java class that is called like it."""
    simple = value.strip().rpartition(".")[2].lower().replace("_", "")
    simple = simple.removesuffix("namestrategy").removesuffix("schemaidserializer")
    for allowed in setting.choices:
        if simple == allowed.lower().replace("_", ""):
            return allowed
    raise refused(name, f"one of {', '.join(setting.choices)}, or such a class of Confluent's", shown(value))


class FormatOptions(NamedTuple):
    """The format of keys or values, checked as far as the options alone allow. Hashable.

    The options are the attributes from ``column`` on, with dots: ``value.record.name`` for ``record_name``.

    Attributes:
        role: ``"value"`` or ``"key"``.
        kind: ``"avro"``, ``"json"`` or ``"protobuf"``.
        registry: settings of the schema registry's client; empty: there is none.
    """

    role: str
    kind: str
    registry: tuple[tuple[str, Any], ...]
    column: str = text()
    """The column that is the whole value. Default: a record of all columns; for `key.column`, `key`."""
    schema: str = document()
    """Avro, JSON: the schema as JSON, or `latest`. Default: derived from columns."""
    record_name: str = text()
    """Avro: the record of a derived schema, with its namespace; by default `topLevelRecord`, or the name of
    the one column. JSON: the schema's title; by default none."""
    nulls: str = choice("omit", "write")
    """JSON: fields that are null are left out, as by `to_json`, or written."""
    nan: str = choice("error", "null")
    """JSON: NaN and infinities do not fit. `null`: they are written as null."""
    decimals: str = choice("number", "string")
    """JSON: how decimals are written."""
    message: str = text()
    """Protobuf: full name of the message, such as `shop.Order`. Required with a file; by default the only
    message of the registered schema."""
    descriptor_file: str = path()
    """Protobuf: a file on the driver that `protoc --include_imports --descriptor_set_out=FILE` wrote, as for
    `to_protobuf`. Default: the message of the registry's latest version."""
    subject_name_strategy: str | None = special(
        "text", _parse_class_or_choice, None, choices=("TOPIC", "RECORD", "TOPIC_RECORD", "ASSOCIATED")
    )
    """Under which [subject](../guides/schema-registry.md#subjects) the schema is registered; the name of
    Confluent's class works as well."""
    auto_register_schemas: bool = boolean(True)
    """`false`: the schema must be registered already."""
    normalize_schemas: bool = boolean(False)
    """The registry brings the schema into a standard form first."""
    use_latest_version: bool = boolean(False)
    """As `value.schema=latest`."""
    use_schema_id: int | None = integer(None, minimum=1)
    """The id of the schema to use."""
    schema_id_serializer: str = special(
        "text", _parse_class_or_choice, "prefix", choices=("prefix", "header")
    )
    """`header`: the schema's GUID goes into a header, and nothing is in front of the value."""

    def __repr__(self) -> str:
        # The registry's settings may contain credentials.
        return f"FormatOptions({self.role}={self.kind})"

    @property
    def option(self) -> str:
        """The option that chooses the format, with its value."""
        return f"{FORMAT_OPTIONS[self.role]}={self.kind}"

    @property
    def written_column(self) -> str:
        """The column that is the whole key or value; empty: it is a record of all columns."""
        return self.column or ("key" if self.role == "key" else "")

    @property
    def follows_latest(self) -> bool:
        """Whether the schema is the latest version in the registry."""
        has_no_schema = self.kind == "protobuf" and not self.descriptor_file and self.use_schema_id is None
        return self.use_latest_version or self.schema == "latest" or has_no_schema

    @property
    def registry_conf(self) -> dict[str, Any]:
        """Settings of the format's serializer, but not how records name the schema."""
        return {
            "auto.register.schemas": self.auto_register_schemas and not self.follows_latest,
            "normalize.schemas": self.normalize_schemas,
            "use.latest.version": self.follows_latest,
            "use.schema.id": self.use_schema_id,
            "subject.name.strategy.type": self.subject_name_strategy,
        }


#: Declarations of the attributes that have an option of their own.
OPTIONS: dict[str, Setting] = FormatOptions._field_defaults
_ATTRIBUTES = {name.replace("_", "."): name for name in OPTIONS}
#: By option: the formats that it is for, if it is not for all of them.
_ONLY_FOR = {
    "schema": ("avro", "json"),
    "record_name": ("avro", "json"),
    "nulls": ("json",),
    "nan": ("json",),
    "decimals": ("json",),
    "message": ("protobuf",),
    "descriptor_file": ("protobuf",),
}
_FOR_REGISTRY = tuple(OPTIONS)[-6:]
#: The names of the options for a registry, without the role.
CONF_NAMES = tuple(name.replace("_", ".") for name in _FOR_REGISTRY)


def parse_option(setting: Setting, option: str, value: str) -> Any:
    """Check a value. Raises ``ConfigError``, which names the option."""
    name = f"option '{option}'"
    return setting.parse(setting, name, from_text(setting, name, value))


def is_format_option(name: str) -> bool:
    """Whether ``parse_formats`` parses an option of this name."""
    return name.lower() in _FORMAT_OF_LOWER or name.lower().startswith(_PREFIXES)


def parse_formats(options: Mapping[str, str], mistakes: list[str]) -> tuple[FormatOptions, ...]:
    """Check the options of formats.

    Args:
        options: all options of the write; Spark ignores the case of names.
        mistakes: gets a text for each wrong option.

    Returns:
        The formats of values and keys, of those that have one. Not usable if there are mistakes.
    """
    given = {name.lower(): value for name, value in options.items()}
    registry = _parse_registry(
        {
            name.removeprefix(REGISTRY_PREFIX): value
            for name, value in given.items()
            if name.startswith(REGISTRY_PREFIX)
        },
        mistakes,
    )
    formats = []
    for role, option in FORMAT_OPTIONS.items():
        fields = _parse_fields(role, given, mistakes)
        chosen = given.get(option.lower())
        if chosen is None:
            mistakes += [f"option '{_name(role, field)}' requires the option '{option}'" for field in fields]
            continue
        try:
            kind = parse_option(_CHOICE, option, chosen)
        except ConfigError as error:
            mistakes.append(str(error))
            continue
        unset = {name: setting.default for name, setting in OPTIONS.items() if name not in fields}
        parsed = FormatOptions(role, kind, registry, **fields, **unset)
        mistakes += _contradictions(parsed, fields)
        formats.append(parsed)
    if registry:
        if not any(option.lower() in given for option in FORMAT_OPTIONS.values()):
            mistakes.append(f"option '{REGISTRY_PREFIX}url' requires the option 'valueFormat' or 'keyFormat'")
        elif "topic" not in given:
            mistakes.append(
                f"option '{REGISTRY_PREFIX}url' requires the option 'topic': it determines the schema, "
                "so a column cannot have it"
            )
    return tuple(formats)


def _parse_fields(role: str, given: Mapping[str, str], mistakes: list[str]) -> dict[str, Any]:
    """The attributes of ``FormatOptions`` that options of a role set."""
    fields = {}
    for name, value in given.items():
        if not name.startswith(f"{role}."):
            continue
        field = _ATTRIBUTES.get(name.removeprefix(f"{role}."))
        if field is None:
            mistakes.append(_unknown(name, (f"{role}.{each}" for each in _ATTRIBUTES)))
            continue
        try:
            fields[field] = parse_option(OPTIONS[field], name, value)
        except ConfigError as error:
            mistakes.append(str(error))
    return fields


def _contradictions(options: FormatOptions, given: Collection[str]) -> Iterator[str]:
    """Contradictions between the options of a role, of which the attributes in ``given`` were set."""
    role, url = options.role, f"{REGISTRY_PREFIX}url"
    for field, kinds in _ONLY_FOR.items():
        if field in given and options.kind not in kinds:
            formats = " or ".join(f"{FORMAT_OPTIONS[role]}={kind}" for kind in kinds)
            yield f"option '{_name(role, field)}' is for {formats} only"
    if not options.registry:
        for field in _FOR_REGISTRY:
            if field in given:
                yield f"option '{_name(role, field)}' requires the option '{url}'"
        if options.schema == "latest":
            yield f"option '{_name(role, 'schema')}=latest' requires the option '{url}'"
        if options.kind == "protobuf" and not options.descriptor_file:
            yield (
                f"option '{_name(role, 'descriptor_file')}' is missing: Protobuf needs a file of descriptors "
                f"(protoc --include_imports --descriptor_set_out=FILE), or the option '{url}'"
            )
    elif options.follows_latest and options.auto_register_schemas and "auto_register_schemas" in given:
        yield (
            f"option '{_name(role, 'auto_register_schemas')}' must be false: the latest version in the "
            "registry is used, and nothing is registered"
        )
    if options.kind == "avro" and options.record_name and not _AVRO_NAME.fullmatch(options.record_name):
        yield (
            f"option '{_name(role, 'record_name')}': expected letters, digits and _, with dots between the "
            f"parts of a namespace, got {shown(options.record_name)}"
        )
    if options.descriptor_file and not options.message:
        yield f"option '{_name(role, 'message')}' is missing: the full name of a message in the file"


def _parse_registry(given: Mapping[str, str], mistakes: list[str]) -> tuple[tuple[str, Any], ...]:
    """The settings of the registry's client, as it takes them."""
    if not given:
        return ()
    # Imported here, because most writes do not need it.
    from kproducer.schema_registry.client_settings import NUMBER_SETTINGS, SETTING_NAMES

    conf: dict[str, Any] = {}
    for name, value in given.items():
        option = f"{REGISTRY_PREFIX}{name}"
        if name in REFUSED_SETTINGS:
            mistakes.append(f"option '{option}' cannot be set: {REFUSED_SETTINGS[name]}")
        elif name not in SETTING_NAMES:
            mistakes.append(_unknown(option, (f"{REGISTRY_PREFIX}{each}" for each in SETTING_NAMES)))
        elif name in NUMBER_SETTINGS:
            try:
                conf[name] = float(value)
            except ValueError:
                mistakes.append(f"option '{option}': expected a number, got {shown(value)}")
        else:
            conf[name] = value
    if "bearer.auth.token" in conf:
        conf.setdefault("bearer.auth.credentials.source", "STATIC_TOKEN")
    if "url" not in given:
        mistakes.append(
            f"option '{REGISTRY_PREFIX}url' is missing: the other options of the registry need it"
        )
    conf.setdefault("cache.latest.ttl.sec", LATEST_TTL_S)
    return tuple(sorted(conf.items()))


def _name(role: str, field: str) -> str:
    return f"{role}.{field.replace('_', '.')}"


def _unknown(name: str, known: Iterable[str]) -> str:
    names = list(known)
    if nearest := nearest_name(name, names):
        return f"unknown option '{name}': did you mean '{nearest}'?"
    return f"unknown option '{name}': there are {', '.join(names)}"
