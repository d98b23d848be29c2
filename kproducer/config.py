"""ProducerConfig: every setting of the producer with its default.

Attribute names are Kafka's dotted names with ``_`` for ``.``; defaults are those of Kafka 4's Java producer.
Knows nothing of the parts it configures. Source: Kafka's ``ProducerConfig``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class ProducerConfig:
    """The settings of one producer. Immutable; safe to share between threads."""

    bootstrap_servers: tuple[str, ...]
    client_id: str = ""
    acks: int = -1
    linger_ms: int = 5
    batch_size: int = 16384
    buffer_memory: int = 33554432
    max_block_ms: int = 60000
    max_request_size: int = 1048576
    delivery_timeout_ms: int = 120000
    request_timeout_ms: int = 30000
    retries: int = 2147483647
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1000
    socket_connection_setup_timeout_ms: int = 10000
    socket_connection_setup_timeout_max_ms: int = 30000
    connections_max_idle_ms: int = 540000
    send_buffer_bytes: int = 131072
    receive_buffer_bytes: int = 32768
    max_in_flight_requests_per_connection: int = 5
    metadata_max_age_ms: int = 300000
    metadata_max_idle_ms: int = 300000
    metadata_recovery_strategy: str = "rebootstrap"
    metadata_recovery_rebootstrap_trigger_ms: int = 300000
    compression_type: str = "none"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    partitioner: str | Callable[..., int] | None = None
    partitioner_ignore_keys: bool = False
    partitioner_adaptive_partitioning_enable: bool = True
    partitioner_availability_timeout_ms: int = 0
    key_serializer: Callable[..., Any] | None = None
    value_serializer: Callable[..., Any] | None = None
    interceptors: tuple[Any, ...] = ()
    client_dns_lookup: str = "use_all_dns_ips"
    security_protocol: str = "PLAINTEXT"
    enable_idempotence: bool = False
