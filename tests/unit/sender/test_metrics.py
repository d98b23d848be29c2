"""ProducerMetrics: what the means are means of."""

from __future__ import annotations

from kproducer.sender.metrics import ProducerMetrics
from tests.support.units.sender_bench import Bench


def test_responses_that_were_not_throttled_count_for_the_mean_throttle_time() -> None:
    metrics = ProducerMetrics()
    assert metrics.snapshot()["produce_throttle_time_avg"] == 0
    for throttle_time_ms in (0, 30, 0):
        metrics.response_received(5, throttle_time_ms)
    values = metrics.snapshot()
    assert (values["produce_throttle_time_avg"], values["produce_throttle_time_max"]) == (10, 30)


def test_records_per_request_counts_retries() -> None:
    bench = Bench(node_count=1)
    assert bench.sender.metrics.snapshot()["records_per_request_avg"] == 0
    for partition in (0, 1, 2):
        bench.send(partition)
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, 6)
    bench.step()
    bench.learn()
    bench.step(bench.retry_delay())
    values = bench.sender.metrics.snapshot()
    assert (values["request_total"], values["record_send_total"]) == (2, 6)
    assert values["records_per_request_avg"] == 3
