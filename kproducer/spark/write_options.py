"""WriteOptions: what the user passed to ``.option(...)``, checked on the driver before a task starts.

Accepts the options of Spark's own Kafka sink, so that a migration only changes the format's name, and a few
more. An error names every wrong option and what would be right. It never shows the value of an unknown
option, which may be a misspelt secret; no ``repr`` shows producer settings. Independent of Spark's classes.
Source: Spark's ``KafkaSourceProvider``; Kafka's ``ProducerConfig``.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kproducer._core.config.producer_config import DOTTED_NAMES, SETTINGS, ProducerConfig
from kproducer._core.config.setting import (
    Setting,
    boolean,
    choice,
    integer,
    milliseconds,
    refused,
    shown,
    special,
)
from kproducer._core.runtime.arguments import topic_mistake
from kproducer.errors import ConfigError
from kproducer.errors.suggestions import instead_of, nearest_name
from kproducer.spark.bad_row_limit import BadRowLimit
from kproducer.spark.errors import SparkOptionError
from kproducer.spark.format_options import FORMAT_OPTIONS, parse_option
from kproducer.spark.option_names import KAFKA_PREFIX, OPTION_OF_SETTING, config_mistake
from kproducer.types import INT64_MAX

logger = logging.getLogger("kproducer.spark")

#: Kafka's dotted name of each producer setting to its attribute.
ATTRIBUTE_OF_DOTTED = {dotted: name for name, dotted in DOTTED_NAMES.items()}

#: Defaults that differ from the producer's own, which suit low-latency services. A Spark task writes as much
#: as it can and then ends; with small batches it would send one request per few records.
SPARK_DEFAULTS: dict[str, str] = {
    "client.id": "kproducer-spark",
    "linger.ms": "50",
    "compression.type": "lz4",
    "buffer.memory": "67108864",
}

#: A transaction lasts from a task's first row to the driver's commit, so this limits a whole batch. Brokers
#: accept at most their transaction.max.timeout.ms, which has the same default.
TRANSACTION_TIMEOUT_MS = 900_000

#: Part of transactional ids and group ids, so it must be valid in ACLs and readable in broker logs.
_NAME = re.compile(r"[a-zA-Z0-9._:/-]{1,180}")

#: In front of the topic in ``onBadRow``.
_TO_TOPIC = "topic:"

#: The longest time that options accept: 31 years.
_LONGEST_MS = 10**12 - 1

#: kafka.* settings that only the Java client has; a migrated job may still set them.
_JVM_ONLY = re.compile(
    r"metrics?\.(?!num\.samples|sample\.window\.ms|recording\.level).*|auto\.include\.jmx\.reporter"
    r"|ssl\.(protocol|provider|(keymanager|trustmanager)\.algorithm|secure\.random\.implementation)"
    r"|sasl\.kerberos\.(kinit\.cmd|min\.time\.before\.relogin|ticket\.renew\..*)"
)

#: kafka.* settings that Spark's sink refuses as well, or that need Java classes, and what to do instead.
REFUSED_SETTINGS = {
    "key.serializer": "Java classes cannot run here; set the option 'keyFormat' for Avro and others, "
    "or cast the column 'key' to STRING or BINARY",
    "value.serializer": "Java classes cannot run here; set the option 'valueFormat' for Avro and others, "
    "or cast the column 'value' to STRING or BINARY",
    "interceptor.classes": "Java classes cannot run here; transform the columns before writing instead",
    "interceptors": "objects cannot be options; transform the columns before writing instead",
    "ssl.engine.factory.class": "Java classes cannot run here; set kafka.ssl.truststore.* and "
    "kafka.ssl.keystore.* instead",
    "security.providers": "Java classes cannot run here; OpenSSL is the only provider",
    "transactional.id": "each task needs its own, which the option delivery=exactly-once generates "
    "(they begin with the option transactionalIdPrefix)",
}

#: Options of Spark's Kafka source. Spark's sink ignores them, and programs often use one dictionary of
#: options for both directions, so the sink accepts them.
_SOURCE_OPTIONS = frozenset(
    """
    assign subscribe subscribePattern startingOffsets startingOffsetsByTimestamp
    startingOffsetsByTimestampStrategy startingTimestamp endingOffsets endingOffsetsByTimestamp
    endingTimestamp failOnDataLoss fetchOffset.numRetries fetchOffset.retryIntervalMs groupIdPrefix
    kafkaConsumer.pollTimeoutMs maxOffsetsPerTrigger maxRecordsPerPartition maxTriggerDelay
    minOffsetsPerTrigger minPartitions
    """.lower().split()
)

#: Seen only if the mode is given as an option. Spark refuses the method before it calls us, with the text
#: "kproducer does not support Update mode".
_NO_UPDATES = (
    "output mode 'update' is not available to sinks in Python: call outputMode('update').foreachBatch(...) "
    "and write each DataFrame with format('kproducer'), or foreach(KafkaForeachWriter(...))"
)

#: Options that Spark itself adds or reads.
SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname", "outputmode", "path"})


def _parse_topic(setting: Setting, name: str, value: str) -> str:
    topic = value.strip()
    if mistake := topic_mistake(topic):
        raise ConfigError(f"{name}: {mistake}")
    return topic


def _parse_on_bad_row(setting: Setting, name: str, value: str) -> str:
    text = value.strip()
    if text.lower() in ("fail", "skip"):
        return text.lower()
    if not text.lower().startswith(_TO_TOPIC):
        raise refused(name, "fail, skip or topic:NAME", shown(value))
    topic = text[len(_TO_TOPIC) :]
    if mistake := topic_mistake(topic):
        raise ConfigError(f"{name}: {mistake}")
    return _TO_TOPIC + topic


def _parse_limit(setting: Setting, name: str, value: str) -> BadRowLimit:
    limit = BadRowLimit.parse(value)
    if limit is None:
        raise refused(name, "a number of rows, or a share up to 100%, such as 100 or 0.5%", shown(value))
    return limit


def _parse_metrics_file(setting: Setting, name: str, value: str) -> str:
    path = value.strip()
    if not os.path.isabs(path) or not path.endswith(".prom"):
        raise refused(
            name, "an absolute path that ends with '.prom', as node_exporter's files do", shown(value)
        )
    return path


def _parse_name(setting: Setting, name: str, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise refused(name, "1 to 180 letters, digits or . _ : / -", shown(value))
    return value


class WriteOptions(NamedTuple):
    """The options of one write, checked. Immutable and picklable; ``repr`` shows no values of ``kafka.*``.

    The option for ``marker_topic`` is ``markerTopic``, and so on. ``write_id`` and the attributes after it
    are for exactly-once writes only. ``None``: not set.

    Attributes:
        producer_settings: dotted name and text of every producer setting, defaults of the sink included.
        query_name: Spark's option; empty if it is not set.
    """

    producer_settings: tuple[tuple[str, str], ...]
    query_name: str
    topic: str | None = special("text", _parse_topic, None)
    """The topic of every row; overrides the column. Required by `schema.registry.url`."""
    include_headers: bool = boolean(True)
    """No effect: as in Spark's sink, a column `headers` is always written."""
    extra_columns: str = choice("ignore", "fail")
    """`fail`: a column that is not written is an error."""
    producer_idle_timeout_ms: int = milliseconds(60_000, maximum=_LONGEST_MS)
    """How long a worker keeps an unused producer. 0: closed after each task."""
    check_timeout_ms: int = milliseconds(10_000, maximum=_LONGEST_MS)
    """How long brokers may take to respond to the driver's check and to create topics. Raise it for queries
    that should survive longer outages. 0: no check, for drivers that cannot reach the brokers. A check that
    succeeded counts for 1 second."""
    summary: str = choice("log", "job", "task", "off")
    """Where to report how much was written. `log`: to the logs that Spark collects, if enabled. `job`: also
    one line per job or micro-batch on standard error. `task`: also one line per task."""
    metrics_file: str | None = special("path", _parse_metrics_file, None)
    """A file on the driver, such as `/var/lib/node_exporter/orders.prom`, that gets the totals of the query
    for [Prometheus](../metrics.md#spark). Requires a name of the query (`queryName`)."""
    on_bad_row: str = special("text", _parse_on_bad_row, "fail", choices=("fail", "skip", f"{_TO_TOPIC}NAME"))
    """What to do with a [row that cannot be written](../spark.md#bad-rows): fail the task, leave the row out,
    or write it to another topic, with the reason."""
    max_bad_rows: BadRowLimit | None = special("text", _parse_limit, None, choices=("100", "0.5%"))
    """The most rows of a batch write or micro-batch that may be bad: a number, or a share of its rows.
    Default: no limit."""
    delivery: str = choice("at-least-once", "exactly-once")
    """The guarantee. The following options require `exactly-once`."""
    write_id: str | None = special("text", _parse_name, None)
    """Batch: the name by which a repetition is recognised."""
    # Limited to an int64, because a version is stored as an offset.
    write_version: int | None = integer(None, maximum=INT64_MAX)
    """Batch: the version of the `writeId`; must not decrease. Default: in `foreachBatch` the micro-batch's
    id, otherwise 0."""
    marker_topic: str | None = special("text", _parse_topic, None)
    """An existing, readable topic: committed offsets of its partition 0 record what was written. It gets no
    records. Default: the option `topic`."""
    transactional_id_prefix: str = special("text", _parse_name, "kproducer-spark")
    """Prefix of transactional ids and groups, for ACLs."""
    on_uncertain_replay: str = choice("fail", "write")
    """Streams: `write` continues if it is unknown what is committed."""
    accepted_full_refreshes: int = integer(0)
    """[Pipelines](../spark-pipelines.md#full-refresh): how many full refreshes may write all rows again."""

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in OPTIONS)
        return f"WriteOptions({', '.join(shown)})"

    @property
    def is_exactly_once(self) -> bool:
        """Whether rows are written in transactions."""
        return self.delivery == "exactly-once"

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic for bad rows; ``None``: they fail the write, or are left out."""
        is_to_topic = self.on_bad_row.startswith(_TO_TOPIC)
        return self.on_bad_row.removeprefix(_TO_TOPIC) if is_to_topic else None

    @property
    def topics(self) -> dict[str, str]:
        """Topics that are known without the rows, and the option that names each."""
        named = (
            ("onBadRow", self.dead_letter_topic),
            ("markerTopic", self.marker_topic),
            ("topic", self.topic),
        )
        return {topic: option for option, topic in named if topic is not None}

    @classmethod
    def parse(
        cls, options: Mapping[str, str], *, is_stream: bool = False, mistakes: Iterable[str] = ()
    ) -> WriteOptions:
        """Check all options but those of formats.

        Args:
            options: as given; Spark ignores the case of names.
            is_stream: whether this is a streaming query.
            mistakes: in the options of formats, which the error names as well.

        Raises:
            SparkOptionError: names every wrong option and what would be right.
        """
        mistakes = [*mistakes]
        fields: dict[str, Any] = {"query_name": ""}
        given_settings: dict[str, str] = {}
        ignored = []
        for name, value in options.items():
            lower = name.lower()
            if lower.startswith(KAFKA_PREFIX):
                given_settings[lower.removeprefix(KAFKA_PREFIX)] = value
            elif field := _FIELDS.get(lower):
                try:
                    fields[field] = parse_option(OPTIONS[field], option_name(field), value)
                except ConfigError as error:
                    mistakes.append(str(error))
            elif (lower, str(value).strip().lower()) == ("outputmode", "update"):
                mistakes.append(_NO_UPDATES)
            elif lower in _SOURCE_OPTIONS:
                ignored.append(name)
            elif lower == "queryname":
                fields["query_name"] = str(value).strip()
            elif lower not in SPARK_OPTIONS:
                mistakes.append(_unknown_option(name))
        if ignored:
            logger.warning("Ignored options of Spark's Kafka source: %s", ", ".join(ignored))
        mistakes += _contradictions(fields, is_stream)
        defaults = SPARK_DEFAULTS
        if fields.get("delivery") == "exactly-once":
            fields.setdefault("marker_topic", fields.get("topic"))
            defaults = {
                **SPARK_DEFAULTS,
                # Each task gives its producer its own id.
                "transactional.id": fields.get("transactional_id_prefix", "kproducer-spark"),
            }
            # Transactions with two-phase commit have no timeout, and the two settings exclude each other.
            two_phase_commit = given_settings.get("transaction.two.phase.commit.enable", "false")
            if str(two_phase_commit).strip().lower() != "true":
                defaults["transaction.timeout.ms"] = str(TRANSACTION_TIMEOUT_MS)
        settings = _parse_settings(given_settings, mistakes, defaults)
        if mistakes:
            raise SparkOptionError("; ".join(mistakes))
        unset = {field: setting.default for field, setting in OPTIONS.items() if field not in fields}
        return cls(tuple(sorted(settings.items())), **fields, **unset)

    def producer_config(self) -> ProducerConfig:
        """The configuration of the producers for this write."""
        return ProducerConfig.from_dotted(dict(self.producer_settings))


def option_name(attribute: str) -> str:
    """The option for an attribute of ``WriteOptions``."""
    first, *others = attribute.split("_")
    return first + "".join(map(str.capitalize, others))


#: The declarations of the attributes that have an option of their own. ``parse`` replaces them by values.
OPTIONS: dict[str, Setting] = WriteOptions._field_defaults
#: The attributes by the lower-case names of their options.
_FIELDS = {option_name(name).lower(): name for name in OPTIONS}
_EXACTLY_ONCE_FIELDS = [*OPTIONS][-6:]


def _contradictions(fields: Mapping[str, Any], is_stream: bool) -> list[str]:
    """Contradictions between the sink's own options.

    Args:
        fields: the parsed options.
        is_stream: whether this is a streaming query.
    """
    mistakes = []
    on_bad_row = fields.get("on_bad_row", "fail")
    if "max_bad_rows" in fields and on_bad_row == "fail":
        mistakes.append("option 'maxBadRows' requires the option onBadRow=skip or onBadRow=topic:NAME")
    if "metrics_file" in fields and not fields.get("query_name"):
        mistakes.append(
            "option 'metricsFile' requires a name for its metrics: call queryName('orders') on writeStream, "
            "or set the option 'queryName' of a batch write"
        )
    if "topic" in fields and on_bad_row == _TO_TOPIC + fields["topic"]:
        mistakes.append("option 'onBadRow': bad rows need another topic than that of the option 'topic'")
    if fields.get("delivery") != "exactly-once":
        return mistakes + [
            f"option '{option_name(name)}' requires the option delivery=exactly-once"
            for name in _EXACTLY_ONCE_FIELDS
            if name in fields
        ]
    if is_stream:
        mistakes += [
            f"option '{option_name(name)}' is for batch writes: a streaming query is identified by its "
            "checkpoint"
            for name in ("write_id", "write_version")
            if name in fields
        ]
    elif "write_version" in fields and "write_id" not in fields:
        mistakes.append("option 'writeVersion' requires the option 'writeId'")
    if (is_stream or "write_id" in fields) and not (fields.keys() & {"marker_topic", "topic"}):
        mistakes.append(
            "option 'markerTopic' is missing: the topic comes from a column, so name an existing, readable "
            "topic; committed offsets of its partition 0 record the progress, no records are written to it"
        )
    return mistakes


def _parse_settings(
    given: dict[str, str], mistakes: list[str], defaults: Mapping[str, str]
) -> dict[str, str]:
    """Add the defaults to the given producer settings, and check them."""
    ignored = sorted(name for name in given if _JVM_ONLY.fullmatch(name))
    if ignored:
        names = ", ".join(KAFKA_PREFIX + name for name in ignored)
        logger.warning("Ignored settings that only the Java client has: %s", names)
    given = {name: value for name, value in given.items() if name not in ignored}
    settings = {**defaults, **given}
    wrong = [mistake for name, value in given.items() if (mistake := _setting_mistake(name, value))]
    mistakes += wrong
    if "bootstrap.servers" not in given:
        mistakes.append(
            "option 'kafka.bootstrap.servers' is missing: give at least one broker as 'host:port'"
        )
    elif not wrong:
        if "buffer.memory" not in given:
            # Our default must not contradict a larger batch.
            needed = int(given.get("batch.size", 0))
            settings["buffer.memory"] = str(max(int(defaults["buffer.memory"]), needed))
        try:
            config = ProducerConfig.from_dotted(settings)
            if config.uses_sasl:
                # Imported here, because most writes do not need it.
                from kproducer._core.security.sasl_settings import sasl_mechanism_of

                sasl_mechanism_of(config)
        except ConfigError as error:
            mistakes.append(config_mistake(error))
    return settings


def _setting_mistake(name: str, value: str) -> str | None:
    if name in REFUSED_SETTINGS:
        return f"option 'kafka.{name}' cannot be set: {REFUSED_SETTINGS[name]}"
    attribute = ATTRIBUTE_OF_DOTTED.get(name)
    if attribute is None:
        return f"unknown option 'kafka.{name}': {instead_of(name, OPTION_OF_SETTING)}"
    try:
        parse_option(SETTINGS[attribute], KAFKA_PREFIX + name, value)
    except ConfigError as error:
        return str(error)
    if attribute == "partitioner":
        # Imported here, because planning a write without a partitioner should not load the kernel.
        from kproducer._core.sending.partitioners import make_partitioner

        try:
            # Kafka's own Java classes have counterparts with the same names; other classes cannot run here.
            make_partitioner(value)
        except ConfigError as error:
            return (
                f"option 'kafka.{name}': {error}; to choose partitions yourself, set the column 'partition'"
            )
    return None


def _unknown_option(name: str) -> str:
    known = {lower: option_name(field) for lower, field in _FIELDS.items()}
    known |= {option.lower(): option for option in FORMAT_OPTIONS.values()}
    options = ", ".join(known.values())
    known |= {dotted: f"kafka.{dotted}" for dotted in ATTRIBUTE_OF_DOTTED}
    if nearest := nearest_name(name.lower().replace("_", "."), known):
        return f"unknown option {name!r}: did you mean '{known[nearest]}'?"
    return f"unknown option {name!r}: the sink has {options}; producer settings start with 'kafka.'"
