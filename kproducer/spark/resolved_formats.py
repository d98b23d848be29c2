"""What the driver does for keys and values in Avro, JSON or Protobuf before tasks start.

It makes the formats, finds or registers their schemas, and compiles them for the types that Spark will pass
to tasks, so that a wrong type ends the write here. Tasks get the resolved formats, which need no registry.
Formats and the registry's answers are kept for the process: Spark plans each micro-batch of a query in the
same one, unless that was idle for a minute.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import closing
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer._core.columns.arrow import ArrowSource
from kproducer._core.columns.encoder_plan import ArrowField
from kproducer._core.runtime.extra_packages import need_package
from kproducer.columnar.avro import Avro
from kproducer.columnar.format_plans import FormatPlans
from kproducer.errors import ConfigError, InvalidArgumentError, KafkaError
from kproducer.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from kproducer.spark.arrow_types import arrow_type, type_mistakes
from kproducer.spark.errors import SparkOptionError, SparkSchemaError, SparkWriteError
from kproducer.spark.format_options import FormatOptions
from kproducer.spark.option_names import in_format_options, registry_mistake
from kproducer.spark.write_columns import NOT_IN_VALUES, FormattedColumns, WriteColumns

#: How many formats a process keeps. Most processes have one query, or a few.
_MOST_FORMATS = 32
#: The name that Spark's ``to_avro`` gives to records, so that a subject which has such schemas accepts ours.
_AVRO_NAME = "topLevelRecord"


def mistakes_in(options: Iterable[FormatOptions]) -> Iterator[str]:
    """A text for each format that cannot be made, which begins with the option that is wrong."""
    for each in options:
        try:
            _registry(each.registry)
        except ConfigError as error:
            yield registry_mistake(error)
            continue
        try:
            _made(each)
        except OSError as error:
            yield f"option '{each.role}.descriptor.file': cannot read {error.filename!r}: {error.strerror}"
        except SparkOptionError as error:
            yield str(error)
        except KafkaError as error:
            option = f"{each.role}.schema" if each.schema else each.option
            yield f"option '{option}': {in_format_options(str(error), each.role)}"


def resolve_formats(
    options: Iterable[FormatOptions], columns: WriteColumns, schema: t.StructType
) -> WriteColumns:
    """Resolve formats for the columns of a DataFrame. May block for a schema registry.

    Args:
        options: of the formats, without mistakes.
        columns: of the write.
        schema: of the DataFrame.

    Returns:
        ``columns`` with the resolved formats, picklable and without credentials.

    Raises:
        SparkSchemaError: columns do not fit; names each format's first one.
        SparkWriteError: the schema registry has no schema, refused it, or is not reachable; or its schema is
            not valid.
    """
    every = set(schema.names) - NOT_IN_VALUES
    needed: set[str] = set()
    needed.update(*({each.written_column} if each.written_column else every for each in options))
    fields = _arrow_fields(schema, needed)
    resolved: dict[str, Any] = {}
    mistakes = []
    for each in options:
        wanted = ColumnsToEncode(fields, NOT_IN_VALUES, columns.topic, each.role)
        try:
            found = _made(each).resolve(wanted)
            found.compile_columns(wanted)
        except InvalidArgumentError as error:
            text = str(error).removeprefix(f"{each.role}: ")
            mistakes.append(f"option '{each.option}': {in_format_options(text, each.role)}")
        except KafkaError as error:
            text = in_format_options(str(error), each.role)
            raise SparkWriteError(
                f"option '{each.option}': there is no usable schema for the {each.role}s of topic "
                f"'{columns.topic}'. Nothing was written: {type(error).__name__}: {text}"
            ) from None
        else:
            resolved[each.role] = FormattedColumns(found)
    if mistakes:
        raise SparkSchemaError("; ".join(mistakes))
    return columns._replace(**resolved)


# -- formats -----------------------------------------------------------------------------------------------


@lru_cache(_MOST_FORMATS)
def _registry(settings: tuple[tuple[str, Any], ...]) -> SchemaRegistryClient | None:
    if not settings:
        return None
    client = SchemaRegistryClient(dict(settings))
    atexit.register(client.close)
    return client


def _made(options: FormatOptions) -> FormatPlans[Any]:
    file = options.descriptor_file
    return _format(options, os.stat(file).st_mtime_ns if file else 0)


@lru_cache(_MOST_FORMATS)
def _format(options: FormatOptions, descriptors_changed_at: int) -> FormatPlans[Any]:
    """The format; a new one if the file of descriptors was changed."""
    registry = _registry(options.registry)
    conf = None if registry is None else options.registry_conf
    if conf is not None and options.schema_id_serializer == "header":
        conf["schema.id.serializer"] = header_schema_id_serializer
    column = options.written_column or None
    if options.kind == "protobuf":
        return _protobuf(options, column, registry, conf)
    given: dict[str, Any] = {"schema": options.schema or None, "registry": registry, "conf": conf}
    if options.kind == "avro":
        return Avro(column, **given, name=options.record_name or (None if column else _AVRO_NAME))
    from kproducer.columnar.json import Json

    choices: dict[str, Any] = {"nulls": options.nulls, "nan": options.nan, "decimals": options.decimals}
    return Json(column, **given, title=options.record_name or None, **choices)


def _protobuf(
    options: FormatOptions,
    column: str | None,
    registry: SchemaRegistryClient | None,
    conf: Mapping[str, Any] | None,
) -> FormatPlans[Any]:
    need_package("Protobuf", "protobuf", "google.protobuf.descriptor", "protobuf")
    from kproducer.columnar.protobuf import Protobuf
    from kproducer.spark.protobuf_messages import message_of_file, registered_protobuf

    if options.descriptor_file:
        message = message_of_file(options.descriptor_file, options.message, options.role)
        return Protobuf(message, column, registry=registry, conf=conf)
    assert registry is not None
    assert conf is not None
    return registered_protobuf(options.message, column, registry, conf)


# -- types -------------------------------------------------------------------------------------------------


def _arrow_fields(schema: t.StructType, needed: Container[str]) -> tuple[ArrowField, ...]:
    """The columns of a DataFrame as tasks get them.

    Args:
        schema: of the DataFrame.
        needed: the columns that formats write; others may have types that Arrow does not have.

    Raises:
        SparkSchemaError: names the needed columns whose types no format can write.
    """
    mistakes = []
    fields = []
    for field in schema.fields:
        found = [*type_mistakes(field.dataType, field.name)]
        if field.name in needed:
            mistakes += found
        # Arrow's null, which has to be nullable, stands for what Arrow does not have.
        arrow, is_nullable = (pa.null(), True) if found else (arrow_type(field.dataType), field.nullable)
        fields.append(pa.field(field.name, arrow, is_nullable))
    if mistakes:
        raise SparkSchemaError("; ".join(mistakes))
    with closing(ArrowSource(pa.Table.from_batches([], pa.schema(fields)))) as source:
        return tuple(map(ArrowField.of, source.fields()))
