# DO NOT EDIT: generated from specs (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 277a0717e382fccd28ec0dbfbc462dbe1297f9982729c6b409b15bff4cc7298d
"""Kafka messages: data classes with encoders and decoders for all their versions.

``REQUESTS`` and ``RESPONSES`` list them by API key; ``API_NAMES`` has the names. Decoding raises
``DecodeError``, encoding ``EncodeError``, and nothing else.
"""

from __future__ import annotations

from typing import Any

from ._wire import ZERO_UUID, CodecError, DecodeError, EncodeError
from .api_versions_request import ApiVersionsRequest
from .api_versions_response import ApiVersionsResponse
from .metadata_request import MetadataRequest
from .metadata_response import MetadataResponse
from .produce_request import ProduceRequest
from .produce_response import ProduceResponse
from .request_header import RequestHeader
from .response_header import ResponseHeader

__all__ = [
    "API_NAMES",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "CodecError",
    "DecodeError",
    "EncodeError",
    "MetadataRequest",
    "MetadataResponse",
    "ProduceRequest",
    "ProduceResponse",
    "REQUESTS",
    "RESPONSES",
    "RequestHeader",
    "ResponseHeader",
    "ZERO_UUID",
]

API_NAMES: dict[int, str] = {
    0: "Produce",
    3: "Metadata",
    18: "ApiVersions",
}

REQUESTS: dict[int, type[Any]] = {
    0: ProduceRequest,
    3: MetadataRequest,
    18: ApiVersionsRequest,
}

RESPONSES: dict[int, type[Any]] = {
    0: ProduceResponse,
    3: MetadataResponse,
    18: ApiVersionsResponse,
}
