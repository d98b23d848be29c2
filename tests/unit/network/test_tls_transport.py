"""TlsTransport against a peer in memory: every split of the bytes, short writes, and all endings."""

from __future__ import annotations

import datetime
import errno
import shutil
import socket
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproducer._core.network.tls_transport import MAX_AHEAD_BYTES, TlsTransport, server_name
from kproducer.errors import AuthenticationError, NetworkError, SslAuthenticationError
from tests.support.certificates import Authority
from tests.support.tls_peer import (
    HOST,
    MemorySocket,
    Peer,
    authority,
    certificate,
    client_context,
    server_context,
)


def pair(
    limits: Sequence[int] = (),
    host: str = HOST,
    client: ssl.SSLContext | None = None,
    server: ssl.SSLContext | None = None,
    **more: bool,
) -> tuple[TlsTransport, Peer]:
    sock = MemorySocket(limits)
    transport = TlsTransport(sock, client or client_context(), host, "the test's authority", **more)  # type: ignore[arg-type]
    return transport, Peer(sock, server or server_context())


def shake_hands(transport: TlsTransport, peer: Peer) -> None:
    for _ in range(100_000):
        transport.handshake()
        peer.step()
        if transport.is_ready and not transport.wants_write:
            return
        if transport.is_ready:
            transport.send([])
    raise AssertionError("the handshake does not end")


def read_all(transport: TlsTransport, size: int = 1 << 16) -> bytes:
    buffer = memoryview(bytearray(size))
    found = bytearray()
    blocked = 0
    while blocked < 3:
        try:
            count = transport.receive_into(buffer)
        except BlockingIOError:
            blocked += 1
            continue
        if not count:
            return bytes(found)
        found += buffer[:count]
    return bytes(found)


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_in_both_directions(version: ssl.TLSVersion) -> None:
    transport, peer = pair(server=server_context(maximum_version=version))
    shake_hands(transport, peer)
    assert transport.send([memoryview(b"ab"), memoryview(b"cde")]) == 5
    peer.step()
    assert peer.received == b"abcde"
    peer.write(b"answer")
    assert read_all(transport) == b"answer"
    assert not transport.has_buffered_bytes


@settings(max_examples=60, deadline=None)
@given(
    limits=st.lists(st.one_of(st.integers(0, 40), st.integers(0, 40_000)), max_size=300),
    sizes=st.lists(st.integers(1, 90_000), min_size=1, max_size=4),
    read_size=st.integers(1, 50_000),
)
def test_any_split_gives_the_same_bytes(limits: list[int], sizes: list[int], read_size: int) -> None:
    transport, peer = pair(limits)
    shake_hands(transport, peer)
    data = [memoryview(bytes([65 + i]) * size) for i, size in enumerate(sizes)]
    whole = b"".join(data)
    left = memoryview(whole)
    for _ in range(10_000):
        # The caller offers what was not counted, in other pieces than before.
        count = transport.send([left[:7], left[7:]] if left.nbytes > 7 else [left])
        left = left[count:]
        peer.step()
        if not left.nbytes:
            break
    assert bytes(peer.received) == whole
    assert not transport.wants_write
    peer.write(whole)
    peer.sock.limits = [each for each in peer.sock.limits if each]
    received = b""
    while len(received) < len(whole):
        received += read_all(transport, read_size)
    assert received == whole


