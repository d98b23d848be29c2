"""ProducerMetrics: what the means are means of."""

from __future__ import annotations

from kproducer._core.metrics.windows import Series
from kproducer._core.sender.metrics import ProducerMetrics
from tests.support.manual_clock import ManualClock
from tests.support.units.sender_bench import Bench


def mean(series: Series) -> float:
    return series.recent(0).mean


def test_responses_that_were_not_throttled_count_for_the_mean_throttle_time() -> None:
    clock = ManualClock()
    metrics = ProducerMetrics(clock)
    for throttle_time_ms in (0, 30, 0):
        metrics.response_received(5, throttle_time_ms, clock.now_ms)
    assert mean(metrics.throttle_time) == 10
    assert metrics.throttle_time.recent(0).largest == 30


def test_records_per_request_counts_retries() -> None:
    bench = Bench(node_count=1)
    for partition in (0, 1, 2):
        bench.send(partition)
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, 6)
    bench.step()
    bench.learn()
    bench.step(bench.retry_delay())
    metrics = bench.sender.metrics
    assert (metrics.records.count, metrics.records.total) == (2, 6)
    assert metrics.retries.total == 3
    (topic,) = metrics.topics.values()
    assert (topic.records.total, topic.retries.total, topic.errors.total) == (6, 3, 0)
    assert topic.sizes.total == metrics.batch_size.total
