"""Without an optional package, the error names the extra that installs it."""

from __future__ import annotations

import sys

import pytest

from kproducer import ConfigError
from kproducer.schema_registry import AvroSerializer, JSONSerializer, ProtobufSerializer, SchemaRegistryClient


@pytest.mark.parametrize(
    ("package", "extra", "create"),
    [
        ("httpcore", "avro", lambda client: SchemaRegistryClient({"url": "http://localhost:1"})),
        ("fastavro", "avro", lambda client: AvroSerializer(client, '"string"')),
        ("jsonschema_rs", "json", lambda client: JSONSerializer("{}", client)),
        ("google.protobuf", "protobuf", lambda client: ProtobufSerializer(object, client)),
    ],
)
def test_the_error_names_the_extra(client, monkeypatch, package, extra, create):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ConfigError, match=rf"needs the package {package.split('.')[-1].split('_')[0]}.*\[{extra}\]"
    ):
        create(client)
