"""Errors of a session without the required permissions, on a broker with ACLs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kproducer import (
    AuthorizationError,
    OffsetAndMetadata,
    PreparedTransaction,
    ProducerConfig,
    TopicPartition,
)
from kproducer._core.transactions.coordinator_session import CoordinatorSession
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

PATIENCE_S = 60
ALLOWED, FORBIDDEN = TopicPartition("allowed", 0), TopicPartition("forbidden", 0)
MARK = OffsetAndMetadata(1)
EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A broker with ACLs: no access to "forbidden" resources, only Describe on "described" ones."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with start_or_skip(NEWEST_VERSION, 1, properties) as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, "allowed", 1)
        create_topic(servers, "forbidden", 1)
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        rules = [binding(kind, "forbidden", "User:other", AclOperation.ALL) for kind in kinds]
        rules += [binding(kind, "described", "User:ANONYMOUS", AclOperation.DESCRIBE) for kind in kinds[1:]]
        for made in admin.create_acls(rules).values():
            made.result(PATIENCE_S)
        # The ACLs are stored by then, but the broker may still use older ones.
        wait_until(lambda: len(admin.describe_acls(EVERY_RULE).result(PATIENCE_S)) == len(rules))
        yield servers


def binding(kind: ResourceType, name: str, user: str, operation: AclOperation) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, user, "*", operation, AclPermissionType.ALLOW)


@pytest.fixture
def session(guarded: str) -> Iterator[CoordinatorSession]:
    with contextlib.closing(CoordinatorSession(ProducerConfig(bootstrap_servers=guarded))) as made:
        made.fence(["mine"], PATIENCE_S)
        yield made


def prepared(transactional_id: str) -> PreparedTransaction:
    return PreparedTransaction(transactional_id, 1, 1, 2)


def end(session: Any, transactional_id: str) -> None:
    (error,) = session.end([prepared(transactional_id)], True, PATIENCE_S)
    assert error is not None
    raise error


_REFUSED: dict[str, tuple[Callable[[Any], object], list[str]]] = {
    "fence": (
        lambda session: session.fence(["forbidden"], PATIENCE_S),
        ["transactional id 'forbidden'", "Write and Describe on the transactional id"],
    ),
    "fence with Describe only": (
        lambda session: session.fence(["described"], PATIENCE_S),
        ["transactional id 'described'", "Write and Describe on the transactional id"],
    ),
    "end": (
        lambda session: end(session, "forbidden"),
        ["transactional id 'forbidden'", "Write and Describe"],
    ),
    "end with Describe only": (
        lambda session: end(session, "described"),
        ["transactional id 'described'", "Write and Describe"],
    ),
    "write for a group": (
        lambda session: session.write_offsets("mine", "forbidden", {ALLOWED: MARK}, PATIENCE_S),
        ["group 'forbidden'", "Read on the group"],
    ),
    "write for a group with Describe only": (
        lambda session: session.write_offsets("mine", "described", {ALLOWED: MARK}, PATIENCE_S),
        ["group 'described'", "Read on the group"],
    ),
    "write offsets of a topic": (
        lambda session: session.write_offsets("mine", "mine", {FORBIDDEN: MARK}, PATIENCE_S),
        ["forbidden-0", "Read on the topic"],
    ),
    "read offsets of a group": (
        lambda session: session.committed_offsets(["mine", "forbidden"], ALLOWED, PATIENCE_S),
        ["group 'forbidden'", "Describe on the group"],
    ),
    "read offsets of a topic": (
        lambda session: session.committed_offsets(["mine"], FORBIDDEN, PATIENCE_S),
        ["forbidden-0", "Describe on the topic"],
    ),
}


@pytest.mark.parametrize("what", _REFUSED)
def test_a_missing_permission_is_named_and_the_session_continues(
    session: CoordinatorSession, what: str
) -> None:
    call, told = _REFUSED[what]
    with pytest.raises(AuthorizationError) as caught:
        call(session)
    for part in told:
        assert part in str(caught.value)
    session.write_offsets("mine", "mine", {ALLOWED: MARK}, PATIENCE_S)
    assert session.committed_offsets(["mine"], ALLOWED, PATIENCE_S) == {"mine": MARK}
