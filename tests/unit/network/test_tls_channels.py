"""TLS connections of a Selector, with both implementations of ChannelIo, against peers on real sockets."""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kproducer._core.network.selector as selector_module
from kproducer._core.network import channel_io, native_tls
from kproducer._core.network.channel_io import READ, WRITE, NativeChannelIo, PortableChannelIo
from kproducer._core.network.network_send import NetworkSend
from kproducer._core.network.selector import Selector
from kproducer._core.network.tls_transport import TlsTransport
from kproducer.errors import DisconnectedError, SslAuthenticationError
from tests.support.loopback import PATIENCE_S, Listener, frame
from tests.support.tls_peer import (
    HOST,
    SocketPeer,
    authority,
    certificate,
    client_context,
    server_context,
)

MakeSelector = Callable[..., Selector]


@contextmanager
def connected(
    make_selector: MakeSelector,
    *,
    client: ssl.SSLContext | None = None,
    server: ssl.SSLContext | None = None,
    peer_buffer_bytes: int = -1,
    **arguments: Any,
) -> Iterator[tuple[Selector, SocketPeer]]:
    """A selector with a connection "0" whose handshake has ended on the client's side."""
    with Listener(receive_buffer_bytes=peer_buffer_bytes) as listener:
        selector = new_selector(make_selector, client or client_context(), **arguments)
        selector.connect("0", listener.address, listener.family, HOST)
        peer = SocketPeer(listener.accept(), server or server_context())
        run_until(selector, peer, lambda: selector.is_channel_ready("0"))
        yield selector, peer


def new_selector(make_selector: MakeSelector, client: ssl.SSLContext, **settings: Any) -> Selector:
    def new_transport(sock: socket.socket, host: str) -> TlsTransport:
        return TlsTransport(sock, client, host, "the test's authority")

    # The fixture's parameter decides what this name refers to.
    chosen = selector_module.PlaintextChannelIo
    if chosen is NativeChannelIo:
        assert native_tls.why_not(client) == ""
    return make_selector(
        arguments={"transport_factory": new_transport, "channel_io": chosen},
        **settings,
    )


