"""Both twins get the same calls, bad ones too: same bytes, results, errors with their words, state after."""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kproducer.kernel import pure
from kproducer.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer.kernel.pure.batch_v2 import is_nearly_full
from kproducer.runtime.arguments import encode_headers, headers_size_upper_bound
from kproducer.serializers import serialize_function
from kproducer.types import INT32_MAX, INT64_MAX

native: ModuleType = pytest.importorskip("kproducer.kernel.native.twin", exc_type=ImportError)

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
        weight=st.floats(0, 1) | st.floats(),
        earlier_bytes=st.integers(0, 2000) | st.integers(),
        wire_limit=st.integers(0, 2000) | st.integers(),
        limit=st.integers(0, 2),
    )
    def weigh(self, weight: float, earlier_bytes: int, wire_limit: int, limit: int) -> None:
        one, other = [
            taken_or_refused(
                lambda writer=writer: writer.set_compression_estimate(weight, earlier_bytes, wire_limit)
            )
            for writer in self.writers
        ]
        assert one == other
        for writer in self.writers:
            writer.limit = limit

    @rule()
    def rewind(self) -> None:
        for writer in self.writers:
            writer.rewind()

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


class Snapshot:
    """Metadata of topic ``t``."""

    def __init__(self, partition_count: int) -> None:
        self.partitions = (None,) * partition_count
        self.topics = {"t": self}


class Metadata:
    snapshot = Snapshot(3)


class ReferencePath(pure.SendPath):
    """What the compiled ``send`` has to do, in Python."""

    def _configure_send(self, **settings: Any) -> None:
        self._settings = settings
        self._topics: dict[str, Any] = {}

    def _open_send(self, metadata: Any, topics: Any) -> None:
        self._topics = topics

    def _close_send(self) -> None:
        self._topics = {}

    def send(
        self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None, on_delivery=None
    ):  # type: ignore[no-untyped-def, override]
        settings, slots = self._settings, self._topics.get(topic) if type(topic) is str else None
        count = Metadata.snapshot.topics[topic].partitions if slots is not None else ()
        if (
            slots is None
            or (on_delivery is not None and not callable(on_delivery))
            or (partition is not None and (type(partition) is not int or not 0 <= partition < len(count)))
        ):
            return "slowly"
        if headers is not None:
            headers = settings["header_pairs"](topic, headers)
        if key is not None and (settings["serializes_key"] or type(key) is not bytes):
            headers = headers or []
            key = settings["key_bytes"](topic, headers, key)
        if value is not None and type(value) is not bytes:
            headers = headers or []
            value = settings["value_bytes"](topic, headers, value)
        time = settings["wall_ms"]() if timestamp_ms is None else timestamp_ms
        size = len(key or b"") + len(value or b"") + (headers_size_upper_bound(headers) if headers else 0)
        if size > settings["small_size"] or type(time) is not int or not 0 <= time <= INT64_MAX:
            return "slowly"
        sticky = None
        if partition is None and key is not None:
            partition = (pure.murmur2(key) & 0x7FFFFFFF) % len(count)
        if partition is None:
            sticky = slots.sticky
            partition = sticky.partition if sticky is not None else 99
        slot = slots.slots[partition] if partition < len(slots.slots) else None
        appender = slot and slot.appender
        if appender is None:
            return "slowly"
        produced = 0 if sticky is None else sticky.produced_bytes
        if produced >= 150 and (produced >= 300 or is_nearly_full(appender.writer)):
            return "slowly"
        future = appender.append(time, key, value, headers, on_delivery)
        if future is not None and sticky is not None:
            sticky.produced_bytes += 9 + len(key or b"") + len(value or b"")
        return future or "slowly"


def make_world(twin: ModuleType, serializes: bool) -> Any:
    """A producer over three partitions of a topic; what it declines is ``slowly``."""
    base = ReferencePath if twin is pure else native.SendPath

    class Producer(base):  # type: ignore[misc, valid-type]
        def _send_slowly(self, *arguments: Any) -> str:
            assert len(arguments) == 7
            return "slowly"

        def _send_serialized(self, *arguments: Any) -> str:
            assert len(arguments) == 10
            return "slowly"

    def serializer(value: Any) -> bytes | None:
        return None if value == b"" else repr(value).encode()

    producer = Producer()
    producer.topic = twin.TopicSlots()
    producer.topic.slots = [twin.AppendSlot(None), twin.AppendSlot(None), None]
    producer._configure_send(
        usual=True,
        wall_ms=lambda: TS,
        serializes_key=serializes,
        serializes_value=False,
        key_bytes=serialize_function("key", serializer if serializes else None),
        value_bytes=serialize_function("value", None),
        header_pairs=encode_headers,
        ignores_keys=False,
        small_size=100,
        future_type=twin.RecordFuture,
    )
    producer._open_send(Metadata, {"t": producer.topic})
    producer.twin = twin
    return producer


