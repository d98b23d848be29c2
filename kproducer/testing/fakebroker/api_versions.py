"""ApiVersions, versions 0 to 5.

Behaviour: lists the offered ranges. An unsupported version gets error 35 in a version 0 body. The
rest of that body differs between brokers; ``broker.refusal``:
``range``: the range of ApiVersions itself, as Apache Kafka since 2.4 (KIP-511);
``empty``: nothing, as older brokers;
``all``: all ranges;
``own_version``: the body in the requested version (as librdkafka's mock cluster);
``close``: no response, the connection ends, as brokers before 0.10.
From v3 on, the client's software name and version must match Kafka's pattern; otherwise error 42.
From v5 on, the request names a cluster and a node, or neither; otherwise error 42. If they are not this
broker's: error 129, without any range (KIP-1242).
The response header always has version 0, so that a client can read the response to a version that
the broker does not support.
"""

from __future__ import annotations

import re
from typing import Any

from kproducer_messages import ApiVersionsResponse
from kproducer_messages.api_versions_response import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey

from kproducer.testing.fakebroker.actions import RequestContext

API_KEY = 18
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
REBOOTSTRAP_REQUIRED = 129
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: RequestContext) -> Any:
    """The broker's ranges, or a refusal."""
    version, cluster = context.api_version, context.cluster
    oldest, newest = context.broker.versions.get(API_KEY, (0, -1))
    if not oldest <= version <= newest:
        return _refuse(context)
    if error_code := _identity_error(context):
        return ApiVersionsResponse(error_code=error_code)
    response = ApiVersionsResponse(api_keys=_ranges(context))
    if version >= 3:
        for text in (context.message.client_software_name, context.message.client_software_version):
            if _SOFTWARE.fullmatch(text) is None:
                cluster.note_violation(f"{context.logged}: software name or version {text!r}")
                response.error_code = INVALID_REQUEST
        response.finalized_features_epoch = 7
        for name, lowest, highest, level in (
            ("metadata.version", 1, 29, 27),
            ("transaction.version", 0, 2, cluster.transaction_version),
        ):
            if level:
                response.supported_features.append(
                    SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
                )
                response.finalized_features.append(
                    FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                )
    return response


def _identity_error(context: RequestContext) -> int:
    cluster_id, node_id = context.message.cluster_id, context.message.node_id
    if (cluster_id is None) != (node_id == -1):
        context.cluster.note_violation(f"{context.logged}: cluster id {cluster_id!r} with node id {node_id}")
        return INVALID_REQUEST
    ours = context.cluster.cluster_id, context.broker.node_id
    return 0 if cluster_id is None or (cluster_id, node_id) == ours else REBOOTSTRAP_REQUIRED


def _refuse(context: RequestContext) -> Any:
    context.response_version = 0
    response = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION)
    style = context.broker.refusal
    if style == "close":
        context.must_close = True
        return None
    if style == "own_version":
        context.response_version = min(context.api_version, ApiVersionsResponse.MAX_VERSION)
    if style in ("range", "own_version"):
        response.api_keys.extend(entry for entry in _ranges(context) if entry.api_key == API_KEY)
    elif style == "all":
        response.api_keys.extend(_ranges(context))
    return response


def _ranges(context: RequestContext) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=oldest, max_version=newest)
        for key, (oldest, newest) in sorted(context.broker.versions.items())
    ]
