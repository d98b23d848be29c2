"""librdkafka's settings of producers: each is translated, has no effect here, or is refused.

Settings that are not given have librdkafka's defaults, so that a program behaves as before. Sizes, timeouts
and names that only differ in form are converted. ``docs/migration/confluent-kafka.md`` has the same tables.
Source: librdkafka's CONFIGURATION.md (2.16).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kproducer._core.config.producer_config import SETTINGS
from kproducer._core.config.setting import LONGEST_MS, from_text, refused, shown
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.compat.bootstrap_servers import with_default_ports
from kproducer.errors import ConfigError
from kproducer.types import INT32_MAX

_log = GuardedLogger(__name__)

#: librdkafka's other names of a setting.
ALIASES = {
    "acks": "request.required.acks",
    "compression.type": "compression.codec",
    "delivery.timeout.ms": "message.timeout.ms",
    "linger.ms": "queue.buffering.max.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "metadata.broker.list": "bootstrap.servers",
    "retries": "message.send.max.retries",
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}

# fmt: off
_SAME = [
    "bootstrap.servers", "client.dns.lookup", "client.id", "enable.idempotence", "enable.metrics.push",
    "https.ca.location", "https.ca.pem", "max.in.flight.requests.per.connection",
    "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.max.ms", "retry.backoff.ms",
    "sasl.kerberos.keytab", "sasl.kerberos.principal", "sasl.kerberos.service.name",
    "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.config",
    "sasl.oauthbearer.extensions", "sasl.oauthbearer.metadata.authentication.type",
    "sasl.oauthbearer.method", "sasl.oauthbearer.scope", "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url", "security.protocol", "ssl.keystore.location",
    "ssl.keystore.password", "transaction.timeout.ms", "transactional.id",
]
# fmt: on

#: Settings that have the same values here, and their attributes of ``ProducerConfig``.
RENAMED = {
    **{name: name.replace(".", "_") for name in _SAME},
    "compression.codec": "compression_type",
    "message.max.bytes": "max_request_size",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.oauthbearer.assertion.jwt.template.file": "sasl_oauthbearer_assertion_template_file",
    "sasl.oauthbearer.client.id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl.oauthbearer.client.secret": "sasl_oauthbearer_client_credentials_client_secret",
    "sasl.oauthbearer.grant.type": "sasl_oauthbearer_jwt_retriever_class",
    "sasl.password": "sasl_plain_password",
    "sasl.username": "sasl_plain_username",
    "ssl.ca.pem": "ssl_truststore_certificates",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.certificate.pem": "ssl_keystore_certificate_chain",
    "ssl.crl.location": "ssl_crlfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.pem": "ssl_keystore_key",
}

#: Settings whose values have another form or another unit here; ``translated`` converts them.
CONVERTED = {
    "batch.size",
    "compression.level",
    "connections.max.idle.ms",
    "message.timeout.ms",
    "partitioner",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.ms",
    "socket.connection.setup.timeout.ms",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "topic.metadata.refresh.interval.ms",
}

#: Settings that the adapter itself uses.
OF_THE_ADAPTER = {
    "default.topic.config",
    "delivery.report.only.error",
    "error_cb",
    "logger",
    "oauth_cb",
    "on_delivery",
    "queue.buffering.max.messages",
    "statistics.interval.ms",
    "stats_cb",
    "topic.metadata.propagation.max.ms",
}

_LOGGING = "the logging module decides what is logged; the logger is 'kproducer'"
_DEPRECATED = "deprecated and without effect in librdkafka, too"
_VERSIONS = "API versions are always negotiated with each broker"
_TICKETS = "the keytab or the ticket cache is used directly, without kinit"
_CONSUMER = "a setting of consumers"

# fmt: off
#: Settings of consumers, which producers accept without effect.
CONSUMER_NAMES = [
    "auto.commit.enable", "auto.commit.interval.ms", "auto.offset.reset", "check.crcs",
    "coordinator.query.interval.ms", "consume.callback.max.messages", "enable.auto.commit",
    "enable.auto.offset.store", "enable.partition.eof", "fetch.error.backoff.ms", "fetch.max.bytes",
    "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms",
    "group.id", "group.instance.id", "group.protocol", "group.protocol.type", "group.remote.assignor",
    "heartbeat.interval.ms", "isolation.level", "max.partition.fetch.bytes", "max.poll.interval.ms",
    "offset.store.method", "offset.store.path", "offset.store.sync.interval.ms",
    "partition.assignment.strategy", "queued.max.messages.kbytes", "queued.min.messages",
    "session.timeout.ms",
    "max.poll.records", "share.acknowledgement.mode",
]
# fmt: on

# fmt: off
_C_NAMES = [
    "background_event_cb", "closesocket_cb", "connect_cb", "consume_cb", "default_topic_conf", "dr_cb",
    "dr_msg_cb", "enabled_events", "interceptors", "log_cb", "msg_order_cmp",
    "oauthbearer_token_refresh_cb", "offset_commit_cb", "opaque", "open_cb", "partitioner_cb",
    "rebalance_cb", "resolve_cb", "socket_cb", "ssl.certificate.verify_cb", "ssl_ca", "ssl_certificate",
    "ssl_engine_callback_data", "ssl_key",
    "enable_sasl_queue",
]
# fmt: on

#: Settings without effect here, each with the reason and the value for which the behaviour is the same
#: anyway, so that no warning is needed.
IGNORED: dict[str, tuple[str, Any]] = {
    "api.version.fallback.ms": (_VERSIONS, None),
    "api.version.request": (_VERSIONS, True),
    "api.version.request.timeout.ms": ("request_timeout_ms, from socket.timeout.ms, applies", None),
    "batch.num.messages": ("batches are limited in bytes: batch.size", None),
    "broker.address.family": ("all addresses of a host are tried", "any"),
    "broker.address.ttl": ("names are resolved for each connection", None),
    "broker.version.fallback": (_VERSIONS, None),
    "builtin.features": ("kproducer has no build features", None),
    "client.rack": ("the producer does not choose partitions by rack", ""),
    "debug": (_LOGGING, ""),
    "enable.random.seed": ("Python's random generator seeds itself", None),
    "internal.termination.signal": ("the I/O thread needs no signal to end", None),
    "log.connection.close": (_LOGGING, None),
    "log.queue": (_LOGGING, False),
    "log.thread.name": (_LOGGING, None),
    "log_level": (_LOGGING, None),
    "enable.sparse.connections": ("connections are opened when they are needed", True),
    "metadata.request.timeout.ms": ("request_timeout_ms, from socket.timeout.ms, applies", None),
    "message.copy.max.bytes": ("records are always copied into the batch, once", None),
    "metadata.max.age.ms": ("topic.metadata.refresh.interval.ms decides when metadata is refreshed", None),
    "produce.offset.report": (_DEPRECATED, None),
    "queue.buffering.backpressure.threshold": ("max.in.flight.requests.per.connection limits requests", None),
    "receive.message.max.bytes": ("the size of responses is limited without a setting", None),
    "reconnect.backoff.jitter.ms": (_DEPRECATED, None),
    "request.timeout.ms": (
        "brokers wait for replicas for as long as the producer waits for them: socket.timeout.ms",
        None,
    ),
    "sasl.kerberos.kinit.cmd": (_TICKETS, ""),
    "sasl.kerberos.min.time.before.relogin": (_TICKETS, None),
    "socket.blocking.max.ms": (_DEPRECATED, None),
    "socket.keepalive.enable": ("TCP keepalive is always on", True),
    "socket.max.fails": ("a request that times out always closes the connection", 1),
    "socket.nagle.disable": ("TCP_NODELAY is always set", True),
    "sticky.partitioning.linger.ms": ("the sticky partition changes after batch.size bytes", None),
    "topic.blacklist": ("the producer asks only for topics that it sends to", ""),
    "topic.metadata.refresh.fast.cnt": (_DEPRECATED, None),
    "topic.metadata.refresh.fast.interval.ms": ("retry.backoff.ms applies", None),
    "topic.metadata.refresh.sparse": ("only topics in use are requested", True),
    **dict.fromkeys(
        CONSUMER_NAMES,
        (_CONSUMER, None),
    ),
}

_CONTEXT = "use kproducer.KafkaProducer with ssl_context"
_BY_C = "it can only be set by programs in C; remove it"
#: Settings that are refused unless they have the second value; the first says what to do instead.
REFUSED: dict[str, tuple[str, Any]] = {
    "allow.auto.create.topics": ("the brokers' auto.create.topics.enable decides; remove it", True),
    "enable.gapless.guarantee": ("use transactions; remove it", False),
    "enable.sasl.oauthbearer.unsecure.jwt": ("return an unsecured token from oauth_cb", False),
    "enable.ssl.certificate.verification": (f"{_CONTEXT} that does not verify", True),
    "plugin.library.paths": ("plugins of librdkafka cannot be loaded; remove it", ""),
    "queuing.strategy": ("records are sent in the order of produce(); remove it", "fifo"),
    "ssl.ca.certificate.stores": ("it is for Windows; use ssl.ca.location", "Root"),
    "ssl.curves.list": (_CONTEXT, ""),
    "ssl.engine.id": (_CONTEXT, "dynamic"),
    "ssl.engine.location": (_CONTEXT, ""),
    "ssl.providers": (_CONTEXT, ""),
    "ssl.sigalgs.list": (_CONTEXT, ""),
    "test.mock.broker.rtt": ("only librdkafka has a mock cluster; remove it", 0),
    "test.mock.num.brokers": ("only librdkafka has a mock cluster; remove it", 0),
    "throttle_cb": ("KafkaProducer.metrics() has produce-throttle-time-avg and -max", None),
    **dict.fromkeys(
        _C_NAMES,
        (_BY_C, None),
    ),
}

#: What librdkafka does without a setting, where that is not kproducer's default.
_DEFAULTS: dict[str, Any] = {
    "client_id": "rdkafka",
    "enable_idempotence": False,
    "max_in_flight_requests_per_connection": 1_000_000,
    "max_request_size": 1_000_000,
    "batch_size": 1_000_000,
    "buffer_memory": 1_048_576 * 1024,
    "connections_max_idle_ms": -1,
    "receive_buffer_bytes": -1,
    "reconnect_backoff_max_ms": 10_000,
    "reconnect_backoff_ms": 100,
    "send_buffer_bytes": -1,
    "socket_connection_setup_timeout_max_ms": 30_000,
    "socket_connection_setup_timeout_ms": 30_000,
}
_LINGER_MS = 5
_MESSAGE_TIMEOUT_MS = 300_000
_SOCKET_TIMEOUT_MS = 60_000
_IDENTITY = "sasl.oauthbearer.metadata.authentication.type"
_CALLBACKS = ("error_cb", "stats_cb", "oauth_cb", "on_delivery")
_LEVELS = {"gzip": "compression_gzip_level", "lz4": "compression_lz4_level", "zstd": "compression_zstd_level"}


class ProducerSettings(NamedTuple):
    """librdkafka's settings, translated.

    Attributes:
        own: for ``ProducerConfig``.
        hash_of_key: ``crc32`` or ``crc32 of null``: what the adapter does with keys; ``None``: the engine's.
        most_messages: ``queue.buffering.max.messages``; 0: unlimited.
        only_errors: ``delivery.report.only.error``.
        propagation_s: how long a topic may be missing, in seconds.
        message_timeout_s: after which a message whose topic is not known fails.
        statistics_s: interval; 0: none.
        error_cb, stats_cb, on_delivery: callables or ``None``.
        logger: as given.
    """

    own: dict[str, Any]
    hash_of_key: str | None
    most_messages: int
    only_errors: bool
    propagation_s: float
    message_timeout_s: float
    statistics_s: float
    error_cb: Callable[[Any], object] | None
    stats_cb: Callable[[str], object] | None
    on_delivery: Callable[[Any, Any], object] | None
    logger: Any


def translated(config: Mapping[str, Any]) -> ProducerSettings:
    """Translate the settings of a producer. Logs a warning that lists those without effect.

    Raises:
        ConfigError: a setting is unknown, refused or has a wrong value; says what to do.
        TypeError: a callback cannot be called.
    """
    given = _by_canonical_name(config)
    for name in _CALLBACKS:
        if given.get(name) is not None and not callable(given[name]):
            raise TypeError(f"expected {name} property as a callable function")
    without_effect = []
    for name, value in given.items():
        if name in REFUSED and not _same(value, REFUSED[name][1]):
            raise ConfigError(f"{name}: not supported; {REFUSED[name][0]}")
        if name in IGNORED and not _same(value, IGNORED[name][1]):
            without_effect.append(f"{name} ({IGNORED[name][0]})")
    if without_effect:
        _log.warning("Settings of librdkafka without effect in kproducer: %s", "; ".join(without_effect))
    own = dict(_DEFAULTS)
    if not given.get("bootstrap.servers"):
        raise ConfigError("bootstrap.servers is missing; set it to at least one 'host' or 'host:port'")
    given["bootstrap.servers"] = with_default_ports(given["bootstrap.servers"])
    for name, own_name in RENAMED.items():
        if name in given:
            own[own_name] = _parsed(own_name, name, given[name])
    if own.get("transactional_id") and "enable.idempotence" not in given:
        own["enable_idempotence"] = True
    if own["enable_idempotence"] and "max.in.flight.requests.per.connection" not in given:
        own["max_in_flight_requests_per_connection"] = 5
    _convert_timeouts(given, own)
    _convert_sizes(given, own)
    _convert_security(given, own)
    hash_of_key = _convert_partitioner(given, own)
    return ProducerSettings(
        own,
        hash_of_key,
        most_messages=_number(given, "queue.buffering.max.messages", 100_000),
        only_errors=_flag(given, "delivery.report.only.error"),
        propagation_s=_number(given, "topic.metadata.propagation.max.ms", 30_000) / 1000,
        message_timeout_s=own["delivery_timeout_ms"] / 1000,
        statistics_s=_number(given, "statistics.interval.ms", 0) / 1000,
        error_cb=given.get("error_cb"),
        stats_cb=given.get("stats_cb"),
        on_delivery=given.get("on_delivery"),
        logger=given.get("logger"),
    )


def _by_canonical_name(config: Mapping[str, Any]) -> dict[str, Any]:
    known = {*ALIASES, *RENAMED, *CONVERTED, *OF_THE_ADAPTER, *IGNORED, *REFUSED}
    given: dict[str, Any] = {}
    topic_config = config.get("default.topic.config")
    if not isinstance(topic_config, (Mapping, type(None))):
        kind = type(topic_config).__name__
        raise TypeError(f"default.topic.config: expected a dictionary of settings, got {kind}")
    # As in confluent-kafka, the settings of default.topic.config replace those beside it.
    for name, value in {**config, **(topic_config or {})}.items():
        if name not in known:
            raise ConfigError(f'No such configuration property: "{name}"')
        if name != "default.topic.config":
            given[ALIASES.get(name, name)] = value
    if str(given.get("compression.codec")) == "inherit":
        del given["compression.codec"]
    return given


def _same(value: Any, usual: Any) -> bool:
    return usual is not None and (value == usual or str(value).strip().lower() == str(usual).lower())


def _parsed(own_name: str, name: str, value: Any) -> Any:
    """The value in our type, checked; errors have librdkafka's name."""
    setting = SETTINGS[own_name]
    value = from_text(setting, name, value)
    if setting.kind == "boolean" and value in (0, 1):
        value = bool(value)
    setting.parse(setting, name, value)
    return value


