"""The compiled fast path of ``send`` and the general path: the same record in the log, or the same error.

Each example sends the same arguments to two topics: through ``KafkaProducer.send``, whose compiled part
handles ordinary records and declines all others, and through ``Admission`` alone, which is the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kproducer import KafkaProducer
from kproducer._core.kernel import IMPLEMENTATION
from kproducer._core.sending import blocking
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios.harness import PATIENCE_S
from tests.support.waiting import learn_topics

pytestmark = pytest.mark.skipif(IMPLEMENTATION == "pure", reason="the pure kernel has no fast path")

PARTITIONS = 3
FAST, GENERAL = "fast.topic", "same.topic"  # of one length, so that sizes in error texts are equal
LARGEST_RECORD = 400


class Text(str):
    """Not exactly ``str``."""


@attrs.frozen
class Arguments:
    """The arguments of one ``send``, made for each path: iterators cannot be shared."""

    value: Any
    key: Any
    headers: Callable[[], Any]
    partition: Any
    timestamp_ms: Any

    def as_tuple(self) -> tuple[Any, ...]:
        return self.value, self.key, self.headers(), self.partition, self.timestamp_ms


def repeatable(values: Any, *kinds: Callable[[Any], Any]) -> Any:
    return st.builds(lambda kind, value: lambda: kind(value), st.sampled_from(kinds), values)


pairs = st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=9), st.text(max_size=3)))
ordinary_data = st.one_of(st.none(), st.binary(max_size=20), st.text(max_size=8))
ordinary = st.builds(
    Arguments,
    ordinary_data,
    ordinary_data,
    st.one_of(st.just(lambda: None), repeatable(st.lists(pairs, max_size=3), list, tuple)),
    st.one_of(st.none(), st.integers(0, PARTITIONS - 1)),
    st.one_of(st.none(), st.sampled_from([0, 1]), st.integers(0, 2**41)),
)

odd_data = st.one_of(
    st.binary(max_size=20).map(bytearray),
    st.binary(max_size=20).map(lambda data: memoryview(data)),
    st.integers(LARGEST_RECORD - 80, LARGEST_RECORD + 20).map(lambda size: b"x" * size),
    st.sampled_from(["\ud800", Text("text"), 7, 1.5, ["list"], object]),
)
odd_pairs = st.sampled_from(
    [("\ud800", b""), (b"name", b""), (5, b""), ("x", 7), ("x",), ("a", b"", b""), None, "ab"]
)
odd_headers = st.one_of(
    repeatable(st.lists(st.one_of(pairs, odd_pairs), min_size=1, max_size=3), list, tuple, iter),
    repeatable(st.dictionaries(st.text(max_size=4), st.binary(max_size=4), max_size=3), dict),
    st.sampled_from([lambda: "text", lambda: b"bytes", lambda: 5]),
)
odd_field = st.one_of(
    st.fixed_dictionaries({"value": odd_data}),
    st.fixed_dictionaries({"key": odd_data}),
    st.fixed_dictionaries({"headers": odd_headers}),
    st.fixed_dictionaries({"partition": st.sampled_from([-1, PARTITIONS, 2**40, True, 1.0, "1"])}),
    st.fixed_dictionaries(
        {"timestamp_ms": st.sampled_from([-1, 2**63 - 1, 2**63, -(2**70), True, 1.5, "1"])}
    ),
)
#: About every second record has one field that only the general path accepts, or that both must refuse.
arguments = st.one_of(ordinary, st.builds(lambda row, odd: attrs.evolve(row, **odd), ordinary, odd_field))


def admission_of(producer: KafkaProducer) -> Any:
    engine = producer._lifecycle.engine
    assert engine is not None
    return engine.admission


class Pair:
    """Two producers for one cluster. ``general`` has no fast path.

    Attributes:
        handled_fast: number of records for which ``send`` did not need the general path.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "max_request_size": LARGEST_RECORD,
            "batch_size": 1000,
            "linger_ms": 60_000,
            "max_block_ms": 50,
        }
        self.fast, self.general = KafkaProducer(**options), KafkaProducer(**options)
        learn_topics(self.fast, FAST)
        learn_topics(self.general, GENERAL)
        admission_of(self.general).fast_send = None
        self.handled_fast = 0
        self._general_sends = 0
        admission = admission_of(self.fast)
        admit = admission.admit

        def counted(*args: Any) -> Any:
            self._general_sends += 1
            return admit(*args)

        admission.admit = counted

    def open_batches(self) -> None:
        """Open a batch in each partition: only the general path does."""
        for partition in range(PARTITIONS):
            self.fast.send(FAST, b"", partition=partition)

    def send_fast(self, sent: Arguments) -> Any:
        before = self._general_sends
        future = self.fast.send(FAST, *sent.as_tuple())
        self.handled_fast += self._general_sends == before
        return future

    def send_general(self, sent: Arguments) -> Any:
        return blocking.send(admission_of(self.general), GENERAL, *sent.as_tuple(), None)

    def close(self) -> None:
        self.fast.close(PATIENCE_S)
        self.general.close(PATIENCE_S)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    cluster = FakeCluster(1)
    for topic in (FAST, GENERAL):
        cluster.create_topic(topic, PARTITIONS)
    both = Pair(cluster)
    try:
        yield both
    finally:
        both.close()
        cluster.close()


def future_or_error(send: Callable[[Arguments], Any], sent: Arguments) -> Any:
    try:
        return send(sent)
    except Exception as error:
        # A timeout also says what the connections were doing, which differs from moment to moment.
        text, _, _ = str(error).replace(FAST, GENERAL).partition("; brokers:")
        return type(error), text, getattr(error, "outcome", None)


def described(cluster: FakeCluster, topic: str, sent: Arguments, future: Any) -> Any:
    """What was written for one record; ``None`` instead of what differs from call to call."""
    if isinstance(future, tuple):
        return future
    metadata = future.result(PATIENCE_S)
    record = cluster.records(topic, metadata.partition)[metadata.offset]
    chooses_partition = sent.partition is None and sent.key is None
    return (
        None if chooses_partition else metadata.partition,
        metadata.serialized_key_size,
        metadata.serialized_value_size,
        record.key,
        record.value,
        record.headers,
        sent.timestamp_ms is None or record.timestamp_ms,
        metadata.timestamp_ms == record.timestamp_ms,
    )


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(rows=st.lists(arguments, min_size=1, max_size=12))
def test_both_paths_write_the_same_record_or_raise_the_same_error(pair: Pair, rows: list[Arguments]) -> None:
    pair.open_batches()
    results = [
        (row, future_or_error(pair.send_fast, row), future_or_error(pair.send_general, row)) for row in rows
    ]
    pair.fast.flush(PATIENCE_S)
    pair.general.flush(PATIENCE_S)
    for row, fast, general in results:
        assert described(pair.cluster, FAST, row, fast) == described(pair.cluster, GENERAL, row, general)


def test_the_fast_path_handles_an_ordinary_record(pair: Pair) -> None:
    pair.open_batches()
    before = pair.handled_fast
    for partition in range(PARTITIONS):
        pair.send_fast(Arguments(b"value", "key", lambda: [("name", b"header")], partition, 5))
    pair.send_fast(Arguments(b"value", b"key", lambda: None, None, None))
    assert pair.handled_fast == before + PARTITIONS + 1
    pair.fast.flush(PATIENCE_S)
