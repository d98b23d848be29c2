"""Serializers: their bytes are Java's, and every failure names topic, role and type."""

from __future__ import annotations

import array
import json
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer import (
    BytesSerializer,
    ConfigError,
    FloatSerializer,
    IntegerSerializer,
    JsonSerializer,
    NullSerializer,
    SerializationError,
    StringSerializer,
    UuidSerializer,
)
from kproducer.schema_registry import AvroSerializer
from kproducer.serializers import SERIALIZER_NAMES, resolve_serializer, serialize_function

ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("serializer", "value", "expected"),
    [
        (StringSerializer(), "gruß", "gruß".encode()),
        (StringSerializer("utf-16-be"), "ab", b"\x00a\x00b"),
        (BytesSerializer(), b"\x00\xff", b"\x00\xff"),
        (BytesSerializer(), bytearray(b"ab"), b"ab"),
        (BytesSerializer(), memoryview(b"abcd")[1:3], b"bc"),
        (IntegerSerializer(), 1, b"\0\0\0\0\0\0\0\1"),
        (IntegerSerializer(4), -2, b"\xff\xff\xff\xfe"),
        (IntegerSerializer(2), 258, b"\1\2"),
        (IntegerSerializer(1), -128, b"\x80"),
        (FloatSerializer(), 1.5, struct.pack(">d", 1.5)),
        (FloatSerializer(4), 1, struct.pack(">f", 1)),
        (JsonSerializer(), {"b": [1, "ü"], "a": None}, '{"b":[1,"ü"],"a":null}'.encode()),
        (JsonSerializer(sort_keys=True), {"b": 1, "a": 2}, b'{"a":2,"b":1}'),
        (JsonSerializer(default=str), {"id": ID}, f'{{"id":"{ID}"}}'.encode()),
        (UuidSerializer(), ID, str(ID).encode()),
    ],
)
def test_bytes(serializer: Any, value: object, expected: bytes) -> None:
    assert serializer(value) == expected


@pytest.mark.parametrize(
    ("serializer", "value", "words"),
    [
        (StringSerializer(), b"x", "StringSerializer takes str, not bytes"),
        (StringSerializer("ascii"), "ü", "ascii"),
        (BytesSerializer(), "x", "not str"),
        (IntegerSerializer(4), 2**31, "4-byte int"),
        (IntegerSerializer(), 1.0, "not float"),
        (IntegerSerializer(), True, "not bool"),
        (FloatSerializer(4), 1e39, "4-byte float"),
        (FloatSerializer(), "1", "not str"),
        (JsonSerializer(), {1, 2}, "set is not JSON serializable; convert it, or pass a function"),
        (JsonSerializer(), float("nan"), "JSON"),
        (UuidSerializer(), str(ID), "not str"),
        (NullSerializer(), 0, "takes only None"),
        (lambda value: 1 / 0, "x", "ZeroDivisionError"),
        (lambda value: json.dumps(value), "x", "returned str"),
        (lambda value: 5, "x", "returned int"),
    ],
)
def test_failures_name_topic_role_and_cause(serializer: Any, value: object, words: str) -> None:
    serialize = serialize_function("value", serializer)
    with pytest.raises(SerializationError) as caught:
        serialize("orders", [], value)
    text = str(caught.value)
    assert "'orders'" in text
    assert "value" in text
    assert words in text


def test_a_topic_serializer_sees_topic_and_headers_and_may_add_some() -> None:
    class Registry:
        def serialize(self, topic: str, headers: list[tuple[str, bytes | None]], value: Any) -> bytes:
            headers.append(("schema", b"7"))
            return f"{topic}:{value}".encode()

    headers: list[tuple[str, bytes | None]] = []
    assert serialize_function("value", Registry())("t", headers, 5) == b"t:5"
    assert headers == [("schema", b"7")]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"x", b"x"),
        (bytearray(b"x"), b"x"),
        (memoryview(b"xyz")[1:], b"yz"),
        ("gruß", "gruß".encode()),
        ("", b""),
    ],
)
def test_without_a_serializer_bytes_and_text_pass(value: object, expected: bytes) -> None:
    assert serialize_function("key", None)("t", [], value) == expected


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (5, "key_serializer=IntegerSerializer()"),
        (1.5, "key_serializer=FloatSerializer()"),
        (ID, "key_serializer=UuidSerializer()"),
        ({"a": 1}, "key_serializer=JsonSerializer()"),
        ([1], "key_serializer=JsonSerializer()"),
        (object(), "set key_serializer to"),
        ("\ud800", "UTF-8"),
    ],
)
def test_without_a_serializer_the_rest_is_refused_with_advice(value: object, advice: str) -> None:
    with pytest.raises(SerializationError) as caught:
        serialize_function("key", None)("t", [], value)
    assert advice in str(caught.value)


def test_names_and_classes_and_java_names_are_understood() -> None:
    for name in SERIALIZER_NAMES:
        assert callable(resolve_serializer("key_serializer", name))
    assert isinstance(resolve_serializer("key_serializer", StringSerializer), StringSerializer)
    java = "org.apache.kafka.common.serialization."
    assert isinstance(resolve_serializer("key_serializer", java + "ByteArraySerializer"), BytesSerializer)
    long = resolve_serializer("key_serializer", "LongSerializer")
    assert isinstance(long, IntegerSerializer)
    assert long.width == 8
    assert resolve_serializer("key_serializer", None) is None


@pytest.mark.parametrize(
    "make", [lambda: IntegerSerializer(3), lambda: FloatSerializer(2), lambda: StringSerializer("utf-99")]
)
def test_wrong_options_are_refused_at_once(make: Any) -> None:
    with pytest.raises(ConfigError):
        make()


@given(st.integers(-(2**63), 2**63 - 1))
def test_long_round_trip(number: int) -> None:
    assert int.from_bytes(IntegerSerializer()(number), "big", signed=True) == number


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ({}, "value_serializer=JsonSerializer"),
        (True, "value_serializer=JsonSerializer"),
        (1, "value_serializer=IntegerSerializer"),
        (uuid.uuid4(), "value_serializer=UuidSerializer"),
        (array.array("i"), "set value_serializer to a function"),
        (object(), "set value_serializer to a function"),
    ],
)
def test_the_advice_for_a_value_that_needs_a_serializer_would_work(value: object, advice: str) -> None:
    with pytest.raises(SerializationError, match=advice):
        serialize_function("value", None)("t", [], value)


class NeedsAnArgument:
    def __init__(self, argument: str) -> None:
        self.argument = argument

    def serialize(self, topic: str, headers: list[tuple[str, bytes | None]], value: object) -> bytes:
        return self.argument.encode()


@pytest.mark.parametrize("given", [NeedsAnArgument, AvroSerializer])
def test_a_class_of_an_application_or_of_a_schema_registry_is_not_an_object_of_it(given):
    name = given.__name__
    text = rf"value_serializer: expected an object, got the class {name}: pass {name}\(\.\.\.\)"
    with pytest.raises(ConfigError, match=text):
        resolve_serializer("value_serializer", given)
    assert resolve_serializer("value_serializer", str.encode) is str.encode
    assert resolve_serializer("value_serializer", bytes) is bytes
