"""No error of the client shows credentials, neither in texts nor in variables of its functions."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import trustme

from kproducer import ConfigError
from kproducer.schema_registry import AvroSerializer, SchemaRegistryClient, SchemaRegistryError
from kproducer.schema_registry.connection import RegistryConnection
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.loopback import closed_port
from tests.support.raw_http import RawHttpServer, read_request, response
from tests.support.secrets_in_errors import places_of

SECRET = "s3cret/Pa55"
BASIC = base64.b64encode(f"user:{SECRET}".encode()).decode()
FORMS = (SECRET, BASIC, quote(SECRET, safe=""))
ONCE = {"max.retries": 0}
BEARER = {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": SECRET}
CREDENTIALS: dict[str, Callable[[str], dict[str, Any]]] = {
    "user": lambda url: {"url": url, "basic.auth.user.info": f"user:{SECRET}"},
    "url": lambda url: {"url": url.replace("://", f"://user:{quote(SECRET, safe='')}@")},
    "token": lambda url: {"url": url, **BEARER},
    "function": lambda url: {
        "url": url,
        "bearer.auth.credentials.source": "CUSTOM",
        "bearer.auth.custom.provider.function": lambda config: {"bearer.auth.token": config["key"]},
        "bearer.auth.custom.provider.config": {"key": SECRET},
    },
}


def assert_hidden(error: BaseException) -> None:
    for secret in FORMS:
        assert places_of(secret, error) == []


@pytest.fixture(params=list(CREDENTIALS))
def conf_of(request) -> Callable[[str], dict[str, Any]]:
    return CREDENTIALS[request.param]


def echo(status: str, template: bytes) -> Callable[[socket.socket], None]:
    """An answer with the header field Authorization of the request in it."""

    def answer(connection: socket.socket) -> None:
        _, _, rest = read_request(connection).partition(b"uthorization: ")
        sent = rest.partition(b"\r\n")[0]
        kind, _, value = sent.partition(b" ")
        plain = base64.b64decode(value) if kind == b"Basic" else value
        connection.sendall(response(template % (sent, plain), status=status))

    return answer


@pytest.mark.parametrize(
    ("status", "template"),
    [
        ("401 Unauthorized", b'{"error_code": 40101, "message": "not valid: %s, %s"}'),
        ("503 Overloaded", b'{"message": "%s %s"}'),
        ("403 Forbidden", b"<html>%s %s</html>"),
        ("200 OK", b"<html>%s %s</html>"),
        ("200 OK", b'{"id": "%s %s"}'),
        ("200 OK", b'{"id": 1, "schema": "%s", "schemaType": 5, "guid": "%s"}'),
    ],
)
def test_a_registry_that_repeats_the_credentials(conf_of, status, template):
    with (
        RawHttpServer(echo(status, template)) as server,
        SchemaRegistryClient({**conf_of(server.url), **ONCE}) as client,
        pytest.raises(SchemaRegistryError) as failed,
    ):
        client.get_latest_version("a")
    assert_hidden(failed.value)
    if b"message" in template:
        assert "(not shown)" in str(failed.value)
        assert "(not shown)" in failed.value.error_message


def closes_at_once(connection: socket.socket) -> None:
    read_request(connection)


def speaks_something_else(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0\r\n\r\n")
    read_request(connection)


@pytest.mark.parametrize("answer", [closes_at_once, speaks_something_else])
def test_a_server_that_is_not_a_registry(conf_of, answer):
    with (
        RawHttpServer(answer) as server,
        SchemaRegistryClient({**conf_of(server.url), **ONCE}) as client,
        pytest.raises(SchemaRegistryError, match="not reachable") as failed,
    ):
        client.get_subjects()
    assert_hidden(failed.value)


def test_an_unreachable_registry(conf_of):
    with (
        closed_port() as port,
        SchemaRegistryClient({**conf_of(f"http://127.0.0.1:{port}"), **ONCE}) as client,
        pytest.raises(SchemaRegistryError, match="Connection refused") as failed,
    ):
        AvroSerializer(client, "string").serialize("events", [], "x")
    assert_hidden(failed.value)


def test_a_certificate_that_is_not_trusted(conf_of):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with (
        FakeSchemaRegistry(ssl_context=context) as registry,
        SchemaRegistryClient({**conf_of(registry.url), **ONCE}) as client,
        pytest.raises(SchemaRegistryError, match="verify failed") as failed,
    ):
        client.get_subjects()
    assert_hidden(failed.value)


def test_an_interrupted_call(conf_of, registry, monkeypatch):
    with SchemaRegistryClient(conf_of(registry.url)) as client:
        pool = client._connection._http._pools[client._settings.urls[0]]

        def interrupt(*arguments: Any) -> Any:
            try:
                raise ValueError("something that was handled")
            except ValueError as error:
                raise KeyboardInterrupt from error

        monkeypatch.setattr(pool, "handle_request", interrupt)
        with pytest.raises(KeyboardInterrupt) as interrupted:
            client.get_subjects()
    assert_hidden(interrupted.value)


def test_a_function_of_the_application_that_fails(registry):
    def provide(config: Any) -> Any:
        key = list(config)[1]
        raise LookupError(key)

    conf = {
        "url": registry.url,
        "bearer.auth.credentials.source": "CUSTOM",
        "bearer.auth.custom.provider.function": provide,
        "bearer.auth.custom.provider.config": {SECRET: 1, "b": 2},
    }
    with (
        SchemaRegistryClient(conf) as client,
        pytest.raises(SchemaRegistryError, match="LookupError") as failed,
    ):
        client.get_subjects()
    assert_hidden(failed.value)
    cause = failed.value.__cause__
    # Where the application failed is shown.
    assert isinstance(cause, LookupError)
    assert cause.__traceback__ is not None
    assert cause.__traceback__.tb_frame.f_code.co_name == "provide"


@pytest.mark.parametrize(
    "fields",
    [{"bearer.auth.token": f"{SECRET}\n"}, {"token": SECRET}, [SECRET], {"bearer.auth.token": [SECRET]}],
    ids=range(4),
)
def test_a_function_of_the_application_that_returns_something_else(registry, fields):
    conf = {
        "url": registry.url,
        "bearer.auth.credentials.source": "CUSTOM",
        "bearer.auth.custom.provider.function": lambda config: fields,
    }
    with SchemaRegistryClient(conf) as client, pytest.raises(SchemaRegistryError, match="bearer") as failed:
        client.get_subjects()
    assert_hidden(failed.value)


@pytest.fixture
def refusing_proxy() -> Iterator[RawHttpServer]:
    """It repeats the credentials in the only text of its answer that a client shows."""

    def answer(connection: socket.socket) -> None:
        _, _, rest = read_request(connection).partition(b"roxy-Authorization: Basic ")
        sent = rest.partition(b"\r\n")[0]
        status = b"407 %s %s" % (sent, base64.b64decode(sent))
        connection.sendall(response(b"", status=status.decode()))

    with RawHttpServer(answer) as server:
        yield server


@pytest.mark.parametrize("how", ["setting", "environment"])
def test_the_credentials_of_a_proxy(refusing_proxy, monkeypatch, how):
    proxy = refusing_proxy.url.replace("://", f"://user:{quote(SECRET, safe='')}@")
    conf = {"url": "https://registry.example.com", **ONCE}
    if how == "setting":
        conf["proxy"] = proxy
    else:
        monkeypatch.setenv("https_proxy", proxy)
    with (
        SchemaRegistryClient(conf) as client,
        pytest.raises(SchemaRegistryError, match=r"ProxyError: 407 \(not shown\)") as failed,
    ):
        client.get_subjects()
    assert_hidden(failed.value)


@pytest.mark.parametrize(
    "conf",
    [
        {"url": f"http://user:{SECRET}@a:port"},
        {"url": "http://a", "basic.auth.user.info": SECRET},
        {"url": f"http://u:{quote(SECRET)}@a", "basic.auth.user.info": f"u:{SECRET}"},
        {"url": "http://a", **BEARER, "bearer.auth.token": f"{SECRET}\n"},
        {"url": "http://a", **BEARER, "basic.auth.user.info": f"u:{SECRET}"},
        {"url": "http://a", "proxy": f"ftp://user:{SECRET}@b"},
        {"url": "https://a", "ssl.certificate.location": "/no/such/file", "ssl.key.password": SECRET},
        {"url": "http://a", "basic.auth.user.info": f"u:{SECRET}", "timeout": -1},
        {"url": "http://a", "basic.auth.user.info": f"u:{SECRET}", "unknown": 1},
    ],
    ids=range(9),
)
def test_mistakes_in_the_settings(conf):
    with pytest.raises(ConfigError) as refused:
        SchemaRegistryClient(conf)
    assert_hidden(refused.value)


def test_a_missing_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "httpcore", None)
    with pytest.raises(ConfigError) as refused:
        SchemaRegistryClient({"url": "http://a", "basic.auth.user.info": f"u:{SECRET}"})
    assert_hidden(refused.value)


def test_reprs_have_no_secret(registry):
    with SchemaRegistryClient({"url": registry.url, **BEARER}) as client:
        for each in (client, client._settings, client._connection, RegistryConnection(client._settings)):
            assert SECRET not in repr(each)
            assert SECRET not in repr(getattr(each, "__dict__", ""))
