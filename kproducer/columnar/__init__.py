"""Formats that make keys and values of Arrow columns: ``send_arrow(topic, table, value=Avro(...))``.

A format compiles its schema and the types of the columns into a plan, once; the kernel writes the rows.
"""

from __future__ import annotations

from kproducer.columnar.avro import Avro
from kproducer.columnar.avro_schema import avro_schema
from kproducer.columnar.json import Json
from kproducer.columnar.json_schema import json_schema
from kproducer.columnar.protobuf import Protobuf

__all__ = ["Avro", "Json", "Protobuf", "avro_schema", "json_schema"]
