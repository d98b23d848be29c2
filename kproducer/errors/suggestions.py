"""What an error suggests for a setting, a method or an argument that exists only in another Kafka client.

Lists names of confluent-kafka (librdkafka), kafka-python, aiokafka and Java that have another name, or no
equivalent, here. Never shows a value: the value of a misspelt setting may be a secret.
Source: the configuration and API references of these clients.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])

#: Settings: the other client's name (with ``_`` for ``.``) to ours. Names that are similar to ours are not
#: listed, because ``instead_of`` finds them.
_OTHER_NAMES = {
    "acks_required": "acks",
    "api_version_auto_timeout_ms": "request_timeout_ms",
    "brokers": "bootstrap_servers",
    "http_proxy": "proxy_url",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": "bootstrap_servers",
    "oauth_cb": "sasl_oauth_token_provider",
    "password": "sasl_plain_password",
    "queue_buffering_max_kbytes": "buffer_memory",
    "queue_buffering_max_ms": "linger_ms",
    "request_required_acks": "acks",
    "sasl_oauthbearer_client_id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_secret": "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_oauthbearer_grant_type": "sasl_oauthbearer_jwt_retriever_class",
    "sasl_password": "sasl_plain_password",
    "socks5_proxy": "proxy_url",
    "ssl_ca_location": "ssl_cafile",
    "ssl_ca_pem": "ssl_truststore_certificates",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_certificate_pem": "ssl_keystore_certificate_chain",
    "ssl_crl_location": "ssl_crlfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_pem": "ssl_keystore_key",
    "ssl_keystore": "ssl_keystore_location",
    "ssl_truststore": "ssl_truststore_location",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
    "username": "sasl_plain_username",
}

#: Guesses of users who do not know the name. No client has these settings, so they are not translated.
_GUESSED_NAMES = {
    **dict.fromkeys(
        ("address", "host", "hostname", "hosts", "server", "servers", "url"), "bootstrap_servers"
    ),
    **dict.fromkeys(("ca", "ca_cert", "ca_certs", "ca_path"), "ssl_cafile"),
    **dict.fromkeys(("cert", "certfile", "client_cert"), "ssl_certfile"),
    "codec": "compression_type",
    "name": "client_id",
    "queue_size": "buffer_memory",
    **dict.fromkeys(("encoder", "serializer", "value_encoder"), "value_serializer"),
}

_CONTEXT = "pass an ssl.SSLContext as ssl_context"
_TICKETS = "tickets come from sasl_kerberos_keytab or from the ticket cache; remove the setting"
_JVM = "it is only for Java; remove the setting"

_ENCRYPTION = "set security_protocol to SSL, or with SASL to SASL_SSL"
_LOGIN = "set security_protocol to SASL_SSL, and sasl_mechanism"
_OF_A_RECORD = "it is an argument of send()"
_NO_VERIFICATION = "pass an ssl.SSLContext that does not verify as ssl_context"

#: Settings that have no equivalent, and what to do instead.
_NO_COUNTERPART = {
    **dict.fromkeys(("auth", "sasl"), _LOGIN),
    **dict.fromkeys(("callback", "on_error", "on_success"), "pass on_delivery to send()"),
    **dict.fromkeys(("default_topic", "headers", "key", "partition", "topic", "value"), _OF_A_RECORD),
    **dict.fromkeys(("ssl", "tls", "use_ssl", "use_tls"), _ENCRYPTION),
    **dict.fromkeys(("ssl_verify", "verify", "verify_ssl"), _NO_VERIFICATION),
    **dict.fromkeys(("log_level", "verbose"), "use the logging module; the logger is 'kproducer'"),
    "exactly_once": "set transactional_id, and use transactions",
    "flush_interval": "use linger_ms for how long a batch waits for more records",
    "schema_registry_url": "pass a serializer with a SchemaRegistryClient as value_serializer",
    "timeout": "delivery_timeout_ms limits the delivery of a record, request_timeout_ms one request, and "
    "max_block_ms how long send() may wait",
    "allow_auto_create_topics": "auto.create.topics.enable of the brokers decides; remove the setting",
    "api_version": "the producer negotiates API versions with each broker; remove the setting",
    "api_version_request": "the producer always negotiates API versions; remove the setting",
    "batch_num_messages": "batches are limited in bytes; use batch_size",
    "broker_address_family": "the producer tries all addresses of a host; remove the setting",
    "broker_version_fallback": "the producer negotiates API versions with each broker; remove the setting",
    "compression_level": "each codec has its own level; use compression_gzip_level, compression_lz4_level "
    "or compression_zstd_level",
    "debug": "use the logging module; the logger is 'kproducer'",
    "dr_cb": "pass on_delivery to send()",
    "dr_msg_cb": "pass on_delivery to send()",
    "enable_ssl_certificate_verification": _NO_VERIFICATION,
    "error_cb": "the futures of send() and on_delivery report errors",
    "event_cb": "the futures of send() and on_delivery report errors",
    "log_cb": "use the logging module; the logger is 'kproducer'",
    "logger": "use the logging module; the logger is 'kproducer'",
    "loop": "the futures of send() can be awaited in any event loop; remove the setting",
    "metric_reporters": "call metrics() and report the values",
    "on_delivery": "pass on_delivery to send()",
    "queue_buffering_max_messages": "the queue is limited in bytes; use buffer_memory",
    "sasl_kerberos_kinit_cmd": _TICKETS,
    "sasl_kerberos_min_time_before_relogin": _TICKETS,
    "sasl_kerberos_ticket_renew_jitter": _TICKETS,
    "sasl_kerberos_ticket_renew_window_factor": _TICKETS,
    "sasl_login_class": "Java classes cannot be used; for tokens of your own, use sasl_oauth_token_provider",
    "security_providers": _JVM,
    "selector": "the producer chooses how it waits for sockets; remove the setting",
    "socket_keepalive_enable": "TCP keepalive is always on; remove the setting",
    "socket_nagle_disable": "TCP_NODELAY is always set; remove the setting",
    "socket_options": "use send_buffer_bytes and receive_buffer_bytes",
    "ssl_curves_list": _CONTEXT,
    "ssl_engine_factory_class": _CONTEXT,
    "ssl_engine_id": _CONTEXT,
    "ssl_engine_location": _CONTEXT,
    "ssl_keymanager_algorithm": _JVM,
    "ssl_protocol": "use ssl_enabled_protocols",
    "ssl_provider": _JVM,
    "ssl_providers": _CONTEXT,
    "ssl_secure_random_implementation": _JVM,
    "ssl_sigalgs_list": _CONTEXT,
    "ssl_trustmanager_algorithm": _JVM,
    "statistics_interval_ms": "call metrics() at any time",
    "stats_cb": "call metrics() at any time",
    "sticky_partitioning_linger_ms": "the built-in partitioner switches after batch_size bytes",
}

# fmt: off
#: Settings of consumers, in any of these clients.
_FOR_CONSUMERS = frozenset((
    "auto_commit_enable", "auto_commit_interval_ms", "auto_offset_reset", "check_crcs",
    "consume_callback_max_messages", "consumer_timeout_ms", "coordinator_query_interval_ms",
    "default_offset_commit_callback", "enable_auto_commit", "enable_auto_offset_store",
    "enable_incremental_fetch_sessions", "enable_partition_eof", "exclude_internal_topics",
    "fetch_error_backoff_ms", "fetch_max_bytes", "fetch_max_wait_ms", "fetch_message_max_bytes",
    "fetch_min_bytes", "fetch_queue_backoff_ms", "fetch_wait_max_ms", "group_id", "group_instance_id",
    "group_protocol", "group_protocol_type", "group_remote_assignor", "heartbeat_interval_ms",
    "isolation_level", "max_partition_fetch_bytes", "max_poll_interval_ms", "max_poll_records",
    "offset_store_method", "offset_store_path", "offset_store_sync_interval_ms",
    "partition_assignment_strategy", "queued_max_messages_kbytes", "queued_min_messages",
    "rebalance_timeout_ms", "session_timeout_ms", "share_acknowledgement_mode",
))
# fmt: on

#: Settings of OAUTHBEARER with which brokers verify tokens.
_FOR_BROKERS = (
    "sasl_oauthbearer_allow_",
    "sasl_oauthbearer_clock_",
    "sasl_oauthbearer_expected_",
    "sasl_oauthbearer_jwks_",
)


def _plain(name: object) -> str:
    return re.sub(r"[.\-\s]", "_", str(name)).lower()


def nearest_name(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that a wrong one is most similar to; ``None``: none is similar.

    Args:
        cutoff: the least similarity, from 0 to 1, as ``difflib`` counts it.
    """
    import difflib  # only loaded for an error

    return next(iter(difflib.get_close_matches(name, list(names), 1, cutoff)), None)


