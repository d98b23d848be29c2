"""Our bytes against Apache Kafka's own generated classes, for every version that both have.

Kafka encodes the same values to the same bytes, decodes our bytes to the same values, and writes them back
unchanged, including unknown tagged fields. Versions that Kafka 4 has removed are compared with Kafka 3.9.
Kafka's behaviour is correct by definition.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from codegen.errors import SpecError
from codegen.model import MessageType
from codegen.parser import parse
from tests.codegen import kafka_oracle
from tests.codegen.compiled import CORPUS, cases_of, specs_of
from tests.codegen.kafka_oracle import KAFKAS, KafkaOracle, OracleError, extract_specs, kafka_json
from tests.codegen.message_strategies import messages, without_unknown_tags
from tests.support.kafka.maven_artifacts import SPEC_ARTIFACTS, KafkaUnavailableError, spec_jars
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail

pytestmark = pytest.mark.kafka

_SETTINGS = settings(
    max_examples=4,
    deadline=None,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

#: Kafka Streams generates no JSON converters.
_WITHOUT_JSON = {"SubscriptionInfoData"}
#: Fields that Kafka has renamed since the wheel's specs were written; their bytes are unchanged.
_RENAMED = {"TxnOffsetCommitRequest": {"generationId": "generationIdOrMemberEpoch"}}


@contextlib.contextmanager
def available():
    """Skip the test, or fail it if Kafka is required, when Kafka is not available."""
    try:
        yield
    except KafkaUnavailableError as error:
        skip_or_fail(REQUIRE_KAFKA, str(error))


@pytest.fixture(scope="module")
def oracle():
    with available():
        made = KafkaOracle()
    with contextlib.closing(made):
        yield made


@pytest.mark.parametrize("case", CORPUS, ids=str)
def test_kafka_reads_and_writes_the_same(oracle, case):
    if oracle.knows(case.spec, case.version) is None:
        pytest.skip(f"Kafka has no {case}")
    assert_kafka_agrees(oracle, case, _RENAMED.get(case.spec.name, {}))


def test_kafka_agrees_on_all_specs_in_its_jars(oracle, tmp_path):
    """Including records of coordinators and of the cluster metadata, which the wheel does not have."""
    wheel = set(map(str, CORPUS))
    specs, compared, kinds = 0, 0, set()
    for number, folder in enumerate(extract_specs(spec_jars(KAFKAS[0]), tmp_path)):
        specs += len(specs_of(folder))
        for case in cases_of(folder, f"kafka_{number}_messages"):
            kinds.add(case.spec.type)
            if str(case) not in wheel:
                assert oracle.knows(case.spec, case.version) == KAFKAS[0]
                assert_kafka_agrees(oracle, case, {})
                compared += 1
    print(f"{specs} specs, {compared} versions beyond the wheel's")
    assert specs > 280
    assert compared > 250
    assert kinds == set(MessageType)


def test_kafka_3_9_agrees_on_the_versions_that_kafka_4_has_removed(oracle, tmp_path):
    def is_removed(spec, version):
        return oracle.knows(spec, version) == KAFKAS[1]

    compared = 0
    for number, folder in enumerate(extract_specs(spec_jars(KAFKAS[1]), tmp_path)):
        for path in sorted(folder.iterdir()):
            spec = parse(path.name, path.read_bytes())
            if not any(is_removed(spec, version) for version in spec.valid_versions):
                path.unlink()  # only to save time
        for case in cases_of(folder, f"kafka_old_{number}_messages") if any(folder.iterdir()) else ():
            if is_removed(case.spec, case.version):
                assert_kafka_agrees(oracle, case, _RENAMED.get(case.spec.name, {}))
                compared += 1
    print(f"{compared} versions")
    assert compared > 50


#: Their JSON converters cannot read empty bytes, so their classes cannot be used.
_UNABLE = {"3.4.1", "2.8.2"}
#: Errors that only the generator of Kafka 2.8 accepts. Later generators refuse them, and so do we.
_REFUSED = {
    "DescribeProducersRequest": "the file continues after the closing brace",
    "any other": '"flexibleVersions" is missing',
}


@functools.cache
def meaning_of(path):
    """The spec without descriptions and comments."""
    description = rb',?\s*"about"\s*:\s*"(\\.|[^"\\])*"'
    return re.sub(description + rb"|^\s*//.*$|\s//.*$|\s+", b"", path.read_bytes(), flags=re.M)


@pytest.mark.parametrize("kafka", list(SPEC_ARTIFACTS)[1:])
def test_all_specs_of_a_kafka_compile_and_its_classes_agree(kafka, tmp_path):
    """Only specs that no newer Kafka has with the same meaning, and only their first and last versions."""
    with available():
        jars = {version: spec_jars(version) for version in SPEC_ARTIFACTS}
    newer = list(jars)[: list(jars).index(kafka)]
    folders = {version: extract_specs(jars[version], tmp_path / version) for version in (*newer, kafka)}
    known = {
        meaning_of(path) for version in newer for folder in folders[version] for path in folder.iterdir()
    }
    compiled, refused, compared = 0, 0, 0
    with contextlib.closing(KafkaOracle({kafka: jars[kafka]})) as oracle:
        for number, folder in enumerate(folders[kafka]):
            for path in sorted(folder.iterdir()):
                data = path.read_bytes()
                if meaning_of(path) in known:
                    path.unlink()
                elif kafka == "2.8.2" and (path.stem in _REFUSED or b"flexibleVersions" not in data):
                    with pytest.raises(SpecError, match=_REFUSED.get(path.stem, _REFUSED["any other"])):
                        parse(path.name, data)
                    path.unlink()
                    refused += 1
            package = f"kafka_{re.sub(r'[.]', '_', kafka)}_{number}_messages"
            for case in cases_of(folder, package) if any(folder.iterdir()) else ():
                compiled += case.version == case.spec.valid_versions.lowest
                is_end = case.version in (case.spec.valid_versions.lowest, case.spec.valid_versions.highest)
                if kafka in _UNABLE:
                    data = case.message_class().encode(case.version)
                    assert case.message_class.decode(data, case.version)[1] == len(data)
                elif is_end and oracle.knows(case.spec, case.version):
                    assert_kafka_agrees(oracle, case, {})
                    compared += 1
    print(f"{compiled} specs compiled, {refused} refused, {compared} versions compared")
    assert compiled > 0
    assert compared >= compiled or kafka in _UNABLE


def assert_kafka_agrees(oracle, case, renamed):

    @_SETTINGS
    @given(messages(case.spec, case.version, module=case.module))
    def check(message):
        data = message.encode(case.version)
        sent, expected = (
            {renamed.get(key, key): value for key, value in values.items()}
            for values in (
                kafka_json(message, case.spec, case.version, for_reading=for_reading)
                for for_reading in (True, False)
            )
        )
        answer = oracle.ask(case.spec, case.version, sent, data)
        assert answer.written_again == data
        if case.spec.name not in _WITHOUT_JSON:
            assert answer.values == expected
            assert answer.from_values == without_unknown_tags(message).encode(case.version)

    check()


def test_the_comparison_with_kafka_notices_differences(oracle):
    """The comparison itself: other values, a truncated message and trailing bytes are all noticed."""
    case = next(case for case in CORPUS if str(case) == "MetadataRequest-v9")
    message = case.message_class(allow_auto_topic_creation=False)
    data = message.encode(9)
    other = kafka_json(case.message_class(), case.spec, 9, for_reading=True)
    answer = oracle.ask(case.spec, 9, other, data)
    assert answer.written_again == data
    assert answer.from_values != data
    assert answer.values != other
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(OracleError):
            oracle.ask(case.spec, 9, other, wrong)


@pytest.mark.parametrize(
    ("name", "version", "tags"),
    [("FetchResponse", 14, {0: b""}), ("HeartbeatRequest", 4, {2**31 - 1: b""})],
)
def test_kafka_refuses_the_tags_that_we_refuse(oracle, name, version, tags):
    """The tag of a field that is not tagged in the version, and the highest possible tag."""
    case = next(case for case in CORPUS if str(case) == f"{name}-v{version}")
    values = kafka_json(case.message_class(), case.spec, version, for_reading=True)
    with pytest.raises(case.load().EncodeError):
        case.message_class(unknown_tagged_fields=tags).encode(version)
    ((tag, _),) = tags.items()
    data = case.message_class(unknown_tagged_fields={99: b""}).encode(version)
    assert data.endswith(b"\x01\x63\x00")
    buffer = bytearray(8)
    end = importlib.import_module("corpus_messages._wire").write_uvarint(buffer, 0, tag)
    with pytest.raises(OracleError, match=f"(?i)tag {tag}"):
        oracle.ask(case.spec, version, values, data[:-2] + buffer[:end] + b"\0")


def test_a_java_that_cannot_compile_is_named(monkeypatch):
    monkeypatch.setattr(kafka_oracle, "java_command", lambda: "/bin/false")
    with pytest.raises(KafkaUnavailableError, match="jdk"):
        KafkaOracle()
