"""Which versions of which API a broker speaks, and which of them we use with it.

Filled from ApiVersions answers, one table per connection: a broker may have been up- or downgraded since the
last one. Source: Kafka classes ``ApiVersions`` and ``NodeApiVersions``; KIP-35, KIP-511, KIP-584.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import attrs
from kproducer_messages import ApiVersionsResponse

from kproducer.errors import RemoteProtocolError
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.protocol.registry import ApiKey, api_name, supported_api_keys
from kproducer.runtime.guarded_logger import GuardedLogger

_log = GuardedLogger(__name__)


def _range_text(first: int, last: int) -> str:
    return f"version {first}" if first == last else f"versions {first} to {last}"


@attrs.frozen
class NodeApiVersions:
    """What one broker said on one connection. Immutable.

    Attributes:
        broker: the broker in words, for messages.
        ranges: API key to (oldest, newest) version, as advertised.
        finalized_features: cluster-wide feature levels (KIP-584), such as ``transaction.version``.
        finalized_features_epoch: -1 when the broker told none.
    """

    broker: str
    ranges: Mapping[int, tuple[int, int]]
    finalized_features: Mapping[str, int] = attrs.field(factory=dict)
    finalized_features_epoch: int = -1

    @classmethod
    def from_response(cls, broker: str, response: ApiVersionsResponse) -> NodeApiVersions:
        """Read an answer without error. A range upside down of an API that we have no use for is left out.

        Raises RemoteProtocolError for such a range of an API that we speak. To believe that the broker lacks
        the API would fail records for as long as the connection lasts; the next one may be to a sane broker.
        """
        ranges: dict[int, tuple[int, int]] = {}
        for api in response.api_keys:
            if api.min_version <= api.max_version:
                ranges[api.api_key] = (api.min_version, api.max_version)
                continue
            complaint = (
                f"ApiVersions: broker {broker} claims to speak {api_name(api.api_key)} from version"
                f" {api.min_version} to {api.max_version}, which is no range"
            )
            if api.api_key in supported_api_keys():
                raise RemoteProtocolError(complaint)
            _log.warning("%s; ignored, for this client does not use it", complaint)
        return cls(
            broker,
            ranges,
            {feature.name: feature.max_version_level for feature in response.finalized_features},
            response.finalized_features_epoch,
        )

    def latest_usable_version(self, api_key: int, oldest: int, latest: int) -> int:
        """The newest version that both the broker and [oldest, latest] contain.

        Raises:
            UnsupportedVersionError: there is none; names the broker, the API and both ranges.
        """
        known = self.ranges.get(api_key)
        ours = f"this client speaks {_range_text(oldest, latest)}"
        if known is None:
            raise UnsupportedVersionError(
                f"{api_name(api_key)}: broker {self.broker} speaks no version of it, {ours}"
            )
        broker_oldest, broker_latest = known
        version = min(latest, broker_latest)
        if version >= oldest and version >= broker_oldest:
            return version
        if broker_latest < oldest:
            verdict = "the broker is too old for this client"
        elif broker_oldest > latest:
            verdict = "the broker is too new for this client"
        else:
            verdict = "the broker's range makes no sense"
        raise UnsupportedVersionError(
            f"{api_name(api_key)}: broker {self.broker} speaks {_range_text(*known)}, {ours}: {verdict}"
        )


class ApiVersions:
    """The tables of all nodes with a connection. Written by the I/O thread, read by any.

    Each write replaces or removes one dictionary entry, which is atomic.
    """

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[str, NodeApiVersions] = {}

    def update(self, node_id: str, versions: NodeApiVersions) -> None:
        """A version check ended well."""
        self._nodes[node_id] = versions

    def remove(self, node_id: str) -> None:
        """The connection ended: the next one has to be asked again."""
        self._nodes.pop(node_id, None)

    def get(self, node_id: str) -> NodeApiVersions | None:
        """The node's table, None without a checked connection."""
        return self._nodes.get(node_id)

    def snapshot(self) -> dict[str, NodeApiVersions]:
        """A copy, by connection id."""
        return dict(self._nodes)


class NegotiatedVersions:
    """The versions that requests really were sent in. Written by the I/O thread, read by any."""

    __slots__ = ("_by_node", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_node: dict[int, dict[ApiKey, int]] = {}  # guarded by _lock

    def note(self, node_id: str, api_key: int, version: int) -> None:
        """A request of this version goes to this node. I/O thread."""
        node = int(node_id)
        # Only this thread writes, so looking first without the lock is safe, and the usual case is no news.
        known = self._by_node.get(node)
        if known is not None and known.get(api_key) == version:  # type: ignore[call-overload]
            return
        with self._lock:
            self._by_node.setdefault(node, {})[ApiKey(api_key)] = version

    def by_node(self) -> dict[int, dict[ApiKey, int]]:
        """A copy. Any thread."""
        with self._lock:
            return {node: dict(versions) for node, versions in self._by_node.items()}