def test_bytes_count_only_when_their_ciphertext_is_in_the_socket() -> None:
    transport, peer = pair()
    shake_hands(transport, peer)
    data = memoryview(b"x" * (3 * MAX_AHEAD_BYTES))
    peer.sock.limits = [MAX_AHEAD_BYTES // 2, 0]
    assert transport.send([data]) == 0
    assert transport.wants_write
    peer.sock.limits = [0]
    assert transport.send([data]) == 0
    # The rest of the first chunk, and a part of the second one.
    peer.sock.limits = [1 << 30, 1000]
    assert transport.send([data]) == MAX_AHEAD_BYTES
    assert transport.send([data[MAX_AHEAD_BYTES:]]) == 2 * MAX_AHEAD_BYTES
    peer.step()
    assert bytes(peer.received) == bytes(data)


def test_decrypted_bytes_that_no_event_announces() -> None:
    transport, peer = pair()
    shake_hands(transport, peer)
    peer.write(b"a" * 10)
    peer.write(b"b" * 10)
    buffer = memoryview(bytearray(4))
    assert transport.receive_into(buffer) == 4
    assert not peer.sock.to_client
    assert transport.has_buffered_bytes
    assert read_all(transport) == b"a" * 6 + b"b" * 10
    assert not transport.has_buffered_bytes


def test_a_part_of_a_record_is_not_buffered_bytes() -> None:
    transport, peer = pair()
    shake_hands(transport, peer)
    read_all(transport)  # session tickets
    peer.write(b"whole")
    rest = peer.sock.to_client[10:]
    del peer.sock.to_client[10:]
    with pytest.raises(BlockingIOError):
        transport.receive_into(memoryview(bytearray(10)))
    # Otherwise the selector would poll again and again without waiting.
    assert not transport.has_buffered_bytes
    peer.sock.to_client += rest
    assert read_all(transport) == b"whole"


@pytest.mark.parametrize("close_notify", [True, False])
def test_the_end_of_the_stream_with_and_without_close_notify(close_notify: bool) -> None:
    transport, peer = pair()
    shake_hands(transport, peer)
    peer.write(b"last")
    if close_notify:
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.unwrap()
        peer.flush()
    peer.sock.has_ended = True
    buffer = memoryview(bytearray(100))
    assert transport.receive_into(buffer) == 4
    assert transport.receive_into(buffer) == 0


def test_bytes_before_a_broken_record_are_delivered_first() -> None:
    transport, peer = pair()
    shake_hands(transport, peer)
    read_all(transport)
    peer.write(b"good")
    peer.sock.to_client += b"\x17\x03\x03\x00\x20" + bytes(32)
    buffer = memoryview(bytearray(100))
    assert transport.receive_into(buffer) == 4
    assert transport.has_buffered_bytes
    with pytest.raises(OSError, match=r"bad record mac|decryption failed") as caught:
        transport.receive_into(buffer)
    assert caught.value.errno == errno.ECONNABORTED


@pytest.mark.parametrize(
    ("host", "sni"),
    [(HOST, HOST), (HOST + ".", HOST), ("10.1.2.3", None), ("BROKER.example.com", "BROKER.example.com")],
)
def test_the_host_is_verified_and_sent(host: str, sni: str | None) -> None:
    transport, peer = pair(host=host)
    shake_hands(transport, peer)
    assert peer.sni == sni


def test_server_names() -> None:
    assert server_name("fe80::1%eth0") == "fe80::1"
    assert server_name("::1") == "::1"
    assert server_name("kafka.") == "kafka"


def failure(transport: TlsTransport, peer: Peer) -> Exception:
    with pytest.raises((AuthenticationError, NetworkError)) as caught:
        shake_hands(transport, peer)
    return caught.value


def test_a_wrong_host_names_both() -> None:
    error = failure(*pair(host="other.example.com"))
    assert isinstance(error, SslAuthenticationError)
    for words in (
        f"valid for {HOST}, 10.1.2.3",
        "not for 'other.example.com'",
        "ssl_endpoint_identification",
    ):
        assert words in str(error)


def test_a_wrong_address_names_both() -> None:
    assert f"valid for {HOST}, 10.1.2.3, not for '10.9.9.9'" in str(failure(*pair(host="10.9.9.9")))


def test_without_verification_of_the_host_any_name_will_do() -> None:
    shake_hands(*pair(host="other.example.com", client=client_context(check_hostname=False)))


def test_a_wrong_authority_names_what_is_trusted() -> None:
    error = failure(*pair(client=client_context(Authority())))
    assert isinstance(error, SslAuthenticationError)
    assert not error.retriable
    for words in (
        f"of {HOST!r}",
        "certificate",
        "the test's authority",
        "10.1.2.3",
    ):
        assert words in str(error)


@pytest.mark.parametrize(("shift", "words"), [(-1, "expired"), (1, "not yet valid")])
def test_a_certificate_of_another_time(shift: int, words: str) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    begin, end = (now - 9 * day, now - day) if shift < 0 else (now + day, now + 9 * day)
    leaf = authority().issue(HOST, not_before=begin, not_after=end)
    error = failure(*pair(server=server_context(leaf)))
    assert isinstance(error, SslAuthenticationError)
    assert words in str(error)
    assert "valid from" in str(error)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_client_certificate(version: ssl.TLSVersion) -> None:
    server = server_context(maximum_version=version, verify_mode=ssl.CERT_REQUIRED)
    transport, peer = pair(server=server)
    # With TLS 1.3 the client's handshake ends before the server's.

    def connect_and_ask() -> None:
        shake_hands(transport, peer)
        transport.send([memoryview(b"request")])
        peer.step()
        transport.receive_into(memoryview(bytearray(10)))

    with pytest.raises(SslAuthenticationError, match="ssl_keystore_location"):
        connect_and_ask()


def test_no_common_version() -> None:
    server = server_context(minimum_version=ssl.TLSVersion.TLSv1_3)
    error = failure(*pair(server=server, client=client_context(maximum_version=ssl.TLSVersion.TLSv1_2)))
    assert isinstance(error, SslAuthenticationError)
    assert "ssl_enabled_protocols" in str(error)


def test_a_peer_that_does_not_speak_tls() -> None:
    transport, peer = pair()
    peer.sock.to_client += b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with pytest.raises(SslAuthenticationError, match="PLAINTEXT or SASL_PLAINTEXT listener"):
        transport.handshake()


@pytest.mark.parametrize("error", [None, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")])
def test_a_peer_that_closes_at_once_is_no_authentication_failure(error: OSError | None) -> None:
    transport, peer = pair()
    transport.handshake()
    peer.sock.has_ended, peer.sock.broken = True, error
    with pytest.raises(NetworkError, match="PLAINTEXT or SASL_PLAINTEXT listener"):
        transport.handshake()


def test_a_peer_that_leaves_in_the_middle_of_the_handshake() -> None:
    transport, peer = pair()
    transport.handshake()
    peer.step()
    del peer.sock.to_client[50:]
    peer.sock.has_ended = True
    with pytest.raises(NetworkError, match=r"during the TLS handshake$"):
        transport.handshake()


def test_a_peer_that_leaves_in_the_middle_of_the_handshake_may_want_a_certificate() -> None:
    transport, peer = pair(lacks_certificate=True)
    transport.handshake()
    peer.step()
    del peer.sock.to_client[50:]
    peer.sock.has_ended = True
    with pytest.raises(
        NetworkError, match="during the TLS handshake; if the listener requires a client cert"
    ):
        transport.handshake()


def test_session_tickets_are_no_data() -> None:
    transport, peer = pair(server=server_context(num_tickets=4))
    shake_hands(transport, peer)
    assert peer.sock.to_client
    with pytest.raises(BlockingIOError):
        transport.receive_into(memoryview(bytearray(10)))
    assert not transport.has_buffered_bytes


def test_a_host_name_that_cannot_be_one() -> None:
    with pytest.raises(NetworkError, match="cannot be used for TLS"):
        TlsTransport(socket.socket.__new__(socket.socket), client_context(), ".example.com")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_key_updates_of_the_peer(tmp_path: Path) -> None:
    path, key = certificate().write(tmp_path, "server")
    # stdbuf: the server's output is read line by line.
    command = ["stdbuf", "-oL", "openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", path, "-key", key]
    command.append("-tls1_3")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            while not (line := server.stdout.readline()).startswith("ACCEPT"):
                assert line
            with socket.create_connection(("127.0.0.1", int(line.rpartition(":")[2])), 10) as sock:
                transport = TlsTransport(sock, client_context(), HOST)
                transport.handshake()
                assert transport.is_ready
                buffer = memoryview(bytearray(1000))
                for command_line in ("k", "K", "K", "k"):  # K: the answer is a key update as well
                    # The server takes a command that it reads alone; with text after it, both are data.
                    server.stdin.write(f"{command_line}\n")
                    server.stdin.flush()
                    while "SSL_do_handshake -> 1" not in (line := server.stdout.readline()):
                        assert line
                    server.stdin.write("data after it\n")
                    server.stdin.flush()
                    received = b""
                    while not received.endswith(b"data after it\n"):
                        received += buffer[: transport.receive_into(buffer)]
                    assert received == b"data after it\n"
                    assert transport.send([memoryview(b"answer\n")]) == 7
                    while "answer" not in (line := server.stdout.readline()):
                        assert line
        finally:
            server.kill()


def test_a_peer_that_says_goodbye_in_the_middle_of_the_handshake() -> None:
    """A broker that is being stopped. The client is not refused: it connects again."""
    transport, peer = pair()
    transport.handshake()
    peer.sock.to_client += b"\x15\x03\x03\x00\x02\x01\x00"  # the alert close_notify
    with pytest.raises(NetworkError, match=r"closed the connection during the TLS handshake$"):
        transport.handshake()


class Flood(MemorySocket):
    """Has always more bytes: records that the peer may send as often as it likes, and that carry nothing."""

    def __init__(self, records: bytes) -> None:
        super().__init__()
        self.records = records
        self.bytes_read = 0

    def recv(self, size: int) -> bytes:
        data = super().recv(size) if self.to_client else self.records * (size // len(self.records))
        self.bytes_read += len(data)
        assert self.bytes_read < 100_000_000, "the call does not end"
        return data


def test_a_peer_that_prolongs_the_handshake_does_not_hold_up_the_caller() -> None:
    flood = Flood(b"\x16\x03\x03\0\x04\0\0\0\0")  # HelloRequest, which clients ignore during a handshake
    transport = TlsTransport(flood, client_context(maximum_version=ssl.TLSVersion.TLSv1_2), HOST)  # type: ignore[arg-type]
    for _ in range(3):
        transport.handshake()
        assert not transport.is_ready


def test_a_long_handshake_continues_with_what_has_been_read() -> None:
    """The peer waits for the client now, so no more bytes come that could wake the selector."""
    transport, peer = pair(
        client=client_context(maximum_version=ssl.TLSVersion.TLSv1_2),
        server=server_context(maximum_version=ssl.TLSVersion.TLSv1_2),
    )
    transport.handshake()
    peer.step()
    ignored = b"\x16\x03\x03\0\x04\0\0\0\0"  # HelloRequest
    peer.sock.to_client[:0] = ignored * (1_100_000 // len(ignored))
    peer.sock.limits = [250_000] * 4
    peer.sock.from_client.clear()
    while peer.sock.to_client:
        transport.handshake()
    assert peer.sock.from_client
