"""JSON that Kafka's generator accepts although its grammar is stricter means the same as the strict form.

The accepted forms were determined with Jackson, configured as in Kafka's generator; test_bad_specs has the
refused ones.
"""

from __future__ import annotations

import json

import pytest

from codegen.check import check
from codegen.errors import SpecError
from codegen.parser import parse
from tests.codegen.test_bad_specs import field, spec
from tests.codegen.test_specs_equal_upstream import facts


def meaning(text):
    found = parse("Demo.json", text.encode() if isinstance(text, str) else text)
    assert check(found) == []
    return facts(found)


def with_field(kind="int32", **keys):
    return spec([field(kind=kind, **keys)])


PART = {"name": "Part", "versions": "0+", "fields": [field()]}

ALIKE = {
    **{
        f"flag {word!r}": (with_field(ignorable=word), with_field(ignorable=meant))
        for meant, words in {
            True: ("true", "True", "TRUE", " true ", 1, -1),
            False: ("false", "False", "FALSE", "null", "", " ", 0, None),
        }.items()
        for word in words
    },
    **{
        f"tag {number!r}": (
            with_field(tag=number, taggedVersions="2+"),
            with_field(tag=0, taggedVersions="2+"),
        )
        for number in ("0", " 0 ", "+0", "00", 0.0)
    },
    **{f"no tag {word!r}": (with_field(tag=word), with_field()) for word in ("", " ", "null", None)},
    "apiKey in quotes": (spec(apiKey="99"), spec(apiKey=99)),
    "apiKey with an exponent": (spec(apiKey=99).replace("99", "9.9e1"), spec(apiKey=99)),
    "versions a number": (with_field(versions=3), with_field(versions="3")),
    "versions with surrounding blanks": (with_field(versions=" 0+ "), with_field()),
    "empty versions of tags": (with_field(taggedVersions=""), with_field()),
    "empty versions of nulls": (with_field("string", nullableVersions=" "), with_field("string")),
    "empty flexible versions": (with_field("string", flexibleVersions=""), with_field("string")),
    "no default": (with_field(default=None), with_field()),
    "empty default": (with_field(default=""), with_field()),
    "flag as default": (with_field("bool", default="TRUE"), with_field("bool", default=True)),
    "number as default of a string": (
        with_field("string", default=1).replace('"default": 1', '"default": 1.50'),
        with_field("string", default="1.50"),
    ),
    "flag as default of a string": (with_field("string", default=True), with_field("string", default="true")),
    "number as text": (with_field(about=5), with_field(about="5")),
    "no text": (with_field(about=None), with_field()),
    "type with surrounding blanks": (spec(type=" request "), spec()),
    "no entity": (with_field(entityType="unknown"), with_field()),
    "one field": (spec(field()), spec([field()])),
    "one listener": (spec(listeners="broker"), spec(listeners=["broker"])),
    "one common struct": (
        spec([field(kind="Part")], commonStructs=PART),
        spec([field(kind="Part")], commonStructs=[PART]),
    ),
    "no fields": (spec(fields=...), spec([])),
    "fields null": (spec([]).replace("[]", "null"), spec([])),
    "no fields of a number": (with_field(fields=[]), with_field()),
    "no fields of a common struct": (
        spec([field(kind="Part")], commonStructs=[PART | {"fields": []}]),
        spec([field(kind="Part")], commonStructs=[{"name": "Part", "versions": "0+"}]),
    ),
    "the same key twice": (spec().replace('"name": "Field"', '"name": "Field", "name": "Field"'), spec()),
    "comments": ("/* a */ // b\r" + spec().replace(": ", ": /* c */ ", 3) + "// d", spec()),
    "a byte order mark": ("\ufeff" + spec(), spec()),
}


@pytest.mark.parametrize("name", ALIKE)
def test_both_forms_are_equivalent(name):
    loose, strict = ALIKE[name]
    assert meaning(loose) == meaning(strict)


def test_a_key_that_occurs_twice_with_different_values_is_refused():
    """Kafka's generator would take the second value; one of the two must be an error."""
    for other in ("0-3", 0, None, ["0+"]):
        text = with_field().replace('"versions": "0+"', f'"versions": "0+", "versions": {json.dumps(other)}')
        with pytest.raises(SpecError, match=r"Demo.json:11: column \d+: \"versions\" occurs twice"):
            meaning(text)
