"""A catalogue of invalid specs: each error names file, line, field and remedy."""

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
    "no JSON at all": ("hello", "1: column 1: expected a JSON value, found 'hello'"),
    "empty file": ("", "1: column 1: expected a JSON value, found the end of the file"),
    "comma before a brace": (
        '{"a": 1,\n}',
        "2: column 1: expected a name in double quotes, found '}' (JSON allows no comma before a "
        "closing brace)",
    ),
    "comma before a bracket": (
        "[1, ]",
        "1: column 5: expected another element, found ']' (JSON allows no comma before a closing bracket)",
    ),
    "missing comma": (
        '{"a": 1\n "b": 2}',
        '2: column 2: expected a comma or a closing brace after "a", found \'"\'',
    ),
    "missing colon": ('{"a" 1}', "1: column 6: expected a colon after \"a\", found '1'"),
    "open string": ('{"a": "b\n}', "1: column 7: this string is not closed on its line"),
    "bad escape": ('{"a": "\\x"}', "1: column 7: this string is not valid JSON: Invalid \\escape"),
    "open comment": ("/* hello", "1: column 1: this comment is not closed with */"),
    "key twice": (
        '{"a": 1,\n "a": 2}',
        '2: column 2: "a" occurs twice in this object with different values (first on line 1)',
    ),
    "text behind the spec": (
        spec() + "{}",
        "14: column 2: the file continues after the closing brace; a file contains one message",
    ),
    "not an object": ("[]", "1: expected a message in braces, found an array"),
    # keys
    "unknown key": (spec(apikey=3), "14: a message has no key 'apikey'; did you mean 'apiKey'?"),
    "unknown field key": (
        spec([field(nullableVersion="0+")]),
        "12: DemoRequest.Field: a field has no key 'nullableVersion'; did you mean 'nullableVersions'?",
    ),
    "missing name": (spec(name=...), '1: "name" is missing'),
    "missing type": (spec(type=...), '1: DemoRequest: "type" is missing'),
    "missing versions of a field": (
        spec([field(versions=...)]),
        '8: DemoRequest.Field: "versions" is missing',
    ),
    "missing validVersions": (spec(validVersions=...), '1: DemoRequest: "validVersions" is missing'),
    "missing flexibleVersions": (spec(flexibleVersions=...), '1: DemoRequest: "flexibleVersions" is missing'),
    "missing apiKey": (spec(apiKey=...), '2: DemoRequest: a request needs an "apiKey"'),
    "apiKey of a header": (
        spec(type="header"),
        '2: DemoRequest: only requests and responses have an "apiKey"; this is a header message',
    ),
    "apiKey out of range": (spec(apiKey=-1), "2: DemoRequest: an API key is between 0 and 32767, not -1"),
    "apiKey no number": (
        spec(apiKey="0x3"),
        "2: DemoRequest: \"apiKey\" must be a whole number, not '0x3'",
    ),
    "tag no number": (
        spec([field(tag=True, taggedVersions="2+")]),
        '12: DemoRequest.Field: "tag" must be a whole number, not true',
    ),
    "bad message type": (
        spec(type="reqest"),
        "3: DemoRequest: unknown message type 'reqest'; did you mean 'request'?",
    ),
    "bad name": (
        spec(name="Demo-Request"),
        "4: the name 'Demo-Request' must begin with a letter and contain only letters and digits",
    ),
    "name without its kind": (spec(name="Demo"), "4: Demo: the name of a request must end with Request"),
    "unknown listener": (
        spec(listeners=["brokr"]),
        "14: DemoRequest: unknown listener 'brokr'; did you mean 'broker'?",
    ),
    "listeners of a response": (
        spec(type="response", name="DemoResponse", listeners=["broker"]),
        "14: DemoResponse: only requests have listeners; this is a response",
    ),
    # versions
    "bad range": (
        spec([field(versions="3..5")]),
        "11: DemoRequest.Field: \"versions\": '3..5' is not a version range; "
        "write '3+', '0-12', '7' or 'none'",
    ),
    "range backwards": (
        spec([field(versions="5-3")]),
        "11: DemoRequest.Field: \"versions\": the range '5-3' ends before it begins; did you mean '3-5'?",
    ),
    "open validVersions": (
        spec(validVersions="0+"),
        "5: DemoRequest: 0+ has no end; give the newest version, as in '0-3'",
    ),
    "field beyond the valid versions": (
        spec([field(versions="6+")]),
        "11: DemoRequest.Field: the field is in versions 6+, which the message (0-5) does not have",
    ),
    "field ends beyond the valid versions": (
        spec([field(versions="2-9")]),
        "11: DemoRequest.Field: versions 2-9 go beyond the valid ones (0-5); leave the end open with +",
    ),
    "field that its struct never has": (
        spec([field("Parts", "[]Part", "3+", fields=[field("Inner", versions="1-2"), field("Other")])]),
        "16: DemoRequest.Parts.Inner: the field is in versions 1-2, which what contains it (3-5) "
        "does not have",
    ),
    "field in no version": (
        spec([field(versions="none")]),
        "11: DemoRequest.Field: the field is in no version; remove it",
    ),
    "flexible beyond the valid versions": (
        spec(flexibleVersions="9+"),
        "6: DemoRequest: no valid version (0-5) is in 9+; write 'none'",
    ),
    "deprecated but not valid": (
        spec(deprecatedVersions="4-7"),
        "14: DemoRequest: deprecated versions 4-7 are not all valid (0-5)",
    ),
    # types
    "unknown type": (
        spec([field(kind="int33")]),
        "10: DemoRequest.Field: unknown type 'int33'; did you mean 'int32'?",
    ),
    "array of arrays": (
        spec([field(kind="[][]int32")]),
        "10: DemoRequest.Field: '[][]int32' is an array of arrays; put a struct with an array between them",
    ),
    "undefined struct": (
        spec([field(kind="Part")]),
        '10: DemoRequest.Field: the struct Part is not defined: add "fields", or name one of commonStructs',
    ),
    "struct used twice": (
        spec([STRUCT, field("More", "[]Part")]),
        '22: DemoRequest.More: the struct Part is not defined: add "fields", or name one of '
        "commonStructs; move that struct to commonStructs to use it twice",
    ),
    "struct defined twice": (
        spec([STRUCT, field("More", "[]Part", fields=[field("Inner")])]),
        "20: DemoRequest.More: the struct Part is defined twice (first on line 8); rename one",
    ),
    "struct with the message's name": (
        spec([field("Parts", "DemoRequest", fields=[field("Inner")])]),
        "8: DemoRequest.Parts: the struct DemoRequest has the name of the message; rename it",
    ),
    "fields of a number": (
        spec([field(fields=[field()])]),
        "12: DemoRequest.Field: a field of type int32 cannot have fields; make it a struct",
    ),
    "struct that contains itself": (
        spec(
            [field("Top", "Node")],
            commonStructs=[{"name": "Node", "versions": "0+", "fields": [field("Next", "[]Node")]}],
        ),
        "21: Node.Next: the struct contains itself (Node -> Node), so it would be infinite",
    ),
    "structs that contain each other": (
        spec(
            [field("Top", "Left")],
            commonStructs=[
                {"name": "Left", "versions": "0+", "fields": [field("Other", "Right")]},
                {"name": "Right", "versions": "0+", "fields": [field("Other", "Left")]},
            ],
        ),
        "32: Right.Other: the struct contains itself (Left -> Right -> Left), so it would be infinite",
    ),
    "array of nothing": (
        spec([field("Parts", "[]Part", fields=[field("Inner", versions="1+")])]),
        "13: DemoRequest.Parts: the struct has no fields in version 0, so an array of it has no limit",
    ),
    "field twice": (
        spec([field(), field()]),
        "13: DemoRequest.Field: the field is defined twice (first on line 8)",
    ),
    "fields of one Python name": (
        spec([field("NodeId"), field("NodeID")]),
        "13: DemoRequest.NodeID: NodeId (line 8) and NodeID are the same name in Python",
    ),
    # null and defaults
    "nullable number": (
        spec([field(nullableVersions="0+")]),
        "12: DemoRequest.Field: the type int32 has no null; strings, bytes, records, arrays and structs do",
    ),
    "nullable elsewhere": (
        spec([field(kind="string", versions="3+", nullableVersions="0-2")]),
        '12: DemoRequest.Field: "nullableVersions" 0-2 and "versions" 3+ do not overlap',
    ),
    "null default, not nullable": (
        spec(
            [field(kind="string", default="null", nullableVersions=...)] * 1
            + [field("B", "[]int32", default="null")]
        ),
        [
            '12: DemoRequest.Field: the default is null; that needs "nullableVersions"',
            '18: DemoRequest.B: the default is null; that needs "nullableVersions"',
        ],
    ),
    "null default, partly nullable": (
        spec([field(kind="bytes", default="null", nullableVersions="3+")]),
        "12: DemoRequest.Field: the default is null, but not all of versions 0-5 are nullable (3+)",
    ),
    "default out of range": (
        spec([field(kind="int8", default="128")]),
        "12: DemoRequest.Field: the default 128 does not fit int8 (-128 to 127)",
    ),
    "hex default out of range": (
        spec([field(kind="uint16", default="0x10000")]),
        "12: DemoRequest.Field: the default 0x10000 does not fit uint16 (0 to 65535)",
    ),
    "default no number": (
        spec([field(default="many")]),
        "12: DemoRequest.Field: the default 'many' is not a whole number (decimal, 0x hex or 0 octal)",
    ),
    "fractional default": (
        spec([field(default=1.5)]),
        "12: DemoRequest.Field: the default '1.5' is not a whole number (decimal, 0x hex or 0 octal)",
    ),
    "array as default": (
        spec([field(kind="[]int32", default=[])]),
        '12: DemoRequest.Field: "default" must be a string, not an array',
    ),
    "bool default": (
        spec([field(kind="bool", default="yes")]),
        "12: DemoRequest.Field: the default of a bool is true or false, not 'yes'",
    ),
    "float default": (
        spec([field(kind="float64", default="pi")]),
        "12: DemoRequest.Field: the default 'pi' is not a number",
    ),
    "uuid default": (
        spec([field(kind="uuid", default="abc")]),
        "12: DemoRequest.Field: the default 'abc' is not a uuid; write 16 bytes as URL-safe base64",
    ),
    "array default": (
        spec([field(kind="[]int32", default="1")]),
        "12: DemoRequest.Field: the default of an array is empty or null: '1' is not valid for []int32",
    ),
    "struct default": (
        spec([field("Part", "Part", default="x", fields=[field()])]),
        "12: DemoRequest.Part: the default of a struct is null: 'x' is not valid for Part",
    ),
    "bytes default": (
        spec([field(kind="bytes", default="x")]),
        "12: DemoRequest.Field: 'x' is not a default for bytes: leave it out",
    ),
    # tags
    "tag without versions": (spec([field(tag=0)]), '12: DemoRequest.Field: a "tag" needs "taggedVersions"'),
    "tagged without tag": (
        spec([field(taggedVersions="2+")]),
        '12: DemoRequest.Field: "taggedVersions" needs a "tag"',
    ),
    "negative tag": (
        spec([field(tag=-1, taggedVersions="2+")]),
        "12: DemoRequest.Field: the first tag is 0, not -1",
    ),
    "tags with an end": (
        spec([field(tag=0, taggedVersions="2-3")]),
        "13: DemoRequest.Field: 2-3 has an end; a tagged field stays tagged, so write '2+'",
    ),
    "tag in a version without tags": (
        spec([field(tag=0, taggedVersions="1+")]),
        "13: DemoRequest.Field: tagged in 1+, but only versions 2-5 are flexible and can have tags",
    ),
    "tag outside the field's versions": (
        spec([field(versions="4+", tag=0, taggedVersions="3+")]),
        '13: DemoRequest.Field: "taggedVersions" 3+ goes beyond "versions" 4+',
    ),
    "tag twice": (
        spec([field("A", tag=0, taggedVersions="2+"), field("B", tag=0, taggedVersions="2+")]),
        "19: DemoRequest.B: tag 0 already belongs to A (line 8)",
    ),
    "tag left out": (
        spec([field(tag=1, taggedVersions="2+")]),
        "12: DemoRequest.Field: tag 0 is not used yet; use it before tag 1",
    ),
    # marks
    "zeroCopy string": (
        spec([field(kind="string", zeroCopy=True)]),
        "12: DemoRequest.Field: only bytes can be zeroCopy, not string",
    ),
    "flexible number": (
        spec([field(flexibleVersions="none")]),
        "12: DemoRequest.Field: a field of type int32 has no length, so it is the same in flexible versions",
    ),
    "map key of a message": (
        spec([field(mapKey=True)]),
        "12: DemoRequest.Field: only plain fields of structs inside arrays can be map keys",
    ),
    "unknown entity": (
        spec([field(entityType="topic")]),
        "12: DemoRequest.Field: unknown entity type 'topic'; did you mean 'topicName'?",
    ),
    "entity of another type": (
        spec([field(entityType="topicName")]),
        "12: DemoRequest.Field: a topicName is of type string, not int32",
    ),
    # found by trying to break the compiler
    "nested too deeply": ("[" * 100_000, "1: the spec is nested too deeply"),
    "versions too high": (
        spec([field(versions="99999+")]),
        "11: DemoRequest.Field: \"versions\": the highest version is 32767, and '99999+' exceeds it",
    ),
    "versions no string": (
        spec([field(versions=["3"])]),
        '11: DemoRequest.Field: "versions" must be a string, not an array',
    ),
    "versions not whole": (
        spec([field(versions=3.0)]),
        "11: DemoRequest.Field: \"versions\": '3.0' is not a version range; "
        "write '3+', '0-12', '7' or 'none'",
    ),
    "fields no array": (spec([field(fields={})]), '12: DemoRequest.Field: "name" is missing'),
    "field no object": (spec(["x"]), "8: DemoRequest: expected a field in braces, found 'x'"),
    "field null": (spec([None]), "8: DemoRequest: expected a field in braces, found null"),
    "array of a struct without fields": (
        spec([field("A", "[]Part", fields=[])]),
        "1: DemoRequest.A: the struct has no fields in version 0, so an array of it has no limit",
    ),
    "structs of one Python name": (
        spec([field("A", "FooBar", fields=[field()]), field("B", "FooBAR", fields=[field()])]),
        "20: DemoRequest.B: FooBar (line 8) and FooBAR are the same name in Python; rename one",
    ),
    "tag far away": (
        spec([field(tag=2**31, taggedVersions="2+")]),
        "12: DemoRequest.Field: tag 0 is not used yet; use it before tag 2147483648",
    ),
    "default with underscores": (
        spec([field(default="1_000")]),
        "12: DemoRequest.Field: the default '1_000' is not a whole number (decimal, 0x hex or 0 octal)",
    ),
    "default in digits of another script": (
        spec([field(default="\u0663")]),
        "12: DemoRequest.Field: the default '٣' is not a whole number (decimal, 0x hex or 0 octal)",
    ),
    "infinite default": (
        spec([field(default=1e400)]),
        "12: column 15: expected a JSON value, found 'Infinity'",
    ),
    "string default no string": (
        spec([field(kind="string", default={})]),
        '12: DemoRequest.Field: "default" must be a string, not an object',
    ),
    "about no string": (
        spec([field(about=["x"])]),
        '12: DemoRequest.Field: "about" must be a string, not an array',
    ),
    "ignorable no bool": (
        spec([field(ignorable="yes")]),
        "12: DemoRequest.Field: \"ignorable\" must be true or false, not 'yes'",
    ),
    "ignorable a fraction": (
        spec([field(ignorable=1.0)]),
        '12: DemoRequest.Field: "ignorable" must be true or false, not 1.0',
    ),
    "ignorable spelled oddly": (
        spec([field(ignorable="tRUE")]),
        "12: DemoRequest.Field: \"ignorable\" must be true or false, not 'tRUE'",
    ),
    "tag a fraction": (
        spec([field(tag=0.5, taggedVersions="2+")]),
        '12: DemoRequest.Field: "tag" must be a whole number, not 0.5',
    ),
    "number of thousands of digits": (
        spec([field(default=...)]).replace('"int32"', "1" * 5000),
        "10: column 12: this number has too many digits",
    ),
    "commonStructs no array": (
        spec(commonStructs={}),
        '14: DemoRequest: "name" is missing',
    ),
    "common struct that is younger than its use": (
        spec([field("A", "Part")], commonStructs=[{"name": "Part", "versions": "3+", "fields": [field()]}]),
        "11: DemoRequest.A: the field is in versions 0-5, but Part in 3+",
    ),
    "no type at all": (
        spec([field(kind="")]),
        "10: DemoRequest.Field: unknown type ''; the types are bool, int8, int16, uint16, int32, "
        "uint32, int64, float64, uuid, string, bytes, records, or a struct's name, or [] before "
        "either",
    ),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_error_names_place_and_remedy(name):
    text, expected = CATALOGUE[name]
    found = problems(text)
    assert found == [
        f"Demo.json:{problem}" for problem in ([expected] if isinstance(expected, str) else expected)
    ]


def test_a_file_that_is_not_utf8_is_refused():
    with pytest.raises(SpecError, match=r"^Demo\.json:2: the file is not UTF-8$"):
        parse("Demo.json", b"{\n\xff}")


def test_the_unchanged_spec_is_valid():
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
