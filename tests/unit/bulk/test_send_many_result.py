"""SendManyResult: one object for many records, which says of each what its future would have said."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import logging
import sys
import threading
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from kproducer._core.bulk.record_locations import RecordLocations
from kproducer._core.bulk.send_many_result import SendManyResult
from kproducer._core.runtime.threads import mark_io_thread
from kproducer.errors import (
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    KafkaTimeoutError,
    Outcome,
    ProducerClosedError,
    SendManyError,
)
from kproducer.types import RecordMetadata, TopicPartition
from tests.support.manual_clock import ManualClock

TOPIC = "topic"


class BoomError(KafkaError):
    pass


def batch(partition: int = 0) -> ProduceRequestResult:
    return ProduceRequestResult(TopicPartition(TOPIC, partition))


def locations_of(rows: list[tuple[ProduceRequestResult, int]]) -> RecordLocations:
    locations = RecordLocations(TOPIC)
    locations.grow(len(rows))
    for row, (batch_result, index) in enumerate(rows):
        locations.put(row, batch_result.future(index, 1000 + row, 3, row))
    return locations


def make(rows: list[tuple[ProduceRequestResult, int]]) -> SendManyResult:
    return SendManyResult(TOPIC, locations_of(rows), ManualClock(0))


def test_a_result_is_small_and_can_be_referred_to_weakly() -> None:
    result = make([])
    assert not hasattr(result, "__dict__")
    assert weakref.ref(result)() is result


def finish(
    batch_result: ProduceRequestResult, base_offset: int = 100, error: KafkaError | None = None, **how: Any
) -> None:
    assert batch_result.settle(base_offset if error is None else -1, -1, error, how.get("record_errors"))
    batch_result.release()


def boom(outcome: Outcome) -> KafkaError:
    return BoomError("no").with_outcome(outcome)


def test_each_record_has_the_metadata_that_its_future_would_have() -> None:
    first, second = batch(0), batch(1)
    result = make([(first, 0), (second, 7), (first, 1)])
    finish(first)
    finish(second, 500)
    assert [future.result() for future in result] == [
        RecordMetadata(TOPIC, 0, 100, 1000, 3, 0),
        RecordMetadata(TOPIC, 1, 507, 1001, 3, 1),
        RecordMetadata(TOPIC, 0, 101, 1002, 3, 2),
    ]
    assert result[-1].result() == result[2].result()
    assert [future.result().offset for future in result[1:]] == [507, 101]
    assert list(result.offsets()) == [100, 507, 101]
    assert list(result.partitions()) == [0, 1, 0]
    assert len(result) == 3
    with pytest.raises(IndexError):
        result[3]


def test_it_is_done_when_the_last_batch_is() -> None:
    batch_results = [batch(i) for i in range(3)]
    result = make([(batch_result, 0) for batch_result in batch_results])
    for batch_result in batch_results[::-1]:
        assert not result.done()
        assert not result.wait(0)
        finish(batch_result)
    assert result.done()
    assert result.wait(0)
    assert result.wait()
    assert result.result() is result
    assert result.failures() == []
    assert result.exception() is None


def test_its_futures_work_with_concurrent_futures_and_asyncio() -> None:
    batch_results = [batch(i) for i in range(2)]
    result = make([(batch_results[0], 0), (batch_results[1], 0), (batch_results[0], 1)])
    finish(batch_results[1], 7)
    done, not_done = concurrent.futures.wait(result, 0)
    assert ([future.result(0).offset for future in done], len(not_done)) == ([7], 2)
    threading.Timer(0, finish, (batch_results[0],)).start()
    offsets = [future.result().offset for future in concurrent.futures.as_completed(result, 30)]
    assert sorted(offsets) == [7, 100, 101]

    async def gather() -> list[RecordMetadata]:
        return await asyncio.gather(*result)

    assert [metadata.offset for metadata in asyncio.run(gather())] == [100, 7, 101]


def test_waiting_ends_when_batches_end_in_any_order() -> None:
    batch_results = [batch(i) for i in range(5)]
    result = make([(batch_result, 0) for batch_result in batch_results])
    waiting = concurrent.futures.ThreadPoolExecutor(1).submit(result.wait, 30)
    for number in (4, 0, 2, 1, 3):
        assert not waiting.done()
        finish(batch_results[number])
    assert waiting.result(30)


def test_failures_names_the_records_that_failed_and_no_others() -> None:
    good, bad, each = batch(0), batch(1), batch(2)
    result = make([(good, 0), (bad, 0), (each, 0), (each, 1), (bad, 1)])
    errors = {index: BoomError(str(index)) for index in range(2)}
    finish(good)
    finish(bad, error=boom(Outcome.UNKNOWN))
    finish(each, error=boom(Outcome.REJECTED), record_errors=errors.__getitem__)
    failures = result.failures()
    assert [index for index, _ in failures] == [1, 2, 3, 4]
    assert [failures[1][1], failures[2][1]] == [errors[0], errors[1]]
    assert failures[0][1] is failures[3][1] is bad.error
    assert list(result.offsets()) == [100, -1, -1, -1, -1]
    assert (result.succeeded_count, result.failed_count) == (1, 4)


def test_result_raises_one_error_for_all() -> None:
    good, bad, worse = batch(0), batch(1), batch(2)
    result = make([(good, 0), (bad, 0), (worse, 0)])
    finish(good)
    finish(bad, error=boom(Outcome.UNKNOWN))
    finish(worse, error=boom(Outcome.UNKNOWN))
    with pytest.raises(
        SendManyError, match=r"2 of 3 records for topic 'topic'.*number 1: BoomError: no"
    ) as e:
        result.result()
    assert e.value.failures == [(1, bad.error), (2, worse.error)]
    assert e.value.outcome is Outcome.UNKNOWN
    assert e.value.__cause__ is bad.error
    # It belongs to this call: raising it again and again must not change the batches' own errors.
    assert bad.error is not None
    assert bad.error.__traceback__ is None


def test_an_outcome_that_differs_is_not_claimed_for_all() -> None:
    bad, worse = batch(1), batch(2)
    result = make([(bad, 0), (worse, 0)])
    finish(bad, error=boom(Outcome.NOT_SENT))
    finish(worse, error=boom(Outcome.UNKNOWN))
    error = result.exception()
    assert error is not None
    assert error.outcome is None


def test_refused_records_have_failed_from_the_start() -> None:
    batch_result = batch()
    locations = locations_of([(batch_result, 0)])
    locations.grow(4)
    locations.refuse(2, boom(Outcome.NOT_SENT), 7)
    rest = boom(Outcome.NOT_SENT)
    locations.refuse_all_open(1, rest)
    result = SendManyResult(TOPIC, locations, ManualClock(0))
    assert result.failed_count == 4
    assert [future.done() for future in result] == [False, True, True, True, True]
    assert [str(result[row].exception()) for row in (1, 4)] == [str(rest)] * 2
    assert list(result.partitions()) == [0, -1, 7, -1, -1]
    assert not result.done()
    finish(batch_result)
    assert [index for index, _ in result.failures()] == [1, 2, 3, 4]
    assert [error is rest for _, error in result.failures()] == [True, False, True, True]


def test_time_out() -> None:
    batch_result = batch()
    result = make([(batch_result, 0), (batch_result, 1)])
    for call in (result.result, result.exception, result.failures, result.offsets):
        with pytest.raises(KafkaTimeoutError, match=r"2 of 2 records for topic 'topic' were neither"):
            call(0)
        with pytest.raises(concurrent.futures.TimeoutError):
            call(0)
    with pytest.raises(InvalidArgumentError, match="timeout"):
        result.wait("soon")  # type: ignore[arg-type]


def test_the_time_out_is_for_all_batches_together() -> None:
    clock = ManualClock(0)
    batch_results = [batch(i) for i in range(3)]
    result = SendManyResult(TOPIC, locations_of([(batch_result, 0) for batch_result in batch_results]), clock)
    waits: list[float | None] = []

    class Slow(ProduceRequestResult):
        __slots__ = ()

        def wait(self, timeout_s: float | None) -> bool:
            waits.append(timeout_s)
            clock.advance(400)
            return True

    for batch_result in batch_results:
        batch_result.__class__ = Slow
    assert not result.wait(1)
    assert waits == [1.0, 0.6, 0.2]


def test_an_empty_call_is_done() -> None:
    result = make([])
    assert result.done()
    assert result.result() is result
    assert list(result) == []
    assert not result


# -- splits ----------------------------------------------------------------------------------------------


def test_a_split_batch_is_followed() -> None:
    whole = batch()
    result = make([(whole, index) for index in range(5)])
    parts = [batch(), batch()]
    assert whole.split_into([0, 3], parts)
    assert not result.done()
    finish(parts[0])
    assert not result.done()
    assert result.succeeded_count == 3
    finish(parts[1], error=boom(Outcome.REJECTED))
    assert result.done()
    assert [index for index, _ in result.failures()] == [3, 4]
    assert list(result.offsets()) == [100, 101, 102, -1, -1]
    assert (result.succeeded_count, result.failed_count) == (3, 2)


def test_a_split_while_somebody_waits() -> None:
    whole = batch()
    result = make([(whole, index) for index in range(5)])
    told: list[Any] = []
    result.add_done_callback(told.append)
    waiting = concurrent.futures.ThreadPoolExecutor(1).submit(result.wait, 30)
    parts = [batch(), batch()]
    assert whole.split_into([0, 3], parts)
    smaller = [batch(), batch()]
    assert parts[1].split_into([0, 1], smaller)
    for part in (smaller[1], parts[0]):
        finish(part)
        assert not waiting.done()
        assert told == []
    finish(smaller[0])
    assert waiting.result(30)
    assert told == [result]


@settings(deadline=None)
@given(st.data())
def test_any_order_of_ends_and_splits_tells_the_same_as_the_futures(data: st.DataObject) -> None:
    batch_results = [batch(i) for i in range(data.draw(st.integers(1, 4)))]
    rows = data.draw(st.lists(st.tuples(st.sampled_from(batch_results), st.integers(0, 5)), max_size=20))
    result = make(rows)
    futures = [batch_result.future(index, 1000, 3, 0) for batch_result, index in rows]
    told: list[Any] = []
    result.add_done_callback(told.append)
    open_batches = [(batch_result, 6) for batch_result in batch_results]
    while open_batches:
        batch_result, count = open_batches.pop(data.draw(st.integers(0, len(open_batches) - 1)))
        if count > 1 and data.draw(st.booleans()):
            at = data.draw(st.integers(1, count - 1))
            parts = [batch(), batch()]
            batch_result.split_into([0, at], parts)
            open_batches += [(parts[0], at), (parts[1], count - at)]
        else:
            finish(batch_result, error=data.draw(st.sampled_from([None, boom(Outcome.UNKNOWN)])))
        used = {id(place[0]) for place in rows}
        everything = all(leaf.done for o in batch_results if id(o) in used for leaf in o.leaves())
        assert result.done() == everything
        assert len(told) == everything
        done = [future for future in futures if future.done()]
        assert result.succeeded_count + result.failed_count == len(done)
    failed = [(row, future._error()) for row, future in enumerate(futures) if future._error() is not None]
    assert result.failures() == failed
    assert list(result.offsets()) == [future._metadata().offset for future in futures]


# -- callbacks, asyncio, forks ---------------------------------------------------------------------------


def test_done_callbacks_run_once_when_all_is_known_and_at_once_afterwards() -> None:
    batch_results = [batch(i) for i in range(3)]
    result = make([(batch_result, 0) for batch_result in batch_results])
    told: list[str] = []
    result.add_done_callback(lambda r: told.append(f"first {r.done()}"))
    result.add_done_callback(lambda r: told.append("second"))
    for batch_result in batch_results:
        assert told == []
        finish(batch_result)
    assert told == ["first True", "second"]
    result.add_done_callback(lambda r: told.append("late"))
    assert told[2:] == ["late"]


def test_a_callback_that_raises_is_logged_and_the_others_come(caplog: pytest.LogCaptureFixture) -> None:
    batch_result = batch()
    result = make([(batch_result, 0)])
    told: list[Any] = []
    result.add_done_callback(lambda _: sys.exit(1))
    result.add_done_callback(told.append)
    with caplog.at_level(logging.ERROR):
        finish(batch_result)
    assert told == [result]
    assert "1 records, 1 delivered" in caplog.text


def test_waiting_without_end_on_the_io_thread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch_result = batch()
    result = make([(batch_result, 0)])

    def on_io_thread() -> None:
        mark_io_thread()
        with pytest.raises(IllegalStateError, match="deadlock"):
            result.result()
        finish(batch_result)
        assert result.result() is result

    thread = concurrent.futures.ThreadPoolExecutor(1)
    thread.submit(on_io_thread).result(30)


def test_await() -> None:
    async def run() -> None:
        batch_result, other = batch(), batch()
        result = make([(batch_result, 0), (other, 0)])
        threading.Timer(0, lambda: (finish(batch_result), finish(other))).start()
        assert await result is result
        assert await result is result
        failed = batch()
        result = make([(failed, 0)])
        threading.Timer(0, finish, (failed,), {"error": boom(Outcome.UNKNOWN)}).start()
        with pytest.raises(SendManyError):
            await result

    asyncio.run(run())


def test_an_event_loop_that_is_gone_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    batch_result = batch()
    result = make([(batch_result, 0)])

    async def give_up() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(result, 0.01)

    asyncio.run(give_up())
    with caplog.at_level(logging.ERROR):
        finish(batch_result)
    assert caplog.text == ""


def test_in_a_forked_child_nothing_is_waited_for() -> None:
    batch_result = batch()
    result = make([(batch_result, 0)])
    result.add_done_callback(lambda _: pytest.fail("the parent's callback ran in the child"))
    # What a child does to the parent's batches; see test_fork_and_exit for a real fork.
    batch_result.abandon_after_fork(ProducerClosedError("the parent's").with_outcome(Outcome.UNKNOWN))
    assert result.wait(0)
    assert [type(error) for _, error in result.failures()] == [ProducerClosedError]


# -- manners ---------------------------------------------------------------------------------------------


def test_a_record_takes_24_bytes() -> None:
    locations = RecordLocations(TOPIC)
    locations.grow(100_000)
    columns = (
        locations.result_numbers,
        locations.indexes,
        locations.timestamps_ms,
        locations.key_sizes,
        locations.value_sizes,
    )
    assert sum(column.itemsize * len(column) for column in columns) == 24 * 100_000
    # Arrays that grow keep a sixteenth in reserve.
    assert sum(map(sys.getsizeof, columns)) < 26 * 100_000


def test_repr_is_short_and_copies_are_refused() -> None:
    batch_result, other = batch(), batch()
    result = make([(batch_result, 0), (other, 0), (other, 1)])
    assert repr(result) == "<SendManyResult topic: 3 records, 0 delivered, 0 failed, 3 pending>"
    finish(batch_result)
    finish(other, error=boom(Outcome.UNKNOWN))
    assert repr(result) == "<SendManyResult topic: 3 records, 1 delivered, 2 failed, 0 pending>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.copy(result)
    with pytest.raises(AttributeError, match="use failures"):
        result.errors  # type: ignore[attr-defined]  # noqa: B018


def test_rows_in_reserve_are_nobodys() -> None:
    batch_result = batch()
    finish(batch_result)
    locations = RecordLocations(TOPIC, expected_rows=10)
    assert len(locations) == 0
    for row in range(25):
        assert locations.grow(1) == row
        assert len(locations) == row + 1
        locations.put(row, batch_result.future(row, 1000, 3, 7))
    locations.grow(3)
    locations.refuse_all_open(20, boom(Outcome.NOT_SENT))
    locations.finish(27)
    result = SendManyResult(TOPIC, locations, ManualClock(0))
    assert (len(result), result.succeeded_count, result.failed_count) == (27, 25, 2)
    assert list(result.offsets()) == [*range(100, 125), -1, -1]
    columns = (
        locations.result_numbers,
        locations.indexes,
        locations.timestamps_ms,
        locations.key_sizes,
        locations.value_sizes,
    )
    assert {len(column) for column in columns} == {27}
