"""Changes of specs: those that break a released version are reported, others are accepted."""

from __future__ import annotations

import json

import pytest

from codegen.__main__ import main
from codegen.check import check
from codegen.compiler import load_folder
from codegen.evolution import incompatible_changes
from codegen.parser import parse
from tests.codegen.compiled import corpus_dir


def field(name, kind="int32", versions="0+", **keys):
    return {"name": name, "type": kind, "versions": versions, **keys}


def tagged(name, tag, kind="int32", versions="2+", **keys):
    return field(name, kind, versions, tag=tag, taggedVersions=versions, **keys)


def spec(*fields, **keys):
    base = {
        "apiKey": 99,
        "type": "request",
        "name": "DemoRequest",
        "listeners": ["broker"],
        "validVersions": "0-3",
        "deprecatedVersions": "0",
        "flexibleVersions": "2+",
        "fields": [*fields],
    }
    return {**base, **keys}


def read(values, name="Demo.json"):
    made = parse(name, json.dumps(values, indent=1).encode())
    assert check(made) == []
    return made


def changes(old, new):
    found = incompatible_changes([read(old)], [read(new)])
    return [str(change).split(": ", 1)[1] for change in found]


A, B = field("A"), field("B", "string")
INNER = field("Parts", "[]Part", fields=[field("X"), field("Y", "string")])

BREAKING = {
    "field removed": (spec(A, B), spec(A), ["DemoRequest: the field B was removed"]),
    "field removed from some versions": (
        spec(A, B),
        spec(A, field("B", "string", "0-1")),
        ["DemoRequest: the field B was removed (in versions 2-3)"],
    ),
    "field added": (
        spec(A),
        spec(A, field("B", versions="1-2")),
        ["DemoRequest.B: the field was added to a version that already exists (in versions 1-2)"],
    ),
    "fields reordered": (spec(A, B), spec(B, A), ["DemoRequest.B: the field has the former position of A"]),
    "field renamed": (
        spec(A, B),
        spec(A, field("C", "string")),
        ["DemoRequest.C: the field was renamed from B: the bytes are the same, but callers break"],
    ),
    "type changed": (
        spec(A),
        spec(field("A", "int64")),
        ["DemoRequest.A: the type has changed from int32 to int64"],
    ),
    "array of the same": (
        spec(A),
        spec(field("A", "[]int32")),
        ["DemoRequest.A: the type has changed from int32 to []int32"],
    ),
    "nested field removed": (
        spec(INNER),
        spec(field("Parts", "[]Part", fields=[field("X")])),
        ["DemoRequest.Parts: the field Y was removed"],
    ),
    "nested type changed": (
        spec(INNER),
        spec(field("Parts", "[]Part", fields=[field("X", "int8"), field("Y", "string")])),
        ["DemoRequest.Parts.X: the type has changed from int32 to int8"],
    ),
    "struct renamed": (
        spec(INNER),
        spec(field("Parts", "[]Piece", fields=[field("X"), field("Y", "string")])),
        ["DemoRequest.Parts: the struct Part is now called Piece"],
    ),
    "nullability shrunk": (
        spec(field("B", "string", nullableVersions="0+")),
        spec(field("B", "string", nullableVersions="2+")),
        ["DemoRequest.B: the field may no longer be null (in versions 0-1)"],
    ),
    "nullability widened": (
        spec(B),
        spec(field("B", "string", nullableVersions="3+")),
        ["DemoRequest.B: the field may now be null, which old readers refuse (in version 3)"],
    ),
    "tag reused": (
        spec(tagged("T", 0)),
        spec(tagged("U", 0)),
        [
            "DemoRequest.U: tag 0 was T's and cannot be used again",
            "DemoRequest.U: the field was renamed from T: the bytes are the same, but callers break"
            " (in versions 2-3)",
        ],
    ),
    "tagged field removed": (
        spec(A, tagged("T", 0)),
        spec(A),
        [
            "DemoRequest: the tagged field T was removed, so tag 0 could be used again; keep it and end its"
            " versions",
            "DemoRequest: the field T was removed (in versions 2-3)",
        ],
    ),
    "tag changed": (
        spec(tagged("T", 0), tagged("U", 1)),
        spec(tagged("T", 1), tagged("U", 0)),
        [
            "DemoRequest.T: tag 1 was U's and cannot be used again",
            "DemoRequest.T: the tag has changed from 0 to 1 (in versions 2-3)",
            "DemoRequest.U: tag 0 was T's and cannot be used again",
            "DemoRequest.U: the tag has changed from 1 to 0 (in versions 2-3)",
        ],
    ),
    "plain field tagged": (
        spec(field("T")),
        spec(field("T", tag=0, taggedVersions="3+")),
        ["DemoRequest.T: the field was plain and is now tagged (in version 3)"],
    ),
    "default of a tagged field": (
        spec(tagged("T", 0)),
        spec(tagged("T", 0, default=5)),
        [
            "DemoRequest.T: the default has changed from 0 to 5, and an absent tagged field means "
            "its default (in versions 2-3)"
        ],
    ),
    "made flexible": (
        spec(A),
        spec(A, flexibleVersions="1+"),
        ["DemoRequest: version 1 was not flexible; this cannot change"],
    ),
    "length of one field": (
        spec(B),
        spec(field("B", "string", flexibleVersions="none")),
        ["DemoRequest.B: the length has another encoding (in versions 2-3)"],
    ),
    "versions gone": (
        spec(A),
        spec(A, validVersions="2-3", deprecatedVersions="none"),
        ["DemoRequest: version 1 was removed without deprecation"],
    ),
    "newest versions gone": (
        spec(A),
        spec(A, validVersions="0-1", flexibleVersions="none"),
        ["DemoRequest: versions 2-3 were removed without deprecation"],
    ),
    "API key": (spec(A), spec(A, apiKey=98), ["DemoRequest: the API key has changed from 99 to 98"]),
    "listener": (
        spec(A),
        spec(A, listeners=["controller"]),
        ["DemoRequest: the listener broker was removed"],
    ),
    "map key": (
        spec(field("Parts", "[]Part", fields=[field("X", mapKey=True)])),
        spec(field("Parts", "[]Part", fields=[field("X")])),
        ["DemoRequest.Parts.X: the field is no longer a map key"],
    ),
    "no longer ignorable": (
        spec(A, field("N", versions="2+", ignorable=True)),
        spec(A, field("N", versions="2+")),
        ["DemoRequest.N: the field is no longer ignorable, so messages that set it fail (in versions 0-1)"],
    ),
}

