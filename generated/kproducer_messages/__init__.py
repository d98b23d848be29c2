# DO NOT EDIT: generated from specs (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: ce7a342971923448348c186525f4318ababae3dd1b05c63a7857643b98290c22
"""Kafka messages: data classes with encoders and decoders for all their versions.

``REQUESTS`` and ``RESPONSES`` list them by API key; ``API_NAMES`` has the names. Decoding raises
only ``DecodeError``, encoding only ``EncodeError``. A message's module is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._index import MessagesByKey, load_message
from ._wire import ZERO_UUID, CodecError, DecodeError, EncodeError

if TYPE_CHECKING:
    from .add_offsets_to_txn_request import AddOffsetsToTxnRequest
    from .add_offsets_to_txn_response import AddOffsetsToTxnResponse
    from .add_partitions_to_txn_request import AddPartitionsToTxnRequest
    from .add_partitions_to_txn_response import AddPartitionsToTxnResponse
    from .api_versions_request import ApiVersionsRequest
    from .api_versions_response import ApiVersionsResponse
    from .end_txn_request import EndTxnRequest
    from .end_txn_response import EndTxnResponse
    from .find_coordinator_request import FindCoordinatorRequest
    from .find_coordinator_response import FindCoordinatorResponse
    from .get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
    from .get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
    from .init_producer_id_request import InitProducerIdRequest
    from .init_producer_id_response import InitProducerIdResponse
    from .metadata_request import MetadataRequest
    from .metadata_response import MetadataResponse
    from .offset_fetch_request import OffsetFetchRequest
    from .offset_fetch_response import OffsetFetchResponse
    from .produce_request import ProduceRequest
    from .produce_response import ProduceResponse
    from .push_telemetry_request import PushTelemetryRequest
    from .push_telemetry_response import PushTelemetryResponse
    from .request_header import RequestHeader
    from .response_header import ResponseHeader
    from .sasl_authenticate_request import SaslAuthenticateRequest
    from .sasl_authenticate_response import SaslAuthenticateResponse
    from .sasl_handshake_request import SaslHandshakeRequest
    from .sasl_handshake_response import SaslHandshakeResponse
    from .txn_offset_commit_request import TxnOffsetCommitRequest
    from .txn_offset_commit_response import TxnOffsetCommitResponse

__all__ = [
    "API_NAMES",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "CodecError",
    "DecodeError",
    "EncodeError",
    "EndTxnRequest",
    "EndTxnResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "ProduceRequest",
    "ProduceResponse",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
    "REQUESTS",
    "RESPONSES",
    "RequestHeader",
    "ResponseHeader",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "ZERO_UUID",
]

API_NAMES: dict[int, str] = {
    0: "Produce",
    3: "Metadata",
    9: "OffsetFetch",
    10: "FindCoordinator",
    17: "SaslHandshake",
    18: "ApiVersions",
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
    36: "SaslAuthenticate",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
}

REQUESTS = MessagesByKey(
    __name__,
    {
        0: ("produce_request", "ProduceRequest"),
        3: ("metadata_request", "MetadataRequest"),
        9: ("offset_fetch_request", "OffsetFetchRequest"),
        10: ("find_coordinator_request", "FindCoordinatorRequest"),
        17: ("sasl_handshake_request", "SaslHandshakeRequest"),
        18: ("api_versions_request", "ApiVersionsRequest"),
        22: ("init_producer_id_request", "InitProducerIdRequest"),
        24: ("add_partitions_to_txn_request", "AddPartitionsToTxnRequest"),
        25: ("add_offsets_to_txn_request", "AddOffsetsToTxnRequest"),
        26: ("end_txn_request", "EndTxnRequest"),
        28: ("txn_offset_commit_request", "TxnOffsetCommitRequest"),
        36: ("sasl_authenticate_request", "SaslAuthenticateRequest"),
        71: ("get_telemetry_subscriptions_request", "GetTelemetrySubscriptionsRequest"),
        72: ("push_telemetry_request", "PushTelemetryRequest"),
    },
)

RESPONSES = MessagesByKey(
    __name__,
    {
        0: ("produce_response", "ProduceResponse"),
        3: ("metadata_response", "MetadataResponse"),
        9: ("offset_fetch_response", "OffsetFetchResponse"),
        10: ("find_coordinator_response", "FindCoordinatorResponse"),
        17: ("sasl_handshake_response", "SaslHandshakeResponse"),
        18: ("api_versions_response", "ApiVersionsResponse"),
        22: ("init_producer_id_response", "InitProducerIdResponse"),
        24: ("add_partitions_to_txn_response", "AddPartitionsToTxnResponse"),
        25: ("add_offsets_to_txn_response", "AddOffsetsToTxnResponse"),
        26: ("end_txn_response", "EndTxnResponse"),
        28: ("txn_offset_commit_response", "TxnOffsetCommitResponse"),
        36: ("sasl_authenticate_response", "SaslAuthenticateResponse"),
        71: ("get_telemetry_subscriptions_response", "GetTelemetrySubscriptionsResponse"),
        72: ("push_telemetry_response", "PushTelemetryResponse"),
    },
)

if not TYPE_CHECKING:
    _MODULES = {
        "AddOffsetsToTxnRequest": "add_offsets_to_txn_request",
        "AddOffsetsToTxnResponse": "add_offsets_to_txn_response",
        "AddPartitionsToTxnRequest": "add_partitions_to_txn_request",
        "AddPartitionsToTxnResponse": "add_partitions_to_txn_response",
        "ApiVersionsRequest": "api_versions_request",
        "ApiVersionsResponse": "api_versions_response",
        "EndTxnRequest": "end_txn_request",
        "EndTxnResponse": "end_txn_response",
        "FindCoordinatorRequest": "find_coordinator_request",
        "FindCoordinatorResponse": "find_coordinator_response",
        "GetTelemetrySubscriptionsRequest": "get_telemetry_subscriptions_request",
        "GetTelemetrySubscriptionsResponse": "get_telemetry_subscriptions_response",
        "InitProducerIdRequest": "init_producer_id_request",
        "InitProducerIdResponse": "init_producer_id_response",
        "MetadataRequest": "metadata_request",
        "MetadataResponse": "metadata_response",
        "OffsetFetchRequest": "offset_fetch_request",
        "OffsetFetchResponse": "offset_fetch_response",
        "ProduceRequest": "produce_request",
        "ProduceResponse": "produce_response",
        "PushTelemetryRequest": "push_telemetry_request",
        "PushTelemetryResponse": "push_telemetry_response",
        "RequestHeader": "request_header",
        "ResponseHeader": "response_header",
        "SaslAuthenticateRequest": "sasl_authenticate_request",
        "SaslAuthenticateResponse": "sasl_authenticate_response",
        "SaslHandshakeRequest": "sasl_handshake_request",
        "SaslHandshakeResponse": "sasl_handshake_response",
        "TxnOffsetCommitRequest": "txn_offset_commit_request",
        "TxnOffsetCommitResponse": "txn_offset_commit_response",
    }

    def __getattr__(name: str) -> Any:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = load_message(__name__, module, name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
