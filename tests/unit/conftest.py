"""A fake schema registry with clients, ours and confluent-kafka's as reference; an identity provider."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka.schema_registry as confluent
import pytest

from kproducer.schema_registry import SchemaRegistryClient
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.identity_provider import IdentityProvider


@pytest.fixture
def registry() -> Iterator[FakeSchemaRegistry]:
    with FakeSchemaRegistry() as running:
        yield running


@pytest.fixture
def client(registry: FakeSchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url, "retries.wait.ms": 1}) as connected:
        yield connected


@pytest.fixture
def confluent_client(registry: FakeSchemaRegistry) -> Iterator[confluent.SchemaRegistryClient]:
    connected = confluent.SchemaRegistryClient({"url": registry.url})
    yield connected
    connected.close()


@pytest.fixture
def idp(shared_provider: IdentityProvider) -> Iterator[IdentityProvider]:
    yield shared_provider
    shared_provider.answer_as_usual()
