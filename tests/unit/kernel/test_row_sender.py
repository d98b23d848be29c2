"""RowSender: what it writes and notes for a run of rows is what one append for each would have."""

from __future__ import annotations

import itertools
import random
import threading
from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from kproducer._core.bulk.record_locations import NO_RESULT
from kproducer._core.kernel import pure
from kproducer._core.runtime.arguments import encode_headers
from kproducer.serializers import serialize_function
from tests.support.units.lane_bench import Bench, interruptible

native: ModuleType = pytest.importorskip("kproducer._core.kernel.native.twin", exc_type=ImportError)

NOW_MS = 1_700_000_000_000
PARTITION_COUNT = 3
SMALL_SIZE = 200
_to_bytes = serialize_function("value", None)


class BatchResult:
    """Stands for the result of a batch."""


class Locations:
    """The columns of RecordLocations, without its knowledge of results."""

    def __init__(self, row_count: int) -> None:
        self.batch_results: dict[Any, int] = {}
        self.result_numbers = array("i", [NO_RESULT] * row_count)
        self.indexes = array("i", bytes(4 * row_count))
        self.timestamps_ms = array("q", bytes(8 * row_count))
        self.key_sizes = array("i", bytes(4 * row_count))
        self.value_sizes = array("i", bytes(4 * row_count))

    def batch_result(self, row: int) -> Any:
        return list(self.batch_results)[self.result_numbers[row]]

    def columns(self) -> tuple[Any, ...]:
        return self.result_numbers, self.indexes, self.timestamps_ms, self.key_sizes, self.value_sizes


def appender(writer: Any, batch_result: Any) -> Any:
    return native.RecordAppender(
        writer, batch_result, native.BatchOutcome(("t", 0), tuple), native.RecordFuture
    )


class Stage:
    """One topic with an open batch of ``size`` bytes in each partition."""

    def __init__(self, size: int, *, sticky_bytes: int = 1 << 40, ignores_keys: bool = False) -> None:
        self.slots = native.TopicSlots()
        self.slots.partition_count = PARTITION_COUNT
        self.slots.slots = [native.AppendSlot(threading.RLock()) for _ in range(PARTITION_COUNT)]
        self.slots.sticky = native.StickyPartition(0, sticky_bytes, sticky_bytes, 9)
        self.ignores_keys = ignores_keys
        for partition in range(PARTITION_COUNT):
            self.open_batch(partition, size)

    def open_batch(self, partition: int, size: int) -> None:
        writer = native.BatchWriter(bytearray(size))
        self.slots.slots[partition].appender = appender(writer, BatchResult())

    def records(self) -> list[bytes]:
        writers = [slot.appender.writer for slot in self.slots.slots]
        return [bytes(writer.buffer[61 : writer.position]) for writer in writers]

    def send(self, rows: list[Any], locations: Locations, start: int = 0, first_row: int = 0) -> int:
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(5)]
        return self.send_columns(locations, *columns, start=start, first_row=first_row)

    def send_columns(
        self,
        locations: Locations,
        *columns: Any,
        start: int = 0,
        first_row: int = 0,
        sender: Any = None,
        transaction: Any = None,
    ) -> int:
        sender = sender or native.RowSender(locations.batch_results, self.ignores_keys, SMALL_SIZE)
        stopped: int = sender.send(
            self.slots, columns, start, NOW_MS, transaction, first_row, *locations.columns()
        )
        return stopped


datas = st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=10).filter(lambda t: t.isprintable()))
pairs = st.lists(st.tuples(st.text(max_size=3).filter(str.isprintable), datas), max_size=3)
plain = st.tuples(
    datas,
    datas,
    st.none() | pairs,
    st.integers(0, PARTITION_COUNT - 1),
    st.none() | st.integers(0, 2**63 - 1),
)
odd_fields: list[dict[int, Any]] = [
    {0: 5},
    {0: bytearray(b"v")},
    {0: "\udc80"},
    {0: b"x" * (SMALL_SIZE + 1)},
    {1: memoryview(b"k")},
    {2: {"mapping": b"v"}},
    {2: [["list", b"v"]]},
    {2: 7},
    {3: PARTITION_COUNT},
    {3: -1},
    {3: True},
    {3: 2**70},
    {4: -1},
    {4: 2**63},
    {4: 1.0},
]


