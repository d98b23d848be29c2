"""A schema registry for tests of applications: an HTTP server on loopback, in this process.

    with FakeSchemaRegistry() as registry:
        client = SchemaRegistryClient({"url": registry.url})

It answers as Confluent Schema Registry does to what clients of producers and consumers ask, and needs nothing
but the standard library.
"""

from kproducer.testing.schema_registry.server import FakeSchemaRegistry

__all__ = ["FakeSchemaRegistry"]
