"""Formats that make keys and values of Arrow columns: ``send_arrow(topic, table, value=Avro(...))``.

A format compiles its schema and the types of the columns into a plan, once; the kernel writes the rows.
"""

from __future__ import annotations

from kproducer.columnar.avro import Avro
from kproducer.columnar.avro_schema import avro_schema
from kproducer.columnar.protobuf import Protobuf

__all__ = ["Avro", "Protobuf", "avro_schema"]