@given(st.lists(plain, max_size=60), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(odd_fields))))
def test_the_bytes_are_those_of_the_pure_writer(
    rows: list[Any], odd: list[tuple[int, dict[int, Any]]]
) -> None:
    for place, fields in odd:
        if place < len(rows):
            rows[place] = tuple(fields.get(n, field) for n, field in enumerate(rows[place]))
    odd_rows = {place for place, _ in odd if place < len(rows)}
    stage = Stage(1 << 14)
    locations = Locations(len(rows) + 2)
    stopped = start = 0
    while stopped < len(rows):
        stopped = stage.send(rows, locations, start, 1)
        if stopped < len(rows):
            assert stopped in odd_rows
        start = stopped + 1
        stopped = start
    writers = [pure.BatchWriter(bytearray(1 << 14)) for _ in range(PARTITION_COUNT)]
    for number, (value, key, headers, partition, time) in enumerate(rows):
        noted = locations.result_numbers[number + 1]
        if number in odd_rows:
            assert noted == NO_RESULT
            continue
        key_bytes, value_bytes = (None if d is None else _to_bytes("t", [], d) for d in (key, value))
        time = NOW_MS if time is None else time
        pairs_out = None if headers is None else encode_headers("t", headers)
        assert locations.batch_result(number + 1) is stage.slots.slots[partition].appender.batch_result
        assert locations.indexes[number + 1] == writers[partition].record_count
        assert locations.timestamps_ms[number + 1] == time
        assert locations.key_sizes[number + 1] == (-1 if key_bytes is None else len(key_bytes))
        assert locations.value_sizes[number + 1] == (-1 if value_bytes is None else len(value_bytes))
        assert writers[partition].append(time, key_bytes, value_bytes, pairs_out)
    assert stage.records() == [bytes(writer.buffer[61 : writer.position]) for writer in writers]
    # The rows around are somebody else's.
    assert locations.result_numbers[0] == locations.result_numbers[len(rows) + 1] == NO_RESULT


@pytest.mark.parametrize("ignores_keys", [False, True])
def test_keys_choose_the_partition_unless_they_are_ignored(ignores_keys: bool) -> None:
    stage = Stage(1 << 14, ignores_keys=ignores_keys)
    rows = [(b"v", b"key-%d" % n if n % 3 else None, None, None, None) for n in range(100)]
    locations = Locations(100)
    assert stage.send(rows, locations) == 100
    batch_results = [slot.appender.batch_result for slot in stage.slots.slots]
    for row, (_, key, *_) in enumerate(rows):
        partition = 0
        if key is not None and not ignores_keys:
            partition = pure.partition_for_key(key, PARTITION_COUNT)
        assert locations.batch_result(row) is batch_results[partition]


def test_rows_for_the_sticky_partition_are_declined_once_it_should_be_switched() -> None:
    stage = Stage(1000, sticky_bytes=300)
    locations = Locations(60)
    rows = [(b"x" * 21, None, None, None, None)] * 60
    # It declines at twice 300 bytes of 30 each, as no batch is full by then.
    for partition, stop in enumerate((20, 40)):
        assert stage.send(rows, locations, stop - 20) == stop
        assert stage.slots.sticky.produced_bytes == 600
        assert stage.send(rows, locations, stop) == stop
        stage.slots.sticky = native.StickyPartition(partition + 1, 300, 300, 9)
    assert stage.send(rows, locations, 40) == 60
    batch_results = [slot.appender.batch_result for slot in stage.slots.slots]
    runs = [(batch_results.index(result), len(list(run))) for result, run in
            itertools.groupby(range(60), locations.batch_result)]  # fmt: skip
    assert runs == [(0, 20), (1, 20), (2, 20)]


def test_a_full_batch_ends_the_run_and_a_new_one_goes_on() -> None:
    stage = Stage(200)
    rows = [(b"x" * 20, None, None, 1, None)] * 20
    locations = Locations(20)
    first = stage.send(rows, locations)
    assert 0 < first < 20
    stage.open_batch(1, 2000)
    assert stage.send(rows, locations, first) == 20
    assert list(locations.result_numbers) == [0] * first + [1] * (20 - first)
    assert list(locations.indexes) == [*range(first), *range(20 - first)]


def test_without_an_open_batch_nothing_is_sent() -> None:
    rows = [(b"v", None, None, None, None)] * 3
    stage = Stage(1000)
    stage.slots.slots[0].appender = None
    assert stage.send(rows, Locations(3)) == 0
    stage.slots.slots = [None, None, None]
    assert stage.send(rows, Locations(3)) == 0
    stage.slots.slots = []
    assert stage.send(rows, Locations(3)) == 0
    stage = Stage(1000)
    stage.slots.sticky = None
    assert stage.send(rows, Locations(3)) == 0
    columns = Locations(3).columns()
    sender = native.RowSender({}, False, SMALL_SIZE)
    stage = Stage(1000)
    stage.slots.partition_count = 0
    assert sender.send(stage.slots, ([b"v"], None, None, None, None), 0, NOW_MS, None, 0, *columns) == 0


def test_batch_results_that_replace_each_other_keep_their_numbers_apart() -> None:
    """A batch's result may have the address of one that is gone, were it not kept alive."""
    stage = Stage(1 << 12)
    locations = Locations(200)
    sender = native.RowSender(locations.batch_results, False, SMALL_SIZE)
    for row in range(200):
        stage.open_batch(0, 100)
        batch_result = stage.slots.slots[0].appender.batch_result
        row_of_one = ([b"v"], None, None, [0], None)
        assert stage.send_columns(locations, *row_of_one, first_row=row, sender=sender) == 1
        assert locations.batch_result(row) is batch_result
    assert len(locations.batch_results) == 200


