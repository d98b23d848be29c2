"""Asking coordinators of groups: one request for each broker, one answer for each group, always."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kproducer_messages import RESPONSES
from kproducer_messages.find_coordinator_response import Coordinator as Found
from kproducer_messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

from kproducer.client.client_request import ClientRequest, ClientResponse
from kproducer.errors import AuthenticationError, DisconnectedError
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.runtime.clock import ExponentialBackoff
from kproducer.transactions.committed_offsets import CommittedOffsets, CoordinatorLookup
from kproducer.transactions.coordinator_link import CoordinatorCache
from kproducer.transactions.coordinator_requests import (
    Coordinator,
    CoordinatorKind,
    FindCoordinator,
    OffsetFetch,
    Result,
)
from kproducer.transactions.transaction_arguments import OffsetAndMetadata
from kproducer.types import Node, TopicPartition

PLACE = TopicPartition("t", 3)
NODES = [Node(number, f"b{number}", 9092) for number in range(3)]
NAMES = [f"g{number}" for number in range(5)]
NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, UNSTABLE = 16, 30, 29, 88


class Groups:
    """A dialogue and the brokers that answer it. ``g2`` has committed nothing."""

    def __init__(self, names: list[str] | None = None, most: int = 9) -> None:
        self.known = CoordinatorCache()
        self.now_ms = 0
        self.newest = most
        backoff = ExponentialBackoff(100, 1000, random.Random(1))
        self.dialogue = CommittedOffsets(NAMES if names is None else names, PLACE, self.known, backoff)
        self.coordinators = {name: NODES[number % 3] for number, name in enumerate(NAMES)}
        self.open: list[tuple[Any, Node | None]] = []
        self.asked: list[str] = []

    def ask(self) -> None:
        """Take the requests that are due; no group is asked about twice at a time."""
        self.open += self.dialogue.next_requests(self.now_ms)
        groups = [name for request, _ in self.open for name in groups_of(request)]
        assert len(groups) == len(set(groups))
        assert not self.dialogue.next_requests(self.now_ms)

    def take(self, which: int = 0) -> tuple[Any, Node | None]:
        request, node = self.open.pop(which % len(self.open))
        self.asked.append(repr(request))
        return request, node

    def answer(self, which: int = 0, codes: dict[str, int] | None = None, of_group: bool = True) -> None:
        """Truly, but for these groups."""
        request, node = self.take(which)
        if request.oldest_version > self.newest and isinstance(request, OffsetFetch):
            error = UnsupportedVersionError("too old")
            self.end(request, error=error)
            return
        version = min(request.latest_version, self.newest) if isinstance(request, OffsetFetch) else 6
        asked = request.build(version)
        asked = type(asked).decode(asked.encode(version), version)[0]
        codes = codes or {}
        if isinstance(request, FindCoordinator):
            body = RESPONSES[10](coordinators=[self.find(request.wanted[0].key, codes)])
        else:
            body = self.fetch(asked, version, node, codes, of_group)
        self.end(request, body=type(body).decode(body.encode(version), version)[0])

    def find(self, name: str, codes: dict[str, int]) -> Found:
        code = codes.get(name, 0)
        if code:
            return Found(key=name, node_id=-1, host="", port=-1, error_code=code)
        node = self.coordinators[name]
        return Found(key=name, node_id=node.id, host=node.host, port=node.port)

    def fetch(
        self, asked: Any, version: int, node: Node | None, codes: dict[str, int], of_group: bool
    ) -> Any:
        assert asked.require_stable
        body = RESPONSES[9]()
        for group in asked.groups or [asked]:
            name = group.group_id
            assert [(t.name, t.partition_indexes) for t in group.topics] == [("t", [3])]
            code = codes.get(name, 0) or (0 if self.coordinators[name] == node else NOT_COORDINATOR)
            is_none = name == "g2" or code
            values: dict[str, Any] = {
                "partition_index": 3,
                "committed_offset": -1 if is_none else int(name[1:]) * 100,
                "metadata": "" if is_none else name,
                "error_code": 0 if of_group else code,
            }
            of_whole = code if of_group else 0
            if version < 8:
                topic = OffsetFetchResponseTopic(
                    name="t", partitions=[OffsetFetchResponsePartition(**values)]
                )
                body.error_code, body.topics = of_whole, [] if of_whole else [topic]
            else:
                topics = [
                    OffsetFetchResponseTopics(name="t", partitions=[OffsetFetchResponsePartitions(**values)])
                ]
                body.groups.append(
                    OffsetFetchResponseGroup(
                        group_id=name, topics=[] if of_whole else topics, error_code=of_whole
                    )
                )
        return body

    def end(self, request: Any, **how: Any) -> None:
        sent = ClientRequest("1", request, 1, True, self.now_ms, 30_000)
        response = ClientResponse(sent, self.now_ms, **how)
        self.dialogue.handle(request, response, self.now_ms)

    def lose(self, which: int = 0) -> None:
        self.end(self.take(which)[0], disconnected=True, error=DisconnectedError("gone"))

    def settle(self) -> None:
        """Let all go well from now on."""
        for _ in range(50):
            self.ask()
            while self.open:
                self.answer()
            if self.dialogue.has_ended:
                return
            self.now_ms += self.dialogue.delay_ms(self.now_ms)
        raise AssertionError(f"no end: {self.dialogue.waits_for}")


def groups_of(request: Any) -> list[str]:
    return [request.wanted[0].key] if isinstance(request, FindCoordinator) else list(request.groups)


def truth(names: list[str]) -> dict[str, OffsetAndMetadata | None]:
    return {name: None if name == "g2" else OffsetAndMetadata(int(name[1:]) * 100, name) for name in names}


@pytest.mark.parametrize("newest", [7, 8, 9])
def test_all_versions_tell_what_was_committed(newest: int) -> None:
    groups = Groups(most=newest)
    groups.settle()
    assert groups.dialogue.positions == truth(NAMES)
    assert groups.dialogue.errors == {}
    assert groups.dialogue.waits_for == ""


def test_each_broker_is_asked_once_for_all_its_groups() -> None:
    groups = Groups()
    groups.settle()
    assert len([text for text in groups.asked if text.startswith("OffsetFetch")]) == 3
    old = Groups(most=7)
    old.settle()
    # g0 and g3, and g1 and g4, have one coordinator: refused once, and asked about alone from then on.
    assert len([text for text in old.asked if text.startswith("OffsetFetch")]) == 2 + 5
    assert not old.dialogue.asks_for_several


def test_a_broker_that_does_not_know_stable_offsets_is_too_old() -> None:
    groups = Groups(["g0", "g3"], most=6)
    groups.ask()
    while groups.open:
        groups.answer()
        groups.ask()
    assert groups.dialogue.has_ended
    assert set(groups.dialogue.errors) == {"g0", "g3"}
    assert "before 2.5" in str(groups.dialogue.errors["g0"])


@pytest.mark.parametrize(
    ("code", "of_group"), [(GROUP_AUTHORIZATION_FAILED, True), (TOPIC_AUTHORIZATION_FAILED, False)]
)
def test_a_refusal_concerns_its_group_alone(code: int, of_group: bool) -> None:
    groups = Groups(["g0", "g3"])
    groups.ask()
    groups.answer()
    groups.answer()
    groups.ask()
    groups.answer(codes={"g3": code}, of_group=of_group)
    assert groups.dialogue.has_ended
    assert groups.dialogue.positions == truth(["g0"])
    assert "g3" in str(groups.dialogue.errors["g3"])


def test_a_group_that_does_not_exist_has_committed_nothing() -> None:
    groups = Groups(["g0"])
    groups.ask()
    groups.answer()
    groups.ask()
    groups.answer(codes={"g0": 69})
    assert groups.dialogue.positions == {"g0": None}


def test_what_is_unstable_is_asked_again_after_a_pause_that_grows() -> None:
    groups = Groups(["g1"])
    groups.ask()
    groups.answer()
    pauses = []
    for _ in range(4):
        groups.ask()
        groups.answer(codes={"g1": UNSTABLE}, of_group=False)
        pauses.append(groups.dialogue.delay_ms(groups.now_ms))
        groups.ask()
        assert not groups.open
        groups.now_ms += pauses[-1]
    assert pauses == [10, 20, 40, 80]
    assert "UNSTABLE_OFFSET_COMMIT" in groups.dialogue.waits_for
    assert "g1" in groups.dialogue.waits_for
    assert str(NODES[1]) in groups.dialogue.waits_for
    groups.settle()
    # The coordinator is the same: it was not looked up again.
    assert len([text for text in groups.asked if text.startswith("FindCoordinator")]) == 1


def test_wrong_credentials_are_not_tried_again() -> None:
    groups = Groups(["g0"])
    groups.ask()
    error = AuthenticationError("no")
    groups.end(groups.take()[0], disconnected=True, error=error)
    assert groups.dialogue.errors == {"g0": error}


_ENDINGS = st.tuples(
    st.sampled_from(["answer", "lost", "unreachable", "code", "moves", "time"]),
    st.integers(0, 5),
    st.sampled_from([14, 15, 16, 88, 7]),
    st.sampled_from(NAMES),
    st.booleans(),
)


@settings(deadline=None)
@given(st.lists(_ENDINGS, max_size=40), st.sampled_from([7, 9]))
def test_whatever_happens_each_group_gets_its_answer(endings: list[Any], newest: int) -> None:
    groups = Groups(most=newest)
    for ending, which, code, name, of_group in endings:
        groups.ask()
        if ending == "time":
            groups.now_ms += 300
        elif ending == "moves":
            groups.coordinators[name] = NODES[which % 3]
        elif not groups.open:
            continue
        elif ending == "answer":
            groups.answer(which)
        elif ending == "lost":
            groups.lose(which)
        elif ending == "unreachable":
            groups.dialogue.unreachable(groups.take(which)[0], groups.now_ms)
        else:
            groups.answer(which, dict.fromkeys(NAMES, code), of_group)
    groups.settle()
    assert groups.dialogue.positions == truth(NAMES)
    assert groups.dialogue.errors == {}


# -- what an answer may look like ------------------------------------------------------------------------


@pytest.mark.parametrize("version", [7, 8, 9])
def test_what_an_answer_leaves_out_is_an_error_and_not_nothing(version: int) -> None:
    request = OffsetFetch(["g"], PLACE)
    for body in (RESPONSES[9](), RESPONSES[9](groups=[OffsetFetchResponseGroup(group_id="other")])):
        if version >= 8 or not body.groups:
            assert request.parse(type(body).decode(body.encode(version), version)[0])["g"][0] == -1


def test_metadata_may_be_null() -> None:
    partition = OffsetFetchResponsePartitions(partition_index=3, committed_offset=4, metadata=None)
    topic = OffsetFetchResponseTopics(name="t", partitions=[partition])
    body = RESPONSES[9](groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])
    assert OffsetFetch(["g"], PLACE).parse(body)["g"] == Result(0, OffsetAndMetadata(4))


# -- looking up many -------------------------------------------------------------------------------------


def test_coordinators_of_many_are_looked_up_two_hundred_at_a_time() -> None:
    known = CoordinatorCache()
    names = [f"id-{number}" for number in range(450)]
    wanted = [Coordinator(CoordinatorKind.TRANSACTION, name) for name in names]
    lookup = CoordinatorLookup(wanted, known)
    requests = [request for request, node in lookup.next_requests(0)]
    assert lookup.next_requests(0) == []
    sizes = []
    for request in requests:
        assert isinstance(request, FindCoordinator)
        asked = request.build(4)
        sizes.append(len(asked.coordinator_keys))
        found = [Found(key=key, node_id=1, host="b1", port=9092) for key in asked.coordinator_keys]
        # One is not available, one is another's: both have to be looked up alone.
        found[0].error_code = 15
        found[1].key = "not asked for"
        body = RESPONSES[10](coordinators=found)
        sent = ClientRequest("1", request, 1, True, 0, 30_000)
        lookup.handle(request, ClientResponse(sent, 0, body=body), 0)
    assert sizes == [200, 200, 50]
    assert lookup.has_ended
    missing = [name for name in names if Coordinator(CoordinatorKind.TRANSACTION, name) not in known]
    assert missing == [f"id-{number}" for number in (0, 1, 200, 201, 400, 401)]


def test_a_look_up_that_is_lost_is_given_up() -> None:
    wanted = [Coordinator(CoordinatorKind.GROUP, name) for name in ("a", "b")]
    lookup = CoordinatorLookup(wanted, CoordinatorCache())
    (addressed,) = lookup.next_requests(0)
    assert "'a' and 1 others" in repr(addressed.request)
    lookup.unreachable(addressed.request, 0)
    assert lookup.has_ended
