"""The options of the Spark sink, as tables: of a write, and of the formats of typed columns.

``codegen.from_tables`` writes docs/reference/spark-options.md with it. Names, defaults and texts are those of
``WriteOptions`` and ``FormatOptions``. Needs PySpark, as all of ``kproducer.spark``. Knows nothing of message
specs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kproducer._core.config.setting import Setting
from kproducer._core.config.setting_meanings import meanings
from kproducer.spark import format_options, write_options
from kproducer.spark.option_names import KAFKA_PREFIX

_HEAD = "| Option | Default | Allowed values | Meaning |\n|---|---|---|---|"

_PAGE = """\
# Options of the Spark sink

The options of `format("kproducer")`: those in the tables, and the settings of the producer with the prefix
`kafka.`. Names are not case-sensitive, as in all of Spark.

## The write

{head}
| `kafka.bootstrap.servers` | required | host:port,host:port | Brokers for the first connection. |
| `kafka.*` | [defaults](../spark.md#options) | | [Settings](java-settings.md) with Java's names. |
{write}

## Settings of the producer that are refused

{refused}

## Typed columns

[How to use them](../spark.md#typed-columns). Each `value.` option exists with `key.` as well.

{head}
| `valueFormat`, `keyFormat` | | avro, json, protobuf | Makes values or keys of columns. |
{formats}

## The schema registry

The settings of the [client](schema-registry.rst) that are texts or numbers, with a prefix:
`schema.registry.url`, `schema.registry.basic.auth.user.info` and so on. Files are read on the driver.
`schema.registry.bearer.auth.token` needs no `bearer.auth.credentials.source`, and
`schema.registry.cache.latest.ttl.sec` is {ttl_s} by default. These are refused:

{refused_of_registry}
"""


def spark_options_page() -> str:
    """The page, without the line that says that it is generated."""
    options = {write_options.option_name(name): each for name, each in write_options.OPTIONS.items()}
    formats = {f"value.{name.replace('_', '.')}": each for name, each in format_options.OPTIONS.items()}
    of_writes = meanings(write_options, "WriteOptions").values()
    of_formats = meanings(format_options, "FormatOptions").values()
    return _PAGE.format(
        head=_HEAD,
        write="\n".join(_rows(options, of_writes)),
        refused=_refused(KAFKA_PREFIX, write_options.REFUSED_SETTINGS),
        formats="\n".join(_rows(formats, of_formats)),
        ttl_s=format_options.LATEST_TTL_S,
        refused_of_registry=_refused(format_options.REGISTRY_PREFIX, format_options.REFUSED_SETTINGS),
    )


def _rows(options: Mapping[str, Setting], texts: Iterable[str]) -> Iterator[str]:
    for (name, setting), text in zip(options.items(), texts, strict=True):
        default = "" if setting.default in (None, "") else f"`{_as_option(setting.default)}`"
        yield f"| `{name}` | {default} | {_allowed(setting)} | {text} |"


def _as_option(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


def _allowed(setting: Setting) -> str:
    """The values that an option accepts."""
    if setting.choices:
        return ", ".join(setting.choices)
    if setting.kind == "boolean":
        return "true, false"
    if setting.kind == "integer":
        return "milliseconds" if setting.unit == "ms" else "whole number"
    return "path" if setting.kind == "path" else "text"


def _refused(prefix: str, settings: Mapping[str, str]) -> str:
    rows = (f"| `{prefix}{name}` | {why} |" for name, why in settings.items())
    return "\n".join(["| Option | Why, and what to do |", "|---|---|", *rows])