class Received:
    """What a selector has reported, over many polls."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.completed: list[NetworkSend] = []


def run_until(
    selector: Selector, peer: SocketPeer, condition: Callable[[], bool], seen: Received | None = None
) -> Received:
    """Poll and serve the peer in turn until the condition holds."""
    seen = seen or Received()
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "not reached"
        assert not selector.disconnected
        selector.poll(1)
        seen.payloads += [payload for _, payload in selector.completed_receives]
        seen.completed += selector.completed_sends
        peer.pump()
    return seen


def end_of(selector: Selector) -> tuple[Exception, list[bytes]]:
    """Poll until the connection has ended: the error, and the frames received before it."""
    payloads: list[bytes] = []
    for _ in range(100):
        selector.poll(int(PATIENCE_S * 1000))
        payloads += [payload for _, payload in selector.completed_receives]
        if selector.disconnected:
            return selector.disconnected["0"], payloads
    raise AssertionError("the connection does not end")


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_in_both_directions(make_selector: MakeSelector, version: ssl.TLSVersion) -> None:
    with connected(make_selector, server=server_context(maximum_version=version)) as (selector, peer):
        sends = [NetworkSend("0", [memoryview(b"a%d" % i), memoryview(b"b")]) for i in range(3)]
        for send in sends:
            selector.send(send)
        selector.poll(0)
        assert selector.completed_sends == sends
        peer.pump()
        assert peer.received == b"a0ba1ba2b"
        peer.write(frame(b"one") + frame(b"two"))
        peer.send()
        selector.poll(int(PATIENCE_S * 1000))
        assert [payload for _, payload in selector.completed_receives] == [b"one", b"two"]


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    pieces=st.lists(
        st.lists(st.one_of(st.integers(1, 40), st.integers(1, 100_000)), max_size=30), min_size=1, max_size=4
    ),
    answers=st.lists(st.integers(0, 200_000), max_size=5),
)
def test_any_split_gives_the_same_bytes(
    make_selector: MakeSelector, pieces: list[list[int]], answers: list[int]
) -> None:
    sizes = [size for frame_sizes in pieces for size in frame_sizes]
    data = [memoryview(bytes([65 + i % 26]) * size) for i, size in enumerate(sizes)]
    replies = [bytes([97 + i]) * size for i, size in enumerate(answers)]
    buffers = {"send_buffer_bytes": 8192, "receive_buffer_bytes": 8192}
    with connected(make_selector, peer_buffer_bytes=4096, **buffers) as (selector, peer):
        selector.expect_long_frames("0")
        left = iter(data)
        sends = [
            NetworkSend("0", [next(left) for _ in frame_sizes] or [memoryview(b"-")])
            for frame_sizes in pieces
        ]
        expected = b"".join(bytes(piece) for send in sends for piece in send.buffers)
        for send in sends:
            selector.send(send)
        for reply in replies:
            peer.write(frame(reply))
        seen = Received()
        run_until(
            selector,
            peer,
            lambda: len(peer.received) == len(expected) and len(seen.payloads) == len(replies),
            seen,
        )
        selector.poll(0)
        assert peer.received == expected
        assert seen.payloads == replies
        assert seen.completed + selector.completed_sends == sends
        selector.close("0")


def test_bytes_count_only_when_their_ciphertext_is_in_the_socket(make_selector: MakeSelector) -> None:
    size = 1 << 20
    with connected(make_selector, peer_buffer_bytes=8192, send_buffer_bytes=65536) as (selector, peer):
        send = NetworkSend("0", [memoryview(bytes(size))])
        selector.send(send)
        end = time.monotonic() + PATIENCE_S
        while not send.completed:
            selector.poll(0)
            # What the peer can read now was in the socket: the client does nothing meanwhile.
            peer.receive()
            peer.step()
            while len(peer.received) < size - send.remaining_bytes:
                assert time.monotonic() < end
                peer.receive()
                peer.step()
        assert len(peer.received) == size


def test_decrypted_bytes_that_no_event_announces(
    make_selector: MakeSelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_io, "READ_SIZE_BYTES", 100)
    monkeypatch.setattr(selector_module, "READ_SIZE_BYTES", 100)
    monkeypatch.setattr(channel_io, "_NATIVE_BUFFER_BYTES", 100)
    with connected(make_selector) as (selector, peer):
        peer.pump()
        for i in range(20):
            peer.write(frame(bytes([i]) * 999))  # one record of which ten reads take a part each
        peer.send()
        payloads: list[bytes] = []
        while len(payloads) < 20:
            # A poll that forgets the rest of a record waits for an event, and returns without a frame.
            selector.poll(int(PATIENCE_S * 1000))
            payloads += [payload for _, payload in selector.completed_receives]
        assert payloads == [bytes([i]) * 999 for i in range(20)]
        selector.poll(0)
        assert list(selector._io.exchange([], 0)) == []


def test_bytes_that_arrive_with_the_end_of_the_handshake(make_selector: MakeSelector) -> None:
    server = server_context(maximum_version=ssl.TLSVersion.TLSv1_2)
    with Listener() as listener:
        selector = new_selector(make_selector, client_context())
        selector.connect("0", listener.address, listener.family, HOST)
        peer = SocketPeer(listener.accept(), server)
        for _ in range(1000):
            selector.poll(1)
            peer.receive()
            peer.step()
            if peer.tls.selected_alpn_protocol() is None and peer.tls.version() and is_done(peer):
                break
            peer.send()
        peer.write(frame(b"early"))
        peer.send()
        seen = Received()
        run_until(selector, peer, lambda: bool(seen.payloads), seen)
        assert seen.payloads == [b"early"]


def is_done(peer: SocketPeer) -> bool:
    try:
        peer.tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def test_session_tickets_are_no_data(make_selector: MakeSelector) -> None:
    with connected(make_selector, server=server_context(num_tickets=4)) as (selector, peer):
        peer.pump()
        selector.poll(0)
        assert not selector.completed_receives
        assert not selector.disconnected
        # Otherwise the selector would poll again and again without waiting.
        assert list(selector._io.exchange([], 0)) == []


@pytest.mark.parametrize("close_notify", [True, False])
def test_the_end_of_the_stream_with_and_without_close_notify(
    make_selector: MakeSelector, close_notify: bool
) -> None:
    with connected(make_selector) as (selector, peer):
        peer.write(frame(b"last"))
        if close_notify:
            with pytest.raises(ssl.SSLWantReadError):
                peer.tls.unwrap()
            peer.flush()
        peer.send()
        peer.connection.shutdown(socket.SHUT_WR)
        error, payloads = end_of(selector)
        assert payloads == [b"last"]
        assert isinstance(error, DisconnectedError)
        assert "closed the connection" in str(error)


def test_frames_before_a_broken_record_are_delivered_first(make_selector: MakeSelector) -> None:
    with connected(make_selector) as (selector, peer):
        peer.pump()
        peer.write(frame(b"good"))
        peer.sock.to_client += b"\x17\x03\x03\x00\x20" + bytes(32)
        peer.send()
        error, payloads = end_of(selector)
        assert payloads == [b"good"]
        assert isinstance(error, DisconnectedError)
        assert "bad record mac" in str(error) or "decryption failed" in str(error)


@pytest.mark.parametrize("is_sending", [False, True])
def test_a_client_certificate_that_is_missed_after_the_handshake(
    make_selector: MakeSelector, is_sending: bool
) -> None:
    # With TLS 1.3 the client's handshake ends before the server's.
    with connected(make_selector, server=server_context(verify_mode=ssl.CERT_REQUIRED)) as (selector, peer):
        peer.pump()
        peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if is_sending:
            selector.send(NetworkSend("0", [memoryview(b"request")]))
        error, _ = end_of(selector)
        assert isinstance(error, SslAuthenticationError)
        assert "ssl_keystore_location" in str(error)
        assert re.match(r"127\.0\.0\.1:\d+: the broker ended the TLS handshake", str(error))


def test_an_alert_after_data_is_no_refusal(make_selector: MakeSelector) -> None:
    # A server in TLS 1.2 sends an alert for records that it cannot read.
    server = server_context(maximum_version=ssl.TLSVersion.TLSv1_2)
    with connected(make_selector, server=server) as (selector, peer):
        peer.write(frame(b"data"))
        peer.sock.from_client += b"\x17\x03\x03\x00\x20" + bytes(32)
        peer.pump()
        error, payloads = end_of(selector)
        assert payloads == [b"data"]
        assert isinstance(error, DisconnectedError)
        assert "alert bad record mac" in str(error)


def test_a_client_certificate(make_selector: MakeSelector) -> None:
    client = client_context()
    certificate("client").leaf.configure_cert(client)
    server = server_context(verify_mode=ssl.CERT_REQUIRED)
    with connected(make_selector, client=client, server=server) as (selector, peer):
        selector.send(NetworkSend("0", [memoryview(b"request")]))
        run_until(selector, peer, lambda: peer.received == b"request")
        assert peer.tls.getpeercert() is not None


def test_a_peer_that_does_not_speak_tls(make_selector: MakeSelector) -> None:
    with Listener() as listener:
        selector = new_selector(make_selector, client_context())
        selector.connect("0", listener.address, listener.family, HOST)
        listener.accept().sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        error, _ = end_of(selector)
        assert isinstance(error, SslAuthenticationError)
        assert "PLAINTEXT or SASL_PLAINTEXT listener" in str(error)


def test_a_reset_while_bytes_wait(make_selector: MakeSelector) -> None:
    with connected(make_selector, peer_buffer_bytes=4096, send_buffer_bytes=8192) as (selector, peer):
        selector.send(NetworkSend("0", [memoryview(bytes(4 << 20))]))
        selector.poll(0)
        peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.connection.close()
        error, _ = end_of(selector)
        assert isinstance(error, DisconnectedError)


def test_callbacks_into_python_during_an_exchange(make_selector: MakeSelector) -> None:
    client = client_context()
    seen: list[object] = []
    client._msg_callback = lambda *arguments: seen.append(arguments)  # type: ignore[attr-defined]
    with connected(make_selector, client=client) as (selector, peer):
        before = len(seen)
        selector.send(NetworkSend("0", [memoryview(b"request")]))
        run_until(selector, peer, lambda: peer.received == b"request")
        assert len(seen) > before


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_key_updates_of_the_peer(make_selector: MakeSelector, tmp_path: Path) -> None:
    path, key = certificate().write(tmp_path, "server")
    # stdbuf: the server's output is read line by line.
    command = [
        "stdbuf",
        "-oL",
        "openssl",
        "s_server",
        "-accept",
        "127.0.0.1:0",
        "-cert",
        path,
        "-key",
        key,
        "-tls1_3",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            while not (line := server.stdout.readline()).startswith(b"ACCEPT"):
                assert line
            selector = new_selector(make_selector, client_context())
            port = int(line.rpartition(b":")[2])
            selector.connect("0", ("127.0.0.1", port), host=HOST)
            while not selector.is_channel_ready("0"):
                selector.poll(100)
                assert not selector.disconnected
            for command_line in (b"k", b"K", b"K", b"k"):  # K: the answer is a key update as well
                # The server takes a command that it reads alone; with text after it, both are data.
                server.stdin.write(command_line + b"\n")
                server.stdin.flush()
                while b"SSL_do_handshake -> 1" not in (line := server.stdout.readline()):
                    assert line
                server.stdin.write(frame(b"data after it\n"))
                server.stdin.flush()
                payloads: list[bytes] = []
                while not payloads:
                    selector.poll(int(PATIENCE_S * 1000))
                    assert not selector.disconnected
                    payloads = [payload for _, payload in selector.completed_receives]
                assert payloads == [b"data after it\n"]
                selector.send(NetworkSend("0", [memoryview(b"answer\n")]))
                selector.poll(0)
                while b"answer" not in (line := server.stdout.readline()):
                    assert line
        finally:
            server.kill()


# -- when native code may be used ----------------------------------------------------------------------

needs_native = pytest.mark.skipif(
    selector_module.PlaintextChannelIo is PortableChannelIo, reason="the native kernel is not in use"
)


@needs_native
def test_after_the_handshake_no_bytes_move_through_python(
    make_selector: MakeSelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    if selector_module.PlaintextChannelIo is PortableChannelIo:
        return
    with connected(make_selector) as (selector, peer):

        def refuse(*_: object) -> None:
            raise AssertionError("gives the interpreter lock away")

        for name in ("send", "receive_into", "_flush"):
            monkeypatch.setattr(TlsTransport, name, refuse)
        selector.send(NetworkSend("0", [memoryview(b"request")]))
        run_until(selector, peer, lambda: peer.received == b"request")
        peer.write(frame(b"answer"))
        peer.send()
        selector.poll(int(PATIENCE_S * 1000))
        assert [payload for _, payload in selector.completed_receives] == [b"answer"]


@needs_native
@pytest.mark.parametrize(
    ("target", "name", "value", "words"),
    [
        ("os.environ", "KPRODUCER_NATIVE_TLS", "0", "KPRODUCER_NATIVE_TLS=0"),
        ("sys", "version_info", (3, 99), "layout"),
        ("ssl", "OPENSSL_VERSION", "LibreSSL 3.8.2", "LibreSSL"),
        ("ssl", "OPENSSL_VERSION_NUMBER", 0x30000001, "not found in the libraries"),
        ("_ssl", "__file__", None, "linked into the interpreter"),
        ("_ssl", "__file__", "/nowhere/_ssl.so", "not found in the libraries"),
        ("_ssl", "_SSLSocket", int, "expected int"),
    ],
)
def test_doubts_lead_to_the_portable_path(
    monkeypatch: pytest.MonkeyPatch, target: str, name: str, value: Any, words: str
) -> None:
    assert native_tls.channel_io_for(client_context()) is NativeChannelIo
    if target == "os.environ":
        monkeypatch.setenv(name, value)
    else:
        monkeypatch.setattr(f"{target}.{name}", value)
    assert words in native_tls.why_not(client_context())
    assert native_tls.channel_io_for(client_context()) is PortableChannelIo


@needs_native
def test_a_session_accepts_only_the_objects_of_one_connection() -> None:
    assert native_tls.why_not(client_context()) == ""

    def new() -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        return client_context().wrap_bio(incoming, outgoing, server_hostname=HOST), incoming, outgoing

    tls, incoming, outgoing = new()
    native_tls.new_session(tls, incoming, outgoing)
    with pytest.raises(ValueError, match="other buffers"):
        native_tls.new_session(tls, outgoing, incoming)
    with pytest.raises(ValueError, match="other buffers"):
        native_tls.new_session(tls, incoming, new()[2])
    with pytest.raises(ValueError, match="expected MemoryBIO"):
        native_tls.new_session(tls, incoming, object())  # type: ignore[arg-type]


@needs_native
def test_words_that_are_elsewhere_are_not_used() -> None:
    from kproducer._core.network import _native_channel_io as native

    class Other:
        """As large as the object of ``ssl``, with other words in it."""

        __slots__ = ("a", "b", "c", "context", "d")

    assert native_tls.why_not(client_context()) == ""
    other = Other()
    other.context = client_context()
    with pytest.raises(ValueError, match="where it was expected"):
        native.TlsSession(other, ssl.MemoryBIO(), ssl.MemoryBIO())

    class Small:
        __slots__ = ("context",)

    small = Small()
    small.context = client_context()
    with pytest.raises(ValueError, match="smaller than expected"):
        native.TlsSession(small, ssl.MemoryBIO(), ssl.MemoryBIO())


def test_the_settings_choose_it() -> None:
    from kproducer._core.config.producer_config import ProducerConfig
    from kproducer._core.security.tls_settings import TlsSettings
    from tests.support.manual_clock import ManualClock

    config = ProducerConfig(
        bootstrap_servers="host:1", security_protocol="SSL", ssl_truststore_certificates=authority().pem
    )
    assert TlsSettings(config, ManualClock()).channel_io() is selector_module.PlaintextChannelIo


@needs_native
def test_a_write_that_fails_while_bytes_are_read_is_reported() -> None:
    """Reading makes OpenSSL write an alert; nothing else would tell that the socket is broken."""
    from kproducer._core.network import _native_channel_io as native

    assert native_tls.why_not(client_context()) == ""
    bios = [ssl.MemoryBIO() for _ in range(4)]
    client = client_context().wrap_bio(bios[0], bios[1], server_hostname=HOST)
    server = server_context(num_tickets=0).wrap_bio(bios[2], bios[3], server_side=True)
    for _ in range(2):
        for side, source, target in ((client, bios[1], bios[2]), (server, bios[3], bios[0])):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            target.write(source.read())
    ours, theirs = socket.socketpair()  # full and closed for writing, it raises no event, unlike TCP
    wakeup, other_end = socket.socketpair()
    with ours, theirs, wakeup, other_end:
        ours.setblocking(False)
        io = native.SocketIo(wakeup.fileno(), bytearray(1 << 16), 1 << 16)
        sock = io.register(ours.fileno(), "owner")
        sock.encrypt(native_tls.new_session(client, bios[0], bios[1]))
        sock.establish()
        sock.queue([bytes(4 << 20)])
        io.exchange([sock], 0)
        server.write(b"data")
        server.write(b"changed on its way")
        records = bytearray(bios[3].read())
        records[-1] ^= 1
        theirs.sendall(records)
        ours.shutdown(socket.SHUT_WR)
        ((_, mask, _, write_errno, _, count, _),) = io.exchange([], 1000)
        assert (mask, write_errno, count) == (READ | WRITE, errno.EPIPE, 4)
        io.close()
