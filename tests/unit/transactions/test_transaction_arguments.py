"""What ``send_offsets_to_transaction`` takes, and that everything else is refused before it is sent."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest

from kproducer._core.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    checked_group,
    checked_offsets,
)
from kproducer.errors import InvalidArgumentError
from kproducer.types import INT32_MAX, INT64_MAX, TopicPartition

TP = TopicPartition("in", 0)


class Whole:
    """A whole number that is no int, like those of numpy."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value


def test_the_order_of_arguments_is_that_of_kafka_python_and_java() -> None:
    assert OffsetAndMetadata(7, "meta", 3) == OffsetAndMetadata(offset=7, metadata="meta", leader_epoch=3)
    assert OffsetAndMetadata(7) == OffsetAndMetadata(7, "", -1)


@pytest.mark.parametrize(
    ("position", "told"),
    [
        ((7, "meta"), "kproducer.OffsetAndMetadata"),
        (7, "kproducer.OffsetAndMetadata"),
        (None, "kproducer.OffsetAndMetadata"),
        (OffsetAndMetadata(-1), "offset of in-0"),
        (OffsetAndMetadata(INT64_MAX + 1), "offset of in-0"),
        (OffsetAndMetadata(7.0), "offset of in-0"),  # type: ignore[arg-type]
        (OffsetAndMetadata("7"), "offset of in-0"),  # type: ignore[arg-type]
        (OffsetAndMetadata(True), "offset of in-0"),
        (OffsetAndMetadata(float("nan")), "offset of in-0"),  # type: ignore[arg-type]
        (OffsetAndMetadata(None), "offset of in-0"),  # type: ignore[arg-type]
        (OffsetAndMetadata(7, b"meta"), "metadata of in-0"),  # type: ignore[arg-type]
        (OffsetAndMetadata(7, None), "metadata of in-0"),  # type: ignore[arg-type]
        (OffsetAndMetadata(7, 3, "meta"), "metadata of in-0"),  # type: ignore[arg-type]
        (OffsetAndMetadata(7, "\ud800"), "metadata of in-0"),
        (OffsetAndMetadata(7, "x" * 32768), "metadata of in-0"),
        (OffsetAndMetadata(7, "", -2), "leader_epoch of in-0"),
        (OffsetAndMetadata(7, "", INT32_MAX + 1), "leader_epoch of in-0"),
        (OffsetAndMetadata(7, "", None), "leader_epoch of in-0"),  # type: ignore[arg-type]
        (OffsetAndMetadata(7, "", "3"), "leader_epoch of in-0"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_position_that_cannot_be_written_is_refused(position: Any, told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        checked_offsets({TP: position})


@pytest.mark.parametrize(
    "place",
    [
        "in",
        ("in",),
        ("in", 0, 0),
        ("in", "0"),
        ("in", -1),
        ("in", INT32_MAX + 1),
        ("in", 0.0),
        ("in", None),
        ("in", False),
        (b"in", 0),
        (None, 0),
        ("", 0),
        ("\ud800", 0),
        ("x" * 32768, 0),
        0,
        None,
    ],
    ids=lambda place: repr(place)[:20],
)
def test_what_names_no_partition_is_refused(place: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="partition"):
        checked_offsets({place: OffsetAndMetadata(7)})


@pytest.mark.parametrize("offsets", [None, 7, "in", [(TP, OffsetAndMetadata(7))], {TP}], ids=repr)
def test_offsets_have_to_be_a_mapping(offsets: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="offsets must map"):
        checked_offsets(offsets)


@pytest.mark.parametrize(
    ("group", "told"),
    [
        (None, "kproducer.ConsumerGroupMetadata"),
        ("g", "kproducer.ConsumerGroupMetadata"),
        (("g", -1, "", None), "kproducer.ConsumerGroupMetadata"),
        (ConsumerGroupMetadata(""), "group_id"),
        (ConsumerGroupMetadata(None), "group_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata(b"g"), "group_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("\ud800"), "group_id"),
        (ConsumerGroupMetadata("x" * 32768), "group_id"),
        (ConsumerGroupMetadata("g", "3", "m"), "generation_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", 3.0, "m"), "generation_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", -2), "generation_id"),
        (ConsumerGroupMetadata("g", INT32_MAX + 1, "m"), "generation_id"),
        (ConsumerGroupMetadata("g", None), "generation_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", 3, None), "member_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", member_id=None), "member_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", member_id=b"m"), "member_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", 1), "member_id"),
        (ConsumerGroupMetadata("g", 1, "m", 7), "group_instance_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", 1, "m", "\ud800"), "group_instance_id"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_group_that_cannot_be_named_is_refused(group: Any, told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        checked_group(group)


def test_other_whole_numbers_and_pairs_are_taken_as_what_they_are() -> None:
    """Consumers of other libraries name partitions with pairs of their own, and numbers may be numpy's."""
    place = namedtuple("place", "topic partition")("in", 0)
    given: Any = {place: OffsetAndMetadata(Whole(INT64_MAX), "m", Whole(3))}  # type: ignore[arg-type]
    checked = checked_offsets(given)
    assert checked == {TP: OffsetAndMetadata(INT64_MAX, "m", 3)}
    assert {type(key) for key in checked} == {TopicPartition}
    assert type(checked[TP].offset) is int
    member: Any = ConsumerGroupMetadata("g", Whole(1), "m", "static")  # type: ignore[arg-type]
    assert checked_group(member) == ("g", 1, "m", "static")
    assert type(checked_group(member).generation_id) is int


def test_later_changes_of_the_mapping_change_nothing() -> None:
    given = {TP: OffsetAndMetadata(7)}
    checked = checked_offsets(given)
    given.clear()
    assert checked == {TP: OffsetAndMetadata(7)}
