"""Frames go out and come in whole, through full sockets, single bytes and hostile peers."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable

import pytest

from kproducer._core.kernel import data_plane
from kproducer._core.network.framing import MAX_FIRST_FRAME_BYTES
from kproducer._core.network.network_send import MAX_PIECES, NetworkSend
from kproducer._core.network.selector import Selector
from kproducer._core.network.transport_layer import TransportLayer
from kproducer.errors import DisconnectedError, IllegalStateError, RemoteProtocolError
from tests.support.loopback import PATIENCE_S, Listener, frame, poll_until, receive_exactly
from tests.support.units.lane_bench import Bench
from tests.unit.network.conftest import connect


def reset(selector: Selector, peer: socket.socket) -> None:
    """Close the peer's end with a TCP reset, and wait until it has reached ours."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    waiting = select.poll()
    waiting.register(selector._channels["0"].transport.fileno(), 0)  # errors are always reported
    assert waiting.poll(PATIENCE_S * 1000)


def payloads(selector: Selector) -> list[bytes]:
    return [payload for _, payload in selector.completed_receives]


def test_a_send_is_written_and_reported_by_the_next_poll(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        send = NetworkSend("0", [memoryview(b"ab"), memoryview(b"cd")])
        selector.send(send)
        assert not send.completed
        selector.poll(0)
        assert receive_exactly(peer, 4) == b"abcd"
        assert selector.completed_sends == [send]
        assert send.completed
        selector.poll(0)
        assert selector.completed_sends == []


def test_empty_pieces_do_not_keep_the_others_from_being_written(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        send = NetworkSend("0", [])
        send.buffers = [memoryview(piece) for piece in (b"", b"ab", b"", b"cd", b"")]
        send.remaining_bytes = 4
        selector.send(send)
        selector.poll(0)
        assert receive_exactly(peer, 4) == b"abcd"
        assert selector.completed_sends == [send]


def test_several_sends_between_two_polls_are_all_reported(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        sends = [NetworkSend("0", [memoryview(b"%d" % i)]) for i in range(3)]
        for send in sends:
            selector.send(send)
        selector.poll(0)
        assert selector.completed_sends == sends
        assert receive_exactly(peer, 3) == b"012"


def test_a_send_larger_than_the_socket_buffers_resumes_and_completes_once(
    make_selector: Callable[..., Selector],
) -> None:
    selector = make_selector(send_buffer_bytes=8192)
    with Listener(receive_buffer_bytes=4096) as listener:
        peer = connect(selector, listener)
        body = bytes(range(256)) * 16384
        send = NetworkSend("0", [memoryview(b"head"), memoryview(body), memoryview(b"tail")])
        selector.send(send)
        completed = 0
        got = bytearray()
        while len(got) < len(body) + 8:
            selector.poll(0)
            got += receive_exactly(peer, 1)
            got += peer.recv(100_000, socket.MSG_DONTWAIT) if got[-1:] and _readable(peer) else b""
            completed += len(selector.completed_sends)
        assert bytes(got) == b"head" + body + b"tail"
        assert completed == 1
        selector.send(NetworkSend("0", [memoryview(b"next")]))
        selector.poll(0)
        assert receive_exactly(peer, 4) == b"next"


def _readable(peer: socket.socket) -> bool:
    try:
        return bool(peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False


def test_after_a_completed_send_the_socket_is_not_watched_for_writing(selector: Selector) -> None:
    with Listener(receive_buffer_bytes=4096) as listener:
        peer = connect(selector, listener)
        size = 16 << 20
        selector.send(NetworkSend("0", [memoryview(bytes(size))]))
        selector.poll(0)
        left = size
        while left:
            left -= len(receive_exactly(peer, min(left, 1 << 18)))
            selector.poll(0)
        assert not selector._channels["0"].sends
        assert list(selector._io.exchange([], 0)) == []


def test_nothing_is_added_to_a_full_socket(selector: Selector) -> None:
    with Listener(receive_buffer_bytes=4096) as listener:
        connect(selector, listener)
        big, behind = NetworkSend("0", [memoryview(bytes(64 << 20))]), NetworkSend("0", [memoryview(b"x")])
        selector.send(big)
        selector.send(behind)
        assert not behind.is_stalled
        selector.poll(0)
        assert (big.is_stalled, behind.is_stalled) == (True, True)
        with pytest.raises(IllegalStateError, match="still sending"):
            selector.send(NetworkSend("0", [memoryview(b"x")]))


def test_frames_behind_one_that_filled_the_socket_follow_in_order(
    make_selector: Callable[..., Selector],
) -> None:
    selector = make_selector(send_buffer_bytes=8192)
    with Listener(receive_buffer_bytes=4096) as listener:
        peer = connect(selector, listener)
        bodies = [b"a" * 100_000, b"", b"b" * 300_000, b"c"]
        sends = [NetworkSend("0", [memoryview(body[:7]), memoryview(body[7:])]) for body in bodies]
        for send in sends:
            selector.send(send)
        got = bytearray()
        completed: list[NetworkSend] = []
        total = sum(map(len, bodies))
        while len(got) < total:
            selector.poll(0)
            completed += selector.completed_sends
            assert len(completed) == sum(send.completed for send in sends)
            got += receive_exactly(peer, min(total - len(got), 1000))
        assert bytes(got) == b"".join(bodies)
        assert completed == sends


def test_more_pieces_than_one_system_call_takes(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        pieces = [b"%05d" % number for number in range(2 * MAX_PIECES + 3)]
        send = NetworkSend("0", [memoryview(piece) for piece in pieces])
        selector.send(send)
        selector.poll(0)
        assert selector.completed_sends == [send]
        assert receive_exactly(peer, 5 * len(pieces)) == b"".join(pieces)


def test_sends_to_unknown_or_unconnected_ids_are_programming_errors(selector: Selector) -> None:
    with pytest.raises(IllegalStateError):
        selector.send(NetworkSend("0", [memoryview(b"x")]))
    with Listener() as listener:
        selector.connect("0", listener.address)
        with pytest.raises(IllegalStateError, match="not ready"):
            selector.send(NetworkSend("0", [memoryview(b"x")]))


def test_an_unfinished_send_lets_go_of_its_buffers_on_close(selector: Selector) -> None:
    with Listener(receive_buffer_bytes=4096) as listener:
        connect(selector, listener)
        pooled = bytearray(64 << 20)
        send = NetworkSend("0", [memoryview(pooled)])
        selector.send(send)
        selector.poll(0)
        with pytest.raises(BufferError):
            pooled.pop()
        selector.close("0")
        pooled.pop()  # nobody holds a view any more
        assert not send.completed


def test_a_write_to_a_broken_connection_is_reported_by_the_next_poll(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        reset(selector, peer)
        sends = [NetworkSend("0", [memoryview(b"x")]) for _ in range(3)]
        for send in sends:
            selector.send(send)
        selector.poll(3_600_000)
        assert not any(send.completed for send in sends)
        assert isinstance(selector.disconnected["0"], DisconnectedError)
        selector.poll(0)
        assert selector.disconnected == {}


def test_responses_that_came_before_a_write_failed_are_not_lost(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        peer.sendall(frame(b"one") + frame(b"two"))
        reset(selector, peer)
        selector.send(NetworkSend("0", [memoryview(b"x")]))
        selector.poll(3_600_000)
        assert "0" in selector.disconnected
        assert payloads(selector) == [b"one", b"two"]


def test_a_response_byte_by_byte(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        stream = frame(b"response one") + frame(b"")
        got: list[bytes] = []
        for i in range(len(stream)):
            peer.sendall(stream[i : i + 1])
            selector.poll(10_000)
            got += payloads(selector)
        assert got == [b"response one", b""]


def test_five_pipelined_responses_in_one_packet_keep_their_order(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        expected = [b"%d" % i * (i + 1) for i in range(5)]
        peer.sendall(b"".join(map(frame, expected)))
        poll_until(selector, lambda: bool(selector.completed_receives))
        assert payloads(selector) == expected
        assert {source for source, _ in selector.completed_receives} == {"0"}
        selector.poll(0)
        assert selector.completed_receives == []


def test_a_response_larger_than_a_read(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        selector.expect_long_frames("0")
        body = bytes(range(256)) * 8192
        got: list[bytes] = []
        stream = memoryview(frame(body) + frame(b"after"))
        while stream:
            stream = stream[peer.send(stream[: 1 << 17]) :]
            selector.poll(10_000)
            got += payloads(selector)
        while len(got) < 2:
            selector.poll(10_000)
            got += payloads(selector)
        assert got == [body, b"after"]


def test_many_large_messages_in_turn(selector: Selector) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        for i in range(20):
            body = bytes([i]) * 60_000
            selector.send(NetworkSend("0", [memoryview(frame(body))]))
            selector.poll(0)
            peer.sendall(receive_exactly(peer, len(body) + 4))
            poll_until(selector, lambda: bool(selector.completed_receives))
            assert payloads(selector) == [body]


@pytest.mark.parametrize(("piece", "words"), [(b"\0\0", "size prefix"), (frame(b"12345678")[:7], "3 of 8")])
def test_the_peer_closing_mid_frame(selector: Selector, piece: bytes, words: str) -> None:
    with Listener() as listener:
        peer = connect(selector, listener)
        peer.sendall(frame(b"whole") + piece)
        peer.close()
        got: list[bytes] = []
        while not selector.disconnected:
            selector.poll(10_000)
            got += payloads(selector)
        assert got == [b"whole"]
        error = selector.disconnected["0"]
        assert error.retriable
        assert words in str(error)


@pytest.mark.parametrize(
    ("opening", "words"),
    [
        (b"\xff\xff\xff\xff", "-1 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP server"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLS"),
        (struct.pack(">i", 1001), "at most 1000"),
    ],
)
def test_hostile_bytes_end_that_connection_only(
    make_selector: Callable[..., Selector], opening: bytes, words: str
) -> None:
    selector = make_selector(arguments={"max_frame_bytes": 1000})
    with Listener() as listener:
        bad, good = connect(selector, listener, "bad"), connect(selector, listener, "good")
        bad.sendall(frame(b"fine so far") + opening)
        got: list[bytes] = []
        while not selector.disconnected:
            selector.poll(10_000)
            got += payloads(selector)
        assert got == [b"fine so far"]
        assert isinstance(selector.disconnected["bad"], RemoteProtocolError)
        assert words in str(selector.disconnected["bad"])
        assert f"127.0.0.1:{listener.address[1]}" in str(selector.disconnected["bad"])
        good.sendall(frame(b"unharmed"))
        poll_until(selector, lambda: bool(selector.completed_receives))
        assert payloads(selector) == [b"unharmed"]


def test_long_frames_are_accepted_only_when_they_are_expected(selector: Selector) -> None:
    longest, longer = b"x" * MAX_FIRST_FRAME_BYTES, b"y" * (MAX_FIRST_FRAME_BYTES + 1)
    with Listener() as listener:
        peer = connect(selector, listener)
        for payload in (longest, longer):
            peer.sendall(frame(payload))
            poll_until(selector, lambda: bool(selector.completed_receives))
            assert payloads(selector) == [payload]
            selector.expect_long_frames("0")
        stranger = connect(selector, listener, "stranger")
        stranger.sendall(frame(longer)[:100])
        poll_until(selector, lambda: "stranger" in selector.disconnected)
        assert f"at most {MAX_FIRST_FRAME_BYTES}" in str(selector.disconnected["stranger"])
        selector.expect_long_frames("stranger")  # it has ended: nothing to do


class BufferingTransport(TransportLayer):
    """Reads ahead and gives out two bytes a call, as a decrypting transport may."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        super().__init__(sock)
        self.ahead = b""

    def receive_into(self, buffer: memoryview) -> int:
        if not self.ahead:
            count = super().receive_into(buffer)
            self.ahead = bytes(buffer[:count])
        piece, self.ahead = self.ahead[:2], self.ahead[2:]
        buffer[: len(piece)] = piece
        return len(piece)

    @property
    def has_buffered_bytes(self) -> bool:
        return bool(self.ahead)


def test_bytes_buffered_inside_the_transport_are_served_without_an_event(
    make_selector: Callable[..., Selector],
) -> None:
    selector = make_selector(arguments={"transport_factory": BufferingTransport})
    with Listener() as listener:
        peer = connect(selector, listener)
        peer.sendall(frame(b"abc") + frame(b"def"))
        poll_until(selector, lambda: bool(selector.completed_receives))
        assert payloads(selector) == [b"abc"]
        poll_until(selector, lambda: bool(selector.completed_receives))
        assert payloads(selector) == [b"def"]


@pytest.mark.skipif(data_plane is None, reason="lanes are part of the native kernel")
def test_a_failed_write_of_a_lane_ends_the_connection_after_its_last_response(selector: Selector) -> None:
    with Listener() as listener, contextlib.ExitStack() as on_exit:
        peer = connect(selector, listener)
        channel = selector._channels["0"]
        bench = Bench(has_wake_descriptor=selector.io.wake_of_plane() is None)
        on_exit.callback(bench.close)
        bench.plane.remove_lane(bench.lane)
        bench.lane = data_plane.FastLane(
            bench.plane, channel, channel.transport.fileno(), 9, b"", 5, 1 << 20, None
        )

        def hand_back(lane: object) -> None:
            requests = [
                NetworkSend("0", [memoryview(each) for each in pieces])
                for *_, pieces in bench.lane.take_requests()
            ]
            bench.plane.remove_lane(bench.lane)
            selector.resume(channel, bench.lane.take_partial(), requests)

        selector.io.use_plane(bench.plane, hand_back, time.monotonic_ns)
        bench.plane.add_lane(bench.lane)
        selector.io.use_lane(channel, bench.lane)
        bench.lane.is_armed = True
        peer.sendall(frame(b"the last response"))
        reset(selector, peer)
        bench.send("t", 0, b"v")
        selector.poll(0)
        assert set(selector.disconnected) == {"0"}
        assert payloads(selector) == [b"the last response"]


@pytest.mark.skipif(data_plane is None, reason="lanes are part of the native kernel")
def test_a_lane_that_sends_after_another_one_has_the_time_after_that(selector: Selector) -> None:
    bench = Bench(has_wake_descriptor=selector.io.wake_of_plane() is None, first_bytes=1024)
    bench.plane.remove_lane(bench.lane)
    ended_ms: list[int] = []

    def now_ms() -> int:
        return time.monotonic_ns() // 1_000_000

    def send(pieces: list[memoryview]) -> int:
        began_ms = now_ms()
        while now_ms() < began_ms + 2:
            pass
        ended_ms.append(now_ms())
        return sum(map(len, pieces))

    with Listener() as listener, contextlib.ExitStack() as on_exit:
        on_exit.callback(bench.close)
        selector.io.use_plane(bench.plane, lambda lane: None, now_ms)
        lanes = []
        for name in ("0", "1"):
            connect(selector, listener, name)
        for name in ("0", "1"):
            channel = selector._channels[name]
            bench.lane = data_plane.FastLane(
                bench.plane, channel, channel.transport.fileno(), 9, b"", 5, 1 << 20, send
            )
            bench.plane.add_lane(bench.lane)
            selector.io.use_lane(channel, bench.lane)
            bench.lane.is_armed = True
            lanes.append(bench.lane)
            bench.send("t", int(name), b"v")
        selector.poll(0)
        sent_ms = [each.take_requests()[0][1] for each in lanes]
        assert sent_ms[1] >= ended_ms[0]