def own_name(name: str) -> str | None:
    """The attribute name of a setting that has another name in another client; ``None``: not known here."""
    return _OTHER_NAMES.get(_plain(name))


def instead_of(name: str, spelling: Mapping[str, str]) -> str:
    """Say what to use instead of an unknown setting.

    Args:
        name: the name that the user wrote.
        spelling: the attribute name of every setting, and how to write it: the same, or Kafka's dotted name.
    """
    plain = _plain(name)
    if plain in _NO_COUNTERPART:
        return _NO_COUNTERPART[plain]
    if plain in _FOR_CONSUMERS:
        return "it is a setting of consumers; remove it"
    if plain.startswith("config_providers"):
        return "config providers work only in properties files; pass the values themselves"
    if plain.startswith(_FOR_BROKERS):
        return "brokers verify tokens; remove the setting"
    nearest = plain if plain in spelling else _OTHER_NAMES.get(plain) or _GUESSED_NAMES.get(plain)
    if nearest is None:
        is_for_java = plain.startswith(("sasl_kerberos_", "sasl_login_class", "sasl_client_"))
        similar = nearest_name(plain, [*spelling, *_OTHER_NAMES], 0.85 if is_for_java else 0.6)
        if similar is None and is_for_java:
            return "not supported; docs/security.md has the settings for SASL"
        if similar is None:
            return "no setting has a similar name"
        nearest = _OTHER_NAMES.get(similar, similar)
    return f"did you mean {spelling[nearest]}?"


