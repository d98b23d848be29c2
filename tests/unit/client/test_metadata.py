"""Metadata: what responses add up to. Stale answers never win; trouble is seen and asked about again."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kproducer_messages import MetadataResponse

from kproducer._core.client.metadata import Metadata
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.config.producer_config import ProducerConfig
from kproducer.errors import AuthenticationError
from kproducer.errors.broker_errors import (
    InvalidTopicError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from kproducer.types import Node, TopicPartition
from tests.support.units.metadata_messages import partition, response, topic, topic_id

TP0, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEADER_NOT_AVAILABLE = 5


def make() -> Metadata:
    return Metadata(ProducerConfig(bootstrap_servers="host:1"), random=random.Random(1))


def feed(
    metadata: Metadata,
    message: MetadataResponse,
    now_ms: int = 0,
    *,
    partial: bool = False,
    version: int = 12,
) -> MetadataSnapshot:
    for each in message.topics:
        if each.name is not None:
            metadata.add(each.name, now_ms)
    request = metadata.new_metadata_request_and_version(now_ms)
    metadata.update(request._replace(is_partial=partial), message, now_ms, api_version=version)
    return metadata.snapshot


def leaders(snapshot: MetadataSnapshot, name: str = "t") -> list[tuple[int, int]]:
    return [(p.leader_id, p.leader_epoch) for p in snapshot.topics[name].partitions]


# -- snapshots ---------------------------------------------------------------------------------------------


def test_response_becomes_a_snapshot() -> None:
    metadata = make()
    snapshot = feed(metadata, response({"t": [(1, 5), (2, 6)]}, ids={"t": 9}))
    assert snapshot.cluster_id == "cluster"
    assert snapshot.partition_count("t") == 2
    assert snapshot.partition_count("other") is None
    assert snapshot.leader_for(TP1) == Node(2, "host2", 9092)
    assert snapshot.topics["t"].partitions[1].leader_epoch == 6
    assert snapshot.topics["t"].available == (0, 1)
    assert snapshot.topic_ids == {"t": topic_id(9)}
    assert snapshot.topics["t"].partitions[0][3:6] == ((1, 2), (1,), (2,))
    assert snapshot.leader_for(TopicPartition("t", 2)) is None
    assert snapshot.leader_for(TopicPartition("t", -1)) is None


def test_leader_outside_the_broker_list_means_leaderless() -> None:
    metadata = make()
    snapshot = feed(metadata, response({"t": [(1, 5), (7, 6)]}))
    assert snapshot.leader_for(TP1) is None
    assert snapshot.topics["t"].available == (0,)


def test_partitions_in_any_order_with_gaps_and_absurd_numbers() -> None:
    metadata = make()
    message = response({"t": []})
    message.topics[0].partitions = [partition(i, (1, 1)) for i in (3, 0, 2**31 - 1, -5)]
    snapshot = feed(metadata, message)
    assert leaders(snapshot) == [(1, 1), (-1, -1), (-1, -1), (1, 1)]
    assert snapshot.topics["t"].available == (0, 3)


def test_bootstrap_and_rebootstrap() -> None:
    metadata = make()
    metadata.bootstrap([("a", 1), ("b", 2)])
    assert metadata.snapshot.nodes == {-1: Node(-1, "a", 1), -2: Node(-2, "b", 2)}
    assert metadata.snapshot.is_bootstrap
    feed(metadata, response({"t": [(1, 5)]}))
    assert not metadata.snapshot.is_bootstrap
    version = metadata.update_version
    metadata.rebootstrap()
    assert set(metadata.snapshot.nodes) == {-1, -2}
    assert metadata.update_requested
    assert metadata.update_version > version
    # Epochs are remembered: a broker that is behind does not win after a rebootstrap.
    assert leaders(feed(metadata, response({"t": [(2, 4)]}))) == [(-1, -1)]


def test_full_update_forgets_what_it_does_not_mention_and_partial_keeps_it() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 1)], "u": [(2, 1)]}))
    snapshot = feed(metadata, response({"v": [(1, 1)]}, ids={"v": 3}), partial=True)
    assert set(snapshot.topics) == {"t", "u", "v"}
    assert snapshot.topic_ids == {"v": topic_id(3)}
    snapshot = feed(metadata, response({"u": [(1, 1)]}))
    assert set(snapshot.topics) == {"u"}


def test_partial_update_with_other_brokers_changes_what_is_available_elsewhere() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 1), (2, 1)]}))
    snapshot = feed(metadata, response({"v": [(1, 1)]}, nodes=[1]), partial=True)
    assert snapshot.topics["t"].available == (0,)
    assert snapshot.leader_for(TP1) is None


def test_topic_id_is_dropped_when_a_broker_does_not_tell() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 1)], "u": [(1, 1)]}, ids={"t": 1, "u": 2}))
    snapshot = feed(metadata, response({"t": [(1, 1)]}), partial=True)
    assert snapshot.topic_ids == {"u": topic_id(2)}


def test_readers_see_whole_snapshots_during_updates() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 0), (1, 0)]}))
    stop = threading.Event()
    torn: list[MetadataSnapshot] = []

    def read() -> None:
        while not stop.is_set():
            snapshot = metadata.snapshot
            first, second = snapshot.topics["t"].partitions
            if first.leader_epoch != second.leader_epoch or set(snapshot.topics["t"].available) != {0, 1}:
                torn.append(snapshot)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for epoch in range(1, 300):
        feed(metadata, response({"t": [(1, epoch), (1, epoch)]}), partial=bool(epoch % 2))
    stop.set()
    for thread in threads:
        thread.join(30)
    assert torn == []


# -- leader epochs and topic ids ---------------------------------------------------------------------------


def test_older_epoch_never_replaces_a_newer_one() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 10), (1, 10)]}))
    snapshot = feed(metadata, response({"t": [(2, 9), (2, 11)]}))
    assert leaders(snapshot) == [(1, 10), (2, 11)]
    assert feed(metadata, response({"t": [(2, 10), (2, 11)]})).leader_for(TP0) == Node(2, "host2", 9092)


def test_missing_epoch_is_no_rewind() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 10)]}))
    assert leaders(feed(metadata, response({"t": [(-1, -1, LEADER_NOT_AVAILABLE)]}))) == [(-1, -1)]
    # A broker that is behind must still not win.
    assert leaders(feed(metadata, response({"t": [(2, 9)]}))) == [(-1, -1)]
    assert leaders(feed(metadata, response({"t": [(2, 11)]}))) == [(2, 11)]


def test_epochs_of_old_brokers_are_not_believed() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 10)]}))
    assert leaders(feed(metadata, response({"t": [(2, 3)]}), version=8)) == [(2, -1)]
    assert leaders(feed(metadata, response({"t": [(1, 2)]}), version=9)) == [(1, 2)]


def test_topic_made_anew_is_accepted_with_lower_epochs() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 10)]}, ids={"t": 1}))
    feed(metadata, response(errors={"t": 3}))
    assert leaders(feed(metadata, response({"t": [(2, 0)]}, ids={"t": 2}))) == [(2, 0)]
    # Same id: the usual rule.
    assert leaders(feed(metadata, response({"t": [(1, 1)]}, ids={"t": 2}))) == [(1, 1)]
    assert leaders(feed(metadata, response({"t": [(2, 0)]}, ids={"t": 2}))) == [(1, 1)]


def test_leaders_named_by_produce_responses() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 5), (1, 5), (1, 5), (1, 5)], "u": [(1, 1)]}))
    before = metadata.snapshot
    assert metadata.update_partition_leadership(
        {
            TP0: (3, 6),
            TP1: (2, 5),
            TopicPartition("t", 2): (9, 6),
            TopicPartition("t", 3): (-1, -1),
            TopicPartition("x", 0): (2, 7),
        },
        [Node(3, "new", 1), Node(1, "moved", 2)],
    )
    snapshot = metadata.snapshot
    pairs = zip(snapshot.topics["t"].partitions, before.topics["t"].partitions, strict=True)
    changed = [new for new, old in pairs if new != old]
    assert [partition.partition for partition in changed] == [0]
    assert snapshot.leader_for(TP0) == Node(3, "new", 1)
    assert snapshot.leader_for(TP1) == Node(1, "moved", 2)
    assert snapshot.nodes[2] == Node(2, "host2", 9092)
    assert snapshot.topics["t"].available == (0, 1, 2, 3)
    # An answer that is behind this hint loses.
    assert leaders(feed(metadata, response({"t": [(1, 5)]}, nodes=[1, 2, 3])))[0] == (3, 6)


# -- timers ------------------------------------------------------------------------------------------------


def test_first_request_is_due_at_once_then_after_max_age() -> None:
    metadata = make()
    metadata.bootstrap([("a", 1)])
    assert metadata.time_to_next_update(0) == 0
    feed(metadata, response({"t": [(1, 1)]}), 50)
    assert not metadata.update_requested
    assert metadata.time_to_next_update(50) == 300_000
    assert metadata.time_to_next_update(300_049) == 1
    assert metadata.time_to_next_update(300_050) == 0


def test_requests_wait_for_the_backoff_and_the_wait_does_not_flutter() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 1)]}), 1000)
    metadata.request_update("test")
    wait = metadata.time_to_next_update(1000)
    assert 80 <= wait <= 120
    assert [metadata.time_to_next_update(1000 + passed) for passed in (10, wait - 1, wait)] == [
        wait - 10,
        1,
        0,
    ]


def test_failures_back_off_exponentially_to_the_cap() -> None:
    metadata = make()
    metadata.bootstrap([("a", 1)])
    now = 0
    for expected in (100, 200, 400, 800, 1000, 1000):
        metadata.failed_update(now, AuthenticationError("no"))
        wait = metadata.time_to_next_update(now)
        assert expected * 0.8 - 1 <= wait <= min(expected * 1.2, 1000)
        now += wait
    assert isinstance(metadata.last_failure, AuthenticationError)
    feed(metadata, response({"t": [(1, 1)]}), now)
    metadata.request_update("test")
    assert metadata.time_to_next_update(now) <= 120
    assert metadata.last_failure is None


def test_answers_without_news_back_off_and_news_end_that() -> None:
    metadata = make()
    now, waits = 0, []
    for _ in range(6):
        feed(metadata, response({"t": [(1, 1)]}), now)
        for _ in range(50):
            metadata.request_update("a burst")
        waits.append(metadata.time_to_next_update(now))
        now += waits[-1]
    assert waits[0] <= 120
    assert waits[1] <= 120
    assert waits[-1] >= 800
    assert waits[1:] == sorted(waits[1:])
    feed(metadata, response({"t": [(2, 2)]}), now)
    metadata.request_update("test")
    assert metadata.time_to_next_update(now) <= 120


def test_periodic_refresh_is_not_slowed_by_equal_answers() -> None:
    metadata = make()
    now = 0
    for _ in range(5):
        feed(metadata, response({"t": [(1, 1)]}), now)
        assert metadata.time_to_next_update(now) == 300_000
        now += 300_000
        assert metadata.time_to_next_update(now) == 0


def test_new_demand_resets_the_backoff_for_equal_answers() -> None:
    metadata = make()
    for now in range(0, 6000, 1000):
        feed(metadata, response({"t": [(1, 1)]}), now)
    metadata.add("new", 5000)
    assert metadata.time_to_next_update(5000) == 0


def test_partition_in_trouble_is_asked_about_again_after_a_backoff() -> None:
    metadata = make()
    feed(metadata, response({"t": [(-1, -1, LEADER_NOT_AVAILABLE)]}), 1000)
    assert metadata.update_requested
    assert 80 <= metadata.time_to_next_update(1000) <= 120
    feed(metadata, response({"t": [(1, 1)]}), 1200)
    assert not metadata.update_requested


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["request", "add", "full", "partial", "late", "fail", "boot"]),
            st.integers(0, 400_000),
        )
    )
)
def test_until_it_is_not_fresh_no_update_is_due(steps: list[tuple[str, int]]) -> None:
    metadata = make()
    now = 0
    old = metadata.new_metadata_request_and_version(now)
    for number, (step, passed) in enumerate(steps):
        now += passed
        if step == "request":
            metadata.request_update("test")
        elif step == "add":
            metadata.add(f"t{number}", now)
        elif step == "fail":
            metadata.failed_update(now)
        elif step == "boot":
            metadata.bootstrap([("a", 1)])
        elif step == "late":
            # What was requested since then is not in it.
            metadata.update(old, response({"t": [(-1 if passed % 2 else 1, 1)]}), now)
        else:
            feed(metadata, response({"t": [(1, 1)]}), now, partial=step == "partial")
            old = metadata.new_metadata_request_and_version(now)
        if metadata.update_requested or metadata.last_successful_update_ms is None:
            assert metadata.fresh_until_ms == 0
        else:
            assert metadata.fresh_until_ms == metadata.last_successful_update_ms + 300_000
        assert now >= metadata.fresh_until_ms or metadata.time_to_next_update(now) > 0


# -- errors and closing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "kind"), [(29, TopicAuthorizationFailedError), (17, InvalidTopicError)])
def test_topic_error_concerns_that_topic_only_until_it_is_mended(code: int, kind: type[Exception]) -> None:
    metadata = make()
    feed(metadata, response({"good": [(1, 1)]}, errors={"bad": code}))
    assert not metadata.update_requested
    assert isinstance(metadata.topic_error("bad"), kind)
    metadata.maybe_throw_topic_error("good")
    for _ in range(2):
        with pytest.raises(kind, match="bad"):
            metadata.maybe_throw_topic_error("bad")
        feed(metadata, response({"other": [(1, 1)]}), partial=True)
    feed(metadata, response({"bad": [(1, 1)]}), partial=True)
    metadata.maybe_throw_topic_error("bad")


def test_unknown_topic_is_asked_for_again_but_is_not_fatal() -> None:
    metadata = make()
    feed(metadata, response({"t": [(1, 1)]}))
    snapshot = feed(metadata, response(errors={"t": 3}))
    assert snapshot.partition_count("t") is None
    assert metadata.update_requested
    metadata.maybe_throw_topic_error("t")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(metadata.topic_error("t"))


def test_fatal_error_is_raised_once_and_cleared_by_success() -> None:
    metadata = make()
    metadata.fatal_error(AuthenticationError("bad password"))
    with pytest.raises(AuthenticationError, match="bad password"):
        metadata.maybe_throw_topic_error("t")
    metadata.maybe_throw_fatal_error()
    metadata.fatal_error(AuthenticationError("bad password"))
    feed(metadata, response({"t": [(1, 1)]}))
    metadata.maybe_throw_fatal_error()


def test_a_refusal_is_forgotten_once_a_broker_accepts_this_client() -> None:
    metadata = make()
    metadata.fatal_error(AuthenticationError("bad password"))
    metadata.forget_refusal()
    metadata.maybe_throw_fatal_error()
    assert metadata.last_failure is None
    metadata.fatal_error(UnsupportedVersionError("too old"))
    metadata.forget_refusal()
    with pytest.raises(UnsupportedVersionError):
        metadata.maybe_throw_fatal_error()


def test_nothing_changes_after_close() -> None:
    metadata = make()
    before = feed(metadata, response({"t": [(1, 1)]}))
    metadata.close()
    metadata.close()
    assert feed(metadata, response({"t": [(2, 2)]})) is before
    assert metadata.update_partition_leadership({TP0: (2, 5)}, []) is False
    assert metadata.snapshot is before


def test_topics_without_a_name_are_skipped() -> None:
    message = response({"t": [(1, 1)]})
    message.topics.append(topic(None, [(1, 1)], 4))  # type: ignore[arg-type]
    assert set(feed(make(), message).topics) == {"t"}
