"""WriteOptions: what the user gave to ``.option(...)``, checked on the driver before a task starts.

Takes the options of Spark's own Kafka sink, so that changing the format's name is a whole migration, and a
few of ours. Every mistake is named with the option and what would be right, all mistakes at once. The value
of an unknown option is never shown, as it may be a misspelt secret; no ``repr`` shows producer settings.
Knows nothing of Spark's classes. Source: Spark's ``KafkaSourceProvider``; Kafka's ``ProducerConfig``.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from kproducer.config.producer_config import DOTTED_NAMES, SETTINGS, ProducerConfig
from kproducer.config.setting import from_text, shown
from kproducer.errors import ConfigError
from kproducer.errors.suggestions import instead_of
from kproducer.runtime.arguments import topic_mistake
from kproducer.spark.errors import SparkOptionError
from kproducer.spark.exactly_once_options import (
    AT_LEAST_ONCE,
    DEFAULT_PREFIX,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OPTION_NAMES,
    TRANSACTION_TIMEOUT_MS,
    contradictions,
    parse_name,
    parse_version,
)

logger = logging.getLogger("kproducer.spark")

_KAFKA_PREFIX = "kafka."

#: Where a Spark job is not the latency-bound service that Kafka's own defaults are made for: a task writes as
#: much as it can and then ends. Small batches would cost the cluster a request for every few records.
SPARK_DEFAULTS: dict[str, str] = {
    "client.id": "kproducer-spark",
    "batch.size": "524288",
    "linger.ms": "50",
    "compression.type": "lz4",
    "buffer.memory": "67108864",
}

#: kafka.* settings of the JVM that have no meaning in another process; a migrated job may still carry them.
_JVM_ONLY_SETTINGS = frozenset(
    {
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    }
)

#: kafka.* settings that Spark's sink refuses too, or that would need Java classes, and what to do instead.
_REFUSED_SETTINGS = {
    "key.serializer": "keys are written as they are; cast the column 'key' to STRING or BINARY instead",
    "value.serializer": "values are written as they are; cast the column 'value' to STRING or BINARY instead",
    "interceptor.classes": "Java classes cannot run here; transform the columns before writing instead",
    "interceptors": "objects cannot be options; transform the columns before writing instead",
    "transactional.id": "each task needs one of its own; the option delivery=exactly-once makes them "
    "(they begin with the option transactionalIdPrefix)",
}

#: Options of Spark's Kafka source. Spark's sink takes no notice of them, and one dictionary of options for
#: both directions is common, so they are no mistake here either.
_SOURCE_OPTIONS = frozenset(
    name.lower()
    for name in (
        "assign",
        "subscribe",
        "subscribePattern",
        "startingOffsets",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "startingTimestamp",
        "endingOffsets",
        "endingOffsetsByTimestamp",
        "endingTimestamp",
        "failOnDataLoss",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "maxOffsetsPerTrigger",
        "maxRecordsPerPartition",
        "maxTriggerDelay",
        "minOffsetsPerTrigger",
        "minPartitions",
    )
)

#: What Spark itself puts among the options or reads from them.
_SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname", "outputmode", "path"})

#: Names of our own options as documented; Spark compares without regard to case.
OPTION_NAMES = (
    "topic",
    "includeHeaders",
    "extraColumns",
    "producerIdleTimeoutMs",
    "checkTimeoutMs",
    "summary",
    "delivery",
    *EXACTLY_ONCE_OPTION_NAMES,
)


@attrs.frozen(kw_only=True)
class WriteOptions:
    """The options of one write, checked. Immutable and picklable; ``repr`` shows no values of ``kafka.*``.

    Attributes:
        producer_settings: dotted name and text of every producer setting, defaults of the sink included.
        topic: the topic of all rows, or ``None`` when the column tells.
        extra_columns: ``"ignore"`` (as Spark's sink does) or ``"fail"``.
        producer_idle_timeout_ms: how long a producer without a task stays connected.
        check_timeout_ms: how long brokers have, before tasks start, to answer and to know the topics; 0: they
            are not asked.
        summary: ``"log"``: to Spark's collected logs; ``"job"``: also a printed line for each job;
            ``"task"``: and for each task; ``"off"``: nothing is told.
        delivery: ``"at-least-once"`` or ``"exactly-once"``; what follows belongs to the second.
        write_id, write_version: how a batch is recognised when it comes again; ``None``: not given.
        marker_topic: the topic whose partition 0 committed offsets are noted for; ``None``: there are none.
        transactional_id_prefix: of transactional ids and groups.
        on_uncertain_replay: ``"fail"`` or ``"write"``.
    """

    producer_settings: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    topic: str | None = None
    extra_columns: str = "ignore"
    producer_idle_timeout_ms: int = 60_000
    check_timeout_ms: int = 10_000
    summary: str = "log"
    delivery: str = AT_LEAST_ONCE
    write_id: str | None = None
    write_version: int | None = None
    marker_topic: str | None = None
    transactional_id_prefix: str = DEFAULT_PREFIX
    on_uncertain_replay: str = "fail"

    @property
    def is_exactly_once(self) -> bool:
        """Whether rows are written in transactions."""
        return self.delivery == EXACTLY_ONCE

    @property
    def prints_jobs(self) -> bool:
        """Whether each job and micro-batch gets a line on standard error."""
        return self.summary in ("job", "task")

    @property
    def topics(self) -> dict[str, str]:
        """Topics that are known before any row is, and the option that names each."""
        named = (("markerTopic", self.marker_topic), ("topic", self.topic))
        return {topic: option for option, topic in named if topic is not None}

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
        """Check all options.

        Args:
            options: as given.
            is_stream: whether they are a streaming query's.

        Raises:
            SparkOptionError: names every wrong option, and what would be right for each.
        """
        mistakes: list[str] = []
        given = {str(name).lower(): (str(name), value) for name, value in options.items()}
        ours = {lower: pair for lower, pair in given.items() if not lower.startswith(_KAFKA_PREFIX)}
        kafka = {
            lower.removeprefix(_KAFKA_PREFIX): value
            for lower, (_, value) in given.items()
            if lower.startswith(_KAFKA_PREFIX)
        }
        fields = _parse_own_options(ours, mistakes)
        settings = _parse_kafka_options(kafka, mistakes, _transactional(fields))
        mistakes += contradictions(ours, kafka, fields, is_stream)
        if fields.get("delivery") == EXACTLY_ONCE:
            fields.setdefault("marker_topic", fields.get("topic"))
        if mistakes:
            raise SparkOptionError("; ".join(mistakes))
        return cls(producer_settings=tuple(sorted(settings.items())), **fields)

    def producer_config(self) -> ProducerConfig:
        """The configuration of the producers that write this."""
        return ProducerConfig.from_dotted(dict(self.producer_settings))


def with_option_names(text: str) -> str:
    """A text about producer settings, with the options behind it that set them here."""
    words = set(_SETTING_NAME.findall(text))
    options = [f"'kafka.{dotted}'" for dotted, name in ATTRIBUTE_OF_DOTTED.items() if name in words]
    return f"{text} (as options: {', '.join(options)})" if options else text


def _parse_own_options(given: Mapping[str, tuple[str, str]], mistakes: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    ignored = []
    for lower, (name, value) in given.items():
        parser = _OWN_PARSERS.get(lower)
        if parser is not None:
            try:
                fields.update(parser(value))
            except ValueError as error:
                mistakes.append(f"option '{_documented(lower)}': {error}")
        elif lower in _SOURCE_OPTIONS:
            ignored.append(name)
        elif lower not in _SPARK_OPTIONS:
            mistakes.append(_unknown_option(name, lower))
    if ignored:
        logger.warning("options of Spark's Kafka source mean nothing to the sink: %s", ", ".join(ignored))
    return fields


def _transactional(fields: Mapping[str, Any]) -> dict[str, str]:
    """More defaults, for producers of transactions."""
    if fields.get("delivery") != EXACTLY_ONCE:
        return {}
    prefix = fields.get("transactional_id_prefix", DEFAULT_PREFIX)
    # Each task gives its producer another id.
    return {"transactional.id": prefix, "transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS)}


def _parse_kafka_options(
    given: Mapping[str, str], mistakes: list[str], more_defaults: Mapping[str, str]
) -> dict[str, str]:
    settings = {**SPARK_DEFAULTS, **more_defaults}
    ignored = []
    sound = True
    for name, value in given.items():
        if name in _JVM_ONLY_SETTINGS:
            ignored.append(f"kafka.{name}")
            continue
        mistake = _setting_mistake(name, value)
        if mistake:
            mistakes.append(mistake)
            sound = False
        settings[name] = value
    if ignored:
        logger.warning("settings of the Java client alone are ignored: %s", ", ".join(sorted(ignored)))
    if "bootstrap.servers" not in given:
        mistakes.append(
            "option 'kafka.bootstrap.servers' is missing: give at least one broker as 'host:port'"
        )
    elif sound:
        _follow_given_limits(given, settings)
        try:
            ProducerConfig.from_dotted(settings)
        except ConfigError as error:
            mistakes.append(f"options 'kafka.*': {with_option_names(str(error))}")
    return settings


def _setting_mistake(name: str, value: str) -> str | None:
    if name in _REFUSED_SETTINGS:
        return f"option 'kafka.{name}' is not possible: {_REFUSED_SETTINGS[name]}"
    attribute = ATTRIBUTE_OF_DOTTED.get(name)
    if attribute is None:
        return f"unknown option 'kafka.{name}': {instead_of(name, _PREFIXED_NAMES)}"
    try:
        if attribute == "partitioner":
            # Here and not above: without a partitioner a write is planned without the kernel.
            from kproducer.sending.partitioners import make_partitioner

            # Kafka's own Java classes have counterparts under their names; others cannot run here.
            make_partitioner(value)
        SETTINGS[attribute].parse(SETTINGS[attribute], name, from_text(SETTINGS[attribute], name, value))
    except ConfigError as error:
        reason = _without_name(str(error), name)
        cure = "; for a choice of your own fill the column 'partition'" if attribute == "partitioner" else ""
        return f"option 'kafka.{name}': {reason}{cure}"
    return None


def _follow_given_limits(given: Mapping[str, str], settings: dict[str, str]) -> None:
    """Keep our larger defaults out of the way of limits that the user set."""
    buffer_memory = int(settings["buffer.memory"])
    if "batch.size" not in given and int(settings["batch.size"]) > buffer_memory:
        settings["batch.size"] = str(buffer_memory)
    if "buffer.memory" not in given and int(settings["batch.size"]) > buffer_memory:
        settings["buffer.memory"] = settings["batch.size"]


def _without_name(message: str, name: str) -> str:
    return message.removeprefix(f"{name}: ")


def _unknown_option(name: str, lower: str) -> str:
    if lower in ATTRIBUTE_OF_DOTTED or lower == "bootstrap.servers":
        return f"unknown option {name!r}: producer settings carry a prefix, write 'kafka.{lower}'"
    text = f"unknown option {name!r}"
    known = {each.lower(): each for each in OPTION_NAMES}
    known.update({dotted: f"kafka.{dotted}" for dotted in ATTRIBUTE_OF_DOTTED})
    nearest = difflib.get_close_matches(lower.replace("_", "."), known, n=1, cutoff=0.6)
    if nearest:
        return f"{text}: did you mean '{known[nearest[0]]}'?"
    return f"{text}: the sink's own are {', '.join(OPTION_NAMES)}; producer settings start with 'kafka.'"


def _documented(lower: str) -> str:
    return next(name for name in OPTION_NAMES if name.lower() == lower)


def _parse_topic(value: str) -> dict[str, Any]:
    topic = value.strip()
    mistake = topic_mistake(topic)
    if mistake:
        raise ValueError(mistake)
    return {"topic": topic}


def _parse_include_headers(value: str) -> dict[str, Any]:
    # As in Spark's sink, headers are written whenever the column is there; the option is for reading.
    if value.strip().lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, got {shown(value)}")
    return {}


def _word(field: str, words: Iterable[str]) -> Callable[[str], dict[str, Any]]:
    choices = tuple(words)

    def parse(value: str) -> dict[str, Any]:
        word = value.strip().lower()
        if word not in choices:
            raise ValueError(f"{shown(value)} is not one of {', '.join(choices)}")
        return {field: word}

    return parse


def _milliseconds(field: str) -> Callable[[str], dict[str, Any]]:
    def parse(value: str) -> dict[str, Any]:
        text = value.strip()
        if not (text.isascii() and text.isdigit()) or len(text) > 12:
            raise ValueError(f"expected a whole number of ms, 0 or more, got {shown(value)}")
        return {field: int(text)}

    return parse


_OWN_PARSERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "topic": _parse_topic,
    "includeheaders": _parse_include_headers,
    "extracolumns": _word("extra_columns", ("ignore", "fail")),
    "produceridletimeoutms": _milliseconds("producer_idle_timeout_ms"),
    "checktimeoutms": _milliseconds("check_timeout_ms"),
    "summary": _word("summary", ("log", "job", "task", "off")),
    "delivery": _word("delivery", (AT_LEAST_ONCE, EXACTLY_ONCE)),
    "writeid": parse_name("write_id"),
    "writeversion": parse_version,
    "markertopic": lambda value: {"marker_topic": _parse_topic(value)["topic"]},
    "transactionalidprefix": parse_name("transactional_id_prefix"),
    "onuncertainreplay": _word("on_uncertain_replay", ("fail", "write")),
}

#: Kafka's dotted name of each producer setting to its attribute.
ATTRIBUTE_OF_DOTTED = {dotted: name for name, dotted in DOTTED_NAMES.items()}

#: Of one word are some that are words of English, too.
_SETTING_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")

_PREFIXED_NAMES = {name: f"kafka.{dotted}" for dotted, name in ATTRIBUTE_OF_DOTTED.items()}
