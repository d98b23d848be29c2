"""ProducerConfig: every setting of the producer, with unit, default, range and source, in one table.

Attribute names are Kafka's dotted names with ``_`` for ``.``; defaults are those of Kafka 4's Java producer.
Settings are checked one by one as they are given (``kproducer.config.setting``) and against each other here.
Knows nothing of the parts it configures. Source: Kafka's ``ProducerConfig``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from kproducer.config.setting import (
    METADATA_KEY,
    SECURITY_PROTOCOLS,
    Setting,
    YieldingDefault,
    boolean,
    choice,
    from_text,
    integer,
    parse_acks,
    parse_interceptors,
    parse_partitioner,
    parse_serializer,
    parse_servers,
    parse_text,
    special,
)
from kproducer.errors import ConfigError
from kproducer.errors.suggestions import instead_of
from kproducer.types import INT32_MAX, INT64_MAX

_log = logging.getLogger(__name__)

_JAVA = "Kafka ProducerConfig"


def _with_parsers(_class: type, fields: list[Any]) -> list[Any]:
    """Let every attribute be checked and converted by its Setting, which attrs does not know."""
    return [
        field.evolve(
            converter=partial(field.metadata[METADATA_KEY].parse, field.metadata[METADATA_KEY], field.name)
        )
        for field in fields
    ]


# Order matters where a default follows another setting: that one has to come first.
@attrs.frozen(kw_only=True, field_transformer=_with_parsers)
class ProducerConfig:
    """The settings of one producer. Immutable; safe to share between threads.

    Raises:
        ConfigError: when a value has the wrong type, is out of range or contradicts another one.
    """

    bootstrap_servers: tuple[str, ...] = special(
        "list of host:port",
        parse_servers,
        source=_JAVA,
        about="Brokers to ask first; the others are learnt from them.",
    )
    client_id: str = special(
        "text",
        parse_text,
        "",
        source=_JAVA,
        about="Name in broker logs and quotas; empty: a name is made up.",
    )
    acks: int = special(
        "0, 1, -1 or 'all'",
        parse_acks,
        -1,
        source="KIP-679",
        about="Who must have a record before it counts: nobody, the leader, or all in-sync replicas (-1).",
    )
    transactional_id: str = special(
        "text",
        parse_text,
        "",
        source="KIP-98",
        about="Name of the producer for transactions; empty: none. Needs enable_idempotence.",
    )
    transaction_timeout_ms: int = integer(
        60000, "ms", 1, source=_JAVA, about="After which the cluster aborts a transaction that is still open."
    )
    linger_ms: int = integer(
        5, "ms", 0, INT64_MAX, source="KIP-1030", about="How long a batch may wait for more records."
    )
    buffer_memory: int = integer(
        33554432,
        "bytes",
        1,
        INT64_MAX,
        source=_JAVA,
        about="Memory for records that are not yet acknowledged.",
    )
    max_block_ms: int = integer(
        60000,
        "ms",
        0,
        INT64_MAX,
        source=_JAVA,
        about="How long send() and partitions_for() may wait for metadata and memory together.",
    )
    max_request_size: int = integer(
        1048576, "bytes", 0, source=_JAVA, about="Largest request, and so largest record (uncompressed)."
    )
    batch_size: int = integer(
        YieldingDefault(524288, lambda config: min(524288, config.buffer_memory, config.max_request_size)),
        "bytes",
        0,
        source="Java: 16384",
        about="Size a batch is sent at, and grows up to; 0: each record alone.",
    )
    request_timeout_ms: int = integer(
        30000, "ms", 0, source=_JAVA, about="How long a broker may take to answer."
    )
    delivery_timeout_ms: int = integer(
        YieldingDefault(
            120000, lambda config: max(120000, min(INT32_MAX, config.linger_ms + config.request_timeout_ms))
        ),
        "ms",
        0,
        source="KIP-91",
        about="When a record that is still not acknowledged fails, counted from send(). Records of one batch "
        "fail together, by the last one's time: the first one up to a tenth later, or up to linger_ms if "
        "that is longer. At least linger_ms + request_timeout_ms (the default is raised to that).",
    )
    retries: int = integer(
        INT32_MAX,
        "",
        0,
        source=_JAVA,
        about="How often a batch is sent again; delivery_timeout_ms ends it too.",
    )
    retry_backoff_ms: int = integer(
        100, "ms", 0, INT64_MAX, source="KIP-580", about="Wait before the first retry; doubles each time."
    )
    retry_backoff_max_ms: int = integer(
        YieldingDefault(1000, lambda config: max(1000, config.retry_backoff_ms)),
        "ms",
        0,
        INT64_MAX,
        source="KIP-580",
        about="Longest wait between retries.",
    )
    reconnect_backoff_ms: int = integer(
        50, "ms", 0, INT64_MAX, source=_JAVA, about="Wait before the first reconnect; doubles each time."
    )
    reconnect_backoff_max_ms: int = integer(
        YieldingDefault(1000, lambda config: max(1000, config.reconnect_backoff_ms)),
        "ms",
        0,
        INT64_MAX,
        source="KIP-144",
        about="Longest wait between reconnects.",
    )
    socket_connection_setup_timeout_ms: int = integer(
        10000,
        "ms",
        1,
        INT64_MAX,
        source="KIP-601",
        about="How long a connection may take to be ready; doubles.",
    )
    socket_connection_setup_timeout_max_ms: int = integer(
        YieldingDefault(30000, lambda config: max(30000, config.socket_connection_setup_timeout_ms)),
        "ms",
        1,
        INT64_MAX,
        source="KIP-601",
        about="Longest connection setup time.",
    )
    connections_max_idle_ms: int = integer(
        540000, "ms", -1, INT64_MAX, source=_JAVA, about="When an unused connection is closed; -1: never."
    )
    send_buffer_bytes: int = integer(
        131072, "bytes", -1, source=_JAVA, about="SO_SNDBUF; -1: the operating system's choice."
    )
    receive_buffer_bytes: int = integer(
        32768, "bytes", -1, source=_JAVA, about="SO_RCVBUF; -1: the operating system's choice."
    )
    max_in_flight_requests_per_connection: int = integer(
        5, "", 1, source=_JAVA, about="Unanswered requests per broker."
    )
    enable_idempotence: bool = boolean(
        YieldingDefault(True, lambda config: bool(config.transactional_id) or not _obstacles(config)),
        source="KIP-98, KIP-679",
        about="Write each record once and in order, whatever is sent again. Needs acks=-1, retries and at "
        "most 5 in flight: the default is False where one of these is set otherwise.",
    )
    metadata_max_age_ms: int = integer(
        300000, "ms", 0, INT64_MAX, source=_JAVA, about="When metadata is fetched again without need."
    )
    metadata_max_idle_ms: int = integer(
        300000, "ms", 5000, INT64_MAX, source="KIP-526", about="When an unused topic is forgotten."
    )
    metadata_recovery_strategy: str = choice(
        "rebootstrap",
        ("rebootstrap", "none"),
        source="KIP-899",
        about="What to do when no known broker can be reached.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = integer(
        300000, "ms", 0, source="KIP-1102", about="How long metadata may fail before starting afresh."
    )
    compression_type: str = choice(
        "none",
        ("none", "gzip", "snappy", "lz4", "zstd"),
        source="KIP-110",
        about="Codec of record batches.",
    )
    compression_gzip_level: int = integer(
        -1, "", -1, 9, source="KIP-390", about="1 (fast) to 9 (small); -1: zlib's default."
    )
    compression_lz4_level: int = integer(9, "", 1, 17, source="KIP-390", about="1 (fast) to 17 (small).")
    compression_zstd_level: int = integer(
        3, "", -131072, 22, source="KIP-390", about="-131072 (fast) to 22 (small)."
    )
    partitioner: str | Callable[..., int] | None = special(  # noqa: RUF009 (a field)
        "name or callable",
        parse_partitioner,
        None,
        dotted="partitioner.class",
        source="KIP-480, KIP-794",
        about="None: hash of the key, and sticky, adaptive choice for records without one.",
    )
    partitioner_ignore_keys: bool = boolean(
        False, source="KIP-794", about="Whether keys do not matter to the built-in partitioner."
    )
    partitioner_adaptive_partitioning_enable: bool = boolean(
        True, source="KIP-794", about="Whether slow brokers get fewer of the records without key."
    )
    partitioner_availability_timeout_ms: int = integer(
        0,
        "ms",
        0,
        INT64_MAX,
        source="KIP-794",
        about="Partitions whose broker takes no requests for so long are passed over; 0: never.",
    )
    key_serializer: Any = special(  # noqa: RUF009 (a field)
        "serializer", parse_serializer, None, source=_JAVA, about="None: bytes-like and str (UTF-8) keys."
    )
    value_serializer: Any = special(  # noqa: RUF009 (a field)
        "serializer", parse_serializer, None, source=_JAVA, about="None: bytes-like and str (UTF-8) values."
    )
    interceptors: tuple[Any, ...] = special(
        "list of objects",
        parse_interceptors,
        (),
        dotted="interceptor.classes",
        source="KIP-42",
        about="Objects with on_send and on_acknowledgement, called in this order.",
    )
    client_dns_lookup: str = choice(
        "use_all_dns_ips",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        source="KIP-302",
        about="Whether bootstrap names are first turned into canonical names.",
    )
    security_protocol: str = choice(
        "PLAINTEXT",
        SECURITY_PROTOCOLS,
        source=_JAVA,
        about="Only PLAINTEXT is available yet.",
    )

    def __attrs_post_init__(self) -> None:
        _check_availability(self)
        _check_contradictions(self)

    @classmethod
    def from_keywords(cls, settings: Mapping[str, Any]) -> ProducerConfig:
        """Make a configuration from keyword arguments with Python values.

        Raises:
            ConfigError: for unknown settings (all of them are named), and as the class itself does.
        """
        _refuse_unknown(settings, dotted=False)
        _require_bootstrap_servers(settings, "bootstrap_servers")
        return _noted(cls(**settings), settings)

    @classmethod
    def from_dotted(cls, settings: Mapping[str, Any]) -> ProducerConfig:
        """Make a configuration from Kafka's dotted names; texts are accepted for numbers and booleans.

        Raises:
            ConfigError: as ``from_keywords`` does.
        """
        if not isinstance(settings, Mapping):
            raise ConfigError(
                "expected a mapping of Kafka's dotted names to values, such as "
                f"{{'bootstrap.servers': 'host:9092'}}, got {type(settings).__name__}"
            )
        _refuse_unknown(settings, dotted=True)
        _require_bootstrap_servers(settings, "bootstrap.servers")
        keywords = {}
        for dotted, value in settings.items():
            name = _ATTRIBUTE_OF_DOTTED[dotted]
            text_given = isinstance(value, str)
            keywords[name] = from_text(SETTINGS[name], dotted, value) if text_given else value
        return _noted(cls(**keywords), keywords)


#: Every setting by attribute name, in the order of the documentation. Read-only.
SETTINGS: dict[str, Setting] = {
    field.name: field.metadata[METADATA_KEY] for field in attrs.fields(ProducerConfig)
}

_ATTRIBUTE_OF_DOTTED = {setting.dotted or name.replace("_", "."): name for name, setting in SETTINGS.items()}


def configuration_table() -> str:
    """All settings as a Markdown table: the README's."""
    lines = ["| Setting | Default | Legal | Meaning | Source |", "|---|---|---|---|---|"]
    for name, setting in SETTINGS.items():
        default = "required" if name == "bootstrap_servers" else repr(setting.default)
        unit = f" {setting.unit}" if setting.unit else ""
        legal = setting.range_text or setting.kind
        lines.append(f"| `{name}` | `{default}`{unit} | {legal} | {setting.about} | {setting.source} |")
    return "\n".join(lines) + "\n"


