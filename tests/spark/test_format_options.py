"""Options of formats: Java's names, every mistake named, no secret shown."""

from __future__ import annotations

import pytest

from kproducer.spark.errors import SparkOptionError
from kproducer.spark.format_options import FormatOptions, is_format_option, parse_formats
from kproducer.spark.write_options import WriteOptions

REGISTRY = {"topic": "t", "schema.registry.url": "http://registry:8081"}


def parsed(options: dict[str, str]) -> tuple[FormatOptions, ...]:
    mistakes: list[str] = []
    formats = parse_formats(options, mistakes)
    assert mistakes == []
    return formats


def mistakes_in(options: dict[str, str]) -> list[str]:
    mistakes: list[str] = []
    parse_formats(options, mistakes)
    return mistakes


def test_without_options_there_is_no_format():
    assert parsed({"topic": "t", "kafka.acks": "all"}) == ()


def test_names_have_any_case_and_values_java_or_short_names():
    (value, key) = parsed(
        {
            **REGISTRY,
            "VALUEFORMAT": "Avro",
            "keyformat": "AVRO",
            "Value.Subject.Name.Strategy": "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
            "key.subject.name.strategy": "record",
            "value.schema.id.serializer": "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer",
            "value.auto.register.schemas": "false",
            "value.normalize.schemas": "TRUE",
            "key.use.schema.id": "7",
            "schema.registry.timeout": "2.5",
        }
    )
    assert (value.role, value.kind, key.role, key.kind) == ("value", "avro", "key", "avro")
    assert value.subject_name_strategy == "TOPIC_RECORD"
    assert key.subject_name_strategy == "RECORD"
    assert (value.schema_id_serializer, key.schema_id_serializer) == ("header", "prefix")
    assert value.registry_conf["auto.register.schemas"] is False
    assert value.registry_conf["normalize.schemas"] is True
    assert key.registry_conf["use.schema.id"] == 7
    assert dict(value.registry)["timeout"] == 2.5


@pytest.mark.parametrize("options", [{"value.schema": "latest"}, {"value.use.latest.version": "true"}])
def test_the_latest_version_registers_nothing(options):
    (value,) = parsed({**REGISTRY, "valueFormat": "avro", **options})
    assert value.registry_conf["use.latest.version"] is True
    assert value.registry_conf["auto.register.schemas"] is False
    (mistake,) = mistakes_in(
        {**REGISTRY, "valueFormat": "avro", **options, "value.auto.register.schemas": "true"}
    )
    assert mistake.startswith("option 'value.auto.register.schemas' must be false")


def test_a_token_needs_no_source():
    (value,) = parsed({**REGISTRY, "valueFormat": "avro", "schema.registry.bearer.auth.token": "abc"})
    assert dict(value.registry)["bearer.auth.credentials.source"] == "STATIC_TOKEN"


def test_tokens_of_an_identity_need_no_function() -> None:
    given = {
        "bearer.auth.credentials.source": "OAUTHBEARER_AZURE_IMDS",
        "bearer.auth.issuer.endpoint.query": "a=b",
    }
    options = {f"schema.registry.{name}": text for name, text in given.items()}
    (value,) = parsed({**REGISTRY, "valueFormat": "avro", **options})
    assert given.items() <= dict(value.registry).items()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"valueFormat": "thrift"}, "option 'valueFormat': expected one of avro, json, protobuf"),
        ({"value.schema": "latest"}, "option 'value.schema' requires the option 'valueFormat'"),
        (
            {"valueFormat": "avro", "value.use.latest.version": "true"},
            "option 'value.use.latest.version' requires the option 'schema.registry.url'",
        ),
        (
            {"valueFormat": "avro", "value.schema": "latest"},
            "option 'value.schema=latest' requires the option 'schema.registry.url'",
        ),
        ({"valueFormat": "avro", "value.schma": "x"}, "did you mean 'value.schema'?"),
        ({"valueFormat": "avro", "value.use.schema.id": "one"}, "expected a whole number"),
        ({"valueFormat": "avro", "value.nulls": "omit"}, "option 'value.nulls' is for valueFormat=json only"),
        (
            {"keyFormat": "json", "key.message": "x.Y"},
            "option 'key.message' is for keyFormat=protobuf only",
        ),
        ({"valueFormat": "protobuf"}, "option 'value.descriptor.file' is missing"),
        (
            {"valueFormat": "protobuf", "value.descriptor.file": "a.desc"},
            "option 'value.message' is missing",
        ),
        (
            {"valueFormat": "avro", "value.subject.name.strategy": "com.example.Mine"},
            "expected one of TOPIC, RECORD, TOPIC_RECORD, ASSOCIATED",
        ),
        (REGISTRY, "option 'schema.registry.url' requires the option 'valueFormat' or 'keyFormat'"),
        (
            {"valueFormat": "avro", "schema.registry.url": "http://r"},
            "option 'schema.registry.url' requires the option 'topic'",
        ),
        (
            {"topic": "t", "valueFormat": "avro", "schema.registry.timeout": "3"},
            "option 'schema.registry.url' is missing",
        ),
        (
            {**REGISTRY, "valueFormat": "avro", "schema.registry.timeout": "soon"},
            "option 'schema.registry.timeout': expected a number, got 'soon'",
        ),
        (
            {**REGISTRY, "valueFormat": "avro", "schema.registry.ssl.truststore.location": "x.jks"},
            "'schema.registry.ssl.ca.location' takes a file in PEM format",
        ),
        (
            {**REGISTRY, "valueFormat": "avro", "schema.registry.basic.auth.user.inf": "me:hunter2"},
            "did you mean 'schema.registry.basic.auth.user.info'?",
        ),
    ],
)
def test_mistakes_are_named(options, text):
    mistakes = mistakes_in(options)
    assert any(text in mistake for mistake in mistakes), mistakes
    assert "hunter2" not in "".join(mistakes)


def test_each_mistake_is_named():
    mistakes = mistakes_in({"valueFormat": "xml", "keyFormat": "avro", "key.nulls": "omit", "value.foo": "1"})
    assert len(mistakes) == 3


def test_no_secret_is_in_a_repr():
    (value,) = parsed(
        {**REGISTRY, "valueFormat": "avro", "schema.registry.basic.auth.user.info": "me:hunter2"}
    )
    assert "hunter2" not in repr(value)


def test_other_options_do_not_belong_to_formats():
    assert is_format_option("KeyFormat")
    assert is_format_option("schema.registry.url")
    assert not is_format_option("topic")
    assert not is_format_option("kafka.key.serializer")


def test_a_misspelt_format_option_is_recognised():
    with pytest.raises(SparkOptionError, match="did you mean 'valueFormat'"):
        WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "value_format": "avro"})
