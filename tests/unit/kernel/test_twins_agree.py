"""Both twins get the same calls, bad ones too: same bytes, results, errors with their words, state after."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kproducer._core.kernel import pure
from kproducer._core.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer._core.runtime.arguments import encode_headers, headers_size_upper_bound
from kproducer.serializers import serialize_function
from kproducer.types import INT32_MAX, INT64_MAX, RecordMetadata

native: ModuleType = pytest.importorskip("kproducer._core.kernel.native.twin", exc_type=ImportError)

TS = 1_700_000_000_000


class Bytes(bytes):
    pass


class Text(str):
    pass


class Number(enum.IntEnum):
    SEVEN = 7


def released() -> memoryview:
    view = memoryview(b"gone")
    view.release()
    return view


def makers(values: Any, *kinds: Callable[[Any], Any]) -> Any:
    """Functions that make an argument anew for each twin: what is consumed or released is not shared."""
    return st.builds(lambda kind, value: lambda: kind(value), st.sampled_from(kinds), values)


data = st.binary(max_size=40)
any_data = st.one_of(
    makers(data, bytes, bytes, bytearray, memoryview, Bytes, lambda b: memoryview(b)[::2]),
    makers(st.binary(min_size=8, max_size=8), lambda b: memoryview(b).cast("I")),
    st.sampled_from([lambda: None, lambda: None, released]),
    makers(st.one_of(st.text(max_size=3), st.integers(), st.floats()), lambda x: x),
    st.sampled_from([lambda: [1, 2], lambda: {}, lambda: b"x".__len__, lambda: object]),
)
plain_data = makers(st.one_of(st.none(), data), lambda x: x)
timestamps = st.one_of(
    st.integers(TS - 1000, TS + 1000),
    st.integers(TS - 1000, TS + 1000),
    st.sampled_from([0, -1, INT64_MAX, INT64_MAX + 1, -(2**63) - 1, 10**40, True, 1.5, None, "1"]),
    st.just(Number.SEVEN),
)
names = st.one_of(st.text(max_size=5), st.sampled_from(["\ud800", "\u00e9", Text("x"), b"bytes", None, 5]))
header_values = st.one_of(st.none(), data, st.text(max_size=3), st.just(bytearray(b"ab")), st.just(7))
pairs = st.one_of(
    st.tuples(st.text(max_size=5), st.one_of(st.none(), data)),
    st.tuples(st.text(max_size=5), st.one_of(st.none(), data)),
    st.tuples(names, header_values),
    st.tuples(names, header_values).map(list),
    st.sampled_from(["ab", ("x",), ("x", b"1", b"2"), None]),
)
headers = st.one_of(
    st.just(lambda: None),
    makers(st.lists(pairs, max_size=4), list, tuple, iter),
    makers(st.lists(st.tuples(st.text(max_size=5), data), max_size=4), list, tuple, dict),
    st.sampled_from([lambda: "text", lambda: b"bytes", lambda: 5, lambda: range(2)]),
)

nullable = st.none() | st.binary()
header_pairs = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | data), max_size=3)

#: What send() takes on the usual way, and what nobody takes. Between them lies what only the slow way takes.
sendable = makers(
    st.one_of(st.none(), data, data, st.text(max_size=9), st.just("\ud800"), st.just(7)), lambda x: x
)
sendable_headers = st.one_of(
    st.just(lambda: None),
    makers(
        st.lists(
            st.tuples(
                st.one_of(st.text(max_size=5), st.just("\ud800"), st.just(b"bytes")),
                st.one_of(st.none(), data, st.text(max_size=3), st.just(7)),
            ),
            max_size=4,
        ),
        list,
        tuple,
    ),
    st.sampled_from([lambda: "text", lambda: b"bytes", lambda: 5, lambda: [("x",)]]),
)


def outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, or what it says when it fails."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


def taken_or_refused(call: Callable[[], Any]) -> Any:
    """The result of a call, or that its arguments were refused: the words may differ."""
    try:
        return call()
    except (TypeError, ValueError, OverflowError):
        return "refused"


def state(writer: Any) -> tuple[Any, ...]:
    return (
        bytes(writer.buffer),
        writer.limit,
        writer.position,
        writer.record_count,
        writer.base_timestamp_ms,
        writer.max_timestamp_ms,
    )


def future_state(future: Any) -> Any:
    if isinstance(future, (pure.RecordFuture, native.RecordFuture)):
        return future._batch_result, future._index, future._timestamp_ms, future._key_size, future._value_size
    return future


class Writers(RuleBasedStateMachine):
    """One writer of each twin, and a buffer that is sometimes too small."""

    @initialize(size=st.integers(RECORD_BATCH_OVERHEAD - 2, 600))
    def begin(self, size: int) -> None:
        results = [
            taken_or_refused(lambda twin=twin: twin.BatchWriter(bytearray(size))) for twin in (pure, native)
        ]
        if size < RECORD_BATCH_OVERHEAD:
            assert results[0] == results[1]
            results = [twin.BatchWriter(bytearray(RECORD_BATCH_OVERHEAD)) for twin in (pure, native)]
        self.writers = results

    @rule(timestamp_ms=timestamps, key=any_data, value=any_data, header=headers)
    def append_anything(self, timestamp_ms: Any, key: Any, value: Any, header: Any) -> None:
        one, other = [
            taken_or_refused(lambda writer=writer: writer.append(timestamp_ms, key(), value(), header()))
            for writer in self.writers
        ]
        assert one == other

    @rule(delta=st.integers(-(2**40), 2**40), key=plain_data, value=plain_data)
    def append_a_record(self, delta: int, key: Any, value: Any) -> None:
        one, other = [writer.append(TS + delta, key(), value(), None) for writer in self.writers]
        assert one is other

    @rule(share=st.floats(0, 1))
    def move_the_limit(self, share: float) -> None:
        for writer in self.writers:
            writer.limit = int(len(writer.buffer) * share)

    @rule()
    def lift_the_limit(self) -> None:
        for writer in self.writers:
            writer.limit = len(writer.buffer)

    @rule(
        weight=st.floats(0, 1),
        wire_limit=st.integers(0, 2000) | st.integers(0, 2**40),
        limit=st.integers(0, 2),
    )
    def weigh(self, weight: float, wire_limit: int, limit: int) -> None:
        for writer in self.writers:
            writer.set_compression_estimate(weight, wire_limit)
            writer.limit = limit

    @rule(count=st.sampled_from([63, 64, 8191, 8192, INT32_MAX - 1, INT32_MAX]))
    def have_counted_more(self, count: int) -> None:
        for writer in self.writers:
            if writer.record_count:
                writer.record_count = count

    @rule(size=st.integers(0, 700))
    def move(self, size: int) -> None:
        one, other = [
            taken_or_refused(lambda w=writer: w.move_to(bytearray(size))) for writer in self.writers
        ]
        assert one == other

    @rule()
    def resize(self) -> None:
        for writer in self.writers:
            with pytest.raises(BufferError):
                writer.buffer.append(0)

    @invariant()
    def they_agree(self) -> None:
        assert state(self.writers[0]) == state(self.writers[1])


TestWriters = Writers.TestCase


def is_nearly_full(writer: Any) -> bool:
    """Whether less than 64 bytes are left; these writers have no estimate of their compression."""
    return bool(writer.position + 64 > writer.limit)


class ReferenceFastSend:
    """What the compiled ``try_send`` has to do, in Python."""

    def __init__(self, future_type: Any, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._topics: dict[str, Any] = {}
        self._accepted_codes: set[CodeType] = set()

    def configure(self, *, small_size: int, **settings: Any) -> None:
        self._small_size = small_size

    def accept_callbacks_of(self, code: CodeType) -> None:
        self._accepted_codes.add(code)

    def open(self, topics: Any) -> None:
        self._topics = topics

    def close(self) -> None:
        self._topics = {}

    def _accepts(self, on_delivery: Any) -> bool:
        # Of functions and methods, those that the general path has checked.
        code = getattr(on_delivery, "__code__", None)
        return code in self._accepted_codes if code is not None else callable(on_delivery)

    def try_send(self, topic, value, key, headers, partition, timestamp_ms, on_delivery):  # type: ignore[no-untyped-def]
        slots = self._topics.get(topic) if type(topic) is str else None
        count = 0 if slots is None else slots.partition_count
        if (
            slots is None
            or (on_delivery is not None and not self._accepts(on_delivery))
            or (partition is not None and (type(partition) is not int or not 0 <= partition < count))
        ):
            return None
        if headers is not None:
            headers = encode_headers(topic, headers)
        if key is not None and type(key) is not bytes:
            key = TO_BYTES(topic, [], key)
        if value is not None and type(value) is not bytes:
            value = TO_BYTES(topic, [], value)
        time = self._wall_ms() if timestamp_ms is None else timestamp_ms
        size = len(key or b"") + len(value or b"") + (headers_size_upper_bound(headers) if headers else 0)
        if size > self._small_size or type(time) is not int or not 0 <= time <= INT64_MAX:
            return None
        sticky = None
        if partition is None and key is not None:
            partition = pure.partition_for_key(key, count)
        if partition is None:
            sticky = slots.sticky
            partition = sticky.partition if sticky is not None else 99
        slot = slots.slots[partition] if partition < len(slots.slots) else None
        appender = slot and slot.appender
        if appender is None:
            return None
        produced = 0 if sticky is None else sticky.produced_bytes
        if produced >= 150 and (produced >= 300 or is_nearly_full(appender.writer)):
            return None
        future = appender.append(time, key, value, headers, on_delivery)
        if future is not None and sticky is not None:
            sticky.produced_bytes += 9 + len(key or b"") + len(value or b"")
        return future


TO_BYTES = serialize_function("value", None)


class Delivered(list[Any]):
    """What the callbacks of records were called with."""

    def append_all(self, *arguments: Any) -> None:
        self.append(arguments)

    def append_unchecked(self, *arguments: Any) -> None:
        self.append(arguments)


DELIVERED = Delivered()
#: Functions that were checked before, and not; a callable without Python code, which needs no check.
CALLBACKS = [DELIVERED.append_all, DELIVERED.append_unchecked, functools.partial(DELIVERED.append_all), 5]


class World(NamedTuple):
    """The fast path to a topic with three partitions."""

    twin: ModuleType
    fast: Any
    topic: Any


def make_world(twin: ModuleType) -> World:
    fast = (ReferenceFastSend if twin is pure else native.FastSend)(twin.RecordFuture, lambda: TS)
    topic = twin.TopicSlots()
    topic.slots = [twin.AppendSlot(None), twin.AppendSlot(None), None]
    topic.partition_count = 3
    fast.configure(takes_arguments=True, ignores_keys=False, small_size=100)
    fast.accept_callbacks_of(Delivered.append_all.__code__)
    fast.open({"t": topic})
    return World(twin, fast, topic)


class Producers(RuleBasedStateMachine):
    """The compiled fast path and its reference, over batches of each twin. The general path is left out."""

    @initialize()
    def begin(self) -> None:
        self.producers = [make_world(twin) for twin in (pure, native)]
        self.batches = 0
        for partition in (0, 1):
            self.begin_a_batch(partition, 2000)

    def both(self, call: Callable[[Any], Any]) -> None:
        results = []
        for producer in self.producers:
            result = outcome(lambda producer=producer: call(producer))
            # The compiled code declines what the reference refuses: the general path then raises.
            refused = isinstance(result, tuple) and "SerializationError" in str(result)
            results.append(None if refused else future_state(result))
        assert results[0] == results[1]

    @rule(
        topic=st.sampled_from(["t", "t", "t", "u", Text("t"), b"t", None]),
        value=sendable,
        key=sendable,
        header=sendable_headers,
        partition=st.sampled_from([None, None, 0, 1, 2, 3, -1, True, 1.0, 10**30, Number.SEVEN]),
        timestamp_ms=st.one_of(st.none(), timestamps),
        on_delivery=st.sampled_from([None, *CALLBACKS]),
    )
    def send_anything(self, **arguments: Any) -> None:
        value, key, header = (arguments.pop(name) for name in ("value", "key", "header"))
        self.both(lambda p: p.fast.try_send(value=value(), key=key(), headers=header(), **arguments))

    @rule(size=st.integers(0, 103), key=st.integers(0, 20), partition=st.sampled_from([None, None, 0, 1]))
    def send_a_record(self, size: int, key: int, partition: int | None) -> None:
        key_bytes = b"%d" % key if key else None
        self.both(lambda p: p.fast.try_send("t", bytes(size), key_bytes, None, partition, None, None))

    @rule(
        partition=st.integers(0, 1),
        key=st.none() | st.binary(),
        value=st.none() | st.binary(),
        header=header_pairs,
    )
    def append_to_a_batch(self, partition: int, key: Any, value: Any, header: Any) -> None:
        def append(producer: Any) -> Any:
            appender = producer.topic.slots[partition].appender
            return appender and appender.append(TS, key, value, header, None)

        self.both(append)

    @rule(partition=st.integers(0, 1), size=st.integers(RECORD_BATCH_OVERHEAD, 400))
    def begin_a_batch(self, partition: int, size: int) -> None:
        self.batches += 1
        for p in self.producers:
            writer = p.twin.BatchWriter(bytearray(size))
            p.topic.slots[partition].appender = p.twin.RecordAppender(
                writer,
                f"batch {self.batches}",
                p.twin.BatchOutcome(("t", partition), RecordMetadata),
                p.twin.RecordFuture,
            )

    @rule(partition=st.integers(0, 1))
    def complete_a_batch(self, partition: int) -> None:
        def complete(producer: Any) -> Any:
            slot = producer.topic.slots[partition]
            appender, slot.appender = slot.appender, None
            if appender is None:
                return None
            appender.outcome.base_offset = 100
            DELIVERED.clear()
            return appender.deliveries.run(appender.outcome, None, None), list(DELIVERED)

        one, other = map(complete, self.producers)
        assert one == other

    @rule(partition=st.integers(0, 2))
    def choose(self, partition: int) -> None:
        for p in self.producers:
            p.topic.sticky = p.twin.StickyPartition(partition, 150, 150, 9)

    @rule(is_open=st.booleans())
    def open_or_close_the_producer(self, is_open: bool) -> None:
        for p in self.producers:
            if is_open:
                p.fast.open({"t": p.topic})
            else:
                p.fast.close()

    @invariant()
    def they_agree(self) -> None:
        one, other = [
            (
                [
                    (state(slot.appender.writer), len(slot.appender.deliveries))
                    for slot in p.topic.slots
                    if slot is not None and slot.appender is not None
                ],
                p.topic.sticky and (p.topic.sticky.partition, p.topic.sticky.produced_bytes),
            )
            for p in self.producers
        ]
        assert one == other


TestProducers = Producers.TestCase


def test_a_null_key_takes_no_room() -> None:
    producers = Producers()
    producers.begin()
    producers.send_a_record(size=100, key=0, partition=0)
    producers.send_a_record(size=101, key=0, partition=0)
    producers.they_agree()
    for producer in producers.producers:
        assert producer.topic.slots[0].appender.writer.record_count == 1


@given(st.binary(max_size=300), st.integers(-1, 200))
def test_they_choose_the_same_partition(key: bytes, count: int) -> None:
    one, other = [outcome(lambda twin=twin: twin.partition_for_key(key, count)) for twin in (pure, native)]
    assert one == other
