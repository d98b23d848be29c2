"""MetricSample: one metric of a producer with its value at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from kproducer._core.runtime.public_names import public

#: "counter": a total that only grows while the producer lives. "gauge": anything else.
MetricKind: TypeAlias = Literal["gauge", "counter"]


@public
@attrs.frozen(slots=True)
class MetricSample:
    """One metric with its value at one moment. Immutable.

    Attributes:
        group: Java's group, such as "producer-metrics" or "producer-topic-metrics".
        name: Java's name, such as "record-send-total".
        tags: Java's tags, such as "client-id", "topic" and "node-id".
        value: as the description says; NaN if there is none, such as the mean of no values.
        kind: "counter": a total that only grows while the producer lives. "gauge": anything else.
        description: its unit and meaning.
    """

    group: str
    name: str
    tags: Mapping[str, str]
    value: float
    kind: MetricKind
    description: str
