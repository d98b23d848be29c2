"""AvroSerializer: what it registers, which schema it uses, and that confluent-kafka reads what it writes."""

from __future__ import annotations

import asyncio
import datetime
import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import confluent_kafka.schema_registry as confluent
import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentAvroSerializer
from confluent_kafka.serialization import SerializationContext as ConfluentContext

from kproducer import ConfigError, SerializationError
from kproducer.schema_registry import (
    FALLBACK_TYPE,
    AvroSerializer,
    MessageField,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    SerializationContext,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
    record_subject_name_strategy,
)

USER = {
    "type": "record",
    "name": "User",
    "namespace": "com.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
VALUE = {
    "id": 5,
    "name": "Zoë",
    "at": datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc),
    "price": Decimal("1.25"),
    "note": None,
}
SIMPLE = json.dumps({"type": "record", "name": "Simple", "fields": [{"name": "id", "type": "long"}]})
LATEST = {"auto.register.schemas": False, "use.latest.version": True}
IN_VALUE = SerializationContext("events", MessageField.VALUE)


def read(confluent_client, data, headers=None, field="value", **arguments):
    deserializer = AvroDeserializer(confluent_client, **arguments)
    return deserializer(data, ConfluentContext("events", field, headers))


def test_confluent_reads_a_value(client, confluent_client, registry):
    data = AvroSerializer(client, json.dumps(USER)).serialize("events", [], VALUE)
    assert read(confluent_client, data) == VALUE
    assert registry.subjects() == ["events-value"]


def test_the_bytes_are_those_of_confluent(client, confluent_client):
    theirs = ConfluentAvroSerializer(confluent_client, json.dumps(USER))
    expected = theirs(VALUE, ConfluentContext("events", "value"))
    assert AvroSerializer(client, json.dumps(USER)).serialize("events", [], VALUE) == expected


def test_keys_have_a_subject_of_their_own(client, registry):
    serializer = AvroSerializer(client, "string")
    assert serializer.for_field("key").serialize("events", [], "k") == b"\x00\x00\x00\x00\x01\x02k"
    assert registry.subjects() == ["events-key"]


def test_bytes_are_written_without_a_length_as_by_java(client, confluent_client):
    data = AvroSerializer(client, '"bytes"').serialize("events", [], b"abc")
    assert data == b"\x00\x00\x00\x00\x01abc"
    assert read(confluent_client, data) == b"abc"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_may_be_any_of_these_classes(client, kind):
    assert AvroSerializer(client, '"bytes"').serialize("events", [], kind(b"abc"))[5:] == b"abc"


@pytest.mark.parametrize("value", [5, True, [1, 2], "abc", {"a": 1}], ids=repr)
def test_bytes_are_not_made_of_other_values(client, value):
    expected = rf"the Avro schema is bytes; expected bytes, got {type(value).__name__}"
    with pytest.raises(SerializationError, match=expected):
        AvroSerializer(client, '{"type": "bytes"}').serialize("events", [], value)


def test_none_stays_none(client):
    assert AvroSerializer(client, SIMPLE)(None, IN_VALUE) is None


def test_the_registry_is_asked_once_per_topic(client, registry):
    serializer = AvroSerializer(client, SIMPLE)
    for number in range(100):
        serializer.serialize("events", [], {"id": number})
    assert len(registry.requests) == 2  # associations and the schema


def test_threads_that_start_together_register_once(client, registry):
    values = AvroSerializer(client, SIMPLE).for_field("value")
    start = threading.Barrier(8)

    def serialize(number: int) -> bytes | None:
        start.wait(60)
        return values.serialize("events", [], {"id": number})

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(serialize, range(8)))
    assert len(registry.requests) == 2


def test_the_latest_version_is_used(client, confluent_client, registry):
    registry.register("events-value", SIMPLE)
    newer = json.loads(SIMPLE)
    newer["fields"].append({"name": "more", "type": "string", "default": "none"})
    registry.register("events-value", json.dumps(newer))
    data = AvroSerializer(client, conf=LATEST).serialize("events", [], {"id": 1})
    assert read(confluent_client, data) == {"id": 1, "more": "none"}
    assert read(confluent_client, data, schema_str=SIMPLE) == {"id": 1}


