"""The maximum rate of the cluster: batches encoded in advance are sent repeatedly.

This client only writes and reads sockets. If the rate of a real client comes close to it, the limit is the
cluster (or the loopback), and the client's CPU per record is more informative than its records per second.
Run in its own process: ``python -m benchmarks.ceiling JSON``. Produce v7, written by hand; aiokafka's encoder
creates the batches.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time
from typing import Any

from benchmarks.process_costs import cpu_seconds_of, own_cpu_seconds
from benchmarks.workload import OWN_DEFAULTS, Workload, distinct_records

IN_FLIGHT = 5
_PRODUCE, _VERSION = 0, 7
_RECEIVE_BYTES = 1 << 16


def encoded_batch(batch_bytes: int) -> tuple[bytes, int]:
    """A batch of about this size with 100-byte records. Returns (bytes, number of records)."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=batch_bytes,
    )
    count = 0
    for _, value in distinct_records(Workload(OWN_DEFAULTS, 100)):
        if builder.append(count, timestamp=None, key=None, value=value, headers=[]) is None:
            break
        count += 1
    return bytes(builder.build()), count


def _request(topic: str, partitions: list[int], batch: bytes) -> bytes:
    name = topic.encode()
    parts = [struct.pack(">hhih", _PRODUCE, _VERSION, 0, -1), struct.pack(">hhi", -1, -1, 30_000)]
    parts += [struct.pack(">ih", 1, len(name)), name, struct.pack(">i", len(partitions))]
    for partition in partitions:
        parts += [struct.pack(">ii", partition, len(batch)), batch]
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body


class _Connection:
    """One broker: keeps ``IN_FLIGHT`` copies of a request in flight."""

    def __init__(self, address: tuple[str, int], request: bytes, records: int) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.answered_records = 0
        self._request = memoryview(request)
        self._records = records
        self._unsent = self._request
        self._in_flight = 0
        self._received = bytearray()

    @property
    def events(self) -> int:
        wants_to_write = self._in_flight < IN_FLIGHT
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if wants_to_write else 0)

    def write(self) -> None:
        while self._in_flight < IN_FLIGHT:
            try:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
            except BlockingIOError:
                return
            if not self._unsent:
                self._unsent = self._request
                self._in_flight += 1

    def read(self) -> None:
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise RuntimeError("the broker closed the connection")
        self._received += data
        while len(self._received) >= 4:
            size = struct.unpack_from(">i", self._received)[0] + 4
            if len(self._received) < size:
                return
            del self._received[:size]
            self._in_flight -= 1
            self.answered_records += self._records


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Send for ``task["seconds"]`` and count the acknowledged records."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": task["bootstrap"], "log_level": 0})
    metadata = admin.list_topics(task["topic"], timeout=10)
    led: dict[int, list[int]] = {}
    for partition in metadata.topics[task["topic"]].partitions.values():
        led.setdefault(partition.leader, []).append(partition.id)
    batch, records = encoded_batch(task["batch_bytes"])
    connections = [
        _Connection(
            (metadata.brokers[node].host, metadata.brokers[node].port),
            _request(task["topic"], partitions, batch),
            records * len(partitions),
        )
        for node, partitions in led.items()
    ]
    del admin
    cluster_before, cpu_before = cpu_seconds_of(task["cluster_pid"]), own_cpu_seconds()
    started = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, connection.events, connection)
        while time.perf_counter() - started < task["seconds"]:
            for key, events in selector.select(1.0):
                if events & selectors.EVENT_READ:
                    key.data.read()
                if events & selectors.EVENT_WRITE:
                    key.data.write()
                selector.modify(key.fileobj, key.data.events, key.data)
    seconds = time.perf_counter() - started
    count = max(sum(connection.answered_records for connection in connections), 1)
    return {
        "batch_bytes": task["batch_bytes"],
        "records_per_second": count / seconds,
        "cpu_us_per_record": (own_cpu_seconds() - cpu_before) / count * 1e6,
        "cluster_cpu_us_per_record": (cpu_seconds_of(task["cluster_pid"]) - cluster_before) / count * 1e6,
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))), flush=True)
