"""Serializers that use a schema registry: Avro, Protobuf and JSON Schema.

The client and the framing know no format; ``registry_serializer`` has what all formats share. The packages
for HTTP and for each format are extras, imported when the first client or serializer is created.
"""

from kproducer.errors import SchemaRegistryError
from kproducer.schema_registry.avro import AvroSerializer
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.framing import header_schema_id_serializer, prefix_schema_id_serializer
from kproducer.schema_registry.json_schema import JSONSerializer
from kproducer.schema_registry.protobuf import ProtobufSerializer, reference_subject_name_strategy
from kproducer.schema_registry.schemas import Association, RegisteredSchema, Schema, SchemaReference
from kproducer.schema_registry.subjects import (
    FALLBACK_TYPE,
    KAFKA_CLUSTER_ID,
    MessageField,
    SerializationContext,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)

__all__ = [
    "FALLBACK_TYPE",
    "KAFKA_CLUSTER_ID",
    "Association",
    "AvroSerializer",
    "JSONSerializer",
    "MessageField",
    "ProtobufSerializer",
    "RegisteredSchema",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
    "SchemaRegistryError",
    "SerializationContext",
    "header_schema_id_serializer",
    "prefix_schema_id_serializer",
    "record_subject_name_strategy",
    "reference_subject_name_strategy",
    "topic_record_subject_name_strategy",
    "topic_subject_name_strategy",
]
