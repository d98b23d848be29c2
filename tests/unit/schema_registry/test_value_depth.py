"""Which values fastavro does not get, because they would end the process."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from fastavro import parse_schema

from kproducer.errors import SerializationError
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


class Made(Mapping[str, Any]):
    """Makes its parts anew for each access, as records of some libraries do."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    def __getitem__(self, name: str) -> Any:
        part = self.parts[name]
        return [Made(each) for each in part] if isinstance(part, list) else part

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


def test_parts_that_are_made_on_access_are_different_values():
    value: dict[str, Any] = {"left": None, "right": []}
    for _ in range(5):
        value = {"left": None, "right": [value, value]}
    assert checked(TREE)(Made(value)) == b"encoded"


def test_a_default_may_contain_itself():
    fields = [
        {"name": "v", "type": "int", "default": 1},
        {"name": "next", "type": "Node", "default": {"v": 2}},
    ]
    with pytest.raises(RecursionError, match="contains itself"):
        checked({"type": "record", "name": "Node", "fields": fields})({})


class Items:
    """What fastavro takes for an array, and no ``Sequence``."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class Node:
    """What fastavro takes for a record, and no ``Mapping``."""

    def get(self, name: str, default: Any = None) -> Any:
        return [self]

    def __contains__(self, name: str) -> bool:
        return True


def containers() -> Iterator[Any]:
    for wrap in (Items, lambda each: {"a": each}.values(), lambda each: deque([each]), lambda each: (each,)):
        value: dict[str, Any] = {}
        value["kids"] = wrap(value)
        yield value
    yield Node()


@pytest.mark.parametrize("value", list(containers()), ids=["class", "view", "deque", "tuple", "record"])
def test_containers_of_any_class_may_contain_themselves(value):
    kids = {"name": "kids", "type": {"type": "array", "items": "Node"}}
    with pytest.raises(RecursionError, match="contains itself"):
        checked({"type": "record", "name": "Node", "fields": [kids]})(value)


def test_exceptions_of_the_value_are_serialization_errors():
    class Broken(Made):
        def __getitem__(self, name: str) -> Any:
            raise RuntimeError("broken")

    with pytest.raises(SerializationError, match="RuntimeError: broken") as caught:
        checked(TREE)(Broken({"left": None}))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_schemas_may_be_nested_deeply():
    schema: Any = "long"
    for _ in range(sys.getrecursionlimit()):
        schema = {"type": "array", "items": schema}
    assert with_depth_check(schema, {}, encoded)([]) == b"encoded"
