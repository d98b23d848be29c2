"""kafka-python's settings: their defaults, which of them exist here, and their conversion to kproducer's.

Source: the API reference of kafka-python 3.0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kproducer._core.config.producer_config import SETTINGS, ProducerConfig
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.compat.bootstrap_servers import with_default_ports
from kproducer.compat.kafka.errors import InvalidSettingError
from kproducer.compat.kafka.partitioners import own_partitioner
from kproducer.errors.suggestions import nearest_name
from kproducer.serializers import (
    BuiltInSerializer,
    FieldAwareSerializer,
    TopicSerializer,
    resolve_serializer,
    serializer_for_field,
)
from kproducer.serializers import serialize_function as own_function
from kproducer.types import INT32_MAX

_log = GuardedLogger(__name__)

#: All settings with kafka-python's defaults. ``None`` stands for its partitioner, selector and client.
DEFAULT_CONFIG: Final[dict[str, Any]] = {
    "bootstrap_servers": "localhost",
    "client_id": None,
    "key_serializer": None,
    "value_serializer": None,
    "enable_idempotence": True,
    "transactional_id": None,
    "transaction_timeout_ms": 60000,
    "delivery_timeout_ms": 120000,
    "acks": -1,
    "compression_type": None,
    "retries": float("inf"),
    "batch_size": 16384,
    "linger_ms": 0,
    "partitioner": None,
    "connections_max_idle_ms": 540000,
    "max_block_ms": 60000,
    "max_request_size": 1048576,
    "allow_auto_create_topics": True,
    "metadata_max_age_ms": 300000,
    "client_dns_lookup": "use_all_dns_ips",
    "retry_backoff_ms": 100,
    "request_timeout_ms": 30000,
    "receive_message_max_bytes": 100000000,
    "receive_buffer_bytes": None,
    "send_buffer_bytes": None,
    "socket_options": [(6, 1, 1)],  # IPPROTO_TCP, TCP_NODELAY: the same numbers on every system
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 30000,
    "max_in_flight_requests_per_connection": 5,
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "ssl_check_hostname": True,
    "ssl_cafile": None,
    "ssl_certfile": None,
    "ssl_keyfile": None,
    "ssl_crlfile": None,
    "ssl_password": None,
    "ssl_ciphers": None,
    "api_version": None,
    "bootstrap_timeout_ms": 30000,
    "metric_reporters": [],
    "metrics_enabled": True,
    "metrics_num_samples": 2,
    "metrics_sample_window_ms": 30000,
    "selector": None,
    "sasl_mechanism": None,
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_kerberos_name": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
    "proxy_url": None,
    "socks5_proxy": None,
    "kafka_client": None,
}
#: kproducer's setting that kafka-python does not have.
_BUFFER_MEMORY = "buffer_memory"
#: Settings for which kproducer has another default.
_OTHER_DEFAULTS = (
    *("bootstrap_servers", "batch_size", "linger_ms", "receive_buffer_bytes", "reconnect_backoff_max_ms"),
    "send_buffer_bytes",
)
#: Settings that are checked first, because they are compared with each other.
_CALCULATED = ("batch_size", "max_request_size", "reconnect_backoff_ms", "reconnect_backoff_max_ms")
#: Settings whose values are converted below.
_CONVERTED = frozenset(
    (
        *("api_version", "bootstrap_timeout_ms", "compression_type", "key_serializer", "partitioner"),
        *("retries", "sasl_oauth_token_provider", "socks5_proxy", "ssl_ciphers", "value_serializer"),
    )
)
#: Settings without effect here, each with the reason.
IGNORED: Final = {
    "kafka_client": "kproducer has its own client",
    "receive_message_max_bytes": "the size of responses is limited without a setting",
    "sasl_kerberos_name": "sasl_kerberos_service_name and sasl_kerberos_domain_name apply",
    "selector": "kproducer chooses how it waits for sockets",
    "socket_options": "TCP_NODELAY and keepalive are always set",
}
#: Settings that are refused unless they have the default, and what to do instead.
REFUSED: Final = {
    "allow_auto_create_topics": "the brokers' auto.create.topics.enable decides; remove it",
    "metric_reporters": "call metrics(), and report the values",
    "metrics_enabled": "metrics are always counted, at no cost per record; remove it",
}
#: Settings that are the same here.
SAME: Final = frozenset(DEFAULT_CONFIG) - _CONVERTED - frozenset(IGNORED) - frozenset(REFUSED)


def checked_names(configs: Mapping[str, Any]) -> None:
    """Log which of the settings have no effect.

    Raises:
        ValueError: a setting is unknown.
        InvalidSettingError: a setting is not supported.
    """
    known = (*DEFAULT_CONFIG, _BUFFER_MEMORY)
    unknown = [f"{name} ({_similar(name, known)})" for name in sorted(configs) if name not in known]
    if unknown:
        raise ValueError(f"Unrecognized configs: {', '.join(unknown)}")
    for name, remedy in REFUSED.items():
        if configs.get(name, DEFAULT_CONFIG[name]) != DEFAULT_CONFIG[name]:
            raise InvalidSettingError(f"{name}: not supported; {remedy}")
    without_effect = [
        f"{name} ({why})"
        for name, why in IGNORED.items()
        if configs.get(name, DEFAULT_CONFIG[name]) != DEFAULT_CONFIG[name]
    ]
    if without_effect:
        _log.warning("Settings of kafka-python without effect in kproducer: %s", "; ".join(without_effect))


def _similar(name: str, known: Sequence[str]) -> str:
    nearest = nearest_name(name, known)
    return f"did you mean {nearest}?" if nearest else "kafka-python has no setting with a similar name"


def effective(configs: Mapping[str, Any], own: ProducerConfig) -> dict[str, Any]:
    """Every setting with the value that applies, in kafka-python's form."""
    decided = {name: getattr(own, name) for name in ("acks", "client_id", "enable_idempotence")}
    return {**DEFAULT_CONFIG, **configs, **decided}