def test_a_newer_latest_version_is_found_after_its_ttl(registry):
    registry.register("events-value", SIMPLE)
    client = SchemaRegistryClient({"url": registry.url, "cache.latest.ttl.sec": 0})
    serializer = AvroSerializer(client, conf=LATEST)
    assert serializer.serialize("events", [], {"id": 1})[:5] == b"\x00\x00\x00\x00\x01"
    newer = json.loads(SIMPLE)
    newer["fields"].append({"name": "more", "type": "string", "default": "none"})
    registry.register("events-value", json.dumps(newer))
    assert serializer.serialize("events", [], {"id": 1})[:5] == b"\x00\x00\x00\x00\x02"


def test_a_schema_is_chosen_by_its_id_or_by_metadata(client, registry):
    first = registry.register("events-value", SIMPLE, metadata={"properties": {"team": "a"}})
    newer = json.loads(SIMPLE)
    newer["fields"].append({"name": "more", "type": "string", "default": "none"})
    second = registry.register("events-value", json.dumps(newer), metadata={"properties": {"team": "b"}})
    by_id = AvroSerializer(client, conf={"use.schema.id": first})
    assert by_id.serialize("events", [], {"id": 1})[4] == first
    by_metadata = AvroSerializer(
        client, conf={"auto.register.schemas": False, "use.latest.with.metadata": {"team": "b"}}
    )
    assert by_metadata.serialize("events", [], {"id": 1})[4] == second


def test_without_auto_register_the_schema_has_to_exist(client, registry):
    serializer = AvroSerializer(client, SIMPLE, conf={"auto.register.schemas": False})
    with pytest.raises(SchemaRegistryError, match=r"40401.*register the schema first") as refused:
        serializer.serialize("events", [], {"id": 1})
    assert refused.value.http_status_code == 404
    registry.register("events-value", SIMPLE)
    assert serializer.serialize("events", [], {"id": 1})[4] == 1


def test_normalized_schemas_are_found_in_another_order_of_attributes(client, registry):
    registry.register("events-value", json.dumps(dict(reversed(json.loads(SIMPLE).items()))))
    conf = {"auto.register.schemas": False}
    with pytest.raises(SchemaRegistryError, match="40403"):
        AvroSerializer(client, SIMPLE, conf=conf).serialize("events", [], {"id": 1})
    normalizing = AvroSerializer(client, SIMPLE, conf={**conf, "normalize.schemas": True})
    assert normalizing.serialize("events", [], {"id": 1})[4] == 1


def test_an_incompatible_schema_is_refused_with_the_registrys_text(client, registry):
    registry.register("events-value", SIMPLE)
    changed = json.loads(SIMPLE)
    changed["fields"].append({"name": "more", "type": "string"})
    with pytest.raises(SchemaRegistryError, match=r"409.*has no default") as refused:
        AvroSerializer(client, json.dumps(changed)).serialize("events", [], {"id": 1, "more": "x"})
    assert refused.value.http_status_code == 409
    assert not refused.value.is_temporary


def test_references(client, confluent_client, registry):
    inner = {"type": "record", "name": "Inner", "namespace": "n", "fields": [{"name": "x", "type": "long"}]}
    registry.register("inner", json.dumps(inner))
    middle = {
        "type": "record",
        "name": "Middle",
        "namespace": "n",
        "fields": [{"name": "i", "type": "Inner"}],
    }
    registry.register(
        "middle", json.dumps(middle), references=[{"name": "n.Inner", "subject": "inner", "version": 1}]
    )
    outer = {
        "type": "record",
        "name": "Outer",
        "fields": [{"name": "a", "type": "n.Inner"}, {"name": "b", "type": "n.Middle"}],
    }
    references = [SchemaReference("n.Inner", "inner", 1), SchemaReference("n.Middle", "middle", 1)]
    serializer = AvroSerializer(client, Schema(json.dumps(outer), "AVRO", references))
    value = {"a": {"x": 1}, "b": {"i": {"x": 2}}}
    assert read(confluent_client, serializer.serialize("events", [], value)) == value


