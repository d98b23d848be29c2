"""A producer is killed (SIGKILL) at each step of the protocol; another one with the same id continues.

A proxy kills it either before a request reaches the broker, which then never gets it, or after the broker has
answered, which loses the response. This determines what is committed, and a reader must see exactly that.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kproducer._core.client.api_keys import ApiKey
from tests.integration.transactions.scripted_transactions import OFFSET, values_of
from tests.support.kafka.committed_records import committed_offset, read_committed
from tests.support.kafka.proxy import Frame, KafkaProxy
from tests.support.kafka.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


class Moment(NamedTuple):
    """The ``nth`` request of an API, or its response. ``committed``: transactions visible to readers."""

    api_key: ApiKey
    nth: int
    is_answer: bool
    committed: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.api_key.name}-{self.nth}-{'answered' if self.is_answer else 'unsent'}"


_STEPS = [
    *[
        Moment(api_key, 1, is_answer, ())
        for api_key in (
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.PRODUCE,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
        )
        for is_answer in (False, True)
    ],
    Moment(ApiKey.END_TXN, 1, False, ()),
    Moment(ApiKey.END_TXN, 1, True, ("one",)),
    Moment(ApiKey.END_TXN, 2, False, ("one",)),
    Moment(ApiKey.END_TXN, 2, True, ("one",)),
    Moment(ApiKey.END_TXN, 3, False, ("one",)),
    Moment(ApiKey.END_TXN, 3, True, ("one", "three")),
]
_PROTOCOL_1_ONLY = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN)


@pytest.mark.parametrize("moment", _STEPS, ids=str)
def test_killed_at(three_nodes, make_producer, start_script, has_protocol_2, moment):
    servers, name = three_nodes.bootstrap_servers, f"killed-{moment}"
    create_topic(servers, name, 2)
    count = 0
    child = None

    def kill_at_the_moment(frame: Frame) -> bool:
        nonlocal count
        if (frame.api_key, frame.is_answer) != (moment.api_key, moment.is_answer):
            return True
        count += 1
        if count == moment.nth:
            child.kill()
            child.wait()
        return count < moment.nth

    with KafkaProxy(servers, kill_at_the_moment) as proxy:
        child = start_script("three", proxy.bootstrap_servers, name, name)
        _, errors = child.communicate(timeout=60)
    committed = moment.committed
    if has_protocol_2 and moment.api_key in _PROTOCOL_1_ONLY:
        # This protocol does not have the step, and the script runs to its end.
        assert (child.returncode, count, errors) == (0, 0, "")
        committed = ("one", "three")
    else:
        assert (child.returncode, errors) == (-9, "")
    producer = make_producer(name)
    with producer.transaction():
        for partition in (0, 1):
            producer.send(name, b"new", partition=partition)
    expected = [value for transaction in committed for value in values_of(transaction)] + [b"new"]
    assert read_committed(servers, name, 2) == [expected, expected]
    assert committed_offset(servers, f"{name}-group", name) == (OFFSET if committed else None)