def own_settings(configs: Mapping[str, Any]) -> dict[str, Any]:
    """kproducer's settings for kafka-python's.

    Raises:
        InvalidSettingError: a value is not supported.
        ConfigError: a number is wrong.
    """
    settings = {name: configs.get(name, DEFAULT_CONFIG[name]) for name in _OTHER_DEFAULTS}
    # In kafka-python, None means the default.
    settings.update({name: value for name, value in configs.items() if name in SAME and value is not None})
    for name in ("send_buffer_bytes", "receive_buffer_bytes"):
        if settings[name] is None:
            settings[name] = -1
    for name in _CALCULATED:
        if name in settings:
            SETTINGS[name].parse(SETTINGS[name], name, settings[name])
    settings["bootstrap_servers"] = with_default_ports(settings["bootstrap_servers"])
    settings["batch_size"] = min(settings["batch_size"], settings.get("max_request_size", INT32_MAX))
    if _BUFFER_MEMORY in configs:
        settings[_BUFFER_MEMORY] = configs[_BUFFER_MEMORY]
    if configs.get("retries") not in (None, float("inf")):
        settings["retries"] = configs["retries"]
    if configs.get("compression_type") is not None:
        settings["compression_type"] = configs["compression_type"]
    if configs.get("socks5_proxy") is not None:
        settings["proxy_url"] = configs["socks5_proxy"]
    if configs.get("ssl_ciphers") is not None:
        if not isinstance(configs["ssl_ciphers"], str):
            raise InvalidSettingError("ssl_ciphers: expected names of cipher suites with ':' between them")
        settings["ssl_cipher_suites"] = tuple(configs["ssl_ciphers"].split(":"))
    if configs.get("partitioner") is not None:
        settings["partitioner"] = own_partitioner(configs["partitioner"])
    if (provider := configs.get("sasl_oauth_token_provider")) is not None:
        settings["sasl_oauth_token_provider"] = _own_token_provider(provider)
    first_ms = settings.get("reconnect_backoff_ms", 50)
    settings["reconnect_backoff_max_ms"] = max(settings["reconnect_backoff_max_ms"], first_ms)
    return settings


def serialize_function(name: str, serializer: Any) -> Callable[[str, Any, Any], Any] | None:
    """A function of (topic, headers, data) for a serializer object or a callable of (data).

    Args:
        name: of the setting.
        serializer: its value.

    Raises:
        ConfigError: it is neither of them.
    """
    resolved = resolve_serializer(name, serializer)
    if isinstance(resolved, (BuiltInSerializer, FieldAwareSerializer)):
        field = name.removesuffix("_serializer")
        call = own_function(field, serializer_for_field(field, resolved))
        # kproducer's serializers do not accept None, which is a null here.
        return lambda topic, headers, data: None if data is None else call(topic, headers, data)
    if not isinstance(resolved, TopicSerializer):
        return resolved and (lambda topic, headers, data: resolved(data))
    method: Any = resolved.serialize
    try:
        inspect.signature(method).bind("topic", [], None)
    except TypeError:  # a serializer for kafka-python 2, which passes no headers
        return lambda topic, headers, data: method(topic, data)
    except ValueError:  # a method in C need not have a signature
        pass
    return method  # type: ignore[no-any-return]


def _own_token_provider(provider: Any) -> Any:
    """kafka-python's object with ``token()``, whose result has no expiry, or one of kproducer's functions."""
    if not hasattr(provider, "token"):
        return provider
    raise InvalidSettingError(
        "sasl_oauth_token_provider: the result of token() does not say when the token expires; pass a"
        " function that returns (token, expiry in seconds since 1970)"
    )
