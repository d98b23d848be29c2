"""The process that hosts mock clusters of librdkafka, from the confluent-kafka wheel.

It is a separate program because the mock can crash its process (a Produce v10 to a partition without a leader
does). It reads one JSON command per line from standard input and answers each with one JSON line on standard
output, while librdkafka serves the brokers on its own thread. It ends when its input closes, when its parent
has ended, or after the number of seconds given as its argument.
Source of the calls: librdkafka's ``rdkafka_mock.h``. Does not use kproducer.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ERROR_TEXT_BYTES = 512
PRODUCER_TYPE = 0


def load_librdkafka() -> ctypes.CDLL:
    """Load the library of the wheel (or, for a system build, the one that the module is linked to)."""
    import confluent_kafka

    package = Path(confluent_kafka.__file__).parent
    bundled = sorted((package.parent / "confluent_kafka.libs").glob("librdkafka*.so*"))
    bundled += sorted(package.glob(".dylibs/librdkafka*.dylib"))
    name = str(bundled[0]) if bundled else "librdkafka.so.1"
    library = ctypes.CDLL(name)
    pointer, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    library.rd_kafka_conf_new.restype = pointer
    library.rd_kafka_conf_set.argtypes = [pointer, text, text, text, ctypes.c_size_t]
    library.rd_kafka_new.restype = pointer
    library.rd_kafka_new.argtypes = [integer, pointer, text, ctypes.c_size_t]
    library.rd_kafka_destroy.argtypes = [pointer]
    library.rd_kafka_err2name.restype = text
    library.rd_kafka_mock_cluster_new.restype = pointer
    library.rd_kafka_mock_cluster_new.argtypes = [pointer, integer]
    library.rd_kafka_mock_cluster_destroy.argtypes = [pointer]
    library.rd_kafka_mock_cluster_bootstraps.restype = text
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [pointer]
    library.rd_kafka_mock_get_requests.restype = ctypes.POINTER(pointer)
    library.rd_kafka_mock_get_requests.argtypes = [pointer, ctypes.POINTER(ctypes.c_size_t)]
    library.rd_kafka_mock_request_destroy_array.argtypes = [ctypes.POINTER(pointer), ctypes.c_size_t]
    library.rd_kafka_mock_request_id.argtypes = [pointer]
    library.rd_kafka_mock_request_api_key.argtypes = [pointer]
    library.rd_kafka_mock_request_api_key.restype = ctypes.c_int16
    library.rd_kafka_mock_request_timestamp.argtypes = [pointer]
    library.rd_kafka_mock_request_timestamp.restype = ctypes.c_int64
    return library


class MockClusters:
    """The clusters of this process and their commands. One thread only."""

    def __init__(self) -> None:
        self._library = load_librdkafka()
        self._clusters: dict[int, tuple[ctypes.c_void_p, ctypes.c_void_p]] = {}
        self._last_id = 0

    def run(self, command: str, arguments: Sequence[Any]) -> Any:
        """Run one command; its result is returned as JSON."""
        handler: Callable[..., Any] | None = getattr(self, f"do_{command}", None)
        if handler is None:
            raise ValueError(f"unknown command: {command}")
        return handler(*arguments)

    # -- life cycle ----------------------------------------------------------------------------

    def do_create(self, broker_count: int) -> dict[str, Any]:
        text = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
        configuration = self._library.rd_kafka_conf_new()
        for key, value in ((b"bootstrap.servers", b"127.0.0.1:1"), (b"log_level", b"0")):
            self._library.rd_kafka_conf_set(configuration, key, value, text, ERROR_TEXT_BYTES)
        client = self._library.rd_kafka_new(PRODUCER_TYPE, configuration, text, ERROR_TEXT_BYTES)
        if not client:
            raise RuntimeError(text.value.decode())
        cluster = self._library.rd_kafka_mock_cluster_new(client, broker_count)
        self._last_id += 1
        self._clusters[self._last_id] = (ctypes.c_void_p(client), ctypes.c_void_p(cluster))
        return {"id": self._last_id, "bootstrap_servers": self.do_bootstrap_servers(self._last_id)}

    def do_destroy(self, cluster_id: int) -> None:
        client, cluster = self._clusters.pop(cluster_id)
        self._library.rd_kafka_mock_cluster_destroy(cluster)
        self._library.rd_kafka_destroy(client)

    def do_bootstrap_servers(self, cluster_id: int) -> str:
        return str(self._library.rd_kafka_mock_cluster_bootstraps(self._handle(cluster_id)).decode())

    # -- topics and partitions -----------------------------------------------------------------

    def do_create_topic(self, cluster_id: int, topic: str, partitions: int, replicas: int) -> None:
        self._call("topic_create", cluster_id, topic, partitions, replicas)

    def do_delete_topic(self, cluster_id: int, topic: str) -> None:
        self._call("topic_delete", cluster_id, topic)

    def do_set_topic_error(self, cluster_id: int, topic: str, code: int) -> None:
        self._call_void("topic_set_error", cluster_id, topic, code)

    def do_set_leader(self, cluster_id: int, topic: str, partition: int, broker_id: int) -> None:
        self._call("partition_set_leader", cluster_id, topic, partition, broker_id)

    def do_push_leader_response(
        self, cluster_id: int, topic: str, partition: int, leader_id: int, leader_epoch: int
    ) -> None:
        self._call("partition_push_leader_response", cluster_id, topic, partition, leader_id, leader_epoch)

    def do_delete_records(self, cluster_id: int, topic: str, partition: int, before_offset: int) -> None:
        self._call("partition_delete_records", cluster_id, topic, partition, ctypes.c_int64(before_offset))

    # -- brokers -------------------------------------------------------------------------------

    def do_set_down(self, cluster_id: int, broker_id: int) -> None:
        self._call("broker_set_down", cluster_id, broker_id)

    def do_set_up(self, cluster_id: int, broker_id: int) -> None:
        self._call("broker_set_up", cluster_id, broker_id)

    def do_set_rtt(self, cluster_id: int, broker_id: int, rtt_ms: int) -> None:
        self._call("broker_set_rtt", cluster_id, broker_id, rtt_ms)

    def do_set_rack(self, cluster_id: int, broker_id: int, rack: str) -> None:
        self._call("broker_set_rack", cluster_id, broker_id, rack)

    def do_set_host_port(self, cluster_id: int, broker_id: int, host: str, port: int) -> None:
        self._call_void("broker_set_host_port", cluster_id, broker_id, host, port)

    def do_add_broker(self, cluster_id: int, broker_id: int) -> None:
        self._call("broker_add", cluster_id, broker_id)

    def do_decommission(self, cluster_id: int, broker_id: int) -> None:
        self._call("broker_decommission", cluster_id, broker_id)

    def do_remove_from_metadata(self, cluster_id: int, broker_id: int) -> None:
        self._call("broker_remove_from_metadata", cluster_id, broker_id)

    def do_set_controller(self, cluster_id: int, broker_id: int) -> None:
        self._call("set_controller_id", cluster_id, broker_id)

    def do_set_coordinator(self, cluster_id: int, key_type: str, key: str, broker_id: int) -> None:
        self._call("coordinator_set", cluster_id, key_type, key, broker_id)

    # -- versions and errors -------------------------------------------------------------------

    def do_set_api_versions(self, cluster_id: int, api_key: int, lowest: int, highest: int) -> None:
        short = ctypes.c_int16
        self._call("set_apiversion", cluster_id, short(api_key), short(lowest), short(highest))

    def do_push_errors(self, cluster_id: int, api_key: int, codes: list[int]) -> None:
        array = (ctypes.c_int * len(codes))(*codes)
        count = ctypes.c_size_t(len(codes))
        self._call_void("push_request_errors_array", cluster_id, ctypes.c_int16(api_key), count, array)

    def do_push_error_rtts(
        self, cluster_id: int, broker_id: int, api_key: int, pairs: list[tuple[int, int]]
    ) -> None:
        flat = [number for pair in pairs for number in pair]
        count = ctypes.c_size_t(len(pairs))
        self._call(
            "broker_push_request_error_rtts", cluster_id, broker_id, ctypes.c_int16(api_key), count, *flat
        )

    def do_push_partition_errors(
        self, cluster_id: int, topic: str, partition: int, api_key: int, codes: list[int]
    ) -> None:
        count = ctypes.c_size_t(len(codes))
        name = "partition_push_request_errors"
        self._call(name, cluster_id, topic, partition, ctypes.c_int16(api_key), count, *codes)

    def do_pending_errors(self, cluster_id: int, broker_id: int, api_key: int) -> int:
        count = ctypes.c_size_t(0)
        name = "broker_error_stack_cnt"
        self._call(name, cluster_id, broker_id, ctypes.c_int16(api_key), ctypes.byref(count))
        return count.value

    def do_clear_errors(self, cluster_id: int, api_key: int) -> None:
        self._call_void("clear_request_errors", cluster_id, ctypes.c_int16(api_key))

    # -- request tracking ----------------------------------------------------------------------

    def do_start_tracking(self, cluster_id: int) -> None:
        self._call_void("start_request_tracking", cluster_id)

    def do_stop_tracking(self, cluster_id: int) -> None:
        self._call_void("stop_request_tracking", cluster_id)

    def do_clear_requests(self, cluster_id: int) -> None:
        self._call_void("clear_requests", cluster_id)

    def do_requests(self, cluster_id: int) -> list[tuple[int, int, int]]:
        count = ctypes.c_size_t(0)
        library = self._library
        requests = library.rd_kafka_mock_get_requests(self._handle(cluster_id), ctypes.byref(count))
        if not requests:
            return []
        rows = [
            (
                library.rd_kafka_mock_request_id(requests[index]),
                library.rd_kafka_mock_request_api_key(requests[index]),
                library.rd_kafka_mock_request_timestamp(requests[index]),
            )
            for index in range(count.value)
        ]
        library.rd_kafka_mock_request_destroy_array(requests, count)
        return rows

    # -- calls of librdkafka -------------------------------------------------------------------

    def _handle(self, cluster_id: int) -> ctypes.c_void_p:
        return self._clusters[cluster_id][1]

    def _call_void(self, name: str, cluster_id: int, *arguments: Any) -> int:
        function = getattr(self._library, f"rd_kafka_mock_{name}")
        encoded = [each.encode() if isinstance(each, str) else each for each in arguments]
        return int(function(self._handle(cluster_id), *encoded))

    def _call(self, name: str, cluster_id: int, *arguments: Any) -> None:
        code = self._call_void(name, cluster_id, *arguments)
        if code:
            raise RuntimeError(f"{name}{arguments}: {self._library.rd_kafka_err2name(code).decode()}")


def lines_until_the_end(lifetime_seconds: float) -> Any:
    """Yield input lines until the end of input, the end of the lifetime, or the end of the parent."""
    deadline = time.monotonic() + lifetime_seconds
    parent = os.getppid()
    pending = b""
    while time.monotonic() < deadline and os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], 1.0)
        if not readable:
            continue
        data = os.read(0, 65536)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        yield from lines


def main() -> None:
    clusters = MockClusters()
    for line in lines_until_the_end(float(sys.argv[1])):
        command, *arguments = json.loads(line)
        try:
            answer = {"result": clusters.run(command, arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    # Brokers may still serve clients: a normal exit would run library destructors at the same time.
    os._exit(0)


if __name__ == "__main__":
    main()