PRODUCER_METHODS = {
    "abort": "close(0) gives up on records that are not acknowledged",
    "partitions": "use partitions_for(topic)",
    "partitionsFor": "use partitions_for(topic)",
    "poll": "the producer runs callbacks by itself; remove the call",
    "produce_batch": "use send_many(topic, values, keys, headers, partitions, timestamps_ms)",
    "produce": "use send(topic, value, key, headers, partition, timestamp_ms, on_delivery)",
    "send_and_wait": "use 'await producer.send(...)', or 'producer.send(...).result()' without asyncio",
    "start": "a new producer is already running; remove the call",
    "stop": "use close()",
}

ASYNC_PRODUCER_METHODS = {
    "close": "use 'await producer.aclose()'",
    "create_batch": "use 'await producer.send_many(topic, values, partitions=partition)'",
    "poll": "the producer runs callbacks by itself; remove the call",
    "produce": "use 'await producer.send(topic, value, key, headers, partition, timestamp_ms, on_delivery)'",
    "send_and_wait": "use 'await producer.send(...)'",
    "send_batch": "use 'await producer.send_many(topic, values, partitions=partition)'",
    "start": "a new producer is already running; remove the call",
    "stop": "use 'await producer.aclose()'",
}

FUTURE_METHODS = {
    "add_both": "use add_done_callback(f), which calls f(future) on success and on failure",
    "add_callback": "pass on_delivery to send(), or use add_done_callback(f), which calls f(future)",
    "add_errback": "pass on_delivery to send(), or use add_done_callback(f), which calls f(future)",
    "failed": "use exception(), which returns the error or None once done() is true",
    "is_done": "use done()",
    **dict.fromkeys(
        ("offset", "partition", "timestamp_ms", "topic"), "result() waits for the metadata, which has it"
    ),
    "succeeded": "use exception(), which returns the error or None once done() is true",
    "value": "use result()",
}

#: What other clients have on the metadata of a record, and what to use here. Confluent's ``Message`` has
#: methods of these names.
METADATA_FIELDS = {
    "checksum": "brokers do not report it",
    "error": "the second argument of on_delivery is the error; result() raises it",
    **dict.fromkeys(("get", "result"), "this is the metadata already"),
    "hasOffset": "compare offset with -1",
    "hasTimestamp": "compare timestamp_ms with -1",
    "headers": "the metadata does not contain the record; functools.partial passes it to on_delivery",
    "key": "the metadata does not contain the record; functools.partial passes it to on_delivery",
    "latency": "metrics() has the latency of requests",
    "serializedKeySize": "use serialized_key_size",
    "serializedValueSize": "use serialized_value_size",
    "serialized_header_size": "there are serialized_key_size and serialized_value_size",
    "timestamp": "use timestamp_ms",
    "timestamp_type": "timestamp_ms is the broker's time if the topic uses LogAppendTime",
    "topic_partition": "use topic and partition",
    "value": "the metadata does not contain the record; functools.partial passes it to on_delivery",
}

SEND_MANY_RESULT_METHODS = {
    "errors": "use failures(), which returns (index, error) for each record that was not delivered",
    "failed": "use failed_count, or failures() for the index and the error of each record",
    "future": "use result[i], the future of record i",
    "is_done": "use done()",
    "metadata": "use result[i].result(), the metadata of record i",
    "succeeded": "use succeeded_count",
}


_OWN = "use kproducer.KafkaProducer"
_OWN_ASYNC = "use kproducer.AsyncKafkaProducer"
_NO_CONSUMER = "kproducer has no consumer; use another client's, which works in the same process"
_NO_ADMIN = "kproducer has no admin client; use another client's, which works in the same process"

