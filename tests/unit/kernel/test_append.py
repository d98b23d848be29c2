"""The way into a batch under threads, and what stays of a record: for each twin."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from kproducer._core.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer.testing.fakebroker.batch_check import read_records

TS = 1_700_000_000_000


def make_appender(kernel: ModuleType, size: int, batch_result: object) -> Any:
    writer = kernel.BatchWriter(bytearray(size))
    return kernel.RecordAppender(
        writer, batch_result, kernel.BatchOutcome(("t", 0), tuple), kernel.RecordFuture
    )


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns fifty times more often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("many_switches")
def test_threads_fill_batches_that_are_closed_meanwhile(kernel: ModuleType) -> None:
    slot = kernel.AppendSlot(threading.Lock())
    closed: list[Any] = []
    futures: list[list[Any]] = [[] for _ in range(3)]
    go_on = threading.Event()

    def append(number: int) -> None:
        mine = futures[number]
        while not go_on.is_set():
            value = b"%d %d" % (number, len(mine))
            with slot.lock:
                appender = slot.appender
                future = appender and appender.append(TS, None, value, None, None)
            if future is not None:
                mine.append((future, value))

    threads = [threading.Thread(target=append, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for batch in range(40):
        appender = make_appender(kernel, 3000, batch)
        with slot.lock:
            slot.appender = appender
        while appender.writer.record_count < 50:
            pass
        with slot.lock:
            slot.appender = None
            # From here on nobody writes: what is in the batch stays what it is.
            closed.append((appender, appender.writer.record_count, bytes(appender.writer.buffer)))
    go_on.set()
    for thread in threads:
        thread.join(30)
    by_place = {(f._batch_result, f._index): value for mine in futures for f, value in mine}
    sent = {}
    for appender, count, wire in closed:
        assert (appender.writer.record_count, bytes(appender.writer.buffer)) == (count, wire)
        plain = wire[RECORD_BATCH_OVERHEAD : appender.writer.position]
        for record in read_records(plain, count, TS):
            sent[appender.batch_result, record.offset] = record.value
    assert sent == by_place
    assert sum(len(mine) for mine in futures) == len(sent)
    for mine in futures:
        places = [(f._batch_result, f._index) for f, _ in mine]
        assert places == sorted(places)


def test_a_future_is_freed_with_its_last_reference(kernel: ModuleType) -> None:
    class BatchResult:
        pass

    batch_result = BatchResult()
    appender = make_appender(kernel, 1000, batch_result)
    future = appender.append(TS, b"k", b"value", None, None)
    assert (future._index, future._timestamp_ms, future._key_size, future._value_size) == (0, TS, 1, 5)
    alive = weakref.ref(batch_result)
    del batch_result, appender
    gc.collect()
    assert alive() is future._batch_result
    del future
    assert alive() is None


def test_the_collector_does_not_walk_compiled_futures(kernel: ModuleType) -> None:
    appender = make_appender(kernel, 1000, object())
    future = appender.append(TS, None, b"v", None, print)
    if not kernel.__name__.endswith("pure"):
        assert not gc.is_tracked(future)
    assert len(appender.deliveries) == 1


def test_a_record_that_finds_no_room_leaves_no_callback_behind(kernel: ModuleType) -> None:
    appender = make_appender(kernel, 100, None)
    assert appender.append(TS, None, bytes(200), None, print) is None
    assert len(appender.deliveries) == 0
    assert appender.writer.append(TS, None, b"by another way", None)
    assert appender.future_for_last_record(TS, -1, 14, print)._index == 0
    assert len(appender.deliveries) == 1


def test_a_writer_in_a_cycle_gives_its_buffer_back(
    kernel: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    """The collector clears it before the others of the cycle, as the oldest of them."""

    class Holder:
        pass

    writer = kernel.BatchWriter(bytearray(100))
    holder: Any = Holder()
    holder.writer = writer
    holder.itself = holder
    alive = weakref.ref(holder)
    del writer, holder
    gc.collect()
    assert alive() is None
    assert capfd.readouterr().err == ""


def test_only_futures_of_records_can_be_made(kernel: ModuleType) -> None:
    outcome = kernel.BatchOutcome(("t", 0), tuple)
    if not kernel.__name__.endswith("pure"):  # compiled code writes into what it makes
        with pytest.raises(TypeError, match="subclass of RecordFuture"):
            kernel.RecordAppender(kernel.BatchWriter(bytearray(100)), None, outcome, dict)
    with pytest.raises(TypeError):
        kernel.RecordAppender(None, None, outcome, kernel.RecordFuture)
