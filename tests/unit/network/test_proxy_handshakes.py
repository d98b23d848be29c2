"""What is sent to proxies for unusual hosts and credentials. The dialogues are in scenarios/test_proxy.py."""

from __future__ import annotations

import socket

import pytest

from kproducer import NetworkError, ProducerConfig
from kproducer._core.config.proxy_url import parse_proxy_url
from kproducer._core.network.proxy import ProxyTunnel
from kproducer._core.network.proxy_handshakes import HttpConnectHandshake, Socks5Handshake
from kproducer._core.network.selector import Proxy, Selector
from tests.support.manual_clock import ManualClock

SOCKS, HTTP = parse_proxy_url("socks5h://proxy:1080"), parse_proxy_url("http://proxy:3128")


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.1.2.3", b"\x01\x0a\x01\x02\x03"),
        ("::1", b"\x04" + b"\0" * 15 + b"\x01"),
        ("broker", b"\x03\x06broker"),
        ("b\u00fccher.example", b"\x03\x15xn--bcher-kva.example"),
    ],
)
def test_the_address_in_a_socks_request(host: str, address: bytes) -> None:
    handshake = Socks5Handshake(SOCKS, host, 9092)
    assert handshake.begin() == b"\x05\x01\x00"
    assert handshake.receive(b"\x05\x00") == b"\x05\x01\x00" + address + b"\x23\x84"
    assert handshake.receive(b"\x05\x00\x00\x01") == b""
    assert handshake.receive(b"\0" * 6) is None


@pytest.mark.parametrize(("host", "authority"), [("::1", "[::1]:9092"), ("broker", "broker:9092")])
def test_the_target_of_a_connect_request(host: str, authority: str) -> None:
    request = HttpConnectHandshake(HTTP, host, 9092).begin().decode()
    assert request.startswith(f"CONNECT {authority} HTTP/1.1\r\n")
    assert f"\r\nhost: {authority}\r\n" in request.lower()
    assert "authorization" not in request.lower()


@pytest.mark.parametrize("credentials", ["u:p", "b%C3%BCcher:%E2%82%AC%40"])
def test_credentials_are_utf_8(credentials: str) -> None:
    url = parse_proxy_url(f"socks5://{credentials}@proxy:1080")
    handshake = Socks5Handshake(url, "broker", 9092)
    assert handshake.begin() == b"\x05\x02\x00\x02"
    user, password = url.username.encode(), url.password.encode()
    expected = bytes([1, len(user)]) + user + bytes([len(password)]) + password
    assert handshake.receive(b"\x05\x02") == expected


@pytest.mark.parametrize("url", [SOCKS, HTTP])
@pytest.mark.parametrize("host", ["evil\r\nX-Injected: 1", "b\u00fc cher"])
def test_a_host_that_would_change_the_request_is_refused(url, host: str) -> None:  # type: ignore[no-untyped-def]
    """Hosts come from the metadata of brokers. Nothing of them is sent or logged as it is."""
    selector = Selector(ProducerConfig(bootstrap_servers="b:1"), ManualClock(), proxy=Proxy(url))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(NetworkError, match="cannot be asked to connect to") as caught:
            selector.connect("0", listener.getsockname(), host=host, target=(host, 9092))
        assert "\n" not in str(caught.value)
    selector.close()


def test_a_name_that_is_too_long_for_socks() -> None:
    with pytest.raises(NetworkError, match="cannot be asked to connect"):
        Socks5Handshake(SOCKS, "x" * 256, 9092)


def test_a_proxy_that_prolongs_its_answer_does_not_hold_up_the_caller() -> None:
    """Informational responses may come before the final one."""
    ours, proxy = socket.socketpair()
    with ours, proxy:
        ours.setblocking(False)
        tunnel = ProxyTunnel(ours, HttpConnectHandshake(HTTP, "broker", 9092))

        def answer(count: int) -> None:
            for _ in range(count):
                proxy.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
                assert not tunnel.advance()

        answer(2000)
        with pytest.raises(NetworkError, match="more than 65536 bytes"):
            answer(1000)
