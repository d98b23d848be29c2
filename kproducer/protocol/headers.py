"""Which header goes with which version of an API.

A flexible version has a flexible header, with one exception: responses to ApiVersions keep the oldest
header, because a client reads them before it knows what the broker speaks.
Source: KIP-482, KIP-511; Kafka's ``ApiMessageType``.
"""

from __future__ import annotations

from kproducer.protocol.registry import ApiKey, request_class, response_class


def request_header_version(api_key: int, version: int) -> int:
    """Version of the RequestHeader in front of a request: 2 for flexible versions, else 1."""
    return 2 if version in request_class(api_key).FLEXIBLE_VERSIONS else 1


def response_header_version(api_key: int, version: int) -> int:
    """Version of the ResponseHeader in front of a response: 1 for flexible versions, else 0."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version in response_class(api_key).FLEXIBLE_VERSIONS else 0
