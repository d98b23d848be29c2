"""A network client as a configuration wants it, with the selector beneath it and metadata behind it.

Source: Kafka class ``ClientUtils``; KIP-302, KIP-511.
"""

from __future__ import annotations

from importlib import metadata as distribution_metadata

from kproducer.client.default_metadata_updater import DefaultMetadataUpdater
from kproducer.client.metadata import Metadata
from kproducer.client.network_client import NetworkClient
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import NetworkError
from kproducer.network.host_resolver import canonical_addresses
from kproducer.network.selector import Selector
from kproducer.protocol.framing import MAX_FRAME_BYTES
from kproducer.runtime.clock import Clock
from kproducer.runtime.guarded_logger import GuardedLogger

_log = GuardedLogger(__name__)


def new_network_client(config: ProducerConfig, metadata: Metadata, clock: Clock) -> NetworkClient:
    """Connects to nobody yet. Whoever closes it closes ``metadata`` too.

    Args:
        config: servers, timeouts, buffers.
        metadata: begins with the servers of ``config``.
        clock: time for all parts.
    """
    metadata.bootstrap(_bootstrap_addresses(config))
    selector = Selector(
        config.connections_max_idle_ms,
        config.send_buffer_bytes,
        config.receive_buffer_bytes,
        MAX_FRAME_BYTES,
        clock,
    )
    try:
        updater = DefaultMetadataUpdater(metadata, config)
        return NetworkClient(selector, updater, config, clock, software_version=_version())
    except BaseException:
        selector.close()
        raise


def _bootstrap_addresses(config: ProducerConfig) -> list[tuple[str, int]]:
    addresses: list[tuple[str, int]] = []
    for server in config.bootstrap_servers:
        host, _, port = server.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only":
            try:
                addresses.extend(canonical_addresses(host, int(port)))
                continue
            except NetworkError as error:
                # As with any other name: the connection attempts to come tell, and try, again.
                _log.warning("The canonical names of %s are not known: %s", server, error)
        addresses.append((host, int(port)))
    return addresses


def _version() -> str:
    try:
        return distribution_metadata.version("kproducer")
    except distribution_metadata.PackageNotFoundError:
        return "0"
