"""Which values fastavro does not get, because they would end the process."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from fastavro import parse_schema

from kproducer.schema_registry.value_depth import with_depth_check

TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "left", "type": ["null", "Tree", {"type": "record", "name": "Leaf", "fields": []}]},
        {"name": "right", "type": {"type": "array", "items": ["null", "Tree", "Leaf"]}},
    ],
}


def encoded(value: Any) -> bytes:
    return b"encoded"


def checked(schema: Any) -> Any:
    named: dict[str, Any] = {}
    return with_depth_check(parse_schema(schema, named), named, encoded)


def chain(levels: int) -> Any:
    value = None
    for _ in range(levels):
        value = {"left": value, "right": []}
    return value


def test_schemas_that_do_not_contain_themselves_need_no_check():
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "long"}]}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": ["null", "Inner"]}]
    for schema in (
        "long",
        {"type": "map", "values": "string"},
        inner,
        {"type": "record", "name": "Outer", "fields": fields},
    ):
        assert checked(schema) is encoded


def test_a_record_may_contain_itself_by_way_of_a_reference():
    named: dict[str, Any] = {}
    parse_schema(TREE, named)
    parsed = parse_schema({"type": "array", "items": {"type": "map", "values": "Tree"}}, named)
    encode = with_depth_check(parsed, named, encoded)
    value: dict[str, Any] = {"left": None}
    assert encode([{"key": value}]) == b"encoded"
    value["right"] = [("Tree", value)]
    with pytest.raises(RecursionError, match="contains itself"):
        encode([{"key": value}])


def test_the_limit_is_that_of_python():
    encode = checked(TREE)
    limit = sys.getrecursionlimit()
    assert encode(chain(limit // 2)) == b"encoded"
    with pytest.raises(RecursionError, match=f"more than {limit} levels"):
        encode(chain(limit + 1))


def test_what_appears_often_is_checked_once():
    value: Any = None
    for _ in range(200):  # 2**200 paths
        value = {"left": value, "right": [value, value]}
    assert checked(TREE)(value) == b"encoded"


@pytest.mark.parametrize(
    "value", [None, 5, "text", [], {"left": 5, "right": "text"}, {"left": (1, 2, 3)}], ids=str
)
def test_values_that_do_not_fit_are_left_to_fastavro(value):
    assert checked(TREE)(value) == b"encoded"
