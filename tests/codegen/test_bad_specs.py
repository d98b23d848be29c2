"""The catalogue of wrong specs: each is refused with file, line, field and what would be right."""

from __future__ import annotations

import json

import pytest

from codegen.check import check
from codegen.errors import SpecError
from codegen.parser import parse


def spec(fields=None, **keys):
    """A good request with one change per call; ``...`` removes a key."""
    base = {
        "apiKey": 99,
        "type": "request",
        "name": "DemoRequest",
        "validVersions": "0-5",
        "flexibleVersions": "2+",
        "fields": fields if fields is not None else [field()],
    }
    base.update(keys)
    return json.dumps({key: value for key, value in base.items() if value is not ...}, indent=1)


def field(name="Field", kind="int32", versions="0+", **keys):
    made = {"name": name, "type": kind, "versions": versions, **keys}
    return {key: value for key, value in made.items() if value is not ...}


def problems(text):
    try:
        return [str(problem) for problem in check(parse("Demo.json", text.encode()))]
    except SpecError as error:
        return [str(problem) for problem in error.problems]


STRUCT = field("Parts", "[]Part", fields=[field("Inner")])

CATALOGUE = {
    # JSON
    "no JSON at all": ("hello", "Demo.json:1: column 1: expected a JSON value, found 'hello'"),
    "empty file": ("", "column 1: expected a JSON value, found the end of the file"),
    "comma before a brace": (
        '{"a": 1,\n}',
        "Demo.json:2: column 1: expected a name in double quotes, found '}'",
    ),
    "comma before a bracket": ("[1, ]", "no comma before a closing bracket"),
    "missing comma": ('{"a": 1\n "b": 2}', "Demo.json:2: column 2: expected a comma or a closing brace"),
    "missing colon": ('{"a" 1}', 'expected a colon after "a"'),
    "open string": ('{"a": "b\n}', "this string is not closed on its line"),
    "bad escape": ('{"a": "\\x"}', "this string is not valid JSON"),
    "open comment": ("/* hello", "this comment is never closed"),
    "key twice": (
        '{"a": 1,\n "a": 2}',
        'Demo.json:2: column 2: "a" occurs twice in this object (first on line 1)',
    ),
    "text behind the spec": (spec() + "{}", "the spec goes on after its closing brace"),
    "not an object": ("[]", "expected a message in braces, found an array"),
    # keys
    "unknown key": (spec(apikey=3), "a message has no key 'apikey'; did you mean 'apiKey'?"),
    "unknown field key": (
        spec([field(nullableVersion="0+")]),
        "DemoRequest.Field: a field has no key 'nullableVersion'; did you mean 'nullableVersions'?",
    ),
    "missing name": (spec(name=...), '"name" is missing'),
    "missing type": (spec(type=...), 'DemoRequest: "type" is missing'),
    "missing versions of a field": (spec([field(versions=...)]), 'DemoRequest.Field: "versions" is missing'),
    "missing validVersions": (spec(validVersions=...), 'DemoRequest: "validVersions" is missing'),
    "missing flexibleVersions": (spec(flexibleVersions=...), 'DemoRequest: "flexibleVersions" is missing'),
    "missing fields": (spec(fields=...), 'DemoRequest: "fields" is missing'),
    "missing apiKey": (spec(apiKey=...), 'a request needs an "apiKey"'),
    "apiKey of a header": (spec(type="header"), 'only requests and responses have an "apiKey"'),
    "apiKey out of range": (spec(apiKey=-1), "API keys lie between 0 and 32767, not at -1"),
    "apiKey no number": (spec(apiKey="3"), '"apiKey" must be a number, not a string'),
    "tag no number": (
        spec([field(tag=True, taggedVersions="2+")]),
        '"tag" must be a number, not true or false',
    ),
    "bad message type": (spec(type="reqest"), "unknown message type 'reqest'; did you mean 'request'?"),
    "bad name": (spec(name="Demo-Request"), "the name 'Demo-Request' must begin with a letter"),
    "name without its kind": (spec(name="Demo"), "the name of a request ends in Request"),
    "unknown listener": (spec(listeners=["brokr"]), "unknown listener 'brokr'; did you mean 'broker'?"),
    "listeners of a response": (
        spec(type="response", name="DemoResponse", listeners=["broker"]),
        "only requests have listeners",
    ),
    # versions
    "bad range": (
        spec([field(versions="3..5")]),
        "'3..5' is no version range; write '3+', '0-12', '7' or 'none'",
    ),
    "range backwards": (spec([field(versions="5-3")]), "ends before it begins; did you mean '3-5'?"),
    "open validVersions": (spec(validVersions="0+"), "0+ has no end; name the newest version"),
    "field beyond the valid versions": (
        spec([field(versions="6+")]),
        "DemoRequest.Field: the field is in versions 6+, which the message (0-5) does not have",
    ),
    "field ends beyond the valid versions": (
        spec([field(versions="2-9")]),
        "versions 2-9 go beyond the valid ones (0-5); leave the end open with +",
    ),
    "field that its struct never has": (
        spec([field("Parts", "[]Part", "3+", fields=[field("Inner", versions="1-2"), field("Other")])]),
        "DemoRequest.Parts.Inner: the field is in versions 1-2, which what contains it (3-5) does not have",
    ),
    "field in no version": (spec([field(versions="none")]), "the field is in no version; remove it"),
    "flexible beyond the valid versions": (spec(flexibleVersions="9+"), "no valid version (0-5) is in 9+"),
    "deprecated but not valid": (
        spec(deprecatedVersions="4-7"),
        "deprecated versions 4-7 are not all valid (0-5)",
    ),
    # types
    "unknown type": (
        spec([field(kind="int33")]),
        "DemoRequest.Field: unknown type 'int33'; did you mean 'int32'?",
    ),
    "array of arrays": (spec([field(kind="[][]int32")]), "is an array of arrays"),
    "undefined struct": (spec([field(kind="Part")]), 'the struct Part is not defined: add "fields"'),
    "struct used twice": (
        spec([STRUCT, field("More", "[]Part")]),
        'DemoRequest.More: the struct Part is not defined: add "fields", or name one of commonStructs; move',
    ),
    "struct defined twice": (
        spec([STRUCT, field("More", "[]Part", fields=[field("Inner")])]),
        "DemoRequest.More: the struct Part is defined twice (first on line",
    ),
    "struct with the message's name": (
        spec([field("Parts", "DemoRequest", fields=[field("Inner")])]),
        "the struct DemoRequest has the name of the message",
    ),
    "fields of a number": (spec([field(fields=[field()])]), "a field of type int32 has no fields of its own"),
    "struct that contains itself": (
        spec(
            [field("Top", "Node")],
            commonStructs=[{"name": "Node", "versions": "0+", "fields": [field("Next", "[]Node")]}],
        ),
        "Node.Next: the struct contains itself (Node -> Node)",
    ),
    "structs that contain each other": (
        spec(
            [field("Top", "Left")],
            commonStructs=[
                {"name": "Left", "versions": "0+", "fields": [field("Other", "Right")]},
                {"name": "Right", "versions": "0+", "fields": [field("Other", "Left")]},
            ],
        ),
        "Right.Other: the struct contains itself (Left -> Right -> Left)",
    ),
    "array of nothing": (
        spec([field("Parts", "[]Part", fields=[field("Inner", versions="1+")])]),
        "DemoRequest.Parts: the struct has no fields in version 0, and an array of nothing has no end",
    ),
    "field twice": (spec([field(), field()]), "DemoRequest.Field: the field is defined twice (first on line"),
    "fields of one Python name": (
        spec([field("NodeId"), field("NodeID")]),
        "NodeId (line 8) and NodeID are the same name in Python",
    ),
    # null and defaults
    "nullable number": (spec([field(nullableVersions="0+")]), "the type int32 has no null"),
    "nullable elsewhere": (
        spec([field(kind="string", versions="3+", nullableVersions="0-2")]),
        '"nullableVersions" 0-2 and "versions" 3+ never meet',
    ),
    "null default, not nullable": (
        spec(
            [field(kind="string", default="null", nullableVersions=...)] * 1
            + [field("B", "[]int32", default="null")]
        ),
        'DemoRequest.B: the default is null; that needs "nullableVersions"',
    ),
    "null default, partly nullable": (
        spec([field(kind="bytes", default="null", nullableVersions="3+")]),
        "the default is null, but not all of versions 0-5 are nullable (3+)",
    ),
    "default out of range": (
        spec([field(kind="int8", default="128")]),
        "the default 128 does not fit int8 (-128 to 127)",
    ),
    "hex default out of range": (
        spec([field(kind="uint16", default="0x10000")]),
        "does not fit uint16 (0 to 65535)",
    ),
    "default no number": (spec([field(default="many")]), "the default 'many' is no whole number"),
    "fractional default": (spec([field(default=1.5)]), "is a whole number, not 1.5"),
    "JSON null as default": (spec([field(default=None)]), 'write "null" for null'),
    "bool default": (
        spec([field(kind="bool", default="yes")]),
        "the default of a bool is true or false, not 'yes'",
    ),
    "float default": (spec([field(kind="float64", default="pi")]), "the default 'pi' is no number"),
    "uuid default": (
        spec([field(kind="uuid", default="abc")]),
        "the default 'abc' is no uuid; write 16 bytes",
    ),
    "array default": (spec([field(kind="[]int32", default="1")]), "an array is empty by default, or null"),
    "struct default": (
        spec([field("Part", "Part", default="x", fields=[field()])]),
        "a struct has no default but null",
    ),
    "bytes default": (spec([field(kind="bytes", default="x")]), "'x' is no default for bytes: leave it out"),
    # tags
    "tag without versions": (spec([field(tag=0)]), 'a "tag" needs "taggedVersions"'),
    "tagged without tag": (spec([field(taggedVersions="2+")]), '"taggedVersions" needs a "tag"'),
    "negative tag": (spec([field(tag=-1, taggedVersions="2+")]), "tags begin at 0, not at -1"),
    "tags with an end": (
        spec([field(tag=0, taggedVersions="2-3")]),
        "2-3 has an end; a tagged field stays tagged",
    ),
    "tag in a version without tags": (
        spec([field(tag=0, taggedVersions="1+")]),
        "tagged in 1+, but only versions 2-5 are flexible",
    ),
    "tag outside the field's versions": (
        spec([field(versions="4+", tag=0, taggedVersions="3+")]),
        '"taggedVersions" 3+ goes beyond "versions" 4+',
    ),
    "tag twice": (
        spec([field("A", tag=0, taggedVersions="2+"), field("B", tag=0, taggedVersions="2+")]),
        "DemoRequest.B: tag 0 belongs to A already",
    ),
    "tag left out": (spec([field(tag=1, taggedVersions="2+")]), "tag 0 is not used yet; use it before tag 1"),
    # marks
    "zeroCopy string": (
        spec([field(kind="string", zeroCopy=True)]),
        "only bytes can be zeroCopy, not string",
    ),
    "flexible number": (spec([field(flexibleVersions="none")]), "a field of type int32 has no length"),
    "map key of a message": (
        spec([field(mapKey=True)]),
        "only plain fields of structs inside arrays can be map keys",
    ),
    "unknown entity": (spec([field(entityType="topic")]), "unknown entity type 'topic'"),
    "entity of another type": (
        spec([field(entityType="topicName")]),
        "a topicName is of type string, not int32",
    ),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_problem_is_named_with_its_place_and_remedy(name):
    text, expected = CATALOGUE[name]
    found = problems(text)
    assert found, "the spec was accepted"
    assert any(expected in problem for problem in found), found
    assert all(problem.startswith("Demo.json:") for problem in found)


def test_the_base_of_the_catalogue_is_right():
    assert problems(spec()) == []
    assert problems(spec([STRUCT])) == []


def test_all_problems_of_a_message_are_reported_in_the_order_of_their_lines():
    text = spec([field("A", nullableVersions="0+"), field("B", tag=0), field("C", mapKey=True)])
    found = problems(text)
    assert [problem.split(": ")[1] for problem in found] == [
        "DemoRequest.A",
        "DemoRequest.B",
        "DemoRequest.C",
    ]


def test_the_line_is_that_of_the_wrong_key():
    text = '{\n "apiKey": 9, "type": "request", "name": "DemoRequest",\n "validVersions": "0-5",\n'
    text += ' "flexibleVersions": "2+",\n "fields": [\n  { "name": "A", "type": "int32",\n'
    text += '    "versions": "0+",\n    // a comment\n    "nullableVersions": "0+" }\n ]\n}'
    assert problems(text)[0].startswith("Demo.json:9: DemoRequest.A: ")