COMPATIBLE = {
    "nothing": (spec(A, INNER), spec(A, INNER)),
    "new version with a new field": (
        spec(A),
        spec(A, field("B", versions="4+", ignorable=True), validVersions="0-4"),
    ),
    "field ends with the old versions": (
        spec(A, B),
        spec(A, field("B", "string", "0-3"), validVersions="0-4"),
    ),
    "new version with another type under a new name": (
        spec(field("A")),
        spec(field("A", versions="0-3"), field("A2", "int64", "4+"), validVersions="0-4"),
    ),
    "null in a new version": (
        spec(B),
        spec(field("B", "string", nullableVersions="4+"), validVersions="0-4"),
    ),
    "deprecated version gone": (spec(A), spec(A, validVersions="1-3", deprecatedVersions="none")),
    "unstable version changed": (
        spec(A, field("B", versions="3+"), latestVersionUnstable=True),
        spec(A, field("B", "string", versions="3+"), latestVersionUnstable=True),
    ),
    "tagged field of a new version": (
        spec(A),
        spec(A, tagged("T", 0, versions="4+"), validVersions="0-4"),
    ),
    "tagged fields in another order of text": (
        spec(tagged("T", 0), tagged("U", 1)),
        spec(tagged("U", 1), tagged("T", 0)),
    ),
    "texts, entities, zero copy, defaults of plain fields": (
        spec(field("A", "string"), field("B", "bytes"), field("N")),
        spec(
            field("A", "string", entityType="topicName", about="Other words."),
            field("B", "bytes", zeroCopy=True),
            field("N", default=4),
        ),
    ),
    "a struct made common": (
        spec(INNER),
        spec(
            field("Parts", "[]Part"),
            commonStructs=[{"name": "Part", "versions": "0+", "fields": INNER["fields"]}],
        ),
    ),
}


@pytest.mark.parametrize("name", BREAKING)
def test_a_breaking_change_is_reported(name):
    old, new, expected = BREAKING[name]
    assert sorted(changes(old, new)) == sorted(expected)


@pytest.mark.parametrize("name", COMPATIBLE)
def test_a_compatible_change_is_accepted(name):
    old, new = COMPATIBLE[name]
    assert changes(old, new) == []


def test_a_removed_message_is_reported_and_a_new_one_is_not():
    old, new = read(spec(A)), read({**spec(A), "name": "OtherRequest"})
    (change,) = incompatible_changes([old], [new])
    assert str(change) == (
        "Demo.json:1: DemoRequest: the message was removed; deprecate its versions first, then make "
        "validVersions 'none'"
    )


def test_a_message_that_changes_its_kind_is_reported():
    old = spec(A)
    new = {**spec(A), "type": "data"}
    del new["apiKey"], new["listeners"]
    assert sorted(changes(old, new)) == [
        "DemoRequest: the API key has changed from 99 to None",
        "DemoRequest: the listener broker was removed",
        "DemoRequest: the request is now a data",
    ]


def test_upstreams_specs_are_compatible_with_themselves():
    specs = load_folder(corpus_dir())
    assert incompatible_changes(specs, specs) == []


@pytest.fixture
def folders(tmp_path):
    def write(name, *specs):
        folder = tmp_path / name
        folder.mkdir()
        for values in specs:
            (folder / f"{values['name']}.json").write_text(json.dumps(values, indent=1))
        return str(folder)

    return write


def test_the_command_exits_with_1_and_names_file_line_and_field(folders, capsys):
    new = folders("new", spec(A, field("B", "int8")))
    assert main(["check", folders("old", spec(A, B)), new]) == 1
    out, err = capsys.readouterr()
    text = json.dumps(spec(A, field("B", "int8")), indent=1).splitlines()
    line = 1 + next(number for number, row in enumerate(text) if '"int8"' in row)
    expected = f"{new}/DemoRequest.json:{line}: DemoRequest.B: the type has changed from string to int8\n"
    assert out == expected
    assert err == "1 incompatible change(s) in 1 messages\n"


def test_the_command_exits_with_0_when_all_is_compatible(folders, capsys):
    assert main(["check", folders("old", spec(A)), folders("new", spec(A))]) == 0
    assert capsys.readouterr().out == "1 messages compared with 1: compatible\n"


def test_the_command_exits_with_1_on_a_wrong_spec_and_2_on_wrong_usage(folders, capsys):
    good, bad = folders("good", spec(A)), folders("bad", spec(field("A", "int3")))
    assert main(["check", good, bad]) == 1
    assert "unknown type 'int3'" in capsys.readouterr().err
    for words in (["check", good], ["check", good, good + "/missing"], ["check"]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 2


@pytest.mark.parametrize("words", [["--help"], ["check", "--help"]])
def test_help_describes_the_commands(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 0
    told = capsys.readouterr().out
    assert "exit codes: 0" in told
    assert "usage: python -m codegen" in told
