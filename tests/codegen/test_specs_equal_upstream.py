"""Our specs say what upstream's say: field by field, against the definitions in the kafka-python wheel.

``about`` texts and comments are our own and are not compared. A difference that is meant stands in a table
here, with its reason.
"""

from __future__ import annotations

import importlib.resources

import attrs
import pytest

from codegen.model import MessageSpec
from codegen.parser import parse
from codegen.versions import Versions
from tests.codegen.message_strategies import SPECS, version_id

#: While it is imported, kafka-python reads its specs with functions the standard library has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

#: (message, key) -> (ours, upstream's): differences on purpose. None at present: upstream's own specs begin
#: Produce at version 3 and RequestHeader at version 1, as ours do.
MEANT_DIFFERENCES: dict[tuple[str, str], tuple[Versions, Versions]] = {}


def upstream(name: str) -> MessageSpec:
    folder = importlib.resources.files("kafka.protocol.schemas.resources")
    return parse(f"{name}.json", folder.joinpath(f"{name}.json").read_bytes())


def facts(node):
    """Everything a spec says, without texts and places."""
    if isinstance(node, tuple):
        return [facts(child) for child in node]
    if attrs.has(type(node)) and not isinstance(node, Versions):
        skipped = {"about", "line", "lines", "path", "sha256"}
        return {
            f.name: facts(getattr(node, f.name)) for f in attrs.fields(type(node)) if f.name not in skipped
        }
    return node


def differences(ours, theirs, path=""):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours:
            name = ours.get("name", "")
            yield from differences(ours[key], theirs[key], f"{path}.{name}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for our_child, their_child in zip(ours, theirs, strict=True):
            yield from differences(our_child, their_child, path)
    elif ours != theirs:
        yield f"{path}: ours {ours!r}, upstream's {theirs!r}"


@pytest.mark.parametrize("spec", SPECS, ids=version_id)
def test_every_fact_equals_upstreams(spec):
    ours, theirs = facts(spec), facts(upstream(spec.name))
    for (name, key), (mine, other) in MEANT_DIFFERENCES.items():
        if name == spec.name:
            assert (ours.pop(key), theirs.pop(key)) == (mine, other)
    assert list(differences(ours, theirs)) == []


@pytest.mark.parametrize("spec", SPECS, ids=version_id)
def test_every_field_is_described_in_other_words_than_upstreams(spec):
    def texts(fields):
        for field in fields:
            yield field.about
            yield from texts(field.fields or ())

    ours = list(texts(spec.fields))
    assert all(ours)
    assert not [text for text in ours if text in set(texts(upstream(spec.name).fields)) and len(text) > 40]


def test_a_changed_fact_would_be_noticed():
    """The comparison itself: one nullable version more is found."""
    spec = next(spec for spec in SPECS if spec.name == "MetadataResponse")
    fields = list(spec.fields)
    fields[2] = attrs.evolve(fields[2], nullable_versions=Versions.parse("1+"))
    found = list(differences(facts(attrs.evolve(spec, fields=tuple(fields))), facts(spec)))
    assert len(found) == 1
    assert "ClusterId.nullable_versions" in found[0]


def test_the_versions_are_the_promised_ones():
    promised = {
        "ApiVersionsRequest": "0-4",
        "ApiVersionsResponse": "0-4",
        "MetadataRequest": "0-13",
        "MetadataResponse": "0-13",
        "ProduceRequest": "3-13",
        "ProduceResponse": "3-13",
        "RequestHeader": "1-2",
        "ResponseHeader": "0-1",
    }
    assert {spec.name: str(spec.valid_versions) for spec in SPECS} == promised
