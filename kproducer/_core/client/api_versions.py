"""The API versions that a broker supports, and the exchange that asks for them on every new connection.

One table per connection: the broker may have been up- or downgraded since the last one. The exchange decides
which version of ApiVersions to send, and reads the response. Sans I/O: the network client sends and receives.

The difficulty is that ApiVersions has versions itself. A broker that does not support the version of the
request answers UNSUPPORTED_VERSION in a body of version 0, with its range or without one; others close the
connection. A body that cannot be read leads to version 0, which every broker supports.
From version 5 on, the request names the cluster and the broker that the client means to reach, and another
broker refuses it with REBOOTSTRAP_REQUIRED (KIP-1242).
Source: Kafka class ``NodeApiVersions``; KIP-35, KIP-511 ("ApiVersionsResponse error"), KIP-584, KIP-1242.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kproducer_messages import ApiVersionsRequest, ApiVersionsResponse, DecodeError

from kproducer._core.client.api_keys import ApiKey, api_name
from kproducer._core.client.responses import parse_response
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import DisconnectedError, RemoteProtocolError
from kproducer.errors.broker_errors import UnsupportedVersionError, error_for_code
from kproducer.errors.internal_errors import CorrelationIdMismatchError

_log = GuardedLogger(__name__)


def _range_text(first: int, last: int) -> str:
    return f"version {first}" if first == last else f"versions {first} to {last}"


class NodeApiVersions(NamedTuple):
    """The APIs that one broker supports, as it announced them on one connection. Immutable.

    Attributes:
        broker: the broker in words, for messages.
        ranges: API key to (oldest, newest) version, as advertised.
        finalized_features: cluster-wide feature levels (KIP-584), such as ``transaction.version``.
        finalized_features_epoch: -1 if the broker named none.
    """

    broker: str
    ranges: Mapping[int, tuple[int, int]]
    finalized_features: Mapping[str, int] = MappingProxyType({})
    finalized_features_epoch: int = -1

    @classmethod
    def from_response(cls, broker: str, response: ApiVersionsResponse) -> NodeApiVersions:
        """Read a response without error. An invalid range of an API that this client does not use is ignored.

        Raises RemoteProtocolError for an invalid range of an API that this client uses: without the API,
        records would fail until the connection ends. The next connection may reach a correct broker.
        """
        ranges: dict[int, tuple[int, int]] = {}
        ignored: list[str] = []
        for api in response.api_keys:
            if api.min_version <= api.max_version:
                ranges[api.api_key] = (api.min_version, api.max_version)
                continue
            complaint = (
                f"ApiVersions: broker {broker} announces an invalid range for {api_name(api.api_key)}:"
                f" versions {api.min_version} to {api.max_version}"
            )
            if api.api_key in tuple(ApiKey):
                raise RemoteProtocolError(complaint)
            ignored.append(complaint)
        if ignored:
            more = f" (and {len(ignored) - 1} more)" if len(ignored) > 1 else ""
            _log.warning("%s%s; ignored: this client does not use this API", ignored[0], more)
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
        if known is not None:
            broker_oldest, broker_latest = known
            version = min(latest, broker_latest)
            if version >= oldest and version >= broker_oldest:
                return version
        ours = f"this client supports {_range_text(oldest, latest)}"
        if known is None:
            raise UnsupportedVersionError(
                f"{api_name(api_key)}: broker {self.broker} does not support this API, {ours}"
            )
        verdict = "old" if broker_latest < oldest else "new"
        raise UnsupportedVersionError(
            f"{api_name(api_key)}: broker {self.broker} supports {_range_text(*known)}, {ours}: "
            f"the broker is too {verdict} for this client"
        )


_UNSUPPORTED_VERSION = 35
#: KIP-1102, KIP-1242: the client has to return to its bootstrap addresses.
REBOOTSTRAP_REQUIRED = 129
#: The first version whose request names the broker that the client means to reach.
IDENTITY_SINCE = 5

#: How a response begins: correlation id (its header always has version 0) and error code.
_HEAD = struct.Struct(">ih")
_HEADER_BYTES = 4

#: The last version before flexible encoding, and the one that every broker supports.
_STEPS_DOWN = (3, 0)

_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9.\-]")


def sanitized_software_text(text: str) -> str:
    """Make ``text`` a software name or version that brokers accept; "unknown" if no character is left.

    Brokers accept letters, digits, dots and dashes, with a letter or digit at both ends. They answer anything
    else with INVALID_REQUEST.
    """
    return _NOT_ALLOWED.sub("-", text).strip(".-") or "unknown"


class ApiVersionsExchange:
    """The exchanges with one node; remembers the version to begin with. I/O thread only."""

    __slots__ = ("_asked", "_first_version", "_has_refused_all", "_newest")

    def __init__(self) -> None:
        self._newest = ApiVersionsRequest.MAX_VERSION
        #: The version to begin with on the next connection.
        self._first_version = self._newest
        #: The version of the request that is not answered yet.
        self._asked: int | None = None
        #: Whether the peer has closed the connection on the lowest version as well, and has answered none
        #: since.
        self._has_refused_all = False

    def begin(self) -> int:
        """A connection came up: returns the version of the request to send."""
        self._asked = self._first_version
        return self._first_version

    def on_answer(
        self, broker: str, version: int, correlation_id: int, payload: bytes
    ) -> ApiVersionsResponse | int:
        """Read the response to a request of ``version``.

        Returns:
            The response if it has no error; otherwise the version in which to send the request again, on the
            same connection.

        Raises:
            UnsupportedVersionError: there is no common version.
            BrokerError: the broker refused the request for another reason.
            RemoteProtocolError: the bytes are not an ApiVersions response (CorrelationIdMismatchError: they
                are the response to another request).
        """
        if len(payload) < _HEAD.size:
            raise RemoteProtocolError(f"ApiVersions: a response of {len(payload)} bytes is too short")
        got_id, error_code = _HEAD.unpack_from(payload)
        if got_id != correlation_id:
            raise CorrelationIdMismatchError(
                f"ApiVersions: the request has correlation id {correlation_id}, the response has {got_id}"
            )
        self._has_refused_all = False
        if error_code == 0:
            response = parse_response(ApiKey.API_VERSIONS, version, correlation_id, payload)
            self._asked = None
            assert isinstance(response, ApiVersionsResponse)
            return response
        if error_code == REBOOTSTRAP_REQUIRED:
            # The broker supports the version: do not step down, which would skip the check next time.
            self._asked = None
            raise error_for_code(
                error_code,
                context=f"ApiVersions: {broker} is another broker, or of another cluster, than metadata says;"
                " check advertised.listeners of the brokers and what is between, or set"
                " metadata_cluster_check_enable=False",
            )
        if error_code != _UNSUPPORTED_VERSION:
            self._step_down(version)
            raise error_for_code(error_code, f"response of broker {broker} to ApiVersions")
        offered = _offered_range(payload)
        again = _lower_version(version, offered)
        if again is None:
            theirs = (
                "names no range" if offered is None else f"supports versions {offered[0]} to {offered[1]}"
            )
            raise UnsupportedVersionError(
                f"ApiVersions: broker {broker} {theirs}, this client supports versions 0 to {self._newest}"
            )
        self._asked = again
        return again

    def on_connection_lost(self, broker: str) -> DisconnectedError | None:
        """The peer closed the connection instead of answering: the next request has a lower version.

        Returns a more helpful error once the broker has closed the connection even for the lowest version.
        The next connection then begins with the newest version: the peer may be a load balancer whose brokers
        are all down.
        """
        version, self._asked = self._asked, None
        if version is None:
            return None
        if not self._step_down(version):
            self._has_refused_all = True
        if not self._has_refused_all:
            return None
        return DisconnectedError(
            f"{broker} closes the connection on every version of ApiVersions (this client supports versions 0"
            f" to {self._newest}): it is starting or stopping, older than Kafka 0.10, not a Kafka broker,"
            " or its listener expects TLS or SASL (security_protocol), or a client certificate (ssl_certfile)"
        )

    def on_connection_failed(self) -> None:
        """No connection came up: it may be another broker next time, so begin with the newest version."""
        self._first_version = self._newest
        self._asked = None
        self._has_refused_all = False

    def _step_down(self, version: int) -> bool:
        """Begin with a version below ``version`` next time; False, and the newest, if there is none."""
        lower = [step for step in _STEPS_DOWN if step < version]
        self._first_version = lower[0] if lower else self._newest
        return bool(lower)


def _lower_version(asked: int, offered: tuple[int, int] | None) -> int | None:
    """The version of the next request: the newest that the broker announces, else 0; strictly descending."""
    if asked == 0:
        return None
    if offered is not None:
        oldest, newest = offered
        candidate = min(newest, asked - 1)
        if candidate >= max(oldest, 0):
            return candidate
    return 0


def _offered_range(payload: bytes) -> tuple[int, int] | None:
    """The broker's range for ApiVersions in an error response, whose body is in version 0."""
    try:
        response, _ = ApiVersionsResponse.decode(payload, 0, _HEADER_BYTES)
    except DecodeError:
        return None
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    return ranges.get(ApiKey.API_VERSIONS)
