"""RowSender: what it writes and notes for a run of rows is what one append for each would have."""

from __future__ import annotations

import gc
import itertools
import threading
from array import array
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer.bulk.record_places import NO_OWNER
from kproducer.kernel import pure
from kproducer.runtime.arguments import encode_headers
from kproducer.serializers import serialize_function

native: ModuleType = pytest.importorskip("kproducer.kernel.native.twin", exc_type=ImportError)

NOW_MS = 1_700_000_000_000
PARTITION_COUNT = 3
SMALL_SIZE = 200
_to_bytes = serialize_function("value", None)


class Owner:
    """Stands for the result of a batch."""


class Places:
    """The columns of RecordPlaces, without its knowledge of results."""

    def __init__(self, row_count: int) -> None:
        self.owners: list[Any] = []
        self.owner_numbers = array("i", [NO_OWNER] * row_count)
        self.indexes = array("i", bytes(4 * row_count))
        self.timestamps_ms = array("q", bytes(8 * row_count))
        self.key_sizes = array("i", bytes(4 * row_count))
        self.value_sizes = array("i", bytes(4 * row_count))

    def __len__(self) -> int:
        return len(self.owner_numbers)

    def number_of(self, owner: Any) -> int:
        if owner not in self.owners:
            self.owners.append(owner)
        # A moment at which the collector, and with it anybody's code, may run.
        gc.collect(0)
        return self.owners.index(owner)


class Stage:
    """One topic with an open batch of ``size`` bytes in each partition."""

    def __init__(self, size: int, *, sticky_bytes: int = 1 << 40, ignores_keys: bool = False) -> None:
        self.slots = native.TopicSlots()
        self.slots.slots = [native.AppendSlot(threading.RLock()) for _ in range(PARTITION_COUNT)]
        self.slots.sticky = native.StickyPartition(0, sticky_bytes, 9)
        for partition in range(PARTITION_COUNT):
            self.open_batch(partition, size)
        snapshot = SimpleNamespace(topics={"t": SimpleNamespace(partitions=range(PARTITION_COUNT))})
        self.path = native.SendPath()
        self.path._configure_send(
            usual=True,
            wall_ms=None,
            serializes_key=False,
            serializes_value=False,
            key_bytes=None,
            value_bytes=None,
            header_pairs=encode_headers,
            ignores_keys=ignores_keys,
            small_size=SMALL_SIZE,
            future_type=native.RecordFuture,
        )
        self.path._open_send(SimpleNamespace(snapshot=snapshot), {"t": self.slots})

    def open_batch(self, partition: int, size: int) -> None:
        writer = native.BatchWriter(bytearray(size))
        self.slots.slots[partition].appender = native.RecordAppender(
            writer, Owner(), native.BatchOutcome(("t", partition), tuple), native.RecordFuture
        )

    def records(self) -> list[bytes]:
        writers = [slot.appender.writer for slot in self.slots.slots]
        return [bytes(writer.buffer[61 : writer.position]) for writer in writers]

    def send(self, rows: list[Any], places: Places, start: int = 0, first_row: int = 0) -> int:
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(5)]
        sender = native.RowSender(self.path, "t", places)
        stopped: int = sender.send(*columns, start, first_row, NOW_MS)
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
    places = Places(len(rows) + 2)
    stopped = start = 0
    while stopped < len(rows):
        stopped = stage.send(rows, places, start, 1)
        if stopped < len(rows):
            assert stopped in odd_rows
        start = stopped + 1
        stopped = start
    writers = [pure.BatchWriter(bytearray(1 << 14)) for _ in range(PARTITION_COUNT)]
    for number, (value, key, headers, partition, time) in enumerate(rows):
        noted = places.owner_numbers[number + 1]
        if number in odd_rows:
            assert noted == NO_OWNER
            continue
        key_bytes, value_bytes = (None if d is None else _to_bytes("t", [], d) for d in (key, value))
        time = NOW_MS if time is None else time
        pairs_out = None if headers is None else encode_headers("t", headers)
        assert places.owners[noted] is stage.slots.slots[partition].appender.owner
        assert places.indexes[number + 1] == writers[partition].record_count
        assert places.timestamps_ms[number + 1] == time
        assert places.key_sizes[number + 1] == (-1 if key_bytes is None else len(key_bytes))
        assert places.value_sizes[number + 1] == (-1 if value_bytes is None else len(value_bytes))
        assert writers[partition].append(time, key_bytes, value_bytes, pairs_out)
    assert stage.records() == [bytes(writer.buffer[61 : writer.position]) for writer in writers]
    # The rows around are somebody else's.
    assert places.owner_numbers[0] == places.owner_numbers[len(rows) + 1] == NO_OWNER


