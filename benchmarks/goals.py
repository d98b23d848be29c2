"""The goals of kproducer, and whether a run of the benchmark meets them.

Where confluent-kafka was measured with ``poll`` in the sending loop and with a poll thread, the better of the
two counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks import formats, idempotence, low_rate
from benchmarks.clients import (
    AIOKAFKA,
    AIOKAFKA_MANY_SENDS,
    AIOKAFKA_SENDS,
    ASYNC_MANY_SENDS,
    ASYNC_SENDS,
    ASYNC_SUBMIT,
    CALLBACK,
    MAIN,
    POLL_THREAD,
    REFERENCE,
)
from benchmarks.figures import CPU, SPEED, Row, partition_rows, rows_of
from benchmarks.workload import SMALL_BATCHES

#: Ratios of p50, p99 and CPU to confluent-kafka, by records per second (0: one at a time).
AT_RATES = {100: (0.8, 1.0, 0.6), 1_000: (0.8, 1.0, 0.6), 10_000: (1.0, 1.0, 0.6), 0: (1.0, 1.0, 1.0)}
#: p50 beside a busy thread, in switch intervals of 5 ms; and compared with confluent-kafka.
BUSY_INTERVALS, BUSY_RATIO = 1.1, 1.0
_SWITCH_INTERVAL_MS = 5.0
#: Of asyncio's p50 to aiokafka's.
ASYNC_LATENCY = 1.0
#: Value size in bytes and codec: (least ratio of records/s, largest of CPU), with small batches.
SMALL = {(100, "none"): (3.0, 0.35), (1000, "none"): (1.4, 0.6), (1000, "lz4"): (1.6, 0.45)}
#: Partitions: ratio of the CPU per record to confluent-kafka's, with keys.
PARTITIONS_CPU = {100: 0.25, 1_000: 0.3, 10_000: 0.35}
#: Partitions: CPU per record compared with one partition.
GROWTH = {100: 1.3, 1_000: 2.0, 10_000: 6.0}
#: CPU per record compared with no idempotence.
IDEMPOTENCE = 1.03
IMPORT_MS = 60.0
#: Our client for asyncio: that of aiokafka, and the least ratio of records/s at 100 B, with default batches.
ASYNC_SPEED = {
    ASYNC_SUBMIT: (AIOKAFKA, 25.0),
    ASYNC_SENDS: (AIOKAFKA_SENDS, 5.0),
    ASYNC_MANY_SENDS: (AIOKAFKA_MANY_SENDS, 5.0),
}
#: AvroSerializer: CPU per record compared with confluent-kafka's.
SERIALIZER_CPU = 0.5
#: CPU microseconds per record of six fields that are columns.
COLUMNS_CPU_US = {formats.AVRO: 0.25, formats.JSON: 0.6}
_FEW_FIELDS = 6


class Goal(NamedTuple):
    """What was measured, its figure, and the limit."""

    what: str
    figure: float
    limit: float
    is_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.figure >= self.limit if self.is_least else self.figure <= self.limit


def goals_of(results: dict[str, Any]) -> list[Goal]:
    """The goals whose figures this run has."""
    rows = rows_of(results["runs"])
    return [
        *_at_fixed_rates(rows_of(results["low_rate"])),
        *_of_asyncio(rows),
        *_with_small_batches(rows),
        *_over_partitions(partition_rows(results["runs"])),
        *_of_idempotence(rows_of(results["idempotence"])),
        *_of_formats(rows_of(results.get("formats", []))),
        *(
            Goal("import, least wall ms", each["wall_ms"], IMPORT_MS)
            for each in results["import_time"]
            if each["client"] == "kproducer"
        ),
    ]


def _at_fixed_rates(rows: list[Row]) -> Iterator[Goal]:
    for row in rows:
        limits = dict(zip(("p50_ms", "p99_ms", "cpu_us"), AT_RATES[row.runs[0]["rate"]], strict=True))
        if row.runs[0]["busy"]:
            # The busy thread takes what the client leaves.
            limits = {"p50_ms": BUSY_RATIO}
            if p50 := row.spread(low_rate.OURS, "p50_ms"):
                where = f"{row.name}, {row.cluster}: p50, switch intervals"
                yield Goal(where, p50.median / _SWITCH_INTERVAL_MS, BUSY_INTERVALS)
        for metric, limit in limits.items():
            ratio = row.ratio(low_rate.OURS, metric, low_rate.PEER)
            if ratio:
                name = metric.partition("_")[0].replace("cpu", "CPU")
                yield Goal(f"{row.name}, {row.cluster}: {name}, ratio", ratio.median, limit)
        ratio = row.ratio(low_rate.ASYNC, "p50_ms", low_rate.ASYNC_PEER)
        if ratio and row.runs[0]["rate"] == 100:
            yield Goal(f"asyncio, {row.name}, {row.cluster}: p50, ratio", ratio.median, ASYNC_LATENCY)


def _of_asyncio(rows: list[Row]) -> Iterator[Goal]:
    for row in rows:
        if row.name == "100 B":
            for client, (peer, least) in ASYNC_SPEED.items():
                if ratio := row.ratio(client, SPEED, peer):
                    yield Goal(f"{client}, {row.cluster}: records/s, ratio", ratio.median, least, True)


def _with_small_batches(rows: list[Row]) -> Iterator[Goal]:
    families = {settings.name for settings in SMALL_BATCHES}
    for row in rows:
        if row.family in families:
            workload = row.runs[0]["workload"]
            least_speed, most_cpu = SMALL[workload["value_bytes"], workload["codec"]]
            for client in (MAIN, CALLBACK):
                where = f"{row.family}, {row.name}, {client.removeprefix('kproducer ')}"
                if speeds := _ratios(row, client, SPEED):
                    yield Goal(f"{where}: records/s, ratio", min(speeds), least_speed, True)
                if costs := _ratios(row, client, CPU):
                    yield Goal(f"{where}: CPU, ratio", max(costs), most_cpu)


def _over_partitions(rows: list[Row]) -> Iterator[Goal]:
    """``rows`` as of ``partition_rows``."""
    for row in rows:
        workload = row.runs[0]["workload"]
        if workload["partitions"] not in GROWTH or workload["brokers"] > 1:
            continue
        if costs := _ratios(row, MAIN, CPU):
            yield Goal(
                f"{row.family}, {row.name}: CPU, ratio", max(costs), PARTITIONS_CPU[workload["partitions"]]
            )
        growth = row.growth(MAIN, rows[0])
        if growth and rows[0].runs[0]["workload"]["partitions"] == 1:
            limit = GROWTH[workload["partitions"]]
            yield Goal(f"{row.family}, {row.name}: CPU, times 1 partition", growth.median, limit)


def _of_idempotence(rows: list[Row]) -> Iterator[Goal]:
    for row in rows:
        for mode in (idempotence.IDEMPOTENT, idempotence.TRANSACTIONAL):
            ratio = row.ratio(mode, CPU, idempotence.WITHOUT)
            if ratio:
                yield Goal(f"{row.name}, {mode}: CPU, ratio to none", ratio.median, IDEMPOTENCE)


def _of_formats(rows: list[Row]) -> Iterator[Goal]:
    for row in rows:
        case = formats.Case(row.runs[0]["format"], row.runs[0]["fields"])
        ours = formats.OURS[case.format]
        if ratio := row.ratio(ours, CPU, formats.CONFLUENT):
            yield Goal(f"{row.name}: CPU, ratio", ratio.median, SERIALIZER_CPU)
        cost = row.spread(ours, CPU)
        if cost and case.fields == _FEW_FIELDS and case.format in COLUMNS_CPU_US:
            yield Goal(f"{row.name}: CPU µs/record", cost.median, COLUMNS_CPU_US[case.format])


def _ratios(row: Row, client: str, metric: str) -> list[float]:
    """Of the rounds' median, to each of confluent-kafka's clients with callbacks."""
    found = (row.ratio(client, metric, peer) for peer in (REFERENCE, POLL_THREAD))
    return [ratio.median for ratio in found if ratio]
