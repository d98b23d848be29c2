"""A schema registry whose answers are wrong, endless or slow: errors that name the field, bounded work."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import re
import socket
import threading
from typing import Any

import attrs
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kproducer import ConfigError, InvalidArgumentError, SerializationError
from kproducer.schema_registry import (
    AvroSerializer,
    JSONSerializer,
    ProtobufSerializer,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    deadlines,
    http_exchange,
    references,
)
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.loopback import PATIENCE_S
from tests.support.proxies import LoopbackProxy
from tests.support.raw_http import RawHttpServer, read_request, response

STRING = Schema('"string"')
FAST = {"retries.wait.ms": 1, "retries.max.wait.ms": 1}
TOPIC = {"subject.name.strategy.type": "TOPIC"}
LATEST = {"auto.register.schemas": False, "use.latest.version": True, **TOPIC}
GUID = "8d8b7f3a-0000-4000-8000-123456789abc"
GOOD = {"id": 1, "version": 1, "guid": GUID, "subject": "a", "schema": '"string"'}
DEEP = b"[" * 200_000


def answer_with(monkeypatch: pytest.MonkeyPatch, registry: FakeSchemaRegistry, answer: Any) -> None:
    """Let the registry answer with this JSON, or with what a function of (method, target) returns."""

    def answered(method: str, target: str, *others: object) -> tuple[int, Any]:
        registry.requests.append(f"{method} {target}")
        return 200, answer(method, target) if callable(answer) else answer

    monkeypatch.setattr(registry, "_answer", answered)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("id", each) for each in (True, 1.7, 1e999, float("nan"), -5, 2**31, 10**400, "1", None, [1])),
        *(("version", each) for each in (True, 1.5, 0, -1, 2**31, "1")),
        *(("guid", each) for each in ("x", 5, "", f"{{{GUID}}}", f"{GUID}\n")),
        *(("subject", each) for each in ("", 5, "\ud800")),
        *(("schema", each) for each in (None, "", 5, {}, "\ud800")),
        *(("schemaType", each) for each in (5, [], "")),
        *(("references", each) for each in (5, {}, "abc", [1], [{}], [None])),
        ("references.version", [{"name": "b", "subject": "b", "version": "../../x"}]),
        ("references.version", [{"name": "b", "subject": "b", "version": True}]),
        ("references.name", [{"name": 5, "subject": "b", "version": 1}]),
        ("references.subject", [{"name": "b", "subject": None, "version": 1}]),
        ("metadata", []),
        ("ruleSet", "x"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_each_field_of_an_answer_is_checked(client, registry, monkeypatch, field, value):
    answer_with(monkeypatch, registry, {**GOOD, field.partition(".")[0]: value})
    expected = rf"not what a schema registry sends: {re.escape(field)}.*check that the url"
    for _ in range(2):  # and nothing of it is kept
        with pytest.raises(SchemaRegistryError, match=expected) as failed:
            client.get_latest_version("a")
    assert len(str(failed.value)) < 1000
    assert len(registry.requests) == 2


def test_an_id_that_is_not_one_is_not_written(client, registry, monkeypatch):
    for wrong in (True, 1.7, -5, 2**31):
        answer_with(monkeypatch, registry, {"id": wrong})
        with pytest.raises(SchemaRegistryError, match="id: expected a whole number from 0 to 2147483647"):
            AvroSerializer(client, "string", conf=TOPIC).serialize("events", [], "x")
    answer_with(monkeypatch, registry, {"id": 2**31 - 1})
    data = AvroSerializer(client, "string", conf=TOPIC).serialize("events", [], "x")
    assert data == b"\0\x7f\xff\xff\xff\x02x"


def test_fields_that_a_registry_leaves_out_or_empty(client, registry, monkeypatch):
    for answer in (
        {"id": 1},
        {"id": 1, **dict.fromkeys(("schema", "version", "guid", "subject", "references"))},
    ):
        client.clear_caches()
        answer_with(monkeypatch, registry, answer)
        found = client.register_schema_full_response("a", STRING)
        assert (found.subject, found.version, found.guid, found.schema) == ("a", None, None, STRING)


def test_an_answer_about_something_else(client, registry, monkeypatch):
    answer_with(monkeypatch, registry, GOOD)
    with pytest.raises(SchemaRegistryError, match="id: expected 2, got 1"):
        client.get_schema(2)
    with pytest.raises(SchemaRegistryError, match="version: expected 2, got 1"):
        client.get_version("a", 2)


@pytest.mark.parametrize(
    ("call", "answers"),
    [
        (lambda client: client.get_subjects(), [{"a": 1}, "abc", [1], [""], [None]]),
        (lambda client: client.get_versions("a"), [{}, "12", [True], ["1"], [0]]),
        (lambda client: client.test_compatibility("a", STRING), [[], {}, {"is_compatible": "false"}]),
        (lambda client: client.set_compatibility("a"), [[], {}, {"compatibility": 5}]),
        (lambda client: client.get_schema_by_guid(GUID), [[], {}, {"schema": 5}]),
        (
            lambda client: client.get_associations_by_resource_name("a"),
            [{}, [5], [{"subject": "a"}], [dict.fromkeys(("subject", "resourceName"), 5)]],
        ),
    ],
)
def test_all_calls_check_their_answers(client, registry, monkeypatch, call, answers):
    for answer in answers:
        answer_with(monkeypatch, registry, answer)
        with pytest.raises(SchemaRegistryError, match="not what a schema registry sends"):
            call(client)


def test_ids_of_the_application_are_checked(client, registry):
    for wrong in (-5, 2**31, True, 1.0):
        with pytest.raises(ConfigError, match=r"use\.schema\.id: expected a whole number from 0"):
            AvroSerializer(client, conf={"use.schema.id": wrong})
        with pytest.raises(InvalidArgumentError, match="schema_id: expected a whole number from 0"):
            client.get_schema(wrong)
    assert registry.requests == []


@pytest.mark.parametrize(
    "rule_set",
    [
        {"domainRules": 5},
        {"domainRules": "encrypt"},
        {"encodingRules": [5]},
        {"domainRules": {"mode": "WRITE"}},
        {"domainRules": [{"mode": ["WRITE"], "name": "a"}, {"mode": "WRITE", "name": 5, "disabled": "no"}]},
    ],
    ids=str,
)
def test_rules_that_cannot_be_read_are_not_ignored(client, registry, monkeypatch, rule_set):
    answer_with(monkeypatch, registry, {**GOOD, "ruleSet": rule_set})
    with pytest.raises(SerializationError, match="rules"):
        AvroSerializer(client, conf=LATEST).serialize("events", [], "x")


def answers_in_turn(*answers: bytes):
    """A server with one answer for each connection; the last one is repeated."""
    waiting = list(answers)

    def answer(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(waiting.pop(0) if len(waiting) > 1 else waiting[0])

    return RawHttpServer(answer)


@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        b'{"error_code": 1e999}',
        b'{"error_code": null, "message": 5}',
        b"[]",
        b"\xff\xfe",
        b" " * (9 << 20),
    ],
    ids=["nested", "infinite", "null", "array", "bytes", "long"],
)
def test_a_failure_is_temporary_whatever_its_body(body):
    failed = response(body, "Connection: close", status="500 Failed")
    with (
        answers_in_turn(failed, response(b'["a"]')) as server,
        SchemaRegistryClient({"url": server.url, **FAST}) as client,
    ):
        assert client.get_subjects() == ["a"]
    with answers_in_turn(failed) as server, SchemaRegistryClient({"url": server.url, **FAST}) as client:
        with pytest.raises(SchemaRegistryError, match=r"HTTP status 500.*no message.*attempts: 4") as caught:
            client.get_subjects()
        assert (caught.value.error_code, caught.value.is_temporary) == (-1, True)


@pytest.mark.parametrize(
    "body",
    [DEEP, b'{"id": 1e999}', b'{"id": NaN}', b"[", b"\xff", b""],
    ids=["nested", "infinite", "nan", "cut", "byte", "empty"],
)
def test_a_body_that_cannot_be_read(body):
    with answers_in_turn(response(body)) as server, SchemaRegistryClient({"url": server.url}) as client:
        with pytest.raises(SchemaRegistryError, match="check that the url is that of a schema registry") as e:
            client.get_latest_version("a")
        assert not e.value.is_temporary


def test_an_endless_answer_is_not_read_to_its_end():
    sent = 0

    def answer(connection: socket.socket) -> None:
        nonlocal sent
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while sent < 16 * http_exchange.LONGEST_ANSWER_BYTES:
            connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            sent += 0x10000

    with (
        RawHttpServer(answer) as server,
        SchemaRegistryClient({"url": server.url}) as client,
        pytest.raises(SchemaRegistryError, match="the response is longer than 8388608 bytes"),
    ):
        client.get_subjects()
    # The rest was on its way in the buffers of sockets.
    assert sent < 4 * http_exchange.LONGEST_ANSWER_BYTES


def test_compressed_answers_are_neither_requested_nor_read():
    requests = []

    def answer(connection: socket.socket) -> None:
        requests.append(read_request(connection))
        connection.sendall(response(gzip.compress(b"[" + b" " * 100_000 + b"]"), "Content-Encoding: gzip"))

    with (
        RawHttpServer(answer) as server,
        SchemaRegistryClient({"url": server.url}) as client,
        pytest.raises(SchemaRegistryError, match="the response is compressed"),
    ):
        client.get_subjects()
    assert re.findall(rb"(?i)accept-encoding: (.*)\r\n", requests[0]) == [b"identity"]


def test_redirections_are_not_followed():
    with RawHttpServer(lambda connection: None) as other:
        moved = response(b"", f"Location: {other.url}/subjects", status="307 Temporary Redirect")
        with (
            answers_in_turn(moved) as server,
            SchemaRegistryClient({"url": server.url}) as client,
            pytest.raises(SchemaRegistryError, match="HTTP status 307"),
        ):
            client.get_subjects()


@pytest.mark.parametrize("part", ["headers", "body", "informational", "handshake"])
def test_a_server_that_drips_has_no_longer_than_any_other(part):
    """Each byte comes well within the timeout of a step."""
    begun = {
        "headers": b"HTTP/1.1 200 OK\r\nX-Field: ",
        "body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n[",
        "informational": b"",
        "handshake": b"",
    }[part]
    piece = b"HTTP/1.1 103 Early Hints\r\n\r\n" if part == "informational" else b" "
    #: The beginning of a handshake's record of 16 KiB.
    record = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03"
    has_gone = threading.Event()

    def answer(connection: socket.socket) -> None:
        if part == "handshake":
            connection.sendall(record)
        else:
            read_request(connection)
            connection.sendall(begun)
        try:
            for _ in range(1000):
                connection.sendall(piece)
                if server.stopping.wait(0.01):
                    return
        except OSError:
            has_gone.set()

    with RawHttpServer(answer) as server:
        url = server.url.replace("http:", "https:") if part == "handshake" else server.url
        conf = {"url": url, "max.block.ms": 200, "max.retries": 1000, **FAST}
        with SchemaRegistryClient(conf) as client, pytest.raises(SchemaRegistryError, match="Timeout"):
            client.get_subjects()
        assert has_gone.wait(PATIENCE_S)


def test_an_address_that_does_not_answer_leaves_time_for_the_next_one(registry, monkeypatch):
    with contextlib.ExitStack() as stack:
        # With a full queue of connections, Linux does not answer further ones.
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(full.getsockname())
        port = int(registry.url.rpartition(":")[2])
        addresses = [full.getsockname(), ("127.0.0.1", port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]
        monkeypatch.setattr("socket.getaddrinfo", lambda *arguments: found)
        conf = {"url": registry.url, "timeout": 1, "max.retries": 0}
        with SchemaRegistryClient(conf) as client:
            assert client.get_subjects() == []


def test_an_address_of_a_family_that_the_system_does_not_support(registry, monkeypatch):
    """Such as IPv6 where the kernel does not have it: the name of a host may have such an address."""
    port = int(registry.url.rpartition(":")[2])
    unsupported = max(socket.AddressFamily) + 1000
    found = [
        (family, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for family in (unsupported, socket.AF_INET)
    ]
    monkeypatch.setattr("socket.getaddrinfo", lambda *arguments: found)
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
        assert client.get_subjects() == []


def test_a_server_that_drips_does_not_keep_the_next_url_from_its_turn(registry):
    def drip(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Field: ")
        for _ in range(1000):
            connection.sendall(b" ")
            if server.stopping.wait(0.01):
                return

    with RawHttpServer(drip) as server:
        conf = {"url": f"{server.url},{registry.url}", "timeout": 0.2, "max.retries": 0}
        with SchemaRegistryClient(conf) as client:
            assert client.get_subjects() == []


@pytest.mark.parametrize("scheme", ["socks5", "http"])
def test_a_proxy_that_does_not_answer(scheme):
    with LoopbackProxy(scheme, hold=threading.Event()) as proxy:
        # https: an HTTP proxy is asked for a tunnel.
        conf = {"url": "https://registry.example.com", "proxy": proxy.url(), "max.block.ms": 200, **FAST}
        with SchemaRegistryClient(conf) as client, pytest.raises(SchemaRegistryError, match="Timeout"):
            client.get_subjects()


@attrs.define
class Clock:
    """A clock in place of the module ``time``, which goes on only when a test wants it."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s