def test_a_union_of_references_takes_several_records(client, confluent_client, registry):
    for name in ("A", "B"):
        field = {"name": name.lower(), "type": "long"}
        registry.register(name, json.dumps({"type": "record", "name": name, "fields": [field]}))
    union = Schema('["A", "B"]', "AVRO", [SchemaReference(name, name, 1) for name in ("A", "B")])
    serializer = AvroSerializer(client, union)
    for value in ({"a": 1}, {"b": 2}):
        assert read(confluent_client, serializer.serialize("events", [], value)) == value


def test_the_guid_goes_into_a_header(client, confluent_client):
    conf = {"schema.id.serializer": header_schema_id_serializer}
    serializer = AvroSerializer(client, json.dumps(USER), conf=conf)
    headers: list[tuple[str, bytes | None]] = [("mine", b"x")]
    data = serializer.for_field("key").serialize("events", headers, VALUE)
    assert data[:1] == b"\x0a"  # the id, without a frame
    assert [name for name, _ in headers] == ["mine", "__key_schema_id"]
    assert read(confluent_client, data, headers, "key") == VALUE


def test_the_headers_of_a_context_may_be_a_dictionary(client, confluent_client):
    seen = []
    for frame in (header_schema_id_serializer, prefix_schema_id_serializer):
        headers: dict[str, bytes | None] = {"mine": b"x"}
        serializer = AvroSerializer(
            client,
            json.dumps(USER),
            lambda value, ctx: seen.append(ctx.headers) or value,
            conf={"schema.id.serializer": frame},
        )
        data = serializer(VALUE, SerializationContext("events", "value", headers))
        assert seen.pop() is headers
        assert list(headers) == ["mine", "__value_schema_id"][: 1 + (frame is header_schema_id_serializer)]
        assert read(confluent_client, data, headers) == VALUE


@pytest.mark.parametrize("headers", [None, (), "x"])
def test_a_guid_without_headers_is_an_error(client, headers):
    serializer = AvroSerializer(client, SIMPLE, conf={"schema.id.serializer": header_schema_id_serializer})
    with pytest.raises(SerializationError, match=r"headers of the SerializationContext are .*; expected"):
        serializer({"id": 1}, SerializationContext("events", "value", headers))


def test_a_field_that_has_no_schema_is_an_error(client):
    with pytest.raises(SerializationError, match="has the field 'none'; expected 'key' or 'value'"):
        AvroSerializer(client, SIMPLE)({"id": 1}, SerializationContext("events", "none"))


def test_a_registry_without_guids_is_an_error(client, registry, monkeypatch):
    register = registry._store.register
    monkeypatch.setattr(
        registry._store, "register", lambda *arguments: {**register(*arguments), "guid": None}
    )
    serializer = AvroSerializer(client, SIMPLE, conf={"schema.id.serializer": header_schema_id_serializer})
    with pytest.raises(SerializationError, match="sent no GUID"):
        serializer.serialize("events", [], {"id": 1})


@pytest.mark.parametrize(
    ("kind", "subject"),
    [
        ("TOPIC", "events-value"),
        ("RECORD", "com.example.User"),
        ("TOPIC_RECORD", "events-com.example.User"),
        ("ASSOCIATED", "events-value"),
    ],
)
def test_subject_name_strategies(client, registry, confluent_client, kind, subject):
    conf = {"subject.name.strategy.type": kind}
    AvroSerializer(client, json.dumps(USER), conf=conf).serialize("events", [], VALUE)
    assert registry.subjects() == [subject]
    theirs = ConfluentAvroSerializer(confluent_client, json.dumps(USER), conf=conf)
    theirs(VALUE, ConfluentContext("events", "value"))
    assert registry.subjects() == [subject]


def test_a_subject_name_strategy_of_the_application(client, registry):
    def strategy(ctx, record_name):
        return f"{record_name}/{ctx.topic}/{ctx.field}"

    AvroSerializer(client, SIMPLE, conf={"subject.name.strategy": strategy}).serialize("a", [], {"id": 1})
    conf = {"subject.name.strategy": record_subject_name_strategy}
    AvroSerializer(client, SIMPLE, conf=conf).serialize("a", [], {"id": 1})
    assert registry.subjects() == ["Simple", "Simple/a/value"]