class Producers(RuleBasedStateMachine):
    """A producer of each twin on the way from send() to the batch, without what lies behind the slow way."""

    @initialize(serializes=st.booleans())
    def begin(self, serializes: bool) -> None:
        self.producers = [make_world(twin, serializes) for twin in (pure, native)]
        self.batches = 0
        for partition in (0, 1):
            self.begin_a_batch(partition, 2000)

    def both(self, call: Callable[[Any], Any]) -> None:
        results = []
        for producer in self.producers:
            result = outcome(lambda producer=producer: call(producer))
            # Whether it raises, or leaves it to the slow way to do so, does not matter.
            refused = isinstance(result, tuple) and "SerializationError" in str(result)
            results.append("slowly" if refused else future_state(result))
        assert results[0] == results[1]

    @rule(
        topic=st.sampled_from(["t", "t", "t", "u", Text("t"), b"t", None]),
        value=sendable,
        key=sendable,
        header=sendable_headers,
        partition=st.sampled_from([None, None, 0, 1, 2, 3, -1, True, 1.0, 10**30, Number.SEVEN]),
        timestamp_ms=st.one_of(st.none(), timestamps),
        on_delivery=st.sampled_from([None, print, 5]),
    )
    def send_anything(self, **arguments: Any) -> None:
        value, key, header = (arguments.pop(name) for name in ("value", "key", "header"))
        self.both(lambda p: p.send(value=value(), key=key(), headers=header(), **arguments))

    @rule(size=st.integers(0, 103), key=st.integers(0, 20), partition=st.sampled_from([None, None, 0, 1]))
    def send_a_record(self, size: int, key: int, partition: int | None) -> None:
        self.both(lambda p: p.send("t", bytes(size), b"%d" % key if key else None, None, partition))

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
                p.twin.BatchOutcome(("t", partition), tuple),
                p.twin.RecordFuture,
            )

    @rule(partition=st.integers(0, 1))
    def close_a_batch(self, partition: int) -> None:
        for p in self.producers:
            p.topic.slots[partition].appender = None

    @rule(partition=st.integers(0, 2))
    def choose(self, partition: int) -> None:
        for p in self.producers:
            p.topic.sticky = p.twin.StickyPartition(partition, 150, 9)

    @rule(is_open=st.booleans())
    def open_or_close_the_producer(self, is_open: bool) -> None:
        for p in self.producers:
            if is_open:
                p._open_send(Metadata, {"t": p.topic})
            else:
                p._close_send()

    @invariant()
    def they_agree(self) -> None:
        one, other = [
            (
                [
                    (state(slot.appender.writer), list(slot.appender.deliveries))
                    for slot in p.topic.slots
                    if slot is not None and slot.appender is not None
                ],
                p.topic.sticky and (p.topic.sticky.partition, p.topic.sticky.produced_bytes),
            )
            for p in self.producers
        ]
        assert one == other


TestProducers = Producers.TestCase


@pytest.mark.parametrize(("serializes", "size", "key"), [(True, 96, 1), (False, 100, 0)])
def test_nothing_takes_no_room(serializes: bool, size: int, key: int) -> None:
    """The list of headers that serializers are given, empty as it is, and a key that is null."""
    producers = Producers()
    producers.begin(serializes=serializes)
    producers.send_a_record(size=size, key=key, partition=0)
    producers.send_a_record(size=size + 1, key=key, partition=0)
    producers.they_agree()
    for producer in producers.producers:
        assert producer.topic.slots[0].appender.writer.record_count == 1


@given(st.binary(max_size=300), st.integers(-1, 200))
def test_they_choose_the_same_partition(key: bytes, count: int) -> None:
    one, other = [outcome(lambda twin=twin: twin.partition_for_key(key, count)) for twin in (pure, native)]
    assert one == other