@pytest.mark.parametrize("ignores_keys", [False, True])
def test_keys_choose_the_partition_unless_they_are_ignored(ignores_keys: bool) -> None:
    stage = Stage(1 << 14, ignores_keys=ignores_keys)
    rows = [(b"v", b"key-%d" % n if n % 3 else None, None, None, None) for n in range(100)]
    places = Places(100)
    assert stage.send(rows, places) == 100
    owners = [slot.appender.owner for slot in stage.slots.slots]
    for row, (_, key, *_) in enumerate(rows):
        partition = 0
        if key is not None and not ignores_keys:
            partition = (pure.murmur2(key) & 0x7FFFFFFF) % PARTITION_COUNT
        assert places.owners[places.owner_numbers[row]] is owners[partition]


def test_rows_for_the_sticky_partition_are_declined_once_it_should_be_switched() -> None:
    stage = Stage(1000, sticky_bytes=300)
    places = Places(60)
    rows = [(b"x" * 21, None, None, None, None)] * 60
    # It declines at twice 300 bytes of 30 each, as no batch is full by then.
    for partition, stop in enumerate((20, 40)):
        assert stage.send(rows, places, stop - 20) == stop
        assert stage.slots.sticky.produced_bytes == 600
        assert stage.send(rows, places, stop) == stop
        stage.slots.sticky = native.StickyPartition(partition + 1, 300, 9)
    assert stage.send(rows, places, 40) == 60
    owners = [slot.appender.owner for slot in stage.slots.slots]
    runs = [
        (owners.index(places.owners[n]), len(list(run))) for n, run in itertools.groupby(places.owner_numbers)
    ]
    assert runs == [(0, 20), (1, 20), (2, 20)]


def test_a_full_batch_ends_the_run_and_a_new_one_goes_on() -> None:
    stage = Stage(200)
    rows = [(b"x" * 20, None, None, 1, None)] * 20
    places = Places(20)
    first = stage.send(rows, places)
    assert 0 < first < 20
    stage.open_batch(1, 2000)
    assert stage.send(rows, places, first) == 20
    assert list(places.owner_numbers) == [0] * first + [1] * (20 - first)
    assert list(places.indexes) == [*range(first), *range(20 - first)]


def test_without_a_way_in_nothing_is_sent() -> None:
    rows = [(b"v", None, None, None, None)] * 3
    stage = Stage(1000)
    stage.slots.slots[0].appender = None
    assert stage.send(rows, Places(3)) == 0
    stage.slots.slots = [None, None, None]
    assert stage.send(rows, Places(3)) == 0
    stage.slots.slots = []
    assert stage.send(rows, Places(3)) == 0
    stage = Stage(1000)
    stage.slots.sticky = None
    assert stage.send(rows, Places(3)) == 0
    stage = Stage(1000)
    stage.path._close_send()
    assert stage.send(rows, Places(3)) == 0


def test_owners_that_replace_each_other_keep_their_numbers_apart() -> None:
    """Each batch's owner may have the address of one that is gone, were it not kept alive."""
    stage = Stage(1 << 12)
    places = Places(200)
    sender = native.RowSender(stage.path, "t", places)
    for row in range(200):
        stage.open_batch(0, 100)
        owner = stage.slots.slots[0].appender.owner
        assert sender.send([b"v"], None, None, [0], None, 0, row, NOW_MS) == 1
        assert places.owners[places.owner_numbers[row]] is owner
    assert len(places.owners) == 200


def test_arguments_that_do_not_fit_each_other_are_refused() -> None:
    stage = Stage(1000)
    sender = native.RowSender(stage.path, "t", Places(3))
    with pytest.raises(ValueError, match="columns of 2 and 1 rows"):
        sender.send([b"a", b"b"], [b"k"], None, None, None, 0, 0, NOW_MS)
    for start, first_row in ((-1, 0), (3, 0), (0, -1)):
        with pytest.raises(ValueError, match="of 2, to be noted from"):
            sender.send([b"a", b"b"], None, None, None, None, start, first_row, NOW_MS)
    with pytest.raises(ValueError, match="a column of 12 bytes for 4 rows"):
        sender.send([b"a", b"b"], None, None, None, None, 0, 2, NOW_MS)
    for name in ("indexes", "key_sizes", "value_sizes", "timestamps_ms"):
        places = Places(3)
        getattr(places, name).pop()
        with pytest.raises(ValueError, match="bytes for 3 rows"):
            native.RowSender(stage.path, "t", places).send([b"a"], None, None, None, None, 0, 2, NOW_MS)
    with pytest.raises(TypeError):
        native.RowSender(None, "t", Places(3))
    assert stage.records() == [b""] * PARTITION_COUNT


def test_a_list_that_loses_its_rows_is_no_crash() -> None:
    values = [b"v"] * 10

    class Emptying(Places):
        def number_of(self, owner: Any) -> int:
            values.clear()
            return super().number_of(owner)

    stage = Stage(1000)
    with pytest.raises(ValueError, match="lost its row 1"):
        native.RowSender(stage.path, "t", Emptying(10)).send(values, None, None, [0] * 10, None, 0, 0, NOW_MS)


def test_the_reference_leaves_every_row_to_send() -> None:
    sender = pure.RowSender(pure.SendPath(), "t", Places(3))
    assert sender.send([b"a"] * 3, None, None, None, None, 1, 0, NOW_MS) == 1
