"""Small parts of the compiler: JSON with comments, version ranges, names."""

from __future__ import annotations

import pytest

from codegen.loader import load
from codegen.naming import attribute_name, class_name, local_name, module_name, snake_case
from codegen.versions import HIGHEST, Versions


def plain(node):
    if isinstance(node.value, dict):
        return {key: plain(value) for key, value in node.value.items()}
    return [plain(child) for child in node.value] if isinstance(node.value, list) else node.value


def test_comments_are_removed_and_strings_kept():
    text = '// head\n{ "url": "http://a//b", /* in\nside */ "n": [1, -2.5, true, null], // tail\n'
    text += ' "q": "\\"//\\"" }'
    assert plain(load("f", text)) == {"url": "http://a//b", "n": [1, -2.5, True, None], "q": '"//"'}


def test_nodes_know_their_lines():
    node = load("f", '// 1\n{\n "a":\n 5,\n "b": [\n 6 ] }')
    assert node.line == 2
    assert node.value["a"].line == 4
    assert node.value["b"].value[0].line == 6


@pytest.mark.parametrize(
    ("text", "lowest", "highest"),
    [("3+", 3, HIGHEST), ("0-12", 0, 12), ("7", 7, 7), ("none", 0, -1), (" 1-2 ", 1, 2)],
)
def test_ranges_read_and_print(text, lowest, highest):
    versions = Versions.parse(text)
    assert (versions.lowest, versions.highest) == (lowest, highest)
    assert str(versions) == text.strip()


@pytest.mark.parametrize("text", ["", "+", "-1", "1-", "a", "1,2", "3-1", "40000", "1 - 2"])
def test_invalid_ranges_are_refused(text):
    with pytest.raises(ValueError, match=r"range|exceeds"):
        Versions.parse(text)


def test_ranges_intersect_contain_and_compare():
    assert Versions.parse("3+") & Versions.parse("0-5") == Versions.parse("3-5")
    assert Versions.parse("0-2") & Versions.parse("3+") == Versions.NONE
    assert 5 in Versions.parse("3+")
    assert 2 not in Versions.parse("3+")
    assert 0 not in Versions.NONE
    assert Versions.parse("3-4") <= Versions.parse("3+")
    assert not Versions.parse("3+") <= Versions.parse("3-4")
    empty = Versions.NONE
    assert empty <= Versions.parse("9")
    assert list(Versions.parse("2-4")) == [2, 3, 4]
    assert not empty


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("TimeoutMs", "timeout_ms"),
        ("timeoutMs", "timeout_ms"),
        ("ISRNodes", "isr_nodes"),
        ("IsrNodes", "isr_nodes"),
        ("TopicIDs", "topic_ids"),
        ("SHA256Hash", "sha256_hash"),
        ("Ipv6Address", "ipv6_address"),
        ("V2Enabled", "v2_enabled"),
        ("ZkMigrationReady", "zk_migration_ready"),
        ("X", "x"),
    ],
)
def test_names_become_snake_case(name, snake):
    assert snake_case(name) == snake


def test_reserved_names_get_an_underscore():
    assert attribute_name("From") == "from_"
    assert attribute_name("Size") == "size_"
    assert attribute_name("Type") == "type_"
    assert local_name("position") == "position_"
    assert local_name("topics") == "topics"
    assert class_name("TimeoutError") == "TimeoutError_"
    assert class_name("Buffer") == "Buffer_"
    assert class_name("NEW") == "NEW_"
    assert module_name("ProduceRequest") == "produce_request"
