"""The check on the driver before tasks start: does a broker answer, and do the topics exist?

Without it a wrong address or topic costs each attempt of each task ``max.block.ms``. Asks with a few bytes of
its own and not with the client: importing that takes longer than all the rest of planning a write, which a
streaming query does for each micro-batch. Source: ``MetadataRequest.json``, version 4 (Kafka 0.11 and later).
"""

from __future__ import annotations

import queue
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial

from kproducer.errors import KafkaError
from kproducer.protocol.framing import SIZE_PREFIX_BYTES, parse_size_prefix
from kproducer.spark.errors import SparkWriteError

_METADATA, _VERSION = 3, 4
_PAUSE_S = 0.2

#: UNKNOWN_TOPIC_OR_PARTITION
_UNKNOWN_TOPIC = 3
#: NONE, and LEADER_NOT_AVAILABLE: the topic is being made. Tasks wait for its leaders.
_EXISTS = (0, 5)
#: TOPIC_AUTHORIZATION_FAILED
_NOT_ALLOWED = 29
#: With INVALID_TOPIC_EXCEPTION: asking again does not help.
_FINAL = (17, _NOT_ALLOWED)

#: Error codes by topic; or why there are none.
_Answer = dict[str, int] | Exception


def check_cluster(servers: Sequence[str], topics: Mapping[str, str], timeout_s: float) -> None:
    """Return as soon as one broker knows all topics; brokers that create topics are given the time to do so.

    Args:
        servers: ``host:port`` of each.
        topics: names, and the option that each comes from. Without any, a broker has to answer.
        timeout_s: in seconds.

    Raises:
        SparkWriteError: no broker has answered, or a topic does not exist or must not be written to.
    """
    answers: queue.SimpleQueue[tuple[str, _Answer]] = queue.SimpleQueue()
    has_ended = threading.Event()
    # All at once: connecting to a host that is down, or looking up its name, may take all of the time.
    for server in servers:
        ask = partial(_ask, server, list(topics), timeout_s, answers, has_ended)
        threading.Thread(target=ask, name=f"kproducer-check-{server}", daemon=True).start()
    last_codes: dict[str, int] = {}
    failures: dict[str, str] = dict.fromkeys(servers, "no answer")
    deadline = time.monotonic() + timeout_s
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                server, answer = answers.get(timeout=left_s)
            except queue.Empty:
                break
            if isinstance(answer, Exception):
                failures[server] = str(answer) or type(answer).__name__
                continue
            last_codes = answer
            if all(code in _EXISTS for code in answer.values()):
                return
            if any(code in _FINAL for code in answer.values()):
                break
    finally:
        has_ended.set()
    if not last_codes:
        raise _unreachable(failures, timeout_s)
    topic, code = next((topic, code) for topic, code in last_codes.items() if code not in _EXISTS)
    raise _unusable(topic, topics[topic], code, timeout_s)


def _unreachable(failures: Mapping[str, str], timeout_s: float) -> SparkWriteError:
    listed = "; ".join(f"{server}: {failure}" for server, failure in failures.items())
    return SparkWriteError(
        f"no broker of the option 'kafka.bootstrap.servers' answered the driver within {timeout_s:g} s "
        f"({listed}). Nothing was written. Check the addresses, and that the brokers run. To wait longer, "
        "raise the option 'checkTimeoutMs'; if only executors can reach the brokers, set it to 0"
    )


def _unusable(topic: str, option: str, code: int, timeout_s: float) -> SparkWriteError:
    from kproducer.errors.broker_errors import error_for_code

    if code == _UNKNOWN_TOPIC:
        return SparkWriteError(
            f"topic '{topic}' does not exist, and brokers have not created it within {timeout_s:g} s. "
            f"Nothing was written. Create the topic, or correct the option '{option}'"
        )
    cure = (
        ". It needs the permission Write on the topic, and Create where brokers are to create the topic"
        if code == _NOT_ALLOWED
        else ""
    )
    return SparkWriteError(
        f"topic '{topic}' (option '{option}') cannot be written to, and nothing was written: "
        f"{error_for_code(code)}{cure}"
    )


def _ask(
    server: str,
    topics: Sequence[str],
    timeout_s: float,
    answers: queue.SimpleQueue[tuple[str, _Answer]],
    has_ended: threading.Event,
) -> None:
    host, _, port = server.rpartition(":")
    address = (host.removeprefix("[").removesuffix("]"), int(port))
    while not has_ended.is_set():
        try:
            with socket.create_connection(address, timeout_s) as connection:
                while not has_ended.is_set():
                    # One topic in each request: then its error code is in front of everything that differs.
                    codes = {topic: _ask_about(connection, [topic]) for topic in topics}
                    answers.put((server, codes or {"": _ask_about(connection, [])}))
                    has_ended.wait(_PAUSE_S)
        except (OSError, UnicodeError, KafkaError) as error:
            # UnicodeError: a name that no host can have.
            answers.put((server, error))
        has_ended.wait(_PAUSE_S)


def _ask_about(connection: socket.socket, topics: Sequence[str]) -> int:
    """The error code of the topic; 0 without one."""
    # Correlation id 0, client id, topics, and that missing ones may be created.
    body = struct.pack(">hhi", _METADATA, _VERSION, 0) + _text("kproducer-spark")
    body += struct.pack(">i", len(topics)) + b"".join(map(_text, topics)) + b"\x01"
    connection.sendall(struct.pack(">i", len(body)) + body)
    answer = _receive(connection, parse_size_prefix(_receive(connection, SIZE_PREFIX_BYTES)))
    try:
        return _error_code(answer) if topics else 0
    except struct.error:
        raise KafkaError("the answer to a Metadata request makes no sense") from None


def _error_code(answer: bytes) -> int:
    """That of the first topic of a Metadata response."""
    (brokers,) = struct.unpack_from(">i", answer, 8)  # behind correlation id and throttle time
    position = 12
    for _ in range(brokers):
        position = _behind_text(answer, position + 4)  # node id, host
        position = _behind_text(answer, position + 4)  # port, rack
    position = _behind_text(answer, position) + 8  # cluster id, controller, number of topics
    (code,) = struct.unpack_from(">h", answer, position)
    return int(code)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _behind_text(answer: bytes, position: int) -> int:
    (length,) = struct.unpack_from(">h", answer, position)
    return position + 2 + max(int(length), 0)


def _receive(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(count)
        if not part:
            raise ConnectionError("the connection was closed without an answer; is this a TLS listener?")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
