"""The Sender's rounds where batches are numbered: what a failed batch changes is acted on at once.

The clock stands still and poll blocks for nobody: the timeout that it was given says how long it would have.
"""

from __future__ import annotations

import pytest

from kproducer import AbortTransactionError, DeliveryTimeoutError
from tests.support.sender_bench import Bench, error_of, initialized_manager

NOT_ENOUGH_REPLICAS = 19


def deliver_one(bench: Bench) -> None:
    bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms)
    bench.step()


def test_a_partition_goes_on_at_once_after_a_batch_has_expired_in_its_queue() -> None:
    """The sequence of the expired batch has to be given up first, which happens at the start of a round."""
    bench = Bench(
        transactions=initialized_manager(), delivery_timeout_ms=40_000, retry_backoff_ms=60_000, batch_size=0
    )
    deliver_one(bench)
    late = bench.send()
    bench.client.answer_all(bench.step_one(), bench.clock.now_ms, NOT_ENOUGH_REPLICAS)
    bench.step()
    bench.clock.advance(20_000)
    later = bench.send(value=b"later")
    bench.step()
    bench.clock.advance(20_000)
    assert not late.done()
    assert bench.step() == []
    assert isinstance(error_of(late), DeliveryTimeoutError)
    assert bench.client.poll_timeouts[-1] == 0
    sent = bench.step_one()
    bench.client.answer_all(sent, bench.clock.now_ms)
    bench.step()
    assert later.result(0).partition == 0
    assert bench.client.poll_timeouts[-1] > 0


def test_the_other_records_of_a_transaction_fail_at_once_after_one_has_expired() -> None:
    bench = Bench(transactions=initialized_manager("tx"), delivery_timeout_ms=40_000, batch_size=0)
    bench.client.ready_nodes = set()
    late = bench.send(0)
    bench.step()
    bench.clock.advance(20_000)
    other = bench.send(1)
    bench.step()
    bench.step(20_000)
    assert isinstance(error_of(late), DeliveryTimeoutError)
    assert bench.client.poll_timeouts[-1] == 0
    bench.step()
    assert isinstance(error_of(other), AbortTransactionError)
    bench.step()
    assert bench.client.poll_timeouts[-1] > 0


@pytest.mark.parametrize("transactional_id", [None, "tx"])
def test_a_request_that_cannot_be_made_is_acted_on_at_once(transactional_id: str | None) -> None:
    bench = Bench(transactions=initialized_manager(transactional_id), batch_size=0)
    deliver_one(bench)
    failed = bench.send()
    bench.client.fail_send = ValueError("boom")
    bench.step()
    assert "boom" in str(error_of(failed))
    assert bench.client.poll_timeouts[-1] == 0
