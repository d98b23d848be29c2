"""WriteOptions: what the user passed to ``.option(...)``, checked on the driver before a task starts.

Accepts the options of Spark's own Kafka sink, so that a migration only changes the format's name, and a few
more. An error names every wrong option and says what would be right. It never shows the value of an unknown
option, which may be a misspelt secret; no ``repr`` shows producer settings. Independent of Spark's classes.
Source: Spark's ``KafkaSourceProvider``; Kafka's ``ProducerConfig``.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kproducer.config.producer_config import DOTTED_NAMES, SETTINGS, ProducerConfig
from kproducer.config.setting import from_text, shown
from kproducer.errors import ConfigError
from kproducer.errors.suggestions import instead_of
from kproducer.runtime.arguments import topic_mistake
from kproducer.spark.errors import SparkOptionError

logger = logging.getLogger("kproducer.spark")

_KAFKA_PREFIX = "kafka."

AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"
DEFAULT_PREFIX = "kproducer-spark"

#: Differences to Kafka's own defaults, which are made for services with low latency. A Spark task writes as
#: much as it can and then ends; with small batches it would send one request per few records.
SPARK_DEFAULTS: dict[str, str] = {
    "client.id": "kproducer-spark",
    "batch.size": "524288",
    "linger.ms": "50",
    "compression.type": "lz4",
    "buffer.memory": "67108864",
}

#: A transaction lasts from a task's first row to the driver's commit, so this limits a whole batch. Brokers
#: accept at most their transaction.max.timeout.ms, which has the same default.
TRANSACTION_TIMEOUT_MS = 900_000

#: A part of transactional ids and groups, which appear in ACLs and in the brokers' logs.
_NAME = re.compile(r"[a-zA-Z0-9._:/-]{1,180}")

#: kafka.* settings that only the Java client knows; a migrated job may still have them.
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

#: kafka.* settings that Spark's sink refuses as well, or that would need Java classes, and what to do
#: instead.
_REFUSED_SETTINGS = {
    "key.serializer": "keys are written as they are; cast the column 'key' to STRING or BINARY instead",
    "value.serializer": "values are written as they are; cast the column 'value' to STRING or BINARY instead",
    "interceptor.classes": "Java classes cannot run here; transform the columns before writing instead",
    "interceptors": "objects cannot be options; transform the columns before writing instead",
    "transactional.id": "each task needs its own; the option delivery=exactly-once makes them "
    "(they begin with the option transactionalIdPrefix)",
}

#: Options of Spark's Kafka source. Spark's sink ignores them, and programs often use one dictionary of
#: options for both directions, so they are not a mistake here either.
_SOURCE_OPTIONS = frozenset(
    """
    assign subscribe subscribePattern startingOffsets startingOffsetsByTimestamp
    startingOffsetsByTimestampStrategy startingTimestamp endingOffsets endingOffsetsByTimestamp
    endingTimestamp failOnDataLoss fetchOffset.numRetries fetchOffset.retryIntervalMs groupIdPrefix
    kafkaConsumer.pollTimeoutMs maxOffsetsPerTrigger maxRecordsPerPartition maxTriggerDelay
    minOffsetsPerTrigger minPartitions
    """.lower().split()
)

#: Options that Spark itself adds or reads.
_SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname", "outputmode", "path"})


@attrs.frozen(kw_only=True)
class WriteOptions:
    """The options of one write, checked. Immutable and picklable; ``repr`` shows no values of ``kafka.*``.

    Attributes:
        producer_settings: dotted name and text of every producer setting, defaults of the sink included.
        topic: the topic of all rows; ``None``: the column has it.
        extra_columns: ``"ignore"`` (as Spark's sink does) or ``"fail"``.
        producer_idle_timeout_ms: how long a producer without a task stays connected.
        check_timeout_ms: time for brokers to answer and to know the topics, before tasks start; 0: no check.
        summary: ``"log"``: to Spark's collected logs; ``"job"``: also a printed line per job; ``"task"``:
        and per
            task; ``"off"``: no summary.
        delivery: ``"at-least-once"`` or ``"exactly-once"``; the following belong to the second.
        write_id, write_version: identify a batch when it is repeated; ``None``: not given.
        marker_topic: committed offsets for its partition 0 record what was written; ``None``: nothing is
        recorded. transactional_id_prefix: of transactional ids and groups. on_uncertain_replay: ``"fail"``
        or ``"write"``.
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
        """Topics that are known without the rows, and the option that names each."""
        named = (("markerTopic", self.marker_topic), ("topic", self.topic))
        return {topic: option for option, topic in named if topic is not None}

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
        """Check all options.

        Args:
            options: as given.
            is_stream: whether this is a streaming query.

        Raises:
            SparkOptionError: names every wrong option and what would be right.
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
        defaults = SPARK_DEFAULTS
        if fields.get("delivery") == EXACTLY_ONCE:
            fields.setdefault("marker_topic", fields.get("topic"))
            defaults = {
                **SPARK_DEFAULTS,
                # Each task gives its producer another id.
                "transactional.id": fields.get("transactional_id_prefix", DEFAULT_PREFIX),
                "transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
            }
        settings = _parse_kafka_options(kafka, mistakes, defaults)
        mistakes += _contradictions(ours, kafka, fields, is_stream)
        if mistakes:
            raise SparkOptionError("; ".join(mistakes))
        return cls(producer_settings=tuple(sorted(settings.items())), **fields)

    def producer_config(self) -> ProducerConfig:
        """The configuration of the producers that write this."""
        return ProducerConfig.from_dotted(dict(self.producer_settings))


def with_option_names(text: str) -> str:
    """Append to a text about producer settings the names of the options that set them."""
    words = set(_SETTING_NAME.findall(text))
    options = [f"'kafka.{dotted}'" for dotted, name in ATTRIBUTE_OF_DOTTED.items() if name in words]
    return f"{text} (as options: {', '.join(options)})" if options else text


def _parse_own_options(given: Mapping[str, tuple[str, str]], mistakes: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    ignored = []
    for lower, (name, value) in given.items():
        documented = _DOCUMENTED.get(lower)
        if documented is not None:
            field, parse = _OWN_OPTIONS[documented]
            try:
                parsed = parse(value)
            except ValueError as error:
                mistakes.append(f"option '{documented}': {error}")
            else:
                if field is not None:
                    fields[field] = parsed
        elif lower in _SOURCE_OPTIONS:
            ignored.append(name)
        elif lower not in _SPARK_OPTIONS:
            mistakes.append(_unknown_option(name, lower))
    if ignored:
        logger.warning("options of Spark's Kafka source have no effect on the sink: %s", ", ".join(ignored))
    return fields


def _contradictions(
    given: Mapping[str, object], kafka: Mapping[str, str], fields: Mapping[str, Any], is_stream: bool
) -> list[str]:
    """All contradictions between options of exactly-once writes.

    Args:
        given: the sink's own options that were given, in lower case.
        kafka: the producer settings that were given, by dotted names.
        fields: the parsed options.
        is_stream: whether this is a streaming query.
    """
    given_here = [name for name in EXACTLY_ONCE_OPTION_NAMES if name.lower() in given]
    if fields.get("delivery") != EXACTLY_ONCE:
        return [f"option '{name}' needs the option delivery=exactly-once" for name in given_here]
    mistakes = []
    if is_stream:
        mistakes += [
            f"option '{name}' is for batch writes: a streaming query is known by its checkpoint"
            for name in given_here
            if name in ("writeId", "writeVersion")
        ]
    elif "writeVersion" in given_here and "writeId" not in given_here:
        mistakes.append("option 'writeVersion' needs the option 'writeId', whose version it is")
    if (is_stream or "writeId" in given_here) and not fields.get("marker_topic"):
        mistakes.append(
            "option 'markerTopic' is missing: if rows choose their topics, name a topic that exists and that "
            "may be read; committed offsets for its partition 0 record what was written, it gets no records"
        )
    if kafka.get("enable.idempotence", "true").strip().lower() == "false":
        mistakes.append(
            "option 'kafka.enable.idempotence' cannot be false with delivery=exactly-once: leave it out"
        )
    if kafka.get("acks", "all").strip().lower() not in ("all", "-1"):
        mistakes.append("option 'kafka.acks' can only be all with delivery=exactly-once: leave it out")
    return mistakes


def _parse_kafka_options(
    given: Mapping[str, str], mistakes: list[str], defaults: Mapping[str, str]
) -> dict[str, str]:
    ignored = sorted(f"kafka.{name}" for name in given if name in _JVM_ONLY_SETTINGS)
    if ignored:
        logger.warning("settings that only the Java client knows are ignored: %s", ", ".join(ignored))
    given = {name: value for name, value in given.items() if name not in _JVM_ONLY_SETTINGS}
    settings = {**defaults, **given}
    wrong = [mistake for name, value in given.items() if (mistake := _setting_mistake(name, value))]
    mistakes += wrong
    if "bootstrap.servers" not in given:
        mistakes.append(
            "option 'kafka.bootstrap.servers' is missing: give at least one broker as 'host:port'"
        )
    elif not wrong:
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
            # Imported here, because planning a write without a partitioner should not load the kernel.
            from kproducer.sending.partitioners import make_partitioner

            # Kafka's own Java classes have counterparts with the same names; other classes cannot run here.
            make_partitioner(value)
        SETTINGS[attribute].parse(SETTINGS[attribute], name, from_text(SETTINGS[attribute], name, value))
    except ConfigError as error:
        reason = str(error).removeprefix(f"{name}: ")
        remedy = (
            "; to choose partitions yourself, fill the column 'partition'"
            if attribute == "partitioner"
            else ""
        )
        return f"option 'kafka.{name}': {reason}{remedy}"
    return None


def _follow_given_limits(given: Mapping[str, str], settings: dict[str, str]) -> None:
    """Adjust our larger defaults to limits that the user has set."""
    buffer_memory = int(settings["buffer.memory"])
    if "batch.size" not in given and int(settings["batch.size"]) > buffer_memory:
        settings["batch.size"] = str(buffer_memory)
    if "buffer.memory" not in given and int(settings["batch.size"]) > buffer_memory:
        settings["buffer.memory"] = settings["batch.size"]


def _unknown_option(name: str, lower: str) -> str:
    if lower in ATTRIBUTE_OF_DOTTED or lower == "bootstrap.servers":
        return f"unknown option {name!r}: producer settings carry a prefix, write 'kafka.{lower}'"
    text = f"unknown option {name!r}"
    known = {**_DOCUMENTED, **{dotted: f"kafka.{dotted}" for dotted in ATTRIBUTE_OF_DOTTED}}
    nearest = difflib.get_close_matches(lower.replace("_", "."), known, n=1, cutoff=0.6)
    if nearest:
        return f"{text}: did you mean '{known[nearest[0]]}'?"
    return f"{text}: the sink's own are {', '.join(OPTION_NAMES)}; producer settings start with 'kafka.'"


def _topic(value: str) -> str:
    topic = value.strip()
    if mistake := topic_mistake(topic):
        raise ValueError(mistake)
    return topic


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"expected 1 to 180 letters, digits or . _ : / -, got {shown(value)}")
    return value


def _boolean(value: str) -> None:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, got {shown(value)}")


def _word(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        word = value.strip().lower()
        if word not in words:
            raise ValueError(f"{shown(value)} is not one of {', '.join(words)}")
        return word

    return parse


def _whole(what: str, highest: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        text = value.strip()
        if not (text.isascii() and text.isdigit()) or int(text) > highest:
            raise ValueError(f"expected a whole number{what}, 0 to {highest}, got {shown(value)}")
        return int(text)

    return parse


_milliseconds = _whole(" of ms", 10**12 - 1)

#: Options that mean something only with ``delivery=exactly-once``: the field of ``WriteOptions``, and the
#: parser.
_EXACTLY_ONCE_OPTIONS: dict[str, tuple[str | None, Callable[[str], Any]]] = {
    "writeId": ("write_id", _name),
    # A version is stored as an offset.
    "writeVersion": ("write_version", _whole("", 2**63 - 1)),
    "markerTopic": ("marker_topic", _topic),
    "transactionalIdPrefix": ("transactional_id_prefix", _name),
    "onUncertainReplay": ("on_uncertain_replay", _word("fail", "write")),
}

_OWN_OPTIONS: dict[str, tuple[str | None, Callable[[str], Any]]] = {
    "topic": ("topic", _topic),
    # As in Spark's sink, headers are written whenever the column exists; the option is for reading.
    "includeHeaders": (None, _boolean),
    "extraColumns": ("extra_columns", _word("ignore", "fail")),
    "producerIdleTimeoutMs": ("producer_idle_timeout_ms", _milliseconds),
    "checkTimeoutMs": ("check_timeout_ms", _milliseconds),
    "summary": ("summary", _word("log", "job", "task", "off")),
    "delivery": ("delivery", _word(AT_LEAST_ONCE, EXACTLY_ONCE)),
    **_EXACTLY_ONCE_OPTIONS,
}

#: Names as documented.
OPTION_NAMES = tuple(_OWN_OPTIONS)
EXACTLY_ONCE_OPTION_NAMES = tuple(_EXACTLY_ONCE_OPTIONS)
#: By the lower-case name: Spark ignores case.
_DOCUMENTED = {name.lower(): name for name in OPTION_NAMES}

#: Kafka's dotted name of each producer setting to its attribute.
ATTRIBUTE_OF_DOTTED = {dotted: name for name, dotted in DOTTED_NAMES.items()}

#: At least two words: single ones could be English words.
_SETTING_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")

_PREFIXED_NAMES = {name: f"kafka.{dotted}" for dotted, name in ATTRIBUTE_OF_DOTTED.items()}