def referring_to(*subjects: str, kind: str = "AVRO", schema: str = '"string"', **more: Any) -> dict[str, Any]:
    """A schema that refers to the first version of each subject, which has the same name."""
    given = [{"name": subject, "subject": subject, "version": 1} for subject in subjects]
    return {**GOOD, "schema": schema, "schemaType": kind, "references": given, **more}


def subject_of(target: str) -> str:
    found = re.match(r"/subjects/([^/?]+)", target)
    assert found is not None
    return found[1]


def serializer_of(kind: str, client: SchemaRegistryClient) -> Any:
    return (
        AvroSerializer(client, conf=LATEST) if kind == "AVRO" else JSONSerializer(None, client, conf=LATEST)
    )


def endless(kind: str, width: int = 1):
    """Each schema refers to new ones."""
    numbers = iter(range(10**9))

    def answer(method: str, target: str) -> Any:
        subjects = [f"s{next(numbers)}" for _ in range(width)]
        return referring_to(*subjects, kind=kind, schema="{}" if kind == "JSON" else '"string"')

    return answer


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_all_requests_of_a_look_up_have_one_deadline(registry, monkeypatch, kind):
    clock = Clock()
    monkeypatch.setattr(deadlines, "time", clock)
    answer = endless(kind)

    def slow(method: str, target: str) -> Any:
        clock.now_s += 1
        return answer(method, target)

    answer_with(monkeypatch, registry, slow)
    with (
        SchemaRegistryClient({"url": registry.url, "max.block.ms": 4_500}) as client,
        pytest.raises(SchemaRegistryError, match=r"no time left|the time is over") as failed,
    ):
        serializer_of(kind, client).serialize("events", [], "x")
    assert failed.value.is_temporary
    assert len(registry.requests) == 5


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_references_within_references_are_limited(client, registry, monkeypatch, kind):
    answer_with(monkeypatch, registry, endless(kind))
    with pytest.raises(SerializationError, match="more than 100 within each other"):
        serializer_of(kind, client).serialize("events", [], "x")
    assert len(registry.requests) == 1 + references.DEEPEST_REFERENCES


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_the_number_of_references_is_limited(client, registry, monkeypatch, kind):
    monkeypatch.setattr(references, "MOST_REFERENCES", 50)
    answer_with(monkeypatch, registry, endless(kind, width=30))
    with pytest.raises(SerializationError, match="more than 50 references"):
        serializer_of(kind, client).serialize("events", [], "x")
    assert len(registry.requests) == 1 + 50


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_the_length_of_references_is_limited(client, registry, monkeypatch, kind):
    monkeypatch.setattr(references, "MOST_CHARACTERS", 5_000)
    answer = endless(kind)

    def long(method: str, target: str) -> Any:
        given = answer(method, target)
        return {**given, "schema": given["schema"] + " " * 1_000}

    answer_with(monkeypatch, registry, long)
    with pytest.raises(
        SerializationError, match="have more than 5000 characters together with that of subject s4"
    ):
        serializer_of(kind, client).serialize("events", [], "x")
    assert len(registry.requests) == 1 + 5


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_a_cycle_of_references_ends(client, registry, monkeypatch, kind):
    following = {"events-value": "a", "a": "b", "b": "a"}

    def answer(method: str, target: str) -> Any:
        subject = subject_of(target)
        schema = '{"type": "string"}' if kind == "JSON" else '"string"'
        return referring_to(following[subject], kind=kind, schema=schema)

    answer_with(monkeypatch, registry, answer)
    assert serializer_of(kind, client).serialize("events", [], "x")
    assert len(registry.requests) == 3


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_a_schema_with_many_ways_to_it_is_looked_at_once(client, registry, monkeypatch, kind):
    depth, calls = 40, []
    names = {"events-value": ("l0", "r0")}
    names.update({f"{side}{n}": (f"l{n + 1}", f"r{n + 1}") for n in range(depth) for side in "lr"})

    def answer(method: str, target: str) -> Any:
        subject = subject_of(target)
        schema = "{}" if kind == "JSON" else '"string"'
        return referring_to(*names.get(subject, ()), kind=kind, schema=schema)

    get_version = client.get_version

    def counted(*arguments: Any, **others: Any) -> Any:
        calls.append(arguments)
        assert len(calls) < 1000
        return get_version(*arguments, **others)

    answer_with(monkeypatch, registry, answer)
    monkeypatch.setattr(client, "get_version", counted)
    assert serializer_of(kind, client).serialize("events", [], "x")
    assert len(calls) == 2 * (depth + 1)


