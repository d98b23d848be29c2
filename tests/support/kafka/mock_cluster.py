"""A mock cluster in a child process: starts in milliseconds without Java, and injects faults on request.

``MockClusterProcess`` is the child; ``MockCluster`` is one cluster in it. The brokers are librdkafka's, so
they are an independent peer, but a lenient one: no CRC or sequence checks, Produce up to v10, no topic ids in
Produce. A partition keeps about 5 MiB of batches; older ones are dropped.
Broker ids are 1..n; where a call says so, -1 means all brokers. Errors are Kafka's codes;
``DISCONNECT`` closes the connection before anything is appended. Not thread-safe, except that each call takes
a lock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from confluent_kafka import Message

from tests.support.kafka.reader import first_messages

DEFAULT_LIFETIME_SECONDS = 3 * 3600.0
ALL_BROKERS = -1
LEADERLESS = -1
#: Pushed as an error, makes the broker close the connection before it appends anything.
DISCONNECT = -195
#: Size of a partition above which the mock drops its oldest batches.
PARTITION_LIMIT_BYTES = 5 * 1024 * 1024

_CHILD = Path(__file__).with_name("mock_cluster_child.py")


class MockClusterDiedError(RuntimeError):
    """The child process ended: it was stopped, or a request crashed it."""


class TrackedRequest(NamedTuple):
    """A request that a broker received: no body, but its time (microseconds of librdkafka's clock)."""

    broker_id: int
    api_key: int
    timestamp_us: int


class MockClusterProcess:
    """The child process that hosts mock clusters. Ends with ``close``, its parent, or its lifetime."""

    def __init__(self, lifetime_seconds: float = DEFAULT_LIFETIME_SECONDS) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, str(_CHILD), str(lifetime_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal must not end it before its clients
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def command(self, name: str, *arguments: Any) -> Any:
        """Run one command in the child and return its result.

        Raises:
            MockClusterDiedError: the child has ended; the message has its exit code (negative: the signal).
            RuntimeError: the command failed.
        """
        line = json.dumps([name, *arguments]).encode() + b"\n"
        with self._lock:
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            try:
                stdin.write(line)
                stdin.flush()
                answer = stdout.readline()
            except (BrokenPipeError, ValueError):
                answer = b""
        if not answer:
            raise MockClusterDiedError(f"the mock cluster process has ended (exit code {self._exit_code()})")
        parsed = json.loads(answer)
        if "error" in parsed:
            raise RuntimeError(parsed["error"])
        return parsed["result"]

    def cluster(self, broker_count: int = 1) -> MockCluster:
        """Start one more cluster in this process."""
        return MockCluster(self, broker_count)

    def close(self) -> None:
        """End the process and every cluster in it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                # Data that a dead child did not read is still in the buffer, and close() tries to write it.
                with suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _exit_code(self) -> int | None:
        try:
            return self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return None


class MockCluster:
    """One cluster of mock brokers."""

    def __init__(self, process: MockClusterProcess, broker_count: int = 1) -> None:
        self._process = process
        self._owns_process = False
        self.broker_count = broker_count
        created = process.command("create", broker_count)
        self._id: int = created["id"]
        self.bootstrap_servers: str = created["bootstrap_servers"]

    @classmethod
    def start(cls, broker_count: int = 1, lifetime_seconds: float = DEFAULT_LIFETIME_SECONDS) -> MockCluster:
        """A cluster in its own process, which ends with the cluster."""
        process = MockClusterProcess(lifetime_seconds)
        try:
            cluster = cls(process, broker_count)
        except BaseException:
            process.close()
            raise
        cluster._owns_process = True
        return cluster

    def __enter__(self) -> MockCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process that hosts the brokers."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive

    def close(self) -> None:
        """Destroy the cluster, even if the process has already died."""
        if self._owns_process:
            self._process.close()
            return
        try:
            self._do("destroy")
        except MockClusterDiedError:
            return

    # -- topics and partitions -----------------------------------------------------------------

    def create_topic(self, topic: str, partitions: int = 4, replication_factor: int | None = None) -> None:
        self._do("create_topic", topic, partitions, replication_factor or self.broker_count)

    def first_messages(self, topic: str, count: int) -> list[Message]:
        """See ``reader.first_messages``."""
        return first_messages(self.bootstrap_servers, topic, count)

    def delete_topic(self, topic: str) -> None:
        self._do("delete_topic", topic)

    def set_topic_error(self, topic: str, code: int) -> None:
        """Answer metadata requests for the topic with this code (0: none)."""
        self._do("set_topic_error", topic, code)

    def set_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Move leadership; ``LEADERLESS`` removes it (use Produce below v10 then, or the mock crashes)."""
        self._do("set_leader", topic, partition, broker_id)

    def push_leader_response(self, topic: str, partition: int, leader_id: int, leader_epoch: int) -> None:
        """Let the next metadata response contain this leader instead of the real one."""
        self._do("push_leader_response", topic, partition, leader_id, leader_epoch)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        self._do("delete_records", topic, partition, before_offset)

    # -- brokers -------------------------------------------------------------------------------

    def set_down(self, broker_id: int = ALL_BROKERS) -> None:
        """Close a broker's connections and refuse new ones; it keeps its leaderships."""
        self._do("set_down", broker_id)

    def set_up(self, broker_id: int = ALL_BROKERS) -> None:
        self._do("set_up", broker_id)

    def set_rtt_ms(self, rtt_ms: int, broker_id: int = ALL_BROKERS) -> None:
        """Delay every response by this time."""
        self._do("set_rtt", broker_id, rtt_ms)

    def set_rack(self, broker_id: int, rack: str) -> None:
        self._do("set_rack", broker_id, rack)

    def set_host_port(self, broker_id: int, host: str, port: int) -> None:
        """Set a broker's address in metadata; its listener does not move."""
        self._do("set_host_port", broker_id, host, port)

    def add_broker(self, broker_id: int) -> None:
        self._do("add_broker", broker_id)

    def decommission(self, broker_id: int) -> None:
        self._do("decommission", broker_id)

    def remove_from_metadata(self, broker_id: int) -> None:
        self._do("remove_from_metadata", broker_id)

    def set_controller(self, broker_id: int) -> None:
        self._do("set_controller", broker_id)

    def set_coordinator(self, key_type: str, key: str, broker_id: int) -> None:
        """``key_type`` is ``"group"`` or ``"transaction"``."""
        self._do("set_coordinator", key_type, key, broker_id)

    def current_bootstrap_servers(self) -> str:
        """As reported by librdkafka (not updated when a broker returns on another port)."""
        return str(self._do("bootstrap_servers"))

    # -- versions and errors -------------------------------------------------------------------

    def set_api_versions(self, api_key: int, lowest: int, highest: int) -> None:
        """Advertise and accept only these versions, on all brokers at once."""
        self._do("set_api_versions", api_key, lowest, highest)

    def push_errors(self, api_key: int, *codes: int) -> None:
        """Fail the next requests of this API, one per code (0: let the request succeed)."""
        self._do("push_errors", api_key, list(codes))

    def push_error_rtts(self, broker_id: int, api_key: int, *code_and_rtt_ms: tuple[int, int]) -> None:
        """Like ``push_errors``, on one broker, with a delay for each response. The append happens at once."""
        self._do("push_error_rtts", broker_id, api_key, [list(pair) for pair in code_and_rtt_ms])

    def push_partition_errors(self, topic: str, partition: int, api_key: int, *codes: int) -> None:
        self._do("push_partition_errors", topic, partition, api_key, list(codes))

    def pending_errors(self, broker_id: int, api_key: int) -> int:
        """Number of a broker's pushed errors that are still to be used."""
        return int(self._do("pending_errors", broker_id, api_key))

    def clear_errors(self, api_key: int) -> None:
        self._do("clear_errors", api_key)

    # -- request tracking ----------------------------------------------------------------------

    def start_request_tracking(self) -> None:
        self._do("start_tracking")

    def stop_request_tracking(self) -> None:
        self._do("stop_tracking")

    def clear_requests(self) -> None:
        self._do("clear_requests")

    def requests(self, api_key: int | None = None) -> list[TrackedRequest]:
        """Requests received since tracking started, oldest first; optionally of one API."""
        tracked = [TrackedRequest(*row) for row in self._do("requests")]
        return [each for each in tracked if api_key is None or each.api_key == api_key]

    def _do(self, command: str, *arguments: Any) -> Any:
        return self._process.command(command, self._id, *arguments)
