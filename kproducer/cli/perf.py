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

from kproducer.cli.connection_options import connection_options, producer_config
from kproducer.cli.latency import duration, histogram, histogram_lines, latency_figures, three_digits
from kproducer.errors import KafkaError, KafkaTimeoutError
from kproducer.kafka_producer import KafkaProducer

if TYPE_CHECKING:
    from kproducer._core.bulk.send_many_result import SendManyResult
    from kproducer.types import RecordMetadata

#: One of this many records is timed: a callback per record would cost more than sending it.
_TIMED_ONE_OF = 100
#: How many different values are sent: so many that a batch compresses about as well as a single value. Fewer
#: if they are large, which take long to make, and memory.
_VALUES = 1000
_VALUES_BYTES = 16 << 20
_PERCENTS = (50.0, 95.0, 99.0, 99.9)


@click.command()
@click.argument("topic")
@connection_options
@click.option("--num-records", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--record-size", type=click.IntRange(min=0), default=100, show_default=True, help="Bytes.")
@click.option("--throughput", type=click.IntRange(min=1), help="Records per second [default: no limit].")
@click.option(
    "--reporting-interval",
    "interval_ms",
    type=click.IntRange(min=1),
    default=5000,
    show_default=True,
    help="Milliseconds from one line of figures to the next.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, at the end.")
def perf(
    topic: str,
    num_records: int,
    record_size: int,
    throughput: int | None,
    interval_ms: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Send random records to TOPIC; print throughput and latency. The records stay in the topic.

    Latency is the time from the call of send until the broker has acknowledged the record. It is measured for
    one record in a hundred, or for more of them at low rates; the histogram counts those. Values consist of
    capital letters; 1,000 of them differ, or fewer if they are larger than 16 kB.
    """
    config = producer_config(options)
    if config.transactional_id:
        raise click.UsageError("transactional.id: this command has no transactions; remove the setting.")
    with KafkaProducer.from_config(config) as producer:
        # The first connection and the first metadata are not measured.
        producer.partitions_for(topic)
        measurement = _Measurement(producer, topic, record_size, interval_ms / 1000, shows=not as_json)
        try:
            measurement.send(num_records, throughput)
            figures = measurement.finish()
        except KeyboardInterrupt:
            click.echo("Stopped. Another Ctrl-C gives up on what is not acknowledged.", err=True)
            try:
                figures = measurement.finish()
            except KeyboardInterrupt:
                producer.close(0)
                raise
            _print(figures, as_json)
            raise click.exceptions.Exit(130) from None
    _print(figures, as_json)
    if figures["failed"]:
        raise click.ClickException(
            f"{figures['failed']} records were not delivered; the first error: {measurement.first_error}"
        )


class _Measurement:
    """Sends records and measures. The I/O thread calls ``_acknowledged``."""

    def __init__(
        self, producer: KafkaProducer, topic: str, record_size: int, interval_s: float, *, shows: bool
    ) -> None:
        #: Whether each interval is printed.
        self._shows, self._interval_s = shows, interval_s
        self._producer, self._topic, self._record_size = producer, topic, record_size
        self._values = random_values(record_size)
        self._results: deque[SendManyResult] = deque()
        #: Latencies of the timed records; only the I/O thread adds to them.
        self._latencies_ns: list[int] = []
        self._timed_failures = 0
        self.first_error: KafkaError | None = None
        self._delivered = self._failed = 0
        self._began_s = self._reported_s = time.perf_counter()
        self._next_report_s = self._began_s + interval_s
        #: The figures of each interval, and how many records and latencies they include.
        self._intervals: list[dict[str, Any]] = []
        self._reported_records = self._reported_latencies = 0

    def send(self, count: int, rate: int | None) -> None:
        """Send records, at most ``rate`` per second, in groups whose first record is timed."""
        group = _TIMED_ONE_OF if rate is None else max(1, min(_TIMED_ONE_OF, rate // 100))
        self._began_s = self._reported_s = time.perf_counter()
        self._next_report_s = self._began_s + self._interval_s
        for first in range(0, count, group):
            if rate is not None:
                due_s = self._began_s + first / rate
                time.sleep(max(due_s - time.perf_counter(), 0))
            self._send_group(first, min(group, count - first))
            if time.perf_counter() >= self._next_report_s:
                self._report_interval()

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
            except BaseException as error:  # also Ctrl-C
                accepted: SendManyResult | None = getattr(error, "partial_result", None)
                if accepted is not None:
                    self._results.append(accepted)
                raise
        self._count_done()

    def _count_done(self) -> None:
        while self._results and self._results[0].done():
            self._count(self._results.popleft())

    def _count(self, result: SendManyResult) -> None:
        self._delivered += result.succeeded_count
        if result.failed_count:
            self._failed += result.failed_count
            self.first_error = self.first_error or result.failures()[0][1]

    def finish(self) -> dict[str, Any]:
        """Wait until every outcome is known, and return the figures. May be called again after Ctrl-C."""
        while True:
            try:
                self._producer.flush(max(self._next_report_s - time.perf_counter(), 0.001))
                break
            except KafkaTimeoutError:
                self._report_interval()
        seconds = time.perf_counter() - self._began_s
        while self._results:
            self._count(self._results.popleft())
        latencies_ms = [each / 1e6 for each in self._latencies_ns]
        if self._intervals:
            self._report_interval()
        figures = {
            "records": self._delivered + len(latencies_ms),
            "failed": self._failed + self._timed_failures,
            **self._rates(self._delivered + len(latencies_ms), seconds, seconds),
            "intervals": self._intervals,
        }
        if latencies_ms:
            figures["latency_ms"] = latency_figures(latencies_ms, _PERCENTS)
            figures["histogram"] = histogram(latencies_ms)
        return figures

    def _rates(self, delivered: int, duration_s: float, end_s: float) -> dict[str, Any]:
        return {
            "seconds": round(end_s, 3),
            "records_per_second": round(delivered / duration_s),
            "megabytes_per_second": round(delivered * self._record_size / duration_s / 1e6, 6),
        }

    def _report_interval(self) -> None:
        self._count_done()
        now_s = time.perf_counter()
        # The I/O thread may add more meanwhile.
        latencies_ms = [each / 1e6 for each in self._latencies_ns[self._reported_latencies :]]
        self._reported_latencies += len(latencies_ms)
        delivered = self._delivered + self._reported_latencies
        figures = self._rates(
            delivered - self._reported_records, now_s - self._reported_s, now_s - self._began_s
        )
        if latencies_ms:
            figures["latency_ms"] = latency_figures(latencies_ms, _PERCENTS)
        self._reported_records, self._reported_s = delivered, now_s
        self._next_report_s = now_s + self._interval_s
        self._intervals.append(figures)
        if self._shows:
            _print_interval(figures, is_first=len(self._intervals) == 1)


def random_values(size_bytes: int) -> list[bytes]:
    """1000 values of capital letters; large ones are repeated."""
    letters = (string.ascii_uppercase.encode() * 10)[:256]
    generator = random.Random(0)
    different = max(min(_VALUES, _VALUES_BYTES // max(size_bytes, 1)), 1)
    values = [generator.randbytes(size_bytes).translate(letters) for _ in range(different)]
    return [values[each % different] for each in range(_VALUES)]


_COLUMNS = ("time", "records/s", "MB/s", "p50", "p99", "max")


def _print_interval(figures: dict[str, Any], *, is_first: bool) -> None:
    latency = figures.get("latency_ms")
    cells = (
        f"{figures['seconds']:,.1f} s",
        three_digits(figures["records_per_second"]),
        three_digits(figures["megabytes_per_second"]),
        *(duration(latency[name]) if latency else "-" for name in ("p50", "p99", "maximum")),
    )
    for line in (_COLUMNS, cells) if is_first else (cells,):
        _echo("".join(f"{cell:>12}" for cell in line))


def _print(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(figures, indent=2))
        return
    _echo(
        f"{figures['records']:,} records in {three_digits(figures['seconds'])} s:"
        f" {three_digits(figures['records_per_second'])} records/s,"
        f" {three_digits(figures['megabytes_per_second'])} MB/s"
    )
    if "latency_ms" in figures:
        latency = figures["latency_ms"]
        names = [f"p{each:g}" for each in _PERCENTS]
        parts = [f"{name} {duration(latency[name])}" for name in names]
        _echo(f"latency: {', '.join(parts)}, max {duration(latency['maximum'])}")
        for line in histogram_lines(figures["histogram"]):
            _echo(line)


def _echo(line: str) -> None:
    try:
        click.echo(line)
    except UnicodeEncodeError:  # the terminal has no "µ"
        click.echo(line.replace("µ", "u"))