def test_one_schema_under_two_names(client, registry):
    registry.register("user", '{"type": "string"}', "JSON")
    schema = {"type": "array", "items": [{"$ref": "a.json"}, {"$ref": "b.json"}]}
    named = [SchemaReference(name, "user", 1) for name in ("a.json", "b.json")]
    serializer = JSONSerializer(Schema(json.dumps(schema), "JSON", named), client)
    assert serializer.serialize("events", [], ["x", "y"])
    with pytest.raises(SerializationError, match=r"at \[1\]"):
        serializer.serialize("events", [], ["x", 5])


def imported(depth: int) -> Any:
    """A message whose file imports two files, each of which imports the same two, and so on."""
    pool = descriptor_pool.DescriptorPool()
    for level in range(depth, -1, -1):
        for side in "lr" if level else "l":
            file = descriptor_pb2.FileDescriptorProto(name=f"{side}{level}.proto", syntax="proto3")
            if level < depth:
                file.dependency.extend([f"l{level + 1}.proto", f"r{level + 1}.proto"])
            file.message_type.add(name=f"M{side}{level}")
            pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Ml0"))


def test_a_protobuf_file_that_is_imported_in_many_ways_is_registered_once(client, registry):
    depth, asked = 10, []

    def subject(ctx: Any, file: Any) -> str:
        asked.append(file.name)
        return str(file.name)

    message = imported(depth)
    ProtobufSerializer(message, client, {"reference.subject.name.strategy": subject})(
        message(), context_of("events")
    )
    assert sorted(asked) == sorted(f"{side}{level}.proto" for side in "lr" for level in range(1, depth + 1))
    assert len(registry.subjects()) == 2 * depth + 1


def context_of(topic: str) -> Any:
    from kproducer.schema_registry import SerializationContext

    return SerializationContext(topic, "value")


def test_references_of_registered_protobuf_are_limited(client, registry, monkeypatch):
    messages = pytest.importorskip("kproducer.spark.protobuf_messages")
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
    file.message_type.add(name="A")
    text = base64.b64encode(file.SerializeToString()).decode()
    answer = endless("PROTOBUF")
    answer_with(monkeypatch, registry, lambda *request: {**answer(*request), "schema": text})
    schemas = messages._RegisteredSchemas("A", client)
    with pytest.raises(SerializationError, match="more than 100 within each other"):
        schemas.message(client.get_latest_version("a", "serialized").schema)


def test_imports_within_imports_of_protobuf_files_are_limited():
    messages = pytest.importorskip("kproducer.spark.protobuf_messages")
    files = {
        f"{number}.proto": descriptor_pb2.FileDescriptorProto(dependency=[f"{number + 1}.proto"])
        for number in range(references.MOST_REFERENCES)
    }
    with pytest.raises(SerializationError, match=r"the file (is not valid|imports 1000\.proto)"):
        messages._message(files, "A", "the file")
