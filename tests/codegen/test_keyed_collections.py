"""Collections with map keys behave like lists, and their look-up reflects every change."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kproducer_messages import MetadataResponse
from kproducer_messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponseBrokerCollection,
    MetadataResponseTopic,
    MetadataResponseTopicCollection,
)

from tests.codegen.compiled import LANGUAGE


def brokers(*ids):
    return MetadataResponseBrokerCollection([MetadataResponseBroker(node_id=i, host=f"h{i}") for i in ids])


def test_order_is_kept_and_equal_keys_are_allowed():
    found = brokers(3, 1, 3, 2)
    assert [broker.node_id for broker in found] == [3, 1, 3, 2]
    assert found.find(3) is found[0]
    assert [id(broker) for broker in found.find_all(3)] == [id(found[0]), id(found[2])]
    assert found.find(9) is None
    assert found.find_all(9) == []


def test_decoding_and_the_constructor_create_collections():
    message = MetadataResponse(topics=[MetadataResponseTopic(name="a"), MetadataResponseTopic(name="b")])
    assert type(message.topics) is MetadataResponseTopicCollection
    assert message.topics.find("b") is message.topics[1]
    decoded, _ = MetadataResponse.decode(message.encode(12), 12)
    assert type(decoded.topics) is MetadataResponseTopicCollection
    assert type(decoded.brokers) is MetadataResponseBrokerCollection
    assert decoded.topics.find("a") is decoded.topics[0]
    assert decoded.topics == [*message.topics]


def test_a_list_assigned_later_is_encoded_unchanged():
    message = MetadataResponse()
    message.brokers = [MetadataResponseBroker(node_id=1)]
    assert MetadataResponse.decode(message.encode(12), 12)[0].brokers.find(1) == message.brokers[0]


def test_a_null_key_is_a_key():
    topics = MetadataResponseTopicCollection([MetadataResponseTopic(name=None)])
    assert topics.find(None) is topics[0]


def test_a_key_of_several_fields():
    module = next(case.module for case in LANGUAGE if case.spec.name == "LedgerRecord")
    first = module.LedgerBroker(id=1, rack="r")
    second = module.LedgerBroker(id=1, rack=None)
    record = module.LedgerRecord(brokers=[first, second])
    zero = first.incarnation
    assert record.brokers.find(1, "r", zero) is record.brokers[0]
    assert record.brokers.find(1, None, zero) is record.brokers[1]
    assert record.brokers.find(2, "r", zero) is None
    with pytest.raises(TypeError):
        record.brokers.find(1)


def test_a_look_up_does_not_scan_the_list():
    class Counted(MetadataResponseBrokerCollection):
        reads = 0

        def __getitem__(self, index):
            Counted.reads += 1
            return super().__getitem__(index)

    found = Counted(brokers(*range(1000)))
    found.find(0)
    reads = Counted.reads
    for key in range(1000):
        assert found.find(key).node_id == key
    assert Counted.reads == reads


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_copies_have_their_own_index(copied):
    found = brokers(1, 2)
    assert found.find(2) is not None
    other = copied(found)
    assert type(other) is type(found)
    assert other == found
    other.append(MetadataResponseBroker(node_id=3))
    assert other.find(3) is not None
    assert found.find(3) is None


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_messages_can_be_pickled_with_every_protocol(protocol):
    message = MetadataResponseBroker(node_id=7, host="h", port=9092)
    assert pickle.loads(pickle.dumps(message, protocol)) == message


class CollectionMachine(RuleBasedStateMachine):
    """After any change of the list, a look-up finds the same element as a linear search."""

    keys = st.integers(0, 3)
    places = st.integers(-4, 4)

    @initialize(ids=st.lists(keys, max_size=5))
    def start(self, ids):
        self.found = brokers(*ids)

    @rule(key=keys)
    def append(self, key):
        self.found.append(MetadataResponseBroker(node_id=key))

    @rule(ids=st.lists(keys, max_size=3))
    def extend(self, ids):
        self.found.extend(brokers(*ids))

    @rule(ids=st.lists(keys, max_size=3))
    def add_in_place(self, ids):
        self.found += brokers(*ids)

    @rule(place=places, key=keys)
    def insert(self, place, key):
        self.found.insert(place, MetadataResponseBroker(node_id=key))

    @rule(place=places, key=keys)
    def replace(self, place, key):
        if -len(self.found) <= place < len(self.found):
            self.found[place] = MetadataResponseBroker(node_id=key)

    @rule(start=places, stop=places, ids=st.lists(keys, max_size=3))
    def replace_slice(self, start, stop, ids):
        self.found[start:stop] = brokers(*ids)

    @rule(place=places)
    def delete(self, place):
        if -len(self.found) <= place < len(self.found):
            del self.found[place]

    @rule(place=places)
    def pop(self, place):
        if -len(self.found) <= place < len(self.found):
            self.found.pop(place)

    @rule(key=keys)
    def remove(self, key):
        if (broker := self.found.find(key)) is not None:
            self.found.remove(broker)

    @rule(count=st.integers(0, 2))
    def multiply(self, count):
        if len(self.found) < 20:
            self.found *= count

    @rule()
    def reverse(self):
        self.found.reverse()

    @rule()
    def sort(self):
        self.found.sort(key=lambda broker: broker.node_id)

    @rule()
    def clear(self):
        self.found.clear()

    @invariant()
    def a_look_up_finds_what_a_walk_finds(self):
        for key in range(4):
            walked = [id(broker) for broker in self.found if broker.node_id == key]
            assert [id(broker) for broker in self.found.find_all(key)] == walked
            first = self.found.find(key)
            assert (None if first is None else id(first)) == (walked[0] if walked else None)


CollectionMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
TestCollectionMachine = CollectionMachine.TestCase


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 5)))
def test_equality_is_that_of_lists(ids):
    assert brokers(*ids) == [*brokers(*ids)]
    assert [*brokers(*ids)] == brokers(*ids)