def _number(given: Mapping[str, Any], name: str, default: int, lowest: int = 0) -> int:
    value = given.get(name, default)
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise refused(name, "a whole number", shown(value)) from None
    if number < lowest:
        raise refused(name, f"{lowest} or more", shown(value))
    return number


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    text = str(value).strip().lower()
    if text not in ("true", "false", "1", "0"):
        raise refused(name, "true or false", shown(value))
    return text in ("true", "1")


def _convert_timeouts(given: Mapping[str, Any], own: dict[str, Any]) -> None:
    """Timeouts, which must fit to each other here: librdkafka shortens the inner ones where it uses them."""
    default_ms = _MESSAGE_TIMEOUT_MS
    if own.get("transactional_id"):
        default_ms = own.get("transaction_timeout_ms", 60_000)
    delivery_ms = _number(given, "message.timeout.ms", default_ms) or INT32_MAX
    try:
        linger_ms = math.ceil(float(given.get("queue.buffering.max.ms", _LINGER_MS)))
    except (TypeError, ValueError, OverflowError):
        raise refused("linger.ms", "milliseconds", shown(given["queue.buffering.max.ms"])) from None
    linger_ms = _parsed("linger_ms", "linger.ms", linger_ms)
    socket_ms = _number(given, "socket.timeout.ms", _SOCKET_TIMEOUT_MS)
    own["delivery_timeout_ms"] = _parsed("delivery_timeout_ms", "message.timeout.ms", delivery_ms)
    own["linger_ms"] = min(linger_ms, delivery_ms - 1)
    own["request_timeout_ms"] = max(1, min(socket_ms, delivery_ms - own["linger_ms"]))
    if "socket.connection.setup.timeout.ms" in given:
        setup_ms = _number(given, "socket.connection.setup.timeout.ms", 0)
        own["socket_connection_setup_timeout_ms"] = own["socket_connection_setup_timeout_max_ms"] = setup_ms
    if "topic.metadata.refresh.interval.ms" in given:
        refresh = given["topic.metadata.refresh.interval.ms"]
        is_off = _same(refresh, -1)
        own["metadata_max_age_ms"] = (
            LONGEST_MS
            if is_off
            else _parsed("metadata_max_age_ms", "topic.metadata.refresh.interval.ms", refresh)
        )
    if "connections.max.idle.ms" in given:
        own["connections_max_idle_ms"] = _number(given, "connections.max.idle.ms", 0) or -1
    for name in ("retry", "reconnect"):
        first, longest = f"{name}_backoff_ms", f"{name}_backoff_max_ms"
        if first in own and longest in own:
            own[longest] = max(own[first], own[longest])
    # The producer must not wait, because the adapter itself waits for topics and for memory.
    own["max_block_ms"] = 0


