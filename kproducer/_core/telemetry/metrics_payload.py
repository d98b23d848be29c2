"""MetricsPayload: the content of pushes, and which counts the broker has already.

Names are those of the Java client: ``org.apache.kafka.producer.record.send.total`` is the metric
``record-send-total`` of the group ``producer-metrics``. The tag ``client-id`` is left out, because the broker
knows it. Source: KIP-714 ("Metrics naming and format"); Kafka classes ``TelemetryMetricNamingConvention``,
``KafkaMetricsCollector``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kproducer._core.runtime.clock import Clock
from kproducer._core.telemetry.otlp_metrics import Point, encode_attributes, encode_metrics_data

if TYPE_CHECKING:
    from kproducer._core.metrics.metric_sample import MetricSample

_KNOWN_TO_THE_BROKER = "client_id"
_EVERYTHING = "*"


@lru_cache(maxsize=1024)
def metric_name(group: str, name: str) -> str:
    """The name of a metric in pushes, from Java's group and name."""
    return f"org.apache.kafka.{_dotted(group).replace('.metrics', '')}.{_dotted(name)}"


def _attributes(tags: Mapping[str, str]) -> bytes:
    names = {key.lower().replace("-", "_"): value for key, value in tags.items()}
    names.pop(_KNOWN_TO_THE_BROKER, None)
    return encode_attributes(names)


def _dotted(text: str) -> str:
    return text.lower().replace("-", ".")


class _Place(NamedTuple):
    """What identifies a counter: its name in pushes and its encoded attributes."""

    name: str
    attributes: bytes


class _Pushed(NamedTuple):
    """A counter in a payload."""

    value: float
    time_ns: int


class MetricsPayload:
    """Makes the payloads of one producer. I/O thread only.

    Args:
        samples: returns the producer's metrics.
        resource: returns what describes the producer as a whole: attribute to value.
        clock: for the times of values.
    """

    def __init__(
        self,
        samples: Callable[[], Iterable[MetricSample]],
        resource: Callable[[], Mapping[str, str]],
        clock: Clock,
    ) -> None:
        self._samples = samples
        self._resource = resource
        self._clock = clock
        self._started_ns = clock.wall_ns()
        #: The counters as the broker last got them.
        self._accepted: dict[_Place, _Pushed] = {}
        #: The counters as the broker will have them if it accepts the last payload.
        self._pending: dict[_Place, _Pushed] = {}

    def build(self, prefixes: Sequence[str], *, is_delta: bool) -> bytes:
        """Encode the metrics whose names begin with one of the prefixes; ``*``: all metrics.

        Args:
            prefixes: of names in pushes.
            is_delta: counters have the change since the last payload for which ``accepted`` was called.
        """
        now_ns = self._clock.wall_ns()
        wanted = ("",) if _EVERYTHING in prefixes else tuple(prefixes)
        gauges: dict[str, list[Point]] = {}
        counters: dict[str, list[Point]] = {}
        # Metrics of topics and nodes that are gone are left out, and begin at zero if they come back.
        pending: dict[_Place, _Pushed] = {}
        tags: Mapping[str, str] | None = None
        attributes = b""
        is_name_wanted: dict[str, bool] = {}
        for sample in self._samples():
            name = metric_name(sample.group, sample.name)
            is_wanted = is_name_wanted.get(name)
            if is_wanted is None:  # the same metric of another topic or node has the same name
                is_wanted = is_name_wanted[name] = name.startswith(wanted)
            if sample.tags is not tags:
                # Samples of one topic or node follow each other, so the attributes are encoded once for them.
                tags, attributes = sample.tags, _attributes(sample.tags)
            if sample.kind == "gauge":
                if is_wanted:
                    gauges.setdefault(name, []).append(Point(attributes, sample.value))
                continue
            value, since_ns = sample.value, self._started_ns
            if is_delta:
                place = _Place(name, attributes)
                before = self._accepted.get(place)
                if is_wanted:
                    pending[place] = _Pushed(value, now_ns)
                elif before is not None:
                    pending[place] = before
                if before is not None and value >= before.value:
                    value, since_ns = value - before.value, before.time_ns
            if is_wanted:
                counters.setdefault(name, []).append(Point(attributes, value, since_ns))
        self._pending = pending
        return encode_metrics_data(gauges, counters, self._resource(), now_ns, is_delta=is_delta)

    def accepted(self) -> None:
        """The broker has, or may have, the last payload: later changes count from there."""
        self._accepted = self._pending

    def reset(self) -> None:
        """Let the next changes count from the producer's start again."""
        self._accepted = {}
