"""SchemaRegistryClient: retries, other URLs, authentication, TLS, caches, fork; errors without secrets."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import socket
import ssl
import subprocess
import sys
import threading
import traceback
import warnings
from pathlib import Path

import attrs
import pytest
import trustme

from kproducer import ConfigError, InvalidArgumentError
from kproducer.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from kproducer.schema_registry.client_settings import ClientSettings
from kproducer.schema_registry.connection import RegistryConnection
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.proxies import LoopbackProxy
from tests.support.raw_http import RawHttpServer, read_request

STRING = Schema('"string"')
FAST = {"retries.wait.ms": 1, "retries.max.wait.ms": 1}
SECRET = "s3cret-Pa55"


def shown(error: BaseException) -> str:
    """What a log with the traceback would have of an error."""
    return repr(error) + "".join(traceback.format_exception(error, limit=0))


def test_schemas_are_registered_found_and_read(client, registry):
    assert client.register_schema("a", STRING) == 1
    assert client.register_schema("b", STRING) == 1  # the same schema has one id
    found = client.lookup_schema("a", STRING)
    assert (found.subject, found.version, found.schema_id, found.schema) == ("a", 1, 1, STRING)
    assert client.get_schema(1) == client.get_schema_by_guid(found.guid) == STRING
    assert client.get_latest_version("a") == client.get_version("a", 1) == found
    assert client.get_subjects() == ["a", "b"]
    assert client.get_versions("a") == [1]


@pytest.mark.parametrize("given", ['"string"', None])
def test_a_schema_is_not_a_text(client, registry, given):
    kind = type(given).__name__
    for call in (client.register_schema, client.lookup_schema, client.test_compatibility):
        with pytest.raises(
            InvalidArgumentError, match=rf"expected a Schema, such as Schema\(text.*got {kind}"
        ):
            call("a", given)
    with pytest.raises(ConfigError, match=r"SchemaReference\(name, subject, version\), got dict"):
        Schema('"string"', "AVRO", [{"name": "b", "subject": "b", "version": 1}])
    assert registry.requests == []


def test_compatibility_can_be_set_and_tested(client):
    client.register_schema("a", Schema('"long"'))
    assert client.test_compatibility("a", Schema('"double"'))
    assert not client.test_compatibility("a", Schema('"int"'))
    assert client.set_compatibility("a", "FORWARD") == "FORWARD"
    assert client.test_compatibility("a", Schema('"int"'))
    assert client.set_compatibility(level="NONE") == "NONE"
    with pytest.raises(SchemaRegistryError, match="42203"):
        client.set_compatibility("a", "SOMETIMES")


def test_names_with_slashes_and_spaces(client, registry):
    client.register_schema("a/b c?d%", STRING)
    assert registry.subjects() == ["a/b c?d%"]
    assert client.get_latest_version("a/b c?d%").schema == STRING


def test_answers_are_kept(client, registry):
    for _ in range(3):
        client.register_schema("a", STRING)
        client.get_schema(1)
        client.get_latest_version("a")
    assert len(registry.requests) == 3
    client.clear_caches()
    client.get_schema(1)
    assert len(registry.requests) == 4


def test_the_cache_is_bounded(registry):
    with SchemaRegistryClient({"url": registry.url, "cache.capacity": 2}) as client:
        for subject in ("a", "b", "c", "c", "a"):
            client.register_schema(subject, STRING)
        assert len(registry.requests) == 4


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_temporary_errors_are_retried(client, registry, status):
    registry.fail(status, times=3)
    assert client.register_schema("a", STRING) == 1
    assert len(registry.requests) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_other_errors_are_not_retried(client, registry, status):
    registry.fail(status, error_code=40999, message="what is wrong\x1b[31m")
    with pytest.raises(
        SchemaRegistryError, match=rf"status {status}, error code 40999: what is wrong\\x1b"
    ) as e:
        client.register_schema("a", STRING)
    assert (e.value.http_status_code, e.value.error_code, e.value.url) == (status, 40999, registry.url)
    assert e.value.error_message == "what is wrong\x1b[31m"
    assert not e.value.is_temporary
    assert len(registry.requests) == 1


def test_the_number_of_attempts_is_limited(client, registry):
    registry.fail(503, times=10)
    with pytest.raises(SchemaRegistryError, match=r"HTTP status 503.*attempts: 4") as e:
        client.register_schema("a", STRING)
    assert e.value.is_temporary
    assert len(registry.requests) == 4


def test_an_unreachable_registry(client, registry):
    registry.stop()
    with pytest.raises(SchemaRegistryError, match="the schema registry is not reachable") as e:
        client.register_schema("a", STRING)
    assert e.value.is_temporary
    assert e.value.http_status_code == -1
    registry.start()
    assert client.register_schema("a", STRING) == 1


def test_the_next_url_is_used_and_kept(registry):
    with FakeSchemaRegistry() as broken:
        urls = f"{broken.url}, {registry.url}/"
        broken.fail(500, times=1)
        with SchemaRegistryClient({"url": urls, **FAST, "max.retries": 0}) as client:
            client.register_schema("a", STRING)
            client.register_schema("b", STRING)
        assert len(broken.requests) == 1
        assert len(registry.requests) == 2


def test_if_all_urls_fail_the_error_names_each(registry):
    with FakeSchemaRegistry() as other:
        registry.fail(503, times=9)
        other.fail(500, times=9)
        conf = {"url": f"{registry.url},{other.url}", **FAST}
        with SchemaRegistryClient(conf) as client, pytest.raises(SchemaRegistryError) as e:
            client.register_schema("a", STRING)
        assert registry.url in str(e.value)
        assert other.url in str(e.value)


def test_a_refusal_is_not_asked_again_elsewhere(registry):
    with FakeSchemaRegistry() as other:
        registry.fail(409)
        conf = {"url": f"{registry.url},{other.url}", **FAST}
        with SchemaRegistryClient(conf) as client, pytest.raises(SchemaRegistryError):
            client.register_schema("a", STRING)
        assert other.requests == []


def test_a_registry_that_does_not_answer_ends_after_the_timeout(registry):
    registry.delay(60)
    conf = {"url": registry.url, "timeout": 0.05, "max.retries": 1, **FAST}
    with SchemaRegistryClient(conf) as client, pytest.raises(SchemaRegistryError, match="ReadTimeout"):
        client.register_schema("a", STRING)


def test_max_block_ms_limits_all_attempts(monkeypatch):
    monkeypatch.setattr("random.random", lambda: 1.0)
    waits: list[float] = []
    slow = {"retries.wait.ms": 1_000_000, "retries.max.wait.ms": 1_000_000}
    settings = ClientSettings.from_conf(
        {"url": "http://127.0.0.1:1", "max.block.ms": 60_000, "max.retries": 1000, **slow}
    )
    connection = RegistryConnection(settings, waits.append)
    with pytest.raises(SchemaRegistryError, match="not reachable"):
        connection.request("GET", "subjects")
    assert waits == []
    connection.close()


def test_waits_between_attempts_grow_and_are_bounded(monkeypatch):
    monkeypatch.setattr("random.random", lambda: 1.0)
    waits: list[float] = []
    settings = ClientSettings.from_conf(
        {"url": "http://127.0.0.1:1", "max.retries": 4, "retries.wait.ms": 100, "retries.max.wait.ms": 500}
    )
    connection = RegistryConnection(settings, waits.append)
    with pytest.raises(SchemaRegistryError):
        connection.request("GET", "subjects")
    assert waits == [0.1, 0.2, 0.4, 0.5]
    connection.close()


@pytest.mark.parametrize("how", ["setting", "url"])
def test_basic_authentication(how):
    with FakeSchemaRegistry(user="us/er", password=SECRET) as registry:
        conf = {"url": registry.url, "basic.auth.user.info": f"us/er:{SECRET}"}
        if how == "url":
            conf = {"url": registry.url.replace("://", f"://us%2Fer:{SECRET}@")}
        with SchemaRegistryClient(conf) as client:
            assert client.get_subjects() == []
            assert SECRET not in repr(client)
            registry.stop()
            client._settings = None  # type: ignore[assignment]
        with SchemaRegistryClient({**conf, **FAST}) as client, pytest.raises(SchemaRegistryError) as e:
            client.get_subjects()
        assert SECRET not in str(e.value) + repr(e.value) + e.value.url


def test_wrong_credentials():
    with FakeSchemaRegistry(user="user", password=SECRET) as registry:
        conf = {"url": registry.url, "basic.auth.user.info": f"other:{SECRET}"}
        with SchemaRegistryClient(conf) as client, pytest.raises(SchemaRegistryError) as e:
            client.get_subjects()
    assert e.value.http_status_code == 401
    assert "check basic.auth.user.info" in str(e.value)
    assert SECRET not in str(e.value)


def test_bearer_authentication():
    with FakeSchemaRegistry(bearer_token=SECRET) as registry:
        conf = {"url": registry.url, "bearer.auth.credentials.source": "STATIC_TOKEN"}
        with SchemaRegistryClient({**conf, "bearer.auth.token": SECRET}) as client:
            assert client.get_subjects() == []


def test_bearer_tokens_of_the_application():
    tokens = iter(["old", SECRET])
    with FakeSchemaRegistry(bearer_token=SECRET) as registry:
        conf = {
            "url": registry.url,
            "bearer.auth.credentials.source": "CUSTOM",
            "bearer.auth.custom.provider.function": lambda config: {config["name"]: next(tokens)},
            "bearer.auth.custom.provider.config": {"name": "bearer.auth.token"},
        }
        with SchemaRegistryClient(conf) as client:
            with pytest.raises(SchemaRegistryError, match="401"):
                client.get_subjects()
            assert client.get_subjects() == []
            with pytest.raises(SchemaRegistryError, match=r"function raised StopIteration"):
                client.get_subjects()


UNFIT_FOR_A_HEADER = [
    f"{SECRET}\n",
    f" {SECRET}",
    f"{SECRET}\r\nX-Field: 1",
    f"{SECRET}\N{LATIN SMALL LETTER E WITH ACUTE}",
    f"{SECRET}\0",
]


@pytest.mark.parametrize("text", UNFIT_FOR_A_HEADER, ids=ascii)
@pytest.mark.parametrize(
    "name", ["bearer.auth.token", "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id"]
)
def test_texts_that_no_header_can_have(registry, name, text):
    expected = f"{name}: expected printable ASCII without spaces or line breaks around it"
    fields = {"bearer.auth.token": "token", name: text}
    conf = {"url": registry.url, "bearer.auth.credentials.source": "STATIC_TOKEN", **fields}
    with pytest.raises(ConfigError) as refused:
        SchemaRegistryClient(conf)
    assert str(refused.value) == expected
    conf = {
        "url": registry.url,
        "bearer.auth.credentials.source": "CUSTOM",
        "bearer.auth.custom.provider.function": lambda config: fields,
    }
    with SchemaRegistryClient({**conf, **FAST}) as client, pytest.raises(SchemaRegistryError) as failed:
        client.get_subjects()
    assert str(failed.value) == expected
    assert SECRET not in shown(failed.value)
    assert registry.requests == []


def test_what_http_refuses_to_send_is_not_quoted_and_not_sent_again(registry):
    calls = []

    def headers() -> dict[str, str]:
        calls.append(1)
        return {"Authorization": f"Bearer {SECRET}\n"}

    settings = attrs.evolve(ClientSettings.from_conf({"url": registry.url, **FAST}), bearer_headers=headers)
    connection = RegistryConnection(settings)
    with pytest.raises(SchemaRegistryError, match="the request cannot be sent") as failed:
        connection.request("GET", "subjects")
    connection.close()
    assert not failed.value.is_temporary
    assert len(calls) == 1
    assert SECRET not in shown(failed.value)


@pytest.mark.parametrize(
    "proxy",
    [
        f"user:{SECRET}@proxy.example.com:3128",
        f"ftp://user:{SECRET}@proxy.example.com",
        f"http://user:{SECRET}@",
        f"http://user:{SECRET}/x@proxy.example.com:3128",
        f"http://user:12/{SECRET}@proxy.example.com:3128",
        f"http://user:{SECRET}@proxy.example.com:port",
        f"http://user:{SECRET}@proxy.example.com:99999",
        f"http://user:[{SECRET}@proxy.example.com:3128",
        f"http://user:{SECRET}\N{LATIN SMALL LETTER E WITH ACUTE}@proxy.example.com:3128",
        f"http://user:{SECRET}@proxy.example.com:3128\n",
    ],
    ids=ascii,
)
def test_a_proxy_that_is_not_a_url(proxy):
    with pytest.raises(ConfigError) as refused:
        SchemaRegistryClient({"url": "http://registry.example.com", "proxy": proxy})
    assert str(refused.value) == "proxy: expected a URL such as http://proxy.example.com:3128"
    assert SECRET not in shown(refused.value)


@pytest.mark.parametrize("proxy", [f"ftp://user:{SECRET}@a", f"user:{SECRET}@"])
def test_a_proxy_of_the_environment_that_is_not_a_url(monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ConfigError) as refused:
        SchemaRegistryClient({"url": "http://registry.example.com"})
    assert "the environment variable http_proxy or all_proxy: expected a URL such as" in str(refused.value)
    assert SECRET not in shown(refused.value)


def test_the_proxies_of_the_environment(registry, monkeypatch):
    monkeypatch.setenv("http_proxy", registry.url.removeprefix("http://"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for url in ("http://registry.example.com", registry.url):
        with SchemaRegistryClient({"url": url, **FAST}) as client:
            assert client.get_subjects() == []
    assert registry.requests == ["GET http://registry.example.com/subjects", "GET /subjects"]


def test_a_socks_proxy_needs_a_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(ConfigError, match=r"socksio: pip install 'kproducer\[proxy\]'"):
        SchemaRegistryClient({"url": "http://a", "proxy": "socks5://127.0.0.1:1"})


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_registry_with_tls_behind_a_proxy(authority, scheme):
    ca, folder = authority
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("registry.example.com").configure_cert(context)
    with (
        LoopbackProxy(
            scheme, names={"registry.example.com": "127.0.0.1"}, credentials=("user", SECRET)
        ) as proxy,
        FakeSchemaRegistry(ssl_context=context) as registry,
    ):
        conf = {
            "url": registry.url.replace("127.0.0.1", "registry.example.com"),
            "proxy": proxy.url("user", SECRET),
            "ssl.ca.location": str(folder / "ca.pem"),
            **FAST,
        }
        with SchemaRegistryClient(conf) as client:
            assert (
                client.register_schema("a", Schema('"string"', "AVRO", metadata={"x": "y" * 1_000_000})) == 1
            )
        assert len(proxy.targets) == 1


def test_a_registry_with_tls_behind_a_proxy_with_tls(authority, monkeypatch):
    ca, folder = authority
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)

    def tunnel(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as inner:
            host, _, port = read_request(inner).split()[1].rpartition(b":")
            with socket.create_connection((host, int(port))) as outer:
                inner.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                inner.settimeout(0.01)
                outer.settimeout(0.01)
                while not proxy.stopping.is_set():
                    for source, sink in ((inner, outer), (outer, inner)):
                        with contextlib.suppress(TimeoutError):
                            sink.sendall(source.recv(1 << 16))

    with RawHttpServer(tunnel) as proxy, FakeSchemaRegistry(ssl_context=context) as registry:
        conf = {"url": registry.url, "proxy": proxy.url.replace("http:", "https:"), **FAST}
        with SchemaRegistryClient(conf) as client:
            assert client.register_schema("a", STRING) == 1
            assert client.get_subjects() == ["a"]


def test_names_outside_of_ascii(registry):
    url = registry.url.replace("127.0.0.1", "b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example")
    conf = {"url": f"{url}/\N{LATIN SMALL LETTER U WITH DIAERESIS} a", "proxy": registry.url, **FAST}
    with SchemaRegistryClient(conf) as client, pytest.raises(SchemaRegistryError, match="HTTP status 404"):
        client.get_subjects()
    assert registry.requests[0].startswith("GET http://xn--bcher-kva.example:")
    assert registry.requests[0].endswith("/%C3%BC%20a/subjects")


def test_the_proxy_is_used(registry):
    address = registry.url.removeprefix("http://")
    conf = {"url": "http://registry.example.com", "proxy": f"http://user:{SECRET}@{address}", **FAST}
    # The registry for tests also answers as a proxy, which is asked for a whole URL.
    with SchemaRegistryClient(conf) as client:
        assert client.get_subjects() == []
    assert len(registry.requests) == 1


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> tuple[trustme.CA, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(folder / "client.pem")
    return authority, folder


def test_tls_with_client_certificates(authority):
    ca, folder = authority
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    trusted = {"ssl.ca.location": str(folder / "ca.pem")}
    with FakeSchemaRegistry(ssl_context=context) as registry:
        conf = {"url": registry.url, "ssl.certificate.location": str(folder / "client.pem"), **FAST}
        with SchemaRegistryClient({**conf, **trusted}) as client:
            assert client.get_subjects() == []
        with SchemaRegistryClient({**conf, "ssl.ca.location": False}) as client:
            assert client.get_subjects() == []
        with (
            SchemaRegistryClient(conf) as client,
            pytest.raises(SchemaRegistryError, match=r"verify failed.*check ssl\.ca\.location") as e,
        ):
            client.get_subjects()
        assert not e.value.is_temporary
        with (
            SchemaRegistryClient({"url": registry.url, **trusted, **FAST}) as client,
            pytest.raises(SchemaRegistryError, match="not reachable"),
        ):
            client.get_subjects()


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, "url: expected the URL"),
        ({"url": "localhost:8081"}, "url: number 1 does not begin with http:// or https://"),
        ({"url": f"http://a,u:{SECRET}@b:1"}, "url: number 2 does not begin with http:// or https://"),
        ({"schema.registry.url": "http://a"}, "did you mean 'url'"),
        (
            {"url": "http://a", "schema.registry.basic.auth.user.info": SECRET},
            r"mean 'basic\.auth\.user\.info'",
        ),
        (
            {"url": "http://a", "basic.auth.credentials.source": "USER_INFO"},
            "remove it: basic.auth.user.info",
        ),
        ({"url": "http://a", "bearer.auth.client.secret": SECRET}, r"set bearer\.auth\.credentials\.source"),
        ({"url": f"http://u:{SECRET}@:8081"}, "url: number 1 is not a URL"),
        ({"url": f"http://u:{SECRET}@a b"}, "url: number 1 is not a URL"),
        ({"url": f"http://u:{SECRET}@a..b"}, "url: number 1 is not a URL"),
        ({"url": f"http://a,http://u:{SECRET}@b:port"}, "url: number 2 is not a URL"),
        ({"url": "http://a", "ssl.ca.locations": "x"}, r"did you mean 'ssl\.ca\.location'"),
        ({"url": "http://a", "basic.auth.user.info": SECRET}, "expected user:password"),
        ({"url": f"http://u:{SECRET}@a", "basic.auth.user.info": f"u:{SECRET}"}, "in one place only"),
        ({"url": "http://a", "bearer.auth.token": SECRET}, r"set bearer\.auth\.credentials\.source"),
        ({"url": "http://a", "bearer.auth.credentials.source": "INHERIT"}, "STATIC_TOKEN or CUSTOM or"),
        ({"url": "http://a", "bearer.auth.credentials.source": "STATIC_TOKEN"}, "STATIC_TOKEN needs it"),
        ({"url": "http://a", "bearer.auth.credentials.source": "CUSTOM"}, "CUSTOM needs it"),
        (
            {
                "url": "http://a",
                "basic.auth.user.info": f"u:{SECRET}",
                "bearer.auth.credentials.source": "STATIC_TOKEN",
                "bearer.auth.token": SECRET,
            },
            "exclude each other",
        ),
        (
            {"url": "https://a", "ssl.ca.location": "/no/such/file"},
            r"ssl\.ca\.location='/no/such/file': No such",
        ),
        ({"url": "https://a", "ssl.key.location": "x"}, r"need ssl\.certificate\.location"),
        (
            {"url": "https://a", "ssl.certificate.location": "/no/such/file", "ssl.key.password": SECRET},
            r"ssl\.certificate\.location='/no/such/file', .*: No such",
        ),
        ({"url": "http://a", "timeout": -1}, "timeout: expected a number of seconds"),
        ({"url": "http://a", "max.block.ms": 0}, "more than 0 milliseconds"),
        ({"url": "http://a", "cache.capacity": "many"}, "number of schemas"),
        (5, "expected a dictionary"),
    ],
    ids=str,
)
def test_mistakes_in_the_settings(conf, expected):
    with pytest.raises(ConfigError, match=expected) as e:
        SchemaRegistryClient(conf)
    assert SECRET not in str(e.value)


@pytest.mark.parametrize("answer", [[], {"id": "x"}, {}, None, {"schema": "x", "references": [1]}])
def test_answers_that_no_registry_sends(client, registry, monkeypatch, answer):
    monkeypatch.setattr(registry, "_answer", lambda *request: (200, answer))
    with pytest.raises(SchemaRegistryError, match="check that the url is that of a schema registry"):
        client.get_latest_version("a")


def test_an_answer_that_is_not_json(client, monkeypatch):
    monkeypatch.setattr("json.dumps", lambda answer: "<html>")
    with pytest.raises(SchemaRegistryError, match="the response is not JSON"):
        client.get_subjects()


def test_a_closed_client_refuses_calls(client):
    client.close()
    with pytest.raises(SchemaRegistryError, match="was closed"):
        client.get_subjects()


def test_a_pickled_client_has_its_settings(client):
    with pickle.loads(pickle.dumps(client)) as other:
        assert other.get_subjects() == []


def test_a_forked_child_uses_connections_of_its_own(client, registry):
    assert client.get_subjects() == []
    read, write = os.pipe()
    held = threading.Event()
    release = threading.Event()

    def hold_the_locks() -> None:
        with client._cache._lock:
            held.set()
            release.wait(60)

    holder = threading.Thread(target=hold_the_locks)
    holder.start()
    held.wait(60)
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, str(client.register_schema("child", STRING)).encode())
        finally:
            os._exit(0)
    release.set()
    holder.join()
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"1"
    os.waitpid(pid, 0)
    assert client.get_subjects() == ["child"]


def test_a_client_that_lives_until_the_interpreter_exits_closes_its_connections(
    registry: FakeSchemaRegistry,
) -> None:
    program = (
        "from kproducer.schema_registry import SchemaRegistryClient\n"
        f"client = SchemaRegistryClient({{'url': {registry.url!r}}})\n"
        "client.get_subjects()\n"
    )
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""


def test_a_client_that_the_garbage_collector_finds_closes_its_connections_first(
    registry: FakeSchemaRegistry,
) -> None:
    cycle: list[object] = []
    for _ in range(20):  # the order in which the collector finalizes objects varies
        client = SchemaRegistryClient({"url": registry.url})
        client.get_subjects()
        cycle.append(client)
    cycle.append(cycle)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        del client, cycle
        gc.collect()
    assert [each.message for each in caught] == []