def _convert_sizes(given: Mapping[str, Any], own: dict[str, Any]) -> None:
    if "queue.buffering.max.kbytes" in given:
        own["buffer_memory"] = _number(given, "queue.buffering.max.kbytes", 0) * 1024
    if "batch.size" in given:
        own["batch_size"] = _number(given, "batch.size", 0)
    own["batch_size"] = min(own["batch_size"], own["buffer_memory"], own["max_request_size"])
    for kind in ("send", "receive"):
        name = f"socket.{kind}.buffer.bytes"
        if name in given:
            own[f"{kind}_buffer_bytes"] = _number(given, name, 0) or -1
    if "compression.level" in given:
        level_name = _LEVELS.get(str(own.get("compression_type", "none")))
        level = _number(given, "compression.level", -1, lowest=-1)
        if level_name is not None and level != -1:
            own[level_name] = _parsed(level_name, "compression.level", level)


def _convert_security(given: Mapping[str, Any], own: dict[str, Any]) -> None:
    if str(own.get("security_protocol", "")).lower().startswith("sasl_"):
        own.setdefault("sasl_mechanism", "GSSAPI")
    if "ssl.ca.location" in given and given["ssl.ca.location"] != "probe":
        own["ssl_cafile"] = _parsed("ssl_cafile", "ssl.ca.location", given["ssl.ca.location"])
    if "ssl.cipher.suites" in given:
        own["ssl_cipher_suites"] = tuple(filter(None, str(given["ssl.cipher.suites"]).split(":")))
    if "ssl.endpoint.identification.algorithm" in given:
        algorithm = given["ssl.endpoint.identification.algorithm"]
        own["ssl_endpoint_identification_algorithm"] = "" if algorithm == "none" else algorithm
    if "ssl.key.password" in given:
        name = "ssl_key_password" if "ssl.key.pem" in given else "ssl_password"
        own[name] = _parsed(name, "ssl.key.password", given["ssl.key.password"])
    _convert_tokens(given, own)


