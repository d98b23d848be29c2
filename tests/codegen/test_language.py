"""Parts of the schema language that our specs do not use, compiled from a spec in this file."""

from __future__ import annotations

import importlib
import uuid

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from codegen.__main__ import main
from codegen.compiler import load_folder
from tests.codegen.message_strategies import class_of, messages, module_of

SPEC = """
/* A message of everything. */
{
  "apiKey": 500, "type": "request", "name": "EverythingRequest", // see http://example.org/spec
  "validVersions": "0-4", "flexibleVersions": "2+",
  "fields": [
    { "name": "class", "type": "bool", "versions": "0+", "default": true,
      "about": "A keyword // not a comment." },
    { "name": "Size", "type": "int8", "versions": "0+", "default": "-0x10" },
    { "name": "Position", "type": "uint16", "versions": "0+", "default": "0xffff" },
    { "name": "Length", "type": "uint32", "versions": "0+", "default": "017" },
    { "name": "Buffer", "type": "[]int16", "versions": "0+", "nullableVersions": "1+" },
    { "name": "List", "type": "[]bool", "versions": "0+" },
    { "name": "Float", "type": "float64", "versions": "0+", "default": "1.5" },
    { "name": "Floats", "type": "[]float64", "versions": "1+", "ignorable": true },
    { "name": "Id", "type": "uuid", "versions": "0+", "default": "AAAAAAAAAAAAAAAAAAAAAQ",
      "ignorable": true },
    { "name": "Ids", "type": "[]uuid", "versions": "0+" },
    { "name": "Names", "type": "[]string", "versions": "0+", "nullableVersions": "3+" },
    { "name": "Blobs", "type": "[]bytes", "versions": "0+" },
    { "name": "Blob", "type": "bytes", "versions": "0+", "nullableVersions": "1+", "zeroCopy": true },
    { "name": "Text", "type": "string", "versions": "0+", "default": "say \\"hi\\"",
      "flexibleVersions": "3+" },
    { "name": "Maybe", "type": "Common", "versions": "1+", "nullableVersions": "2+", "ignorable": true },
    { "name": "Always", "type": "Common", "versions": "0+" },
    { "name": "Never", "type": "Common", "versions": "2+", "nullableVersions": "2+", "default": "null" },
    { "name": "Many", "type": "[]Common", "versions": "0+", "nullableVersions": "4+" },
    { "name": "Late", "type": "string", "versions": "0+", "tag": 0, "taggedVersions": "3+",
      "ignorable": true },
    { "name": "TaggedBool", "type": "bool", "versions": "2+", "tag": 1, "taggedVersions": "2+",
      "default": "true",
      "ignorable": true },
    { "name": "TaggedStruct", "type": "Common", "versions": "2+", "nullableVersions": "2+", "tag": 2,
      "taggedVersions": "2+", "default": "null", "ignorable": true },
    { "name": "TaggedIds", "type": "[]uuid", "versions": "2+", "tag": 3, "taggedVersions": "2+",
      "ignorable": true },
    { "name": "TaggedId", "type": "uuid", "versions": "2+", "tag": 4, "taggedVersions": "2+",
      "ignorable": true },
    { "name": "TaggedBytes", "type": "bytes", "versions": "2+", "nullableVersions": "2+", "tag": 5,
      "taggedVersions": "2+", "ignorable": true },
    { "name": "TaggedNumbers", "type": "[]int64", "versions": "2+", "nullableVersions": "2+", "tag": 6,
      "taggedVersions": "2+", "ignorable": true },
    { "name": "Dead", "type": "int32", "versions": "4+", "default": "3" }
  ],
  "commonStructs": [
    { "name": "Common", "versions": "0+", "fields": [
      { "name": "Type", "type": "int64", "versions": "0+", "mapKey": true },
      { "name": "Inner", "type": "[]Leaf", "versions": "0+" },
      { "name": "IsrIDs", "type": "[]int8", "versions": "1+", "ignorable": true } ] },
    { "name": "Leaf", "versions": "0+", "fields": [
      { "name": "From", "type": "int32", "versions": "0+" },
      { "name": "Data", "type": "records", "versions": "0+", "nullableVersions": "0+" } ] }
  ]
}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    (folder / "specs").mkdir()
    (folder / "specs" / "EverythingRequest.json").write_text(SPEC)
    assert main([str(folder / "specs"), str(folder / "everything_messages")]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        # There is no extension module for this package.
        patch.setenv("KPRODUCER_KERNEL", "auto")
        importlib.import_module("everything_messages")
        yield load_folder(folder / "specs")[0]


@pytest.mark.parametrize("version", range(5))
def test_everything_round_trips_at_its_exact_size(package, version):
    @settings(
        max_examples=20,
        deadline=None,
        phases=set(Phase) - {Phase.explain},
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(package, version, module=module_of(package, "everything_messages")))
    def check(message):
        data = message.encode(version)
        assert len(data) == message.size(version)
        decoded, end = type(message).decode(data, version)
        assert end == len(data)
        assert decoded == message

    check()


@pytest.mark.parametrize("version", range(5))
def test_every_truncation_is_a_decode_error(package, version):
    message_class = class_of(package, "everything_messages")
    error = importlib.import_module("everything_messages").DecodeError
    data = message_class().encode(version)
    for length in range(len(data)):
        with pytest.raises(error):
            message_class.decode(data[:length], version)


def test_defaults_of_every_kind_and_names_that_are_python_keywords(package):
    message = class_of(package, "everything_messages")()
    assert message.class_ is True
    assert message.size_ == -16
    assert message.position == 65535
    assert message.length == 15
    assert message.float_ == 1.5
    assert message.id == uuid.UUID(int=1)
    assert message.text == 'say "hi"'
    assert message.never is None
    assert message.tagged_bool is True
    assert type(message.always).__name__ == "Common"
    assert message.always.type_ == 0
    assert message.always.isr_ids == []
    assert type(message.always).MAP_KEYS == ("type_",)


def test_a_nullable_struct_has_a_marker_and_a_default_in_versions_without_it(package):
    message_class = class_of(package, "everything_messages")
    message = message_class(maybe=None)
    assert message_class.decode(message.encode(2), 2)[0].maybe is None
    present = message_class()
    assert message_class.decode(present.encode(2), 2)[0].maybe == present.maybe
    assert message_class.decode(message_class().encode(0), 0)[0].maybe == present.maybe
    error = importlib.import_module("everything_messages").EncodeError
    with pytest.raises(error, match="field maybe: null"):
        message.encode(1)


def test_a_field_may_be_plain_first_and_tagged_later(package):
    message_class = class_of(package, "everything_messages")
    for version in (2, 3):
        assert message_class.decode(message_class(late="x").encode(version), version)[0].late == "x"
    assert len(message_class(late="x").encode(2)) == len(message_class().encode(2)) + 1
    assert len(message_class(late="x").encode(3)) == len(message_class().encode(3)) + 4


def test_zero_copy_bytes_are_gathered_like_records(package):
    message_class = class_of(package, "everything_messages")
    blob = bytearray(b"b" * 50)
    message = message_class(blob=blob)
    assert message.zero_copy_size(4) == 50
    gather = []
    small = bytearray(message.size(4) - 50)
    assert message.encode_into(small, 0, 4, gather) == len(small)
    assert [data for _, data in gather if data is blob]
