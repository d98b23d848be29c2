"""Asking coordinators of groups: one answer for each group, always."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kproducer_messages import RESPONSES
from kproducer_messages.find_coordinator_response import Coordinator as Found
from kproducer_messages.offset_fetch_response import OffsetFetchResponsePartition, OffsetFetchResponseTopic

from kproducer._core.client.client_request import ClientRequest, ClientResponse
from kproducer._core.runtime.clock import ExponentialBackoff
from kproducer._core.transactions.coordinator_link import CoordinatorCache
from kproducer._core.transactions.coordinator_requests import FindCoordinator, OffsetFetch, Result
from kproducer._core.transactions.coordinator_session import CommittedOffset
from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata
from kproducer.errors import AuthenticationError, DisconnectedError, KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.types import Node, TopicPartition

PLACE = TopicPartition("t", 3)
NODES = [Node(number, f"b{number}", 9092) for number in range(3)]
NAMES = [f"g{number}" for number in range(5)]
NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, UNSTABLE = 16, 30, 29, 88


class Groups:
    """Tasks that share what they know, and the brokers that answer them. ``g2`` has committed nothing."""

    def __init__(self, names: list[str] | None = None, newest: int = 7) -> None:
        known = CoordinatorCache()
        self.now_ms = 0
        self.newest = newest
        backoff = ExponentialBackoff(100, 1000, random.Random(1))
        names = NAMES if names is None else names
        self.tasks = {name: CommittedOffset(OffsetFetch(name, PLACE), known, backoff) for name in names}
        self.coordinators = {name: NODES[number % 3] for number, name in enumerate(NAMES)}
        self.open: list[tuple[Any, Node | None]] = []
        self.asked: list[str] = []

    @property
    def positions(self) -> dict[str, OffsetAndMetadata | None]:
        return {name: task.position for name, task in self.tasks.items() if task.has_ended and not task.error}

    @property
    def errors(self) -> dict[str, KafkaError]:
        return {name: task.error for name, task in self.tasks.items() if task.error}

    @property
    def have_ended(self) -> bool:
        return all(task.has_ended for task in self.tasks.values())

    def delay_ms(self) -> int:
        return min(task.delay_ms(self.now_ms) for task in self.tasks.values() if not task.has_ended)

    def ask(self) -> None:
        """Take the requests that are due; no group is asked about twice at a time."""
        for task in self.tasks.values():
            request = task.next_request(self.now_ms)
            self.open += [] if request is None else [request]
            assert not task.next_request(self.now_ms)
        groups = [name_of(request) for request, _ in self.open]
        assert len(groups) == len(set(groups))

    def take(self, which: int = 0) -> tuple[Any, Node | None]:
        request, node = self.open.pop(which % len(self.open))
        self.asked.append(repr(request))
        return request, node

    def answer(self, which: int = 0, codes: dict[str, int] | None = None, of_group: bool = True) -> None:
        """Truly, but for these groups."""
        request, node = self.take(which)
        if request.oldest_version > self.newest and isinstance(request, OffsetFetch):
            self.end(request, error=UnsupportedVersionError("too old"))
            return
        version = request.latest_version
        asked = request.build(version)
        asked = type(asked).decode(asked.encode(version), version)[0]
        codes = codes or {}
        if isinstance(request, FindCoordinator):
            body = RESPONSES[10](coordinators=[self.find(request.wanted.key, codes)])
        else:
            body = self.fetch(asked, node, codes, of_group)
        self.end(request, body=type(body).decode(body.encode(version), version)[0])

    def find(self, name: str, codes: dict[str, int]) -> Found:
        code = codes.get(name, 0)
        if code:
            return Found(key=name, node_id=-1, host="", port=-1, error_code=code)
        node = self.coordinators[name]
        return Found(key=name, node_id=node.id, host=node.host, port=node.port)

    def fetch(self, asked: Any, node: Node | None, codes: dict[str, int], of_group: bool) -> Any:
        assert asked.require_stable
        name = asked.group_id
        assert [(t.name, t.partition_indexes) for t in asked.topics] == [("t", [3])]
        code = codes.get(name, 0) or (0 if self.coordinators[name] == node else NOT_COORDINATOR)
        if code and of_group:
            return RESPONSES[9](error_code=code)
        is_none = name == "g2" or code
        partition = OffsetFetchResponsePartition(
            partition_index=3,
            committed_offset=-1 if is_none else int(name[1:]) * 100,
            metadata="" if is_none else name,
            error_code=code,
        )
        return RESPONSES[9](topics=[OffsetFetchResponseTopic(name="t", partitions=[partition])])

    def end(self, request: Any, **how: Any) -> None:
        sent = ClientRequest("1", request, 1, True, self.now_ms, 30_000)
        response = ClientResponse(sent, self.now_ms, **how)
        self.tasks[name_of(request)].handle(request, response, self.now_ms)

    def lose(self, which: int = 0) -> None:
        self.end(self.take(which)[0], disconnected=True, error=DisconnectedError("gone"))

    def settle(self) -> None:
        """Let all go well from now on."""
        for _ in range(50):
            self.ask()
            while self.open:
                self.answer()
            if self.have_ended:
                return
            self.ask()
            self.now_ms += 0 if self.open else self.delay_ms()
        raise AssertionError(f"no end: {[task.waits_for for task in self.tasks.values()]}")


def name_of(request: Any) -> str:
    name: str = request.wanted.key if isinstance(request, FindCoordinator) else request.group
    return name


def truth(names: list[str]) -> dict[str, OffsetAndMetadata | None]:
    return {name: None if name == "g2" else OffsetAndMetadata(int(name[1:]) * 100, name) for name in names}


def test_what_was_committed_is_found() -> None:
    groups = Groups()
    groups.settle()
    assert groups.positions == truth(NAMES)
    assert groups.errors == {}


def test_a_broker_that_does_not_know_stable_offsets_is_too_old() -> None:
    groups = Groups(["g0", "g3"], newest=6)
    groups.ask()
    while groups.open:
        groups.answer()
        groups.ask()
    assert groups.have_ended
    assert set(groups.errors) == {"g0", "g3"}
    assert "before 2.5" in str(groups.errors["g0"])


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
    groups.answer(codes={"g3": code}, of_group=of_group)
    assert groups.have_ended
    assert groups.positions == truth(["g0"])
    assert "g3" in str(groups.errors["g3"])


def test_a_group_that_does_not_exist_has_committed_nothing() -> None:
    groups = Groups(["g0"])
    groups.ask()
    groups.answer()
    groups.ask()
    groups.answer(codes={"g0": 69})
    assert groups.positions == {"g0": None}


def test_what_is_unstable_is_asked_again_after_a_pause_that_grows() -> None:
    groups = Groups(["g1"])
    groups.ask()
    groups.answer()
    pauses = []
    for _ in range(4):
        groups.ask()
        groups.answer(codes={"g1": UNSTABLE}, of_group=False)
        groups.ask()
        assert not groups.open
        pauses.append(groups.delay_ms())
        groups.now_ms += pauses[-1]
    assert pauses == [10, 20, 40, 80]
    assert "UNSTABLE_OFFSET_COMMIT" in groups.tasks["g1"].waits_for
    assert "g1" in groups.tasks["g1"].waits_for
    assert str(NODES[1]) in groups.tasks["g1"].waits_for
    groups.settle()
    # The coordinator is the same: it was not looked up again.
    assert len([text for text in groups.asked if text.startswith("FindCoordinator")]) == 1


def test_wrong_credentials_are_not_tried_again() -> None:
    groups = Groups(["g0"])
    groups.ask()
    error = AuthenticationError("no")
    groups.end(groups.take()[0], disconnected=True, error=error)
    assert groups.errors == {"g0": error}


_ENDINGS = st.tuples(
    st.sampled_from(["answer", "lost", "unreachable", "code", "moves", "time"]),
    st.integers(0, 5),
    st.sampled_from([14, 15, 16, 88, 7]),
    st.sampled_from(NAMES),
    st.booleans(),
)


@settings(deadline=None)
@given(st.lists(_ENDINGS, max_size=40))
def test_whatever_happens_each_group_gets_its_answer(endings: list[Any]) -> None:
    groups = Groups()
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
            request, _ = groups.take(which)
            groups.tasks[name_of(request)].unreachable(request, groups.now_ms)
        else:
            groups.answer(which, dict.fromkeys(NAMES, code), of_group)
    groups.settle()
    assert groups.positions == truth(NAMES)
    assert groups.errors == {}


# -- what an answer may look like ------------------------------------------------------------------------


def test_what_an_answer_leaves_out_is_an_error_and_not_nothing() -> None:
    for body in (RESPONSES[9](), RESPONSES[9](topics=[OffsetFetchResponseTopic(name="other")])):
        assert OffsetFetch("g", PLACE).parse(body)["g"][0] == -1


def test_metadata_may_be_null() -> None:
    partition = OffsetFetchResponsePartition(partition_index=3, committed_offset=4, metadata=None)
    body = RESPONSES[9](topics=[OffsetFetchResponseTopic(name="t", partitions=[partition])])
    assert OffsetFetch("g", PLACE).parse(body)["g"] == Result(0, OffsetAndMetadata(4))


def test_a_look_up_that_is_answered_for_another_group_is_repeated() -> None:
    groups = Groups(["g0"])
    groups.ask()
    other = Found(key="g1", node_id=1, host="b1", port=9092)
    groups.end(groups.take()[0], body=RESPONSES[10](coordinators=[other]))
    assert "names no coordinator" in groups.tasks["g0"].waits_for
    groups.settle()
    assert groups.positions == truth(["g0"])


def test_a_question_for_which_there_was_no_time_says_what_it_would_have_asked() -> None:
    assert "the coordinator of group 'g1'" in Groups(["g1"]).tasks["g1"].waits_for