def _refuse_unknown(settings: Mapping[str, Any], *, dotted: bool) -> None:
    known = _ATTRIBUTE_OF_DOTTED if dotted else SETTINGS
    unknown = [name for name in settings if name not in known]
    if unknown:
        dotted_name = {name: key for key, name in _ATTRIBUTE_OF_DOTTED.items()}
        spelling = dotted_name if dotted else {name: name for name in SETTINGS}
        sentences = [f"unknown setting {name!r}: {instead_of(name, spelling)}" for name in unknown]
        raise ConfigError("; ".join(sentences))


def _require_bootstrap_servers(settings: Mapping[str, Any], name: str) -> None:
    if name not in settings:
        raise ConfigError(f"{name} is missing: give at least one broker as 'host:port'")


def _check_availability(config: ProducerConfig) -> None:
    if config.security_protocol != "PLAINTEXT":
        raise ConfigError(
            f"security_protocol: {config.security_protocol} is not available yet in this version; "
            "only PLAINTEXT is"
        )


def _obstacles(config: ProducerConfig) -> list[tuple[str, str]]:
    """Settings that rule out idempotence, each with what would be right.

    Brokers tell duplicates only among the last five batches, and only of what all replicas have.
    """
    in_flight = config.max_in_flight_requests_per_connection
    requirements = (
        ("acks", config.acks == -1, "-1 ('all')"),
        ("retries", config.retries > 0, "1 or more"),
        ("max_in_flight_requests_per_connection", in_flight <= 5, "5 or less"),
    )
    return [(name, right) for name, is_right, right in requirements if not is_right]


