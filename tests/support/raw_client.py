"""A minimal blocking client for tests of the fake cluster. It can also violate the protocol."""

from __future__ import annotations

import itertools
import socket
import struct
from typing import Any

import crc32c
import kproducer_messages as messages
from kproducer_messages.produce_request import PartitionProduceData, TopicProduceData

from kproducer.testing.fakebroker.batch_check import HEADER

_CRC_FROM = 21


class RawClient:
    """One connection. The test matches requests and responses itself."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, message: Any, *, body_version: int | None = None) -> int:
        """Write a request; ``body_version`` encodes the body in another version."""
        correlation_id = next(self._correlation_ids)
        header = messages.RequestHeader(
            request_api_key=api_key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id="raw",
        )
        body = message.encode(version if body_version is None else body_version)
        self.send_frame(
            header.encode(2 if version in messages.REQUESTS[api_key].FLEXIBLE_VERSIONS else 1) + body
        )
        return correlation_id

    def send_frame(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, api_key: int, version: int) -> tuple[int, Any]:
        """Read the next response: (correlation id, message)."""
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        flexible = version in messages.RESPONSES[api_key].FLEXIBLE_VERSIONS and api_key != 18
        header, position = messages.ResponseHeader.decode(frame, 1 if flexible else 0)
        message, end = messages.RESPONSES[api_key].decode(frame, version, position)
        assert end == len(frame)
        return header.correlation_id, message

    def ask(self, api_key: int, version: int, message: Any) -> Any:
        sent = self.send(api_key, version, message)
        correlation_id, answer = self.receive(api_key, version)
        assert correlation_id == sent
        return answer

    def is_closed_by_peer(self) -> bool:
        """Wait for the end of the stream; any other data fails the test."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed by the broker")
            data += piece
        return data


def make_batch(
    *values: bytes,
    key: bytes | None = None,
    timestamp_ms: int = 1000,
    codec: int = 0,
    payload: bytes | None = None,
    **header_fields: int,
) -> bytes:
    """One uncompressed batch; header fields can be falsified by name; the CRC is correct unless given.

    Args:
        values: one record each, all with ``key`` and ``timestamp_ms``.
        codec: for the attributes; ``payload`` is then the data behind the header.
        header_fields: magic, count, last_delta, base_offset, max_ts, attributes, crc, length.
    """
    if payload is None:
        payload = b"".join(_record(index, key, value) for index, value in enumerate(values))
    fields = {
        "base_offset": 0,
        "length": len(payload) + HEADER.size - 12,
        "epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": codec,
        "last_delta": len(values) - 1,
        "base_ts": timestamp_ms,
        "max_ts": timestamp_ms,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "count": len(values),
    }
    fields.update(header_fields)
    batch = bytearray(HEADER.pack(*fields.values()) + payload)
    if "crc" not in header_fields:
        struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[_CRC_FROM:])))
    return bytes(batch)


def _record(index: int, key: bytes | None, value: bytes) -> bytes:
    key_part = _varint(-1) if key is None else _varint(len(key)) + key
    body = b"\x00" + _varint(0) + _varint(index) + key_part + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def produce_request(topic: str, batch: bytes | None, *, acks: int = -1, partition: int = 0) -> Any:
    """A Produce request for one partition, by name."""
    data = PartitionProduceData(index=partition, records=batch)
    topic_data = TopicProduceData(name=topic, partition_data=[data])
    return messages.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic_data])