def test_an_association_decides_the_subject(client, registry, confluent_client):
    registry.associate("events", "shared")
    AvroSerializer(client, SIMPLE).serialize("events", [], {"id": 1})
    assert registry.subjects() == ["shared"]
    theirs = ConfluentAvroSerializer(confluent_client, SIMPLE)
    theirs({"id": 1}, ConfluentContext("events", "value"))
    assert registry.subjects() == ["shared"]


def test_several_or_no_associations(client, registry):
    conf = {"subject.name.strategy.conf": {FALLBACK_TYPE: "NONE"}}
    with pytest.raises(SerializationError, match="associates no subject"):
        AvroSerializer(client, SIMPLE, conf=conf).serialize("events", [], {"id": 1})
    registry.associate("events", "one")
    registry.associate("events", "two")
    with pytest.raises(SerializationError, match="one, two"):
        AvroSerializer(client, SIMPLE).serialize("events", [], {"id": 1})


def test_a_registry_without_associations_uses_the_topic(client, registry):
    registry.fail(404, message="HTTP 404 Not Found")
    AvroSerializer(client, SIMPLE).serialize("events", [], {"id": 1})
    assert registry.subjects() == ["events-value"]


def test_names_are_needed_for_strategies_that_use_them(client):
    serializer = AvroSerializer(client, '["null", "string"]', conf={"subject.name.strategy.type": "RECORD"})
    with pytest.raises(SerializationError, match="the schema has no name"):
        serializer.serialize("events", [], "x")


