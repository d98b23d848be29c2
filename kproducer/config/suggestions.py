"""What to tell somebody who used a setting that does not exist: the right name, or why there is none.

Knows the spellings of confluent-kafka (librdkafka), kafka-python, aiokafka and Java that have another name
here. Never shows a value: a misspelt name does not tell whether its value is a secret.
Source: the configuration references of these clients.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

#: Other clients' names (with ``_`` for ``.``) to ours.
OTHER_NAMES = {
    "acks_required": "acks",
    "api_version_auto_timeout_ms": "request_timeout_ms",
    "batch_bytes": "batch_size",
    "bootstrap_server": "bootstrap_servers",
    "brokers": "bootstrap_servers",
    "compression": "compression_type",
    "compression_codec": "compression_type",
    "delivery_timeout": "delivery_timeout_ms",
    "interceptor_classes": "interceptors",
    "linger": "linger_ms",
    "max_batch_size": "batch_size",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": "bootstrap_servers",
    "partitioner_class": "partitioner",
    "queue_buffering_max_kbytes": "buffer_memory",
    "queue_buffering_max_ms": "linger_ms",
    "request_required_acks": "acks",
    "request_timeout": "request_timeout_ms",
    "socket_receive_buffer_bytes": "receive_buffer_bytes",
    "socket_send_buffer_bytes": "send_buffer_bytes",
    "socket_timeout_ms": "request_timeout_ms",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
}

#: Other clients' names that have no counterpart, and what to do instead.
NO_COUNTERPART = {
    "api_version": "versions are negotiated with each broker; leave it out",
    "api_version_request": "versions are always negotiated; leave it out",
    "batch_num_messages": "batches are bounded in bytes: see batch_size",
    "broker_address_family": "all addresses of a host are tried; leave it out",
    "broker_version_fallback": "versions are negotiated with each broker; leave it out",
    "compression_level": "each codec has its own: compression_gzip_level, compression_lz4_level, "
    "compression_zstd_level",
    "debug": "use the logging module; the logger is called 'kproducer'",
    "dr_cb": "pass on_delivery to send()",
    "dr_msg_cb": "pass on_delivery to send()",
    "error_cb": "errors come from the futures of send() and to on_delivery",
    "event_cb": "errors come from the futures of send() and to on_delivery",
    "log_cb": "use the logging module; the logger is called 'kproducer'",
    "logger": "use the logging module; the logger is called 'kproducer'",
    "loop": "futures can be awaited in any event loop; leave it out",
    "metric_reporters": "call metrics() and report what it returns",
    "on_delivery": "pass it to send()",
    "queue_buffering_max_messages": "the queue is bounded in bytes: see buffer_memory",
    "socket_keepalive_enable": "keepalive is always on; leave it out",
    "socket_nagle_disable": "TCP_NODELAY is always set; leave it out",
    "socket_options": "see send_buffer_bytes and receive_buffer_bytes",
    "statistics_interval_ms": "call metrics() whenever you like",
    "stats_cb": "call metrics() whenever you like",
    "sticky_partitioning_linger_ms": "the built-in partitioner switches after batch_size bytes",
}


def instead_of(name: str, spelling: Mapping[str, str]) -> str:
    """What to do instead of using an unknown setting.

    Args:
        name: as the user wrote it.
        spelling: attribute name to the name to suggest (the same, or Kafka's dotted one).
    """
    plain = re.sub(r"[.\-\s]", "_", str(name)).lower()
    if plain in NO_COUNTERPART:
        return NO_COUNTERPART[plain]
    if plain.startswith(("sasl_", "ssl_")):
        return "TLS and SASL are not available yet; only PLAINTEXT connections are"
    nearest = plain if plain in spelling else OTHER_NAMES.get(plain)
    if nearest is None:
        candidates = difflib.get_close_matches(plain, [*spelling, *OTHER_NAMES], n=1, cutoff=0.6)
        nearest = OTHER_NAMES.get(candidates[0], candidates[0]) if candidates else None
    if nearest is None:
        return "nothing similar exists"
    return f"did you mean {spelling[nearest]}?"
