"""Producers behind SOCKS5 and HTTP CONNECT proxies, and every way in which a proxy fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kproducer import AuthenticationError, ConfigError, KafkaError, KafkaProducer, MetadataTimeoutError
from kproducer._core.network import host_resolver
from tests.scenarios.conftest import Stage
from tests.support.loopback import closed_port
from tests.support.proxies import LoopbackProxy

SCHEMES = ("socks5", "socks5h", "http")
USER, PASSWORD = "alice", "p@ss:w/rd%"
WRITTEN_PASSWORD = "p%40ss%3Aw%2Frd%25"
BROKER = "broker.only-the-proxy-knows.invalid"
PROMPT_S = 5.0


@pytest.fixture
def new_proxy() -> Iterator[Callable[..., LoopbackProxy]]:
    made: list[LoopbackProxy] = []

    def new(*arguments: Any, **settings: Any) -> LoopbackProxy:
        made.append(LoopbackProxy(*arguments, **settings))
        return made[-1]

    yield new
    for proxy in made:
        proxy.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("is_slow", [False, True])
def test_records_go_through_the_proxy(
    stage: Stage, new_proxy: Callable[..., LoopbackProxy], scheme: str, is_slow: bool
) -> None:
    cluster = stage.cluster(2, {"t": 4})
    proxy = new_proxy(scheme, credentials=(USER, PASSWORD), in_pieces=is_slow)
    producer = stage.producer(cluster, proxy_url=proxy.url(USER, WRITTEN_PASSWORD))
    for number in range(200):
        producer.send(partition=number % 4)
    producer.kafka.flush()
    assert len(proxy.targets) == cluster.accepted_count()
    assert {host for host, _ in proxy.targets} == {"127.0.0.1"}


def failure(url: str, servers: str = f"{BROKER}:9092", **settings: Any) -> tuple[KafkaError, float]:
    before_s = time.monotonic()
    with (
        KafkaProducer(servers, proxy_url=url, **{"max_block_ms": 400, **settings}) as producer,
        pytest.raises(KafkaError) as caught,
    ):
        producer.partitions_for("t")
    return caught.value, time.monotonic() - before_s


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize("password", ["wrong", ""])
def test_rejected_credentials_are_an_authentication_error_at_once(
    new_proxy: Callable[..., LoopbackProxy], caplog: pytest.LogCaptureFixture, scheme: str, password: str
) -> None:
    caplog.set_level(logging.DEBUG, "kproducer")
    proxy = new_proxy(scheme, credentials=(USER, PASSWORD))
    url = proxy.url(USER, password) if password else proxy.url()
    error, seconds = failure(url, max_block_ms=60_000)
    assert isinstance(error, AuthenticationError)
    assert f"{BROKER}:9092 through the proxy {proxy.url()} (proxy_url)" in str(error)
    assert ("rejected the user name and password" if password else "requires a user name") in str(error)
    assert "wrong" not in str(error) + caplog.text
    assert seconds < PROMPT_S


@pytest.mark.parametrize(
    ("scheme", "settings", "reason"),
    [
        ("socks5h", {"refuses": True}, "its rules do not allow the connection (SOCKS5 reply 2)"),
        ("http", {"refuses": True}, "HTTP 403 Forbidden by test"),
        ("socks5h", {}, "the broker refused the connection (SOCKS5 reply 5)"),
        ("http", {}, "HTTP 502 Bad Gateway"),
        ("socks5h", {"answer": b""}, "closed the connection without opening a tunnel"),
        ("http", {"answer": b""}, "closed the connection without opening a tunnel"),
        ("http", {"answer": b"HTTP/1.1 200 OK\r\nX: "}, "closed the connection without opening a tunnel"),
        ("socks5h", {"answer": b"HTTP/1.1 400 Bad Request\r\n\r\n"}, "this is an HTTP proxy"),
        ("http", {"answer": b"\x05\xff"}, "this may be a SOCKS proxy"),
        ("socks5h", {"answer": b"\x05\x00\x05\x00\x00\x09"}, "answer is not SOCKS5"),
        ("socks5h", {"answer": b"\x05\x07"}, "answer is not SOCKS5"),
        ("http", {"answer": b"220 mail.example.com ESMTP\r\n"}, "answer is not HTTP"),
        ("http", {"answer": b"HTTP/1.1 200 OK\r\n\r\nearly"}, "answer is not HTTP"),
    ],
)
def test_failures_of_the_proxy_are_retried_and_named(
    new_proxy: Callable[..., LoopbackProxy], scheme: str, settings: dict[str, Any], reason: str
) -> None:
    proxy = new_proxy(scheme, names={BROKER: "127.0.0.1"}, **settings)
    with closed_port() as port:
        error, _ = failure(proxy.url(), f"{BROKER}:{port}")
    assert isinstance(error, MetadataTimeoutError)
    assert f"{BROKER}:{port} through the proxy {proxy.url()} (proxy_url)" in str(error)
    assert reason in str(error)


def test_a_proxy_that_is_down() -> None:
    with closed_port() as port:
        error, _ = failure(f"http://u:hunter2@127.0.0.1:{port}")
    assert isinstance(error, MetadataTimeoutError)
    assert "the proxy cannot be reached: Connection refused" in str(error)
    assert "hunter2" not in str(error)


def test_a_proxy_whose_name_is_unknown() -> None:
    error, _ = failure("socks5h://proxy.invalid:1080", max_block_ms=1500)
    assert "the proxy socks5h://proxy.invalid:1080 (proxy_url): could not resolve the host name" in str(error)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_proxy_that_does_not_answer(new_proxy: Callable[..., LoopbackProxy], scheme: str) -> None:
    proxy = new_proxy(scheme, hold=threading.Event())
    timeouts = {"socket_connection_setup_timeout_ms": 200, "max_block_ms": 1500}
    error, _ = failure(proxy.url(), "127.0.0.1:9", **timeouts)
    assert isinstance(error, MetadataTimeoutError)
    assert f"through the proxy {proxy.url()} (proxy_url) within" in str(error)
    assert "socket_connection_setup_timeout_ms" in str(error)


def test_a_proxy_that_has_not_answered_yet(new_proxy: Callable[..., LoopbackProxy]) -> None:
    proxy = new_proxy("http", hold=threading.Event())
    error, _ = failure(proxy.url(), "127.0.0.1:9", max_block_ms=300)
    assert f"still connecting to 127.0.0.1:9 (bootstrap) through the proxy {proxy.url()} (proxy_url)" in str(
        error
    )


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_this_machine_does_not_look_up_names_for_a_proxy_that_does(
    stage: Stage,
    new_proxy: Callable[..., LoopbackProxy],
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
) -> None:
    asked: list[str] = []
    resolve = host_resolver.socket.getaddrinfo

    def note(host: str, *arguments: Any, **options: Any) -> Any:
        asked.append(host)
        return resolve(host, *arguments, **options)

    monkeypatch.setattr(host_resolver.socket, "getaddrinfo", note)
    cluster = stage.cluster(1)
    port = cluster.bootstrap_servers[0].rpartition(":")[2]
    proxy = new_proxy(scheme, names={BROKER: "127.0.0.1"})
    with KafkaProducer(f"{BROKER}:{port}", proxy_url=proxy.url()) as producer:
        producer.send("t", b"value").result(30)
    assert proxy.targets[0] == (BROKER, int(port))
    assert BROKER not in asked


def test_names_are_looked_up_here_for_socks5(stage: Stage, new_proxy: Callable[..., LoopbackProxy]) -> None:
    cluster = stage.cluster(1)
    port = cluster.bootstrap_servers[0].rpartition(":")[2]
    proxy = new_proxy("socks5")
    with KafkaProducer(f"localhost:{port}", proxy_url=proxy.url()) as producer:
        producer.send("t", b"value").result(30)
    assert {host for host, _ in proxy.targets} <= {"127.0.0.1", "::1"}


def test_the_proxy_goes_down_and_comes_back(stage: Stage, new_proxy: Callable[..., LoopbackProxy]) -> None:
    cluster = stage.cluster(1)
    proxy = new_proxy("http")
    producer = stage.producer(cluster, proxy_url=proxy.url())
    producer.send().metadata()
    proxy.break_connections()
    for _ in range(20):
        producer.send()
    producer.kafka.flush()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("proxy:1080", "use one of the schemes socks5, socks5h, http"),
        ("https://u:hunter2@proxy:1080", "proxies that require TLS themselves are not supported"),
        ("socks5://u:hunter2@proxy", "got no port"),
        ("socks5://u:hunter2@proxy:99999", "from 1 to 65535"),
        ("socks5://u:hunter2/@proxy:1080", "special characters"),
        ("socks5://u:hunter2?@proxy:1080", "special characters"),
        ("socks5://u:hunter2#@proxy:1080", "special characters"),
        ("socks5://u:hunter2@[proxy:1080", "special characters"),
        ("socks5://hunter2@proxy:1080", "give both, or neither"),
        ("socks5://u:hunter2@:1080", "no host name"),
        ("http://u:hunter2@proxy:3128/path", "after the port"),
        ("http://u%3Av:hunter2@proxy:3128", "':'"),
        ("socks5h://u:hunter2" + "x" * 256 + "@proxy:1080", "255 bytes"),
        ("socks5h://u:hunter2@pro xy:1080", "not valid"),
    ],
)
def test_a_wrong_url_is_refused_without_showing_it(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=r"^proxy_url: ") as caught:
        KafkaProducer("localhost:9092", proxy_url=url)
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_names_cannot_be_both_left_to_the_proxy_and_looked_up_here() -> None:
    canonical = {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}
    with pytest.raises(ConfigError, match="client_dns_lookup: expected use_all_dns_ips"):
        KafkaProducer("localhost:9092", proxy_url="socks5h://localhost:1080", **canonical)


@pytest.mark.parametrize("package", ["h11", "socksio"])
def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    monkeypatch.delitem(__import__("sys").modules, "kproducer._core.network.proxy_handshakes", raising=False)
    monkeypatch.delattr("kproducer._core.network.proxy_handshakes", raising=False)
    with pytest.raises(ConfigError, match=rf"{package}.*pip install 'kproducer\[proxy\]'"):
        KafkaProducer("localhost:9092", proxy_url="socks5://localhost:1080")
