"""Our specs agree with upstream's field by field: with the definitions in the kafka-python wheel and,
where Java and Maven are available, with those in the newest Kafka's jars.

``about`` texts and comments are our own and are not compared. A table in this file lists intended differences
with their reasons.
"""

from __future__ import annotations

import importlib.resources

import attrs
import pytest

from codegen.model import MessageSpec
from codegen.parser import parse
from codegen.versions import Versions
from tests.codegen.kafka_oracle import KAFKAS, extract_specs
from tests.codegen.message_strategies import SPECS, version_id
from tests.support.kafka.maven_artifacts import KafkaUnavailableError, spec_jars
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail

#: While being imported, kafka-python reads its specs with deprecated functions of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

#: (message, key) -> (ours, upstream's): intended differences. None at present: upstream's own specs begin
#: with Produce version 3 and RequestHeader version 1, as ours do.
MEANT_DIFFERENCES: dict[tuple[str, str], tuple[Versions, Versions]] = {}

#: Messages with a newer version in Kafka than in the wheel: compared with Kafka's jars only.
NEWER_THAN_THE_WHEEL = {
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
}
#: Messages that the wheel does not have.
NOT_IN_THE_WHEEL = {
    f"{api}{kind}"
    for api in ("GetTelemetrySubscriptions", "PushTelemetry")
    for kind in ("Request", "Response")
}
_IN_THE_WHEEL = [spec for spec in SPECS if spec.name not in NEWER_THAN_THE_WHEEL | NOT_IN_THE_WHEEL]


def upstream(name: str) -> MessageSpec:
    folder = importlib.resources.files("kafka.protocol.schemas.resources")
    return parse(f"{name}.json", folder.joinpath(f"{name}.json").read_bytes())


def facts(node):
    """All facts of a spec, without texts and positions."""
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


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory):
    """The specs in Kafka's jars, by name."""
    try:
        folders = extract_specs(spec_jars(KAFKAS[0]), tmp_path_factory.mktemp("kafka"))
    except KafkaUnavailableError as error:
        skip_or_fail(REQUIRE_KAFKA, str(error))
    return {path.stem: path for folder in folders for path in folder.iterdir()}


@pytest.mark.parametrize("spec", _IN_THE_WHEEL, ids=version_id)
def test_every_fact_equals_upstreams(spec):
    compare(spec, upstream(spec.name))


@pytest.mark.kafka
@pytest.mark.parametrize("spec", SPECS, ids=version_id)
def test_every_fact_equals_kafkas(spec, kafkas):
    path = kafkas[spec.name]
    compare(spec, parse(path.name, path.read_bytes()))


@pytest.mark.parametrize("name", sorted(NEWER_THAN_THE_WHEEL))
def test_the_listed_messages_are_older_in_the_wheel(name):
    ours = next(spec for spec in SPECS if spec.name == name)
    assert upstream(name).valid_versions.highest < ours.valid_versions.highest


def compare(spec, other_spec):
    ours, theirs = facts(spec), facts(other_spec)
    for (name, key), (mine, other) in MEANT_DIFFERENCES.items():
        if name == spec.name:
            assert (ours.pop(key), theirs.pop(key)) == (mine, other)
    assert list(differences(ours, theirs)) == []


def texts(fields):
    for field in fields:
        yield field.about
        yield from texts(field.fields or ())


def check_descriptions(spec, other_spec):
    ours, theirs = list(texts(spec.fields)), set(texts(other_spec.fields))
    assert all(ours)
    assert not [text for text in ours if text in theirs and len(text) > 40]


@pytest.mark.parametrize("spec", [s for s in SPECS if s.name not in NOT_IN_THE_WHEEL], ids=version_id)
def test_every_field_has_a_description_different_from_upstreams(spec):
    check_descriptions(spec, upstream(spec.name))


@pytest.mark.kafka
@pytest.mark.parametrize("spec", [s for s in SPECS if s.name in NOT_IN_THE_WHEEL], ids=version_id)
def test_every_field_has_a_description_different_from_kafkas(spec, kafkas):
    path = kafkas[spec.name]
    check_descriptions(spec, parse(path.name, path.read_bytes()))


def test_a_changed_fact_is_noticed():
    """The comparison itself: one additional nullable version is noticed."""
    spec = next(spec for spec in SPECS if spec.name == "MetadataResponse")
    fields = list(spec.fields)
    fields[2] = attrs.evolve(fields[2], nullable_versions=Versions.parse("1+"))
    found = list(differences(facts(attrs.evolve(spec, fields=tuple(fields))), facts(spec)))
    assert len(found) == 1
    assert "ClusterId.nullable_versions" in found[0]


def test_the_specs_have_the_promised_versions():
    apis = {
        "AddOffsetsToTxn": "0-4",
        "AddPartitionsToTxn": "0-5",
        "ApiVersions": "0-5",
        "EndTxn": "0-5",
        "FindCoordinator": "0-6",
        "GetTelemetrySubscriptions": "0",
        "InitProducerId": "0-6",
        "Metadata": "0-13",
        "OffsetFetch": "1-10",
        "Produce": "3-13",
        "PushTelemetry": "0",
        "SaslAuthenticate": "0-2",
        "SaslHandshake": "0-1",
        "TxnOffsetCommit": "0-6",
    }
    promised = {f"{api}{kind}": range_ for api, range_ in apis.items() for kind in ("Request", "Response")}
    promised.update(RequestHeader="1-2", ResponseHeader="0-1")
    assert {spec.name: str(spec.valid_versions) for spec in SPECS} == promised