def _convert_tokens(given: Mapping[str, Any], own: dict[str, Any]) -> None:
    kind = given.get(_IDENTITY, "none")
    is_identity = not _same(kind, "none")
    if (oauth_cb := given.get("oauth_cb")) is not None:
        # It gets the setting, and goes before an identity, as in confluent-kafka.
        argument = given.get("sasl.oauthbearer.config", "")
        unused = ("metadata_authentication_type", "method", "token_endpoint_url") if is_identity else ()
        for name in ("config", *unused):
            own.pop(f"sasl_oauthbearer_{name}", None)

        def token() -> tuple[Any, ...]:
            # confluent-kafka: (token, expiry[, principal[, extensions]]). Brokers take the principal from
            # the token.
            found = tuple(oauth_cb(argument))
            return (*found[:2], found[3]) if len(found) > 3 and found[3] else found[:2]

        own["sasl_oauth_token_provider"] = token
    elif is_identity:
        # With another method, librdkafka would not use the identity, and confluent-kafka refuses aws_iam.
        if not _same(given.get("sasl.oauthbearer.method"), "oidc"):
            raise ConfigError(f"{_IDENTITY}={kind}: needs sasl.oauthbearer.method=oidc")
    elif given.get("sasl.oauthbearer.config"):
        raise ConfigError(
            f"sasl.oauthbearer.config: has no effect without oauth_cb or {_IDENTITY}; set one of them"
        )


def _convert_partitioner(given: Mapping[str, Any], own: dict[str, Any]) -> str | None:
    """CRC-32 is computed by the adapter, because the engine's fast path knows only its own partitioner."""
    name = str(given.get("partitioner", "consistent_random"))
    if name == "consistent_random":
        return "crc32"
    if name == "consistent":
        return "crc32 of null"
    if name != "murmur2_random":
        if name not in ("murmur2", "random"):
            raise refused(
                "partitioner",
                "consistent_random, consistent, murmur2, murmur2_random or random",
                shown(name),
                "fnv1a is not supported: pass partition to produce()" if name.startswith("fnv1a") else "",
            )
        own["partitioner"] = name
    return None
