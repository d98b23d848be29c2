"""Host names become every TCP address behind them, or an error in words."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

import kproducer._core.network.host_resolver as host_resolver
from kproducer._core.network.host_resolver import canonical_addresses, resolve_host
from kproducer.errors import NetworkError


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_literal_addresses(host: str, family: int) -> None:
    (resolved,) = resolve_host(host, 9092)
    assert resolved.family == family
    assert resolved.address[:2] == (host, 9092)


def test_all_addresses_of_both_families_without_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        v6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 9092, 0, 3))
        v4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 9092))
        unix = (socket.AF_UNIX, socket.SOCK_STREAM, 0, "", "/tmp/x")
        return [v6, v4, v6, unix]

    monkeypatch.setattr(host_resolver.socket, "getaddrinfo", getaddrinfo)
    assert [resolved.address for resolved in resolve_host("kafka", 9092)] == [
        ("fe80::1", 9092, 0, 3),
        ("10.0.0.1", 9092),
    ]


@pytest.mark.parametrize("host", ["", "a..b", "x" * 300])
def test_impossible_names_are_network_errors(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not host:  # the operating system takes an empty name for this machine
        monkeypatch.setattr(host_resolver.socket, "getaddrinfo", lambda *_, **__: [])
    with pytest.raises(NetworkError, match="host name"):
        resolve_host(host, 9092)


def test_a_failing_name_service_is_a_retriable_error_that_names_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(host_resolver.socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(NetworkError, match=r"'kafka\.example': Name or service not known") as caught:
        resolve_host("kafka.example", 9092)
    assert caught.value.retriable


def test_canonical_names_of_every_address_and_the_address_itself_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        numbers = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, 9092)) for number in numbers]

    def getnameinfo(address: Any, flags: int) -> tuple[str, str]:
        if address[0] == "10.0.0.3":
            raise socket.gaierror(-2, "Name or service not known")
        return ("b1.example" if address[0] in ("10.0.0.1", "10.0.0.4") else "b2.example"), "9092"

    monkeypatch.setattr(host_resolver.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(host_resolver.socket, "getnameinfo", getnameinfo)
    assert canonical_addresses("kafka", 9092) == [
        ("b1.example", 9092),
        ("b2.example", 9092),
        ("10.0.0.3", 9092),
    ]


def test_looking_a_name_up_imports_nothing() -> None:
    """A process forked by another thread in the middle of an import could not look up anything."""
    code = (
        "import sys, kproducer._core.network.host_resolver, socket; before = set(sys.modules);"
        "socket.getaddrinfo('127.0.0.1', 9092); sys.exit(sorted(set(sys.modules) - before) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
