"""Connections come up, fail, idle out and close without leaking a descriptor."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import threading
from collections.abc import Callable

import pytest

import kproducer._core.network.selector as selector_module
from kproducer._core.kernel import data_plane
from kproducer._core.network.network_send import NetworkSend
from kproducer._core.network.selector import Selector
from kproducer._core.network.transport_layer import TransportLayer
from kproducer.errors import DisconnectedError, IllegalStateError, NetworkError, RemoteProtocolError
from kproducer.errors.internal_errors import IdleDisconnectError
from tests.support.loopback import HOST, Listener, closed_port, frame, open_descriptors, poll_until
from tests.support.manual_clock import ManualClock
from tests.support.units.lane_bench import Bench
from tests.unit.network.conftest import MAX_IDLE_MS, connect


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_connection_comes_up(selector: Selector, family: int) -> None:
    with Listener(family) as listener:
        selector.connect("0", listener.address, family)
        assert not selector.is_channel_ready("0")
        poll_until(selector, lambda: selector.connected == ["0"])
        assert selector.is_channel_ready("0")
        selector.poll(0)
        assert selector.connected == []


def test_refused_is_reported_and_the_id_can_be_used_again(selector: Selector) -> None:
    with closed_port() as port:
        selector.connect("0", (HOST, port))
        poll_until(selector, lambda: "0" in selector.disconnected)
    error = selector.disconnected["0"]
    assert type(error) is NetworkError
    assert "refused" in str(error)
    assert HOST in str(error)
    with Listener() as listener:
        connect(selector, listener)


def test_no_route_fails_at_once_and_leaks_nothing(
    selector: Selector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_route(sock: socket.socket, address: object) -> None:
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    before = open_descriptors()
    monkeypatch.setattr(selector_module, "start_connect", no_route)
    with pytest.raises(NetworkError, match="No route to host"):
        selector.connect("0", (HOST, 9))
    assert open_descriptors() <= before
    monkeypatch.undo()
    with Listener() as listener:
        connect(selector, listener)


def test_an_address_that_is_none_is_a_network_error(selector: Selector) -> None:
    before = open_descriptors()
    with pytest.raises(NetworkError):
        selector.connect("0", ("no such host.invalid", 9))
    assert open_descriptors() <= before


def test_a_failing_registration_leaks_nothing(selector: Selector, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("no room")

    before = open_descriptors()
    monkeypatch.setattr(selector._io, "register", refuse)
    with Listener() as listener:
        with pytest.raises(ValueError, match="no room"):
            selector.connect("0", listener.address)
        monkeypatch.undo()
        assert len(open_descriptors() - before) == 1
        connect(selector, listener)


def test_a_failing_transport_leaks_nothing(make_selector: Callable[..., Selector]) -> None:
    def broken(sock: socket.socket, host: str) -> TransportLayer:
        raise RuntimeError("no context")

    selector = make_selector(arguments={"transport_factory": broken})
    with Listener() as listener, pytest.raises(RuntimeError, match="no context"):
        selector.connect("0", listener.address)


def test_an_immediate_connect_is_reported_once(selector: Selector, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect_now(sock: socket.socket, address: object) -> None:
        sock.setblocking(True)
        sock.connect(address)  # type: ignore[arg-type]
        sock.setblocking(False)

    monkeypatch.setattr(selector_module, "start_connect", connect_now)
    with Listener() as listener:
        selector.connect("0", listener.address)
        selector.poll(0)
        assert selector.connected == ["0"]
        selector.poll(0)
        assert selector.connected == []
        selector.connect("1", listener.address)
        selector.close("1")
        selector.poll(0)
        assert selector.connected == []
        assert selector.disconnected == {}


def test_an_id_in_use_is_a_programming_error(selector: Selector) -> None:
    with Listener() as listener:
        selector.connect("0", listener.address)
        with pytest.raises(IllegalStateError):
            selector.connect("0", listener.address)


def test_options_are_set_on_the_socket(make_selector: Callable[..., Selector]) -> None:
    selector = make_selector(send_buffer_bytes=70_000, receive_buffer_bytes=60_000)
    with Listener() as listener:
        connect(selector, listener)
        transport = selector._channels["0"].transport
        with socket.socket(fileno=os.dup(transport.fileno())) as sock:
            assert not os.get_blocking(transport.fileno())
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 140_000
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 120_000


def test_a_socket_connected_to_itself_is_refused() -> None:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        sock.connect(sock.getsockname())
        with pytest.raises(NetworkError, match="itself"):
            TransportLayer(sock).finish_connect()


def test_the_peer_closing_between_frames(selector: Selector) -> None:
    with Listener() as listener:
        connect(selector, listener).close()
        poll_until(selector, lambda: "0" in selector.disconnected)
        assert isinstance(selector.disconnected["0"], DisconnectedError)
        assert "between responses" in str(selector.disconnected["0"])
        selector.poll(0)
        assert selector.disconnected == {}


def test_local_close_is_not_reported(selector: Selector) -> None:
    with Listener() as listener:
        connect(selector, listener)
        selector.close("0")
        selector.close("0")
        selector.poll(0)
        assert selector.disconnected == {}
        assert not selector.is_channel_ready("0")


def test_the_oldest_idle_connection_is_closed(selector: Selector, clock: ManualClock) -> None:
    with Listener() as listener:
        connect(selector, listener, "old")
        clock.advance(MAX_IDLE_MS - 1)
        peer = connect(selector, listener, "young")
        assert selector.disconnected == {}
        clock.advance(1)
        selector.poll(0)
        assert list(selector.disconnected) == ["old"]
        assert isinstance(selector.disconnected["old"], IdleDisconnectError)
        assert "connections_max_idle_ms" in str(selector.disconnected["old"])
        clock.advance(MAX_IDLE_MS - 2)
        peer.sendall(frame(b"alive"))
        poll_until(selector, lambda: bool(selector.completed_receives))
        clock.advance(MAX_IDLE_MS - 1)
        selector.poll(0)
        assert selector.disconnected == {}
        clock.advance(1)
        selector.poll(0)
        assert list(selector.disconnected) == ["young"]


def test_no_idle_close_while_a_frame_is_partly_written(selector: Selector, clock: ManualClock) -> None:
    with Listener(receive_buffer_bytes=4096) as listener:
        connect(selector, listener, "sending")
        big = NetworkSend("sending", [memoryview(bytes(64 << 20))])
        selector.send(big)
        selector.poll(0)
        assert big.is_stalled
        clock.advance(MAX_IDLE_MS * 2)
        selector.poll(0)
        assert selector.disconnected == {}


@pytest.mark.skipif(data_plane is None, reason="lanes are part of the native kernel")
def test_no_idle_close_while_a_lane_waits_for_an_answer(selector: Selector, clock: ManualClock) -> None:
    with Listener() as listener, contextlib.ExitStack() as on_exit:
        peer = connect(selector, listener, "0")
        bench = Bench(has_wake_descriptor=selector.io.wake_of_plane() is None)
        on_exit.callback(bench.close)
        bench.plane.remove_lane(bench.lane)
        channel = selector.channel("0")
        assert channel is not None
        bench.lane = data_plane.FastLane(
            bench.plane, channel, channel.transport.fileno(), 9, b"", 5, 1 << 20, None
        )
        selector.io.use_plane(bench.plane, lambda lane: None, clock.monotonic_ms)
        bench.plane.add_lane(bench.lane)
        selector.io.use_lane(channel, bench.lane)
        bench.lane.is_armed = True
        clock.advance(MAX_IDLE_MS)
        bench.send("t", 0, b"v")
        selector.poll(0)
        assert peer.recv(1000)
        assert bench.lane.in_flight == 1
        assert selector.disconnected == {}


@pytest.mark.parametrize("received", [b"HTTP/1.1 400", b"\x80\0\0\0"])
def test_what_a_lane_has_read_and_is_no_frame_ends_its_connection_alone(
    selector: Selector, received: bytes
) -> None:
    with Listener() as listener:
        connect(selector, listener, "wrong")
        peer = connect(selector, listener, "right")
        peer.sendall(frame(b"an answer"))
        channel = selector.channel("wrong")
        assert channel is not None
        selector.resume(channel, frame(b"the last answer") + received, [])
        receives = []
        while "wrong" not in selector.disconnected or len(receives) < 2:
            selector.poll(100)
            receives += selector.completed_receives
        assert isinstance(selector.disconnected["wrong"], RemoteProtocolError)
        assert str(channel.address) in str(selector.disconnected["wrong"])
        assert sorted(receives) == [("right", b"an answer"), ("wrong", b"the last answer")]


def test_a_negative_idle_time_means_never(make_selector: Callable[..., Selector], clock: ManualClock) -> None:
    selector = make_selector(connections_max_idle_ms=-1)
    with Listener() as listener:
        connect(selector, listener)
        clock.advance(10**9)
        selector.poll(0)
        assert selector.disconnected == {}


def test_with_an_idle_time_of_zero_a_connection_outlives_the_poll_in_which_it_was_used(
    make_selector: Callable[..., Selector], clock: ManualClock
) -> None:
    selector = make_selector(connections_max_idle_ms=0)
    with Listener() as listener:
        connect(selector, listener)
        assert selector.is_channel_ready("0")
        clock.advance(1)
        selector.poll(0)
        assert list(selector.disconnected) == ["0"]


def test_a_wakeup_ends_a_poll_from_another_thread(selector: Selector) -> None:
    thread = threading.Thread(target=selector.wakeup)
    thread.start()
    selector.poll(3_600_000)
    thread.join()


def test_a_wakeup_before_the_poll_is_not_lost_and_serves_one_poll(selector: Selector) -> None:
    selector.wakeup()
    selector.wakeup()
    selector.poll(3_600_000)
    assert selector._wakeup.begin_wait()
    selector._wakeup.end_wait()


def test_huge_timeouts_are_legal_and_negative_ones_are_not(selector: Selector) -> None:
    selector.wakeup()
    selector.poll(2**63)
    with pytest.raises(ValueError, match="negative"):
        selector.poll(-1)


def test_many_connections_beyond_the_limit_of_select(selector: Selector) -> None:
    wanted = 560  # two descriptors each, both ends in this process: more than 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2500:
        pytest.skip("this machine allows too few file descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2500), hard))
    try:
        with Listener() as listener:
            up: set[str] = set()
            for number in range(wanted):
                selector.connect(str(number), listener.address)
                listener.accept()
            while len(up) < wanted:
                selector.poll(10_000)
                up.update(selector.connected)
            highest = str(wanted - 1)
            assert selector._channels[highest].transport.fileno() > 1024
            selector.send(NetworkSend(highest, [memoryview(b"hello")]))
            selector.poll(0)
            assert listener.peers[-1].recv(10) == b"hello"
            selector.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_reconnecting_again_and_again_keeps_descriptors_flat(selector: Selector) -> None:
    selector.poll(0)
    with closed_port() as port, Listener() as listener:
        before = open_descriptors()
        for round_number in range(200):
            if round_number % 2:
                selector.connect("0", (HOST, port))
            else:
                connect(selector, listener).close()
            poll_until(selector, lambda: "0" in selector.disconnected)
            assert open_descriptors() <= before
            if listener.peers:
                listener.peers.clear()


def test_after_a_fork_the_parents_connection_lives_on(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        child = os.fork()
        if child == 0:
            try:
                selector.release_after_fork()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        peer.sendall(frame(b"still here"))
        poll_until(selector, lambda: bool(selector.completed_receives))
        selector.send(NetworkSend("0", [memoryview(b"me too")]))
        selector.poll(0)
        assert peer.recv(10) == b"me too"


def test_a_closed_selector_connects_no_more(selector: Selector) -> None:
    selector.close()
    selector.close()
    selector.wakeup()
    with pytest.raises(IllegalStateError):
        selector.connect("0", (HOST, 9))