@pytest.mark.parametrize("place", ["domainRules", "encodingRules"])
@pytest.mark.parametrize("mode", ["WRITE", "WRITEREAD"])
def test_rules_for_producers_are_refused(client, registry, place, mode):
    rule = {"name": "encryptPII", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": mode}
    registry.register("events-value", SIMPLE, ruleSet={place: [rule]})
    with pytest.raises(SerializationError, match=r"encryptPII of type ENCRYPT.*was not written"):
        AvroSerializer(client, conf=LATEST).serialize("events", [], {"id": 1})


@pytest.mark.parametrize("rule_set", [{"domainRules": [{"name": "e", "type": "ENCRYPT", "mode": "WRITE"}]}])
def test_rules_of_the_applications_own_schema_are_refused_before_it_is_registered(client, registry, rule_set):
    serializer = AvroSerializer(client, Schema(SIMPLE, rule_set=rule_set))
    with pytest.raises(SerializationError, match="data-contract rules"):
        serializer.serialize("events", [], {"id": 1})
    assert registry.subjects() == []


@pytest.mark.parametrize(
    "rule_set",
    [
        {"domainRules": [{"name": "e", "type": "ENCRYPT", "mode": "WRITE", "disabled": True}]},
        {"domainRules": [{"name": "r", "type": "CEL", "mode": "READ"}]},
        {"migrationRules": [{"name": "m", "type": "JSONATA", "mode": "UPGRADE"}]},
    ],
)
def test_rules_that_do_not_concern_producers_are_accepted(client, registry, rule_set):
    registry.register("events-value", SIMPLE, ruleSet=rule_set)
    assert AvroSerializer(client, conf=LATEST).serialize("events", [], {"id": 1})[5:] == b"\x02"


def test_to_dict_gets_the_value_and_its_place(client, confluent_client):
    seen = []

    def to_dict(value, ctx):
        seen.append((ctx.topic, ctx.field, ctx.headers))
        return {"id": value}

    serializer = AvroSerializer(client, SIMPLE, to_dict)
    data = serializer.serialize("events", [("h", b"1")], 7)
    assert read(confluent_client, data) == {"id": 7}
    assert seen == [("events", "value", [("h", b"1")])]


def test_a_value_that_does_not_fit(client):
    with pytest.raises(SerializationError, match=r"does not fit the Avro schema.*on field id"):
        AvroSerializer(client, SIMPLE).serialize("events", [], {"id": "x"})


@pytest.mark.parametrize("value", ["x", b"x", [1], 5, object()])
def test_a_record_that_is_no_dictionary(client, value):
    every_default = SIMPLE.replace('"long"', '"long", "default": 0')
    text = f"a record is a dictionary, not {type(value).__name__}: to_dict converts"
    for schema in (SIMPLE, every_default):
        with pytest.raises(SerializationError, match=text):
            AvroSerializer(client, schema).serialize("events", [], value)


def test_strict_values_have_exactly_the_schemas_fields(client):
    serializer = AvroSerializer(client, SIMPLE, conf={"validate.strict": True})
    assert serializer.serialize("events", [], {"id": 1})[5:] == b"\x02"
    with pytest.raises(SerializationError, match="more"):
        serializer.serialize("events", [], {"id": 1, "more": 2})


def test_the_schema_of_another_format_is_refused(client, registry):
    registry.register("events-value", '{"type": "object"}', "JSON")
    with pytest.raises(SerializationError, match="has the type JSON"):
        AvroSerializer(client, conf=LATEST).serialize("events", [], {"id": 1})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("{",), "not JSON"),
        (('{"type": "record"}',), "not valid"),
        ((5,), "expected JSON or a Schema"),
        ((SIMPLE, "no function"), "to_dict"),
        ((SIMPLE, None, {"auto.register.schema": False}), r"did you mean 'auto\.register\.schemas'"),
        ((SIMPLE, None, {"auto.register.schemas": "false"}), "expected True or False"),
        ((SIMPLE, None, {"use.latest.version": True}), "set 'auto.register.schemas' to False"),
        ((SIMPLE, None, {"use.schema.id": "1"}), "whole number"),
        ((SIMPLE, None, {"use.latest.with.metadata": "x"}), "dictionary"),
        (
            ('{"type": "array", "items": "a.B"}',),
            r"UnknownType: a\.B; check the name, or refer to the schema that",
        ),
        (
            (SIMPLE, None, {"subject.name.strategy": "TOPIC"}),
            r"got 'TOPIC'.*set subject\.name\.strategy\.type to",
        ),
        ((SIMPLE, None, {"subject.name.strategy.type": "Topics"}), "expected one of TOPIC.* got 'Topics'"),
        ((SIMPLE, None, {"subject.name.strategy.conf": {FALLBACK_TYPE: "X"}}), "expected one of TOPIC"),
        ((SIMPLE, None, {"schema.id.serializer": print}), "expected prefix_schema_id_serializer"),
        ((SIMPLE, None, {"validation.rules.execution": "x"}), "does not apply data-contract rules"),
    ],
    ids=str,
)
def test_mistakes_show_when_the_serializer_is_created(client, arguments, expected):
    with pytest.raises((ConfigError, SerializationError), match=expected):
        AvroSerializer(client, *arguments)


def test_confluents_functions_and_enumerations_are_accepted(client):
    from confluent_kafka.schema_registry.serde import SubjectNameStrategyType

    conf = {
        "schema.id.serializer": confluent.header_schema_id_serializer,
        "subject.name.strategy.type": SubjectNameStrategyType.RECORD,
    }
    headers: list[tuple[str, bytes | None]] = []
    AvroSerializer(client, SIMPLE, conf=conf).serialize("events", headers, {"id": 1})
    assert headers


def test_without_a_schema_and_settings_there_is_nothing_to_write_with(client):
    with pytest.raises(SerializationError, match="there is no schema for subject 'events-value'"):
        AvroSerializer(client).serialize("events", [], {"id": 1})


def test_prepare_makes_the_look_ups(client, registry):
    serializer = AvroSerializer(client, SIMPLE)
    values = serializer.for_field("value")
    assert not values.is_prepared("events")
    asyncio.run(serializer.aprepare("events"))
    assert values.is_prepared("events")
    registry.stop()
    assert values.serialize("events", [], {"id": 1}) is not None


def test_a_pickled_serializer_works_in_another_process(client):
    serializer = pickle.loads(pickle.dumps(AvroSerializer(client, SIMPLE)))
    assert serializer.serialize("events", [], {"id": 1})[5:] == b"\x02"
