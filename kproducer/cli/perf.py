"""``kproducer perf``: throughput and latency of one's own cluster, as a producer sees them.

Source: Kafka's tool ``kafka-producer-perf-test``, whose names of options are used.
"""

from __future__ import annotations

import json
import random
import string
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import click

from kproducer.cli.connection_options import connection_options, open_producer, producer_config
from kproducer.errors import KafkaError

if TYPE_CHECKING:
    from kproducer.bulk.send_many_result import SendManyResult
    from kproducer.kafka_producer import KafkaProducer
    from kproducer.types import RecordMetadata

#: One record of this many is timed: a callback per record would cost more than sending it.
_TIMED_ONE_OF = 100
#: Different values, so that compression finds about as much to compress as in one of them. There are fewer of
#: the large ones, which take long to make, and memory.
_VALUES = 1000
_VALUES_BYTES = 16 << 20
_PERCENTILES = (50.0, 95.0, 99.0, 99.9)


@click.command()
@click.argument("topic")
@connection_options
@click.option("--num-records", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--record-size", type=click.IntRange(min=0), default=100, show_default=True, help="Bytes.")
@click.option("--throughput", type=click.IntRange(min=1), help="Records per second [default: no limit].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def perf(
    topic: str,
    num_records: int,
    record_size: int,
    throughput: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Send random records to TOPIC; print throughput and latency. The records stay in the topic."""
    config = producer_config(options)
    try:
        with open_producer(config) as producer:
            # The first connection and the first metadata are not measured.
            producer.partitions_for(topic)
            measurement = _Measurement(producer, topic, record_size)
            try:
                measurement.send(num_records, throughput)
            except KeyboardInterrupt:
                click.echo("Stopped. Another Ctrl-C gives up on what is not acknowledged.", err=True)
                try:
                    figures = measurement.finish()
                except KeyboardInterrupt:
                    producer.close(0)
                    raise
                _print(figures, as_json)
                raise click.exceptions.Exit(130) from None
            figures = measurement.finish()
    except KafkaError as error:
        raise click.ClickException(str(error)) from None
    _print(figures, as_json)
    if figures["failed"]:
        raise click.ClickException(
            f"{figures['failed']} records were not delivered; the first error: {measurement.first_error}"
        )


class _Measurement:
    """Sends records and measures. The I/O thread calls ``_acknowledged``."""

    def __init__(self, producer: KafkaProducer, topic: str, record_size: int) -> None:
        self._producer, self._topic, self._record_size = producer, topic, record_size
        self._values = random_values(record_size)
        self._results: deque[SendManyResult] = deque()
        #: Latencies of the timed records; only the I/O thread adds to them.
        self._latencies_ns: list[int] = []
        self._timed_failures = 0
        self.first_error: KafkaError | None = None
        self._delivered = self._failed = 0
        self._began_s = time.perf_counter()

    def send(self, count: int, rate: int | None) -> None:
        """Send records, at most ``rate`` per second, in groups whose first record is timed."""
        group = _TIMED_ONE_OF if rate is None else max(1, min(_TIMED_ONE_OF, rate // 100))
        self._began_s = time.perf_counter()
        for first in range(0, count, group):
            if rate is not None:
                due_s = self._began_s + first / rate
                time.sleep(max(due_s - time.perf_counter(), 0))
            self._send_group(first, min(group, count - first))

    def _send_group(self, first: int, count: int) -> None:
        start = first % _VALUES
        values = self._values[start : start + count] + self._values[: max(start + count - _VALUES, 0)]
        sent_ns = time.perf_counter_ns()

        def acknowledged(_: RecordMetadata, error: KafkaError | None) -> None:
            if error is None:
                self._latencies_ns.append(time.perf_counter_ns() - sent_ns)
            else:
                self._timed_failures += 1
                self.first_error = self.first_error or error

        self._producer.send(self._topic, values[0], on_delivery=acknowledged)
        if count > 1:
            try:
                self._results.append(self._producer.send_many(self._topic, values[1:]))
            except BaseException as error:  # Ctrl-C, too
                accepted: SendManyResult | None = getattr(error, "partial_result", None)
                if accepted is not None:
                    self._results.append(accepted)
                raise
        while self._results and self._results[0].done():
            self._count(self._results.popleft())

    def _count(self, result: SendManyResult) -> None:
        self._delivered += result.succeeded_count
        if result.failed_count:
            self._failed += result.failed_count
            self.first_error = self.first_error or result.failures()[0][1]

    def finish(self) -> dict[str, Any]:
        """Wait until every outcome is known, and return the figures."""
        self._producer.flush()
        seconds = time.perf_counter() - self._began_s
        while self._results:
            self._count(self._results.popleft())
        latencies_ms = sorted(each / 1e6 for each in self._latencies_ns)
        delivered = self._delivered + len(latencies_ms)
        figures: dict[str, Any] = {
            "records": delivered,
            "failed": self._failed + self._timed_failures,
            "seconds": round(seconds, 3),
            "records_per_second": round(delivered / seconds),
            "megabytes_per_second": round(delivered * self._record_size / seconds / 1e6, 2),
        }
        if latencies_ms:
            figures["latency_ms"] = {
                "average": round(sum(latencies_ms) / len(latencies_ms), 3),
                **{f"p{each:g}": round(percentile(latencies_ms, each), 3) for each in _PERCENTILES},
                "maximum": round(latencies_ms[-1], 3),
            }
        return figures


def random_values(size_bytes: int) -> list[bytes]:
    """1000 values of capital letters; large ones are repeated."""
    letters = (string.ascii_uppercase.encode() * 10)[:256]
    generator = random.Random(0)
    different = max(min(_VALUES, _VALUES_BYTES // max(size_bytes, 1)), 1)
    values = [generator.randbytes(size_bytes).translate(letters) for _ in range(different)]
    return [values[each % different] for each in range(_VALUES)]


def percentile(ascending: list[float], percent: float) -> float:
    """The smallest value that at least ``percent`` of the values do not exceed."""
    rank = -int(-len(ascending) * percent // 100)
    return ascending[min(max(rank, 1), len(ascending)) - 1]


def _print(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(figures, indent=2))
        return
    click.echo(
        f"{figures['records']:,} records in {figures['seconds']:,.1f} s:"
        f" {figures['records_per_second']:,} per second, {figures['megabytes_per_second']:,} MB per second"
    )
    if "latency_ms" in figures:
        latencies = (f"{name} {value:,} ms" for name, value in figures["latency_ms"].items())
        click.echo(f"latency: {', '.join(latencies)}")
