"""Puts a network client together from the configuration: selector, metadata updater, client.

The one place that knows which setting goes where below the sender.
"""

from __future__ import annotations

from kproducer.client.default_metadata_updater import DefaultMetadataUpdater
from kproducer.client.metadata import Metadata
from kproducer.client.network_client import NetworkClient
from kproducer.clock import Clock
from kproducer.config import ProducerConfig
from kproducer.network.host_resolver import HostResolver, resolve_host
from kproducer.network.selector import Selector
from kproducer.protocol.framing import MAX_FRAME_BYTES


def build_network_client(
    config: ProducerConfig,
    metadata: Metadata,
    clock: Clock,
    *,
    host_resolver: HostResolver = resolve_host,
    software_version: str = "0",
) -> NetworkClient:
    """A network client that keeps ``metadata`` fresh. The caller bootstraps the metadata and closes it."""
    selector = Selector(
        config.connections_max_idle_ms,
        config.send_buffer_bytes,
        config.receive_buffer_bytes,
        MAX_FRAME_BYTES,
        clock,
    )
    return NetworkClient(
        selector,
        DefaultMetadataUpdater(metadata, config),
        config,
        clock,
        host_resolver=host_resolver,
        software_version=software_version,
    )
