"""The frame of a Produce request: the bytes of the generated message, without a copy of the records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kproducer_messages import ProduceRequest
from kproducer_messages.produce_request import PartitionProduceData, TopicProduceData

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.send_builder import build_request
from kproducer._core.sender.produce_requests import ProduceRequestBuilder
from kproducer.errors import LocalProtocolError
from kproducer.types import TopicPartition

VERSIONS = range(ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION + 1)
TOPIC_ID = UUID(int=7)


class Batch:
    """What the builder needs of a batch."""

    def __init__(self, topic: str, partition: int, records: Any) -> None:
        self.topic_partition = TopicPartition(topic, partition)
        self._records = memoryview(records)

    def records(self) -> memoryview:
        return self._records


def builder_of(*batches: Batch, **options: Any) -> ProduceRequestBuilder:
    topic_ids = {batch.topic_partition.topic: TOPIC_ID for batch in batches}
    config: Any = SimpleNamespace(
        acks=options.get("acks", -1),
        request_timeout_ms=options.get("timeout_ms", 1000),
        compression_type="none",
    )
    transactions: Any = SimpleNamespace(transactional_id=options.get("transactional_id"), uses_version_2=True)
    topic_ids = options.get("topic_ids", topic_ids)
    return ProduceRequestBuilder(batches, topic_ids, config, transactions)  # type: ignore[arg-type]


LENGTHS = st.one_of(
    st.integers(1, 200), st.sampled_from([126, 127, 128, 16382, 16383, 16384, 2097150, 2097151])
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=130)
PARTITIONS = st.dictionaries(st.integers(0, 2**31 - 1), LENGTHS, min_size=1, max_size=4)


@given(
    st.sampled_from(VERSIONS),
    st.dictionaries(NAMES, PARTITIONS, min_size=1, max_size=3),
    st.fixed_dictionaries(
        {
            "transactional_id": st.none() | NAMES,
            "acks": st.sampled_from([-1, 0, 1]),
            "timeout_ms": st.integers(0, 2**31 - 1),
        }
    ),
    st.none() | NAMES,
    st.integers(0, 2**31 - 1),
    st.randoms(use_true_random=False),
)
def test_the_frame_is_that_of_the_generated_message(
    version: int,
    lengths: dict[str, dict[int, int]],
    fields: dict[str, Any],
    client_id: str | None,
    correlation_id: int,
    random: Any,
) -> None:
    batches = [
        Batch(topic, index, random.randbytes(8).ljust(length, b".")[:length])
        for topic, of_topic in lengths.items()
        for index, length in of_topic.items()
    ]
    random.shuffle(batches)  # also with the batches of several topics mixed
    topic_ids = {topic: UUID(int=random.getrandbits(128)) for topic in lengths}
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        name, index = batch.topic_partition
        topic = topics.setdefault(name, TopicProduceData(name=name, topic_id=topic_ids[name]))
        topic.partition_data.append(PartitionProduceData(index=index, records=batch.records()))
    message = ProduceRequest(topic_data=list(topics.values()), **fields)
    expected = build_request(ApiKey.PRODUCE, version, correlation_id, client_id, message)
    frame = builder_of(*batches, topic_ids=topic_ids, **fields).build_frame(
        version, correlation_id, client_id
    )
    assert b"".join(frame) == b"".join(expected)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [126, 127, 128, 200])
def test_many_topics_and_many_partitions(version: int, count: int) -> None:
    for topics, partitions in ((1, count), (count, 1)):
        batches = [Batch(f"t{t}", p, b"records") for t in range(topics) for p in range(partitions)]
        data = [
            TopicProduceData(
                name=f"t{t}",
                topic_id=TOPIC_ID,
                partition_data=[PartitionProduceData(index=p, records=b"records") for p in range(partitions)],
            )
            for t in range(topics)
        ]
        message = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data)
        expected = build_request(ApiKey.PRODUCE, version, 1, "c", message)
        assert b"".join(builder_of(*batches).build_frame(version, 1, "c")) == b"".join(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_record_buffers_are_the_very_ones_that_were_passed(version: int) -> None:
    pooled = bytearray(b"before" + bytes(1000))
    batches = [Batch("t", 0, memoryview(pooled)[:6]), Batch("t", 1, memoryview(pooled)[6:])]
    views = builder_of(*batches).build_frame(version, 1, "c")
    assert [view.nbytes for view in views if view.obj is pooled] == [6, 1000]
    assert sum(view.nbytes for view in views if view.obj is not pooled) < 80
    pooled[:6] = b"after!"
    assert b"after!" in b"".join(views)


def test_a_frame_that_is_too_large_is_refused() -> None:
    class Huge(Batch):
        def records(self) -> Any:
            class View(bytes):
                def __len__(self) -> int:
                    return 2**31 - 1

            return View()

    with pytest.raises(LocalProtocolError, match=r"Produce v9 takes 2147483\d+ bytes; a frame ends at"):
        builder_of(Huge("t", 0, b"")).build_frame(9, 1, "c")


@pytest.mark.parametrize("version", [8, 9])
def test_a_topic_name_that_cannot_be_encoded_is_our_own_error(version: int) -> None:
    with pytest.raises(LocalProtocolError, match=r"topic_data\[0\].name"):
        builder_of(Batch("\udc80", 0, b"records")).build_frame(version, 1, "c")