def _check_idempotence(config: ProducerConfig) -> None:
    for name, right in _obstacles(config):
        if config.transactional_id:
            wish, instead = f"transactional_id={config.transactional_id!r}", "no transactional_id"
        else:
            wish, instead = "enable_idempotence=True", "enable_idempotence=False"
        raise ConfigError(
            f"{name}: {getattr(config, name)} contradicts {wish}; {right} would be right, or {instead}"
        )


def _noted(config: ProducerConfig, given: Mapping[str, Any]) -> ProducerConfig:
    """Say which guarantee is lost by a setting that does not name it."""
    if not config.enable_idempotence and "enable_idempotence" not in given:
        causes = ", ".join(f"{name}={getattr(config, name)}" for name, _ in _obstacles(config))
        _log.info(
            "Idempotence is off because of %s: what is sent again may be written twice or out of order. "
            "enable_idempotence=False says the same without this line",
            causes,
        )
    return config


def _check_contradictions(config: ProducerConfig) -> None:
    least = min(INT32_MAX, config.linger_ms + config.request_timeout_ms)
    if config.delivery_timeout_ms < least:
        raise ConfigError(
            f"delivery_timeout_ms: {config.delivery_timeout_ms} is less than linger_ms ({config.linger_ms}) "
            f"+ request_timeout_ms ({config.request_timeout_ms}); {least} or more would be right"
        )
    if config.batch_size > config.buffer_memory:
        raise ConfigError(
            f"batch_size: {config.batch_size} is more than buffer_memory ({config.buffer_memory}) holds; "
            f"{config.buffer_memory} or less would be right"
        )
    if config.enable_idempotence:
        _check_idempotence(config)
    elif config.transactional_id:
        raise ConfigError(
            f"transactional_id: {config.transactional_id!r} contradicts enable_idempotence=False; "
            "True, which is the default, would be right"
        )
    if config.compression_gzip_level == 0:
        raise ConfigError("compression_gzip_level: 0 would not compress; -1 or 1 to 9 would be right")
    for first, longest in (
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ):
        if getattr(config, longest) < getattr(config, first):
            raise ConfigError(
                f"{longest}: {getattr(config, longest)} is less than {first} ({getattr(config, first)}); "
                f"{getattr(config, first)} or more would be right"
            )