#: Names that are imported from the package by mistake: classes of other clients.
PACKAGE_NAMES = {
    "AIOKafkaConsumer": _NO_CONSUMER,
    "AIOKafkaProducer": f"{_OWN_ASYNC}, or kproducer.compat.aiokafka.AIOKafkaProducer, an adapter",
    "AIOProducer": _OWN_ASYNC,
    "AdminClient": _NO_ADMIN,
    "AsyncProducer": _OWN_ASYNC,
    "Consumer": _NO_CONSUMER,
    "KafkaAdminClient": _NO_ADMIN,
    "KafkaConsumer": _NO_CONSUMER,
    "Producer": f"{_OWN}, or kproducer.compat.confluent_kafka.Producer, an adapter",
    "SerializingProducer": f"{_OWN} with key_serializer and value_serializer",
}


def no_such_name(package: str, name: str, caller: FrameType | None) -> Exception:
    """The error for a name that a package does not have, with a suggestion if another client has it.

    Args:
        package: its name.
        name: the missing one.
        caller: the frame that asks for it; ``None``: no Python code. For ``from package import name``, Python
            replaces the text of an AttributeError, so the result is an ImportError.
    """
    hint = PACKAGE_NAMES.get(name)
    if hint is None:
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    import opcode  # only loaded for an error

    if caller is not None and opcode.opname[caller.f_code.co_code[caller.f_lasti]] == "IMPORT_FROM":
        return ImportError(f"cannot import name {name!r} from {package!r}: {hint}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}: {hint}")


class _UnsupportedStatementError(TypeError, AttributeError):
    """A TypeError as Python's own for the statement, and an AttributeError for ``hasattr``."""


class WrongStatement:
    """Stands for ``__enter__`` or ``__aenter__``, so that the wrong kind of ``with`` gets a suggestion.

    Args:
        statement: the one that the class does not support.
        hint: what to use instead.
    """

    def __init__(self, statement: str, hint: str) -> None:
        self._text = f"does not support {statement!r}: {hint}"

    def __get__(self, owner: object, owner_class: object = None) -> NoReturn:
        kind = owner_class if owner is None else type(owner)
        raise _UnsupportedStatementError(f"{getattr(kind, '__name__', kind)!r} object {self._text}")


def no_such_attribute(owner: object, name: str, suggestions: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that does not exist, with a suggestion if another client has it."""
    hint = f": {suggestions[name]}" if name in suggestions else ""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}{hint}"
    # Python itself suggests similar names, for which it needs the name and the object.
    return AttributeError(text, name=name, obj=owner)


#: Arguments of methods. Names that are similar to ours are not listed.
_OTHER_ARGUMENTS = {
    **dict.fromkeys(("body", "data", "message", "msg", "payload", "record"), "value"),
    **dict.fromkeys(("callback", "cb", "delivery_callback", "on_ack", "on_completion"), "on_delivery"),
    # of the classes in kproducer.testing
    **dict.fromkeys(("broker_count", "brokers", "node_count", "num_brokers", "num_nodes"), "nodes"),
    **dict.fromkeys(("num_partitions", "partition_count", "partitions"), "default_partitions"),
    **dict.fromkeys(("credentials", "sasl", "sasl_users"), "users"),
    **dict.fromkeys(("ssl", "tls"), "ssl_context"),
    "token": "bearer_token",
}


def keyword_hints(method: _Method) -> _Method:
    """The method, whose TypeError for an unknown keyword suggests the argument that was probably meant.

    That of a constructor also lists the valid arguments. Costs a Python frame per call.
    """
    function: Any = method
    owner, _, name = function.__qualname__.rpartition(".")
    is_constructor = name == "__init__"
    label = owner.rpartition(".")[2] if is_constructor else name

    @functools.wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return method(*arguments, **keywords)
        except TypeError:
            code = function.__code__
            names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]  # without self
            unknown = next((name for name in keywords if name not in names), None)
            if unknown is None and not (is_constructor and len(arguments) > code.co_argcount):
                raise
        if unknown is None:
            by_name = ", ".join(names[code.co_argcount - 1 :])
            raise TypeError(f"{label}() got too many positional arguments; pass these by name: {by_name}")
        hint, every = _argument_hint(unknown, names), f"valid arguments: {', '.join(names)}"
        if hint is None:
            hint = every
        elif is_constructor:
            hint = f"{hint} {every.capitalize()}"
        raise TypeError(f"{label}() got an unexpected keyword argument {unknown!r}; {hint}")

    return cast(_Method, call)


def _argument_hint(unknown: str, names: Sequence[str]) -> str | None:
    """The argument that was probably meant; ``None``: no argument is similar."""
    wanted = _OTHER_ARGUMENTS.get(unknown, unknown)
    nearest = nearest_name(wanted, names)
    if nearest is not None:
        return f"did you mean {nearest}{', in seconds' if nearest == 'timeout' else ''}?"
    if wanted == "on_delivery" and "topic" in names:
        return "the SendManyResult that it returns has the outcome of each record"
    return None
