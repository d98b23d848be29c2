"""The first exchange on every connection: which versions does this broker speak?

Decides which version of ApiVersions to ask in, reads the answer whatever version its body is in, and steps
down where the broker does not know the question. Sans I/O: the network client sends and receives.

The difficulty is that the question has versions itself. A broker that does not know the version asked
answers UNSUPPORTED_VERSION in a body of version 0, with its range or without any; others answer in a body of
some other version; others close the connection. Source: KIP-35, KIP-511 ("ApiVersionsResponse error").
"""

from __future__ import annotations

import re
import struct

import attrs
from kproducer_messages import ApiVersionsRequest, ApiVersionsResponse, DecodeError

from kproducer.errors import BrokerError, DisconnectedError, KafkaError, RemoteProtocolError
from kproducer.errors.broker_errors import UnsupportedVersionError, error_for_code
from kproducer.protocol.registry import ApiKey, supported_versions
from kproducer.protocol.responses import CorrelationIdMismatchError, parse_response

_UNSUPPORTED_VERSION = 35

#: correlation id (an ApiVersions answer always has header version 0), error code.
_HEAD = struct.Struct(">ih")
_HEADER_BYTES = 4

#: An element of the answer's array: API key, oldest and newest version.
_RANGE = struct.Struct(">hhh")
_API_VERSIONS_KEY = struct.pack(">h", ApiKey.API_VERSIONS)

#: The last version before software name and flexible encoding; the last one every broker knows.
_STEPS_DOWN = (3, 0)

_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9.\-]")


def sanitized_software_text(text: str) -> str:
    """``text`` made to match what brokers accept as software name or version, "unknown" if nothing is left.

    The broker's rule: letters, digits, dots and dashes, with a letter or digit at both ends. A violation
    is answered with INVALID_REQUEST, so it must never leave.
    """
    return _NOT_ALLOWED.sub("-", text).strip(".-") or "unknown"


class ApiVersionsRequestBuilder:
    """The question, in exactly one version."""

    __slots__ = ("_software_name", "_software_version", "latest_version", "oldest_version")

    def __init__(self, version: int, software_name: str, software_version: str) -> None:
        self.oldest_version = version
        self.latest_version = version
        self._software_name = sanitized_software_text(software_name)
        self._software_version = sanitized_software_text(software_version)

    @property
    def api_key(self) -> int:
        return ApiKey.API_VERSIONS

    def build(self, version: int) -> ApiVersionsRequest:
        return ApiVersionsRequest(
            client_software_name=self._software_name, client_software_version=self._software_version
        )


@attrs.frozen
class ApiVersionsAnswer:
    """What became of a question: exactly one of the three is set.

    Attributes:
        response: an answer without error.
        ask_again_in: ask again, on the same connection, in this version.
        error: the broker cannot be talked to; close the connection.
    """

    response: ApiVersionsResponse | None = None
    ask_again_in: int | None = None
    error: KafkaError | None = None


