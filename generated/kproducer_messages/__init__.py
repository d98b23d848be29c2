# DO NOT EDIT: generated from specs (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: f934eea4af7005e0bfa6bae674b9c4ce87ae3df73f0eb29aed0edcc3084d870d
"""Kafka messages: data classes with encoders and decoders for all their versions.

``REQUESTS`` and ``RESPONSES`` list them by API key; ``API_NAMES`` has the names. Decoding raises
``DecodeError``, encoding ``EncodeError``, and nothing else.
"""

from __future__ import annotations

from typing import Any

from ._wire import ZERO_UUID, CodecError, DecodeError, EncodeError
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
from .init_producer_id_request import InitProducerIdRequest
from .init_producer_id_response import InitProducerIdResponse
from .metadata_request import MetadataRequest
from .metadata_response import MetadataResponse
from .offset_fetch_request import OffsetFetchRequest
from .offset_fetch_response import OffsetFetchResponse
from .produce_request import ProduceRequest
from .produce_response import ProduceResponse
from .request_header import RequestHeader
from .response_header import ResponseHeader
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
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "ProduceRequest",
    "ProduceResponse",
    "REQUESTS",
    "RESPONSES",
    "RequestHeader",
    "ResponseHeader",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "ZERO_UUID",
]

API_NAMES: dict[int, str] = {
    0: "Produce",
    3: "Metadata",
    9: "OffsetFetch",
    10: "FindCoordinator",
    18: "ApiVersions",
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
}

REQUESTS: dict[int, type[Any]] = {
    0: ProduceRequest,
    3: MetadataRequest,
    9: OffsetFetchRequest,
    10: FindCoordinatorRequest,
    18: ApiVersionsRequest,
    22: InitProducerIdRequest,
    24: AddPartitionsToTxnRequest,
    25: AddOffsetsToTxnRequest,
    26: EndTxnRequest,
    28: TxnOffsetCommitRequest,
}

RESPONSES: dict[int, type[Any]] = {
    0: ProduceResponse,
    3: MetadataResponse,
    9: OffsetFetchResponse,
    10: FindCoordinatorResponse,
    18: ApiVersionsResponse,
    22: InitProducerIdResponse,
    24: AddPartitionsToTxnResponse,
    25: AddOffsetsToTxnResponse,
    26: EndTxnResponse,
    28: TxnOffsetCommitResponse,
}
