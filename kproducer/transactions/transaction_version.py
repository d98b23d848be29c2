"""Which protocol of transactions the cluster has, from what its brokers said on their connections.

Source: KIP-584 (finalized features), KIP-890 (``transaction.version``); Kafka's ``TransactionManager``
(maybeUpdateTransactionV2Enabled).
"""

from __future__ import annotations

from typing import Final

from kproducer.client.api_versions import ApiVersions
from kproducer.protocol.registry import ApiKey

_FEATURE: Final = "transaction.version"
#: What a broker has to speak for version 2; one that was not upgraded yet would take batches for strangers'.
_NEEDED: Final = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}


def transaction_version(api_versions: ApiVersions) -> int:
    """2 where the newest finalized features say so and every broker we are connected to can do it, else 1."""
    nodes = list(api_versions.snapshot().values())
    if not nodes:
        return 1
    newest = max(nodes, key=lambda node: node.finalized_features_epoch)
    if newest.finalized_features.get(_FEATURE, 0) < 2:
        return 1
    can_all = all(
        node.ranges.get(key, (0, -1))[1] >= needed for node in nodes for key, needed in _NEEDED.items()
    )
    return 2 if can_all else 1