class ApiVersionsExchange:
    """Remembers, for each node, in which version to ask. I/O thread only."""

    __slots__ = ("_asked", "_first_version", "_newest")

    def __init__(self) -> None:
        self._newest = supported_versions(ApiKey.API_VERSIONS).max
        # In which version to begin on the next connection; only where our newest one did not do.
        self._first_version: dict[str, int] = {}
        self._asked: dict[str, int] = {}

    def begin(self, node_id: str) -> int:
        """A connection came up: the version to ask in."""
        version = self._first_version.get(node_id, self._newest)
        self._asked[node_id] = version
        return version

    def on_answer(
        self, node_id: str, broker: str, version: int, correlation_id: int, payload: bytes
    ) -> ApiVersionsAnswer:
        """Read the answer to a question asked in ``version``.

        Raises RemoteProtocolError for bytes that are no answer at all (CorrelationIdMismatchError for an
        answer to something else).
        """
        if len(payload) < _HEAD.size:
            raise RemoteProtocolError(f"an ApiVersions answer of {len(payload)} bytes is too short")
        got_id, error_code = _HEAD.unpack_from(payload)
        if got_id != correlation_id:
            raise CorrelationIdMismatchError(
                f"ApiVersions: sent correlation id {correlation_id}, the answer has {got_id}",
                correlation_id,
                got_id,
            )
        if error_code == 0:
            response = parse_response(ApiKey.API_VERSIONS, version, correlation_id, payload)
            self._asked.pop(node_id, None)
            return ApiVersionsAnswer(response=response)
        offered = _offered_range(payload, version)
        if error_code != _UNSUPPORTED_VERSION:
            self._step_down(node_id, version)
            return ApiVersionsAnswer(error=_refusal(broker, error_code))
        again = _lower_version(version, offered)
        if again is None:
            return ApiVersionsAnswer(error=self._no_common_version(broker, offered))
        self._asked[node_id] = again
        return ApiVersionsAnswer(ask_again_in=again)

    def on_connection_lost(self, node_id: str, broker: str) -> DisconnectedError | None:
        """The peer closed the connection instead of answering: begin lower next time.

        An error that says more than the lost connection does, once the lowest version was met with that too.
        The next connection begins at the top then: it may be a load balancer whose brokers are all down.
        """
        version = self._asked.pop(node_id, None)
        if version is None or self._step_down(node_id, version):
            return None
        return DisconnectedError(
            f"{broker} closes the connection on every version of ApiVersions (this client speaks versions 0"
            f" to {self._newest}): it is starting or stopping, older than Kafka 0.10, no Kafka broker,"
            " or its listener expects TLS or SASL"
        )

    def on_connection_failed(self, node_id: str) -> None:
        """No connection came up: the broker may be a different one when it is back, so begin at the top."""
        self._first_version.pop(node_id, None)
        self._asked.pop(node_id, None)

    def _step_down(self, node_id: str, version: int) -> bool:
        for step in _STEPS_DOWN:
            if step < version:
                self._first_version[node_id] = step
                return True
        self._first_version.pop(node_id, None)
        return False

    def _no_common_version(self, broker: str, offered: tuple[int, int] | None) -> UnsupportedVersionError:
        theirs = "names no range" if offered is None else f"speaks versions {offered[0]} to {offered[1]}"
        return UnsupportedVersionError(
            f"ApiVersions: broker {broker} {theirs}, this client speaks versions 0 to {self._newest}"
        )


def _lower_version(asked: int, offered: tuple[int, int] | None) -> int | None:
    """The next version to ask in: the best the broker claims to know, else 0; strictly descending."""
    if asked == 0:
        return None
    if offered is not None:
        oldest, newest = offered
        candidate = min(newest, asked - 1)
        if candidate >= max(oldest, 0):
            return candidate
    return 0


def _offered_range(payload: bytes, asked_version: int) -> tuple[int, int] | None:
    """The broker's range for ApiVersions out of an error answer, in whatever version its body is."""
    for version in dict.fromkeys((0, 1, asked_version, 3)):
        try:
            response, end = ApiVersionsResponse.decode(payload, version, _HEADER_BYTES)
        except DecodeError:
            continue
        if end != len(payload):
            continue  # a body of another version that happens to begin alike
        for api in response.api_keys:
            if api.api_key == ApiKey.API_VERSIONS:
                return api.min_version, api.max_version
        return None
    return _range_in_malformed_body(payload, asked_version)


def _range_in_malformed_body(payload: bytes, asked_version: int) -> tuple[int, int] | None:
    """The range in a body of no version at all (librdkafka's mock cluster miscounts the array).

    A wrong guess does no harm: versions asked in only ever go down, and end at 0.
    """
    at = payload.find(_API_VERSIONS_KEY, _HEAD.size)
    if at < 0 or at + _RANGE.size > len(payload):
        return None
    _, oldest, newest = _RANGE.unpack_from(payload, at)
    return (oldest, newest) if 0 <= oldest <= newest < asked_version else None


def _refusal(broker: str, error_code: int) -> BrokerError:
    return error_for_code(error_code, f"answer of broker {broker} to ApiVersions")