def test_arguments_that_do_not_fit_each_other_are_refused() -> None:
    stage = Stage(1000)
    two = ([b"a", b"b"], None, None, None, None)
    with pytest.raises(ValueError, match="columns of 2 and 1 rows"):
        stage.send_columns(Locations(3), [b"a", b"b"], [b"k"], None, None, None)
    for start, first_row in ((-1, 0), (3, 0), (0, -1)):
        with pytest.raises(ValueError, match="of 2, to be noted in 5 columns from"):
            stage.send_columns(Locations(3), *two, start=start, first_row=first_row)
    with pytest.raises(ValueError, match="a column of 12 bytes for 4 rows"):
        stage.send_columns(Locations(3), *two, first_row=2)
    for name in ("indexes", "key_sizes", "value_sizes", "timestamps_ms"):
        locations = Locations(3)
        getattr(locations, name).pop()
        with pytest.raises(ValueError, match="bytes for 3 rows"):
            stage.send_columns(locations, [b"a"], None, None, None, None, first_row=2)
    with pytest.raises(TypeError):
        native.RowSender(None, False, SMALL_SIZE)
    with pytest.raises(TypeError):
        native.RowSender({}, False, SMALL_SIZE).send(None, two, 0, NOW_MS, None, 0, *Locations(3).columns())
    assert stage.records() == [b""] * PARTITION_COUNT


def test_a_list_that_loses_its_rows_is_no_crash() -> None:
    values = [b"v"] * 10

    class Emptying(BatchResult):
        def __hash__(self) -> int:
            values.clear()
            return 0

    stage = Stage(1000)
    writer = native.BatchWriter(bytearray(1000))
    stage.slots.slots[0].appender = appender(writer, Emptying())
    with pytest.raises(ValueError, match="lost its row 1"):
        stage.send_columns(Locations(10), values, None, None, [0] * 10, None)


def test_the_reference_leaves_every_row_to_send() -> None:
    sender = pure.RowSender({}, False, SMALL_SIZE)
    slots = pure.TopicSlots()
    assert sender.send(slots, ([b"a"] * 3, None, None, None, None), 1, NOW_MS, 0) == 1


def new_stage(bench: Bench) -> Stage:
    """Its first partition is armed."""
    stage = Stage(1000)
    stage.slots.slots[0].part = bench.part("t", 0)
    return stage


@pytest.mark.parametrize("where", ["make_result", "deallocate", "on_wake"])
def test_rows_in_the_data_plane_are_noted_whatever_is_interrupted(where: str) -> None:
    errors: list[BaseException] = []
    bench = Bench(linger_ms=60_000, first_bytes=1024)
    arguments = {"make_result": ProduceRequestResult, "deallocate": bench.deallocate, "on_wake": lambda: None}
    bench.close()
    bench = Bench(linger_ms=60_000, first_bytes=1024, plane={where: interruptible(arguments[where], errors)})
    stage, locations = new_stage(bench), Locations(100)
    values, accepted, row = [b"%050d" % number for number in range(100)], 0, 0
    try:
        while row < 100:
            errors[:] = [KeyboardInterrupt()]
            bench.plane.wait_is_over() if row % 2 else bench.plane.wait_until_ms
            try:
                row = stage.send_columns(locations, values, None, None, [0] * 100, None, start=row)
            except KeyboardInterrupt:
                row = locations.result_numbers.tolist().index(NO_RESULT)
            accepted = sum(batch.record_count for batch in bench.incomplete)
            assert row == accepted
        for each in range(100):
            result, index = locations.batch_result(each), locations.indexes[each]
            (batch,) = [batch for batch in bench.incomplete if batch.result is result]
            assert index < batch.record_count
        assert len({(locations.result_numbers[n], locations.indexes[n]) for n in range(100)}) == 100
    finally:
        bench.close()


def test_callers_compress_large_rows() -> None:
    """As ``send``: a batch that is full is left open for that."""
    bench = Bench(compression="gzip", first_bytes=16_384)
    try:
        stage, locations = new_stage(bench), Locations(40)
        values = [random.Random(n).randbytes(5000) for n in range(40)]
        sender = native.RowSender(locations.batch_results, False, 1 << 20)
        columns = (values, None, None, [0] * 40, None)
        assert stage.send_columns(locations, *columns, sender=sender) == 40
        assert sum(batch.compressed_records is not None for batch in bench.incomplete) > 30
    finally:
        bench.close()


def test_rows_do_not_go_to_the_next_transaction() -> None:
    """It begins while a thread makes the result of a batch."""

    def make_result(*arguments: Any) -> ProduceRequestResult:
        bench.plane.end_transaction()
        bench.plane.begin_transaction("second", True)
        return ProduceRequestResult(*arguments)

    bench = Bench(transactional_id="x", plane={"make_result": make_result})
    try:
        bench.plane.begin_transaction("first", True)
        stage, locations = new_stage(bench), Locations(3)
        columns = [b"1", b"2", b"3"], None, None, [0, 1, 0], None
        assert stage.send_columns(locations, *columns, transaction="first") == 1
        assert stage.records() == [b"", b"", b""]
        # An armed partition belongs to a transaction by itself.
        assert stage.send_columns(locations, *columns, start=2, transaction="first") == 2
    finally:
        bench.close()
