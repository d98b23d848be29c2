"""The fake schema registry: compatibility as in Apache Avro, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse
from hypothesis import given
from hypothesis import strategies as st

from kproducer.testing.schema_registry import FakeSchemaRegistry
from kproducer.testing.schema_registry.avro_resolution import mistakes_of_reading

PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "string", "bytes"])
ENUMS = st.lists(st.sampled_from("ABC"), min_size=1, max_size=3, unique=True).map(
    lambda symbols: {"type": "enum", "name": "E", "symbols": symbols}
)
TYPES = st.recursive(
    PRIMITIVES,
    lambda inner: (
        inner.map(lambda each: {"type": "array", "items": each})
        | inner.map(lambda each: {"type": "map", "values": each})
    ),
    max_leaves=3,
)
UNIONS = st.lists(PRIMITIVES, min_size=1, max_size=3, unique=True)


@st.composite
def records(draw: Any) -> Any:
    fields = []
    for name in draw(st.lists(st.sampled_from("abc"), max_size=3, unique=True)):
        field: dict[str, Any] = {"name": name, "type": draw(TYPES | UNIONS)}
        if draw(st.booleans()):
            field["type"], field["default"] = ["null", "long"], None
        fields.append(field)
    if draw(st.booleans()):
        fields.append({"name": "e", "type": draw(ENUMS)})
    return {"type": "record", "name": "R", "fields": fields}


@given(records(), records())
def test_schemas_are_compatible_exactly_if_apache_avro_says_so(reader, writer):
    checker = ReaderWriterCompatibilityChecker()
    result = checker.get_compatibility(parse(json.dumps(reader)), parse(json.dumps(writer)))
    expected = result.compatibility is SchemaCompatibilityType.compatible
    assert (mistakes_of_reading(reader, writer) == []) is expected


@pytest.mark.parametrize(
    ("level", "is_allowed"),
    [("NONE", True), ("BACKWARD", True), ("FORWARD", False), ("FULL", False), ("BACKWARD_TRANSITIVE", True)],
)
def test_levels(level, is_allowed):
    registry = FakeSchemaRegistry(level)
    registry.register("a", '"int"')
    if is_allowed:
        assert registry.register("a", '"long"') == 2
    else:
        with pytest.raises(ValueError, match="incompatible"):
            registry.register("a", '"long"')


def test_transitive_levels_compare_with_all_versions():
    for level, is_allowed in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)):
        registry = FakeSchemaRegistry("NONE")
        registry.register("a", '"string"')
        registry.register("a", '"int"')
        registry._store.set_level("a", level)
        if is_allowed:
            registry.register("a", '"long"')
        else:
            with pytest.raises(ValueError, match="string cannot be read as long"):
                registry.register("a", '"long"')


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("{", "AVRO"),
        ('{"type": "record", "name": "R"}', "AVRO"),
        ('"NoSuchType"', "AVRO"),
        ("{", "JSON"),
        ("x", "XML"),
    ],
)
def test_invalid_schemas_are_refused(schema, kind):
    with pytest.raises(ValueError, match="Invalid schema"):
        FakeSchemaRegistry().register("a", schema, kind)


def test_references_must_exist():
    registry = FakeSchemaRegistry()
    reference = {"name": "B", "subject": "b", "version": 1}
    with pytest.raises(ValueError, match="no reference"):
        registry.register("a", '"B"', references=[reference])


def test_it_stops_while_an_answer_is_delayed():
    import http.client
    import threading

    with FakeSchemaRegistry() as registry:
        registry.delay(3600)
        connection = http.client.HTTPConnection("127.0.0.1", int(registry.url.rpartition(":")[2]), timeout=60)
        connection.request("GET", "/subjects")
        stopper = threading.Thread(target=registry.stop)
        stopper.start()
        stopper.join(60)
        assert not stopper.is_alive()
        connection.close()


def test_a_registry_that_was_not_started_has_no_url():
    registry = FakeSchemaRegistry()
    with pytest.raises(RuntimeError, match=r"use it in a with statement, or call start\(\) first"):
        _ = registry.url
    with registry:
        url = registry.url
    assert registry.url == url  # after a stop, for a client that sees it fail


def test_mistakes_in_a_test_are_refused():
    with pytest.raises(TypeError, match=r"'token'; did you mean bearer_token\? Valid"):
        FakeSchemaRegistry(token="secret")
    with pytest.raises(ValueError, match=r"one of NONE, BACKWARD, .* not 'backwards'"):
        FakeSchemaRegistry("backwards")
    with pytest.raises(TypeError, match="did you mean times"):
        FakeSchemaRegistry().fail(500, time=1)
