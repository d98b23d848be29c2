"""One accepted connection of a fake broker: reads frames, executes actions in order, writes frames.

Runs on the cluster's event loop only. Requests are logged on arrival and handled one after the
other: like Apache Kafka, the broker reads no further request of a connection before it has written
the response to the previous one. Frame layout: a 4-byte big-endian size, the header, the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any

import kproducer_messages as messages

from kproducer.testing.fakebroker import (
    actions,
    api_versions,
    find_coordinator,
    metadata,
    offset_fetch,
    produce,
    sasl_apis,
    telemetry_apis,
    transaction_apis,
)
from kproducer.testing.fakebroker.actions import Action, Handler, RequestContext
from kproducer.testing.fakebroker.model import BrokerState
from kproducer.testing.fakebroker.scripted_cluster import ScriptedCluster

_PREFIX = struct.Struct(">i")
_API_AND_VERSION = struct.Struct(">hh")
_API_VERSIONS = 18
#: The function that applies a request and returns the response, by API key.
HANDLERS: dict[int, Callable[..., Any]] = {
    0: produce.handle,
    3: metadata.handle,
    9: offset_fetch.handle,
    10: find_coordinator.handle,
    17: sasl_apis.handshake,
    _API_VERSIONS: api_versions.handle,
    22: transaction_apis.init_producer_id,
    24: transaction_apis.add_partitions,
    25: transaction_apis.add_offsets,
    26: transaction_apis.end,
    28: transaction_apis.commit_offsets,
    36: sasl_apis.authenticate,
    71: telemetry_apis.get_subscriptions,
    72: telemetry_apis.push,
}


class Connection:
    """One client's connection. Event loop only."""

    def __init__(
        self,
        cluster: ScriptedCluster,
        broker: BrokerState,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.cluster = cluster
        self.broker = broker
        self.number = number
        self._reader = reader
        self._writer = writer
        self._arrived: asyncio.Queue[RequestContext] = asyncio.Queue()
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = raw
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def serve(self) -> None:
        """Read requests until the client or a handler closes the connection."""
        processor = asyncio.get_running_loop().create_task(self._process_in_order())
        processor.add_done_callback(lambda _: self.close())
        try:
            greeting = self.cluster.on_accept(self.broker, self.number)
            if greeting is not None:
                await self._perform(None, greeting)
            await self._read_requests()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            processor.cancel()
            self.close()
            with contextlib.suppress(asyncio.CancelledError):
                await processor

    def close(self, *, reset: bool = False) -> None:
        if reset:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def pause(self) -> None:
        """Stop reading from the socket; the client's data accumulates in the kernel."""
        self._may_read.clear()
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume(self) -> None:
        self._may_read.set()
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    async def _read_requests(self) -> None:
        while True:
            await self._may_read.wait()
            (size,) = _PREFIX.unpack(await self._reader.readexactly(4))
            if not 0 < size <= self.broker.max_request_bytes:
                self._violation(f"frame of {size} bytes")
                return
            context = self._decode(await self._reader.readexactly(size))
            if context is None:
                return
            self._arrived.put_nowait(context)

    def _decode(self, frame: bytes) -> RequestContext | None:
        """Read header and body and log the request. ``None``: the connection must be closed."""
        if len(frame) < 8:
            self._violation(f"frame of {len(frame)} bytes is shorter than any header")
            return None
        api_key, version = _API_AND_VERSION.unpack_from(frame)
        offered = self.broker.versions.get(api_key)
        known = offered is not None and offered[0] <= version <= offered[1]
        process = HANDLERS.get(api_key)
        if process is None or not (known or api_key == _API_VERSIONS):
            self._violation(f"API {api_key} v{version}; offered: {offered}")
            return None
        request = messages.REQUESTS[api_key]
        try:
            header_version = 2 if version in request.FLEXIBLE_VERSIONS else 1
            header, position = messages.RequestHeader.decode(frame, header_version)
            message = None
            if known:
                message, position = request.decode(frame, version, position)
                if position != len(frame):
                    self._violation(
                        f"API {api_key} v{version}: {len(frame) - position} bytes behind the body"
                    )
                    return None
        except messages.DecodeError as error:
            self._violation(f"API {api_key} v{version} does not decode: {error}")
            return None
        if header.unknown_tagged_fields:
            self._violation(f"unknown tagged fields in the header: {header.unknown_tagged_fields}")
        logged = self.cluster.log.add(
            broker_id=self.broker.node_id,
            connection_id=self.number,
            api_key=api_key,
            api_version=version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            frame_bytes=len(frame),
            message=message,
        )
        return RequestContext(self.cluster, self.broker, logged, process, response_version=version)

    def _violation(self, text: str) -> None:
        self.cluster.note_violation(f"broker {self.broker.node_id} connection {self.number}: {text}")

    async def _process_in_order(self) -> None:
        while True:
            context = await self._arrived.get()
            try:
                await self._perform(context, self.cluster.decide(context))
            except (ConnectionError, ssl.SSLError):
                return

    async def _perform(self, context: RequestContext | None, action: Action | Handler | None) -> None:
        if isinstance(action, actions.Reply):
            if action.message is not None:
                assert context is not None
                await self._write(_frame(context, action), action.fragment_bytes)
        elif isinstance(action, actions.Bytes):
            await self._write(action.data, None)
        elif isinstance(action, actions.Stall):
            await asyncio.Event().wait()
        elif isinstance(action, actions.Close):
            self.close(reset=action.reset)
            await asyncio.Event().wait()  # serve() cancels this when the stream ends
        elif isinstance(action, actions.Hold):
            await action.gate.passage()
            then: Any = action.then
            if callable(then):
                assert context is not None
                then = self.cluster.call_handler(then, context) or context.answer()
            await self._perform(context, then)
        elif isinstance(action, actions.Delay):
            await asyncio.sleep(action.seconds)
            await self._perform(context, action.then)
        elif isinstance(action, actions.Steps):
            for step in action.actions:
                await self._perform(context, step)
        else:
            assert isinstance(action, actions.Silence), f"{action!r} is not an action"

    async def _write(self, data: bytes, fragment_bytes: int | None) -> None:
        if fragment_bytes is None:
            self._writer.write(data)
        else:
            for start in range(0, len(data), fragment_bytes):
                self._writer.write(data[start : start + fragment_bytes])
                await asyncio.sleep(0)
        await self._writer.drain()


def _frame(context: RequestContext, reply: actions.Reply) -> bytes:
    """Size prefix, response header, body. ApiVersions responses always have header version 0."""
    version = context.response_version
    correlation_id = context.logged.correlation_id if reply.correlation_id is None else reply.correlation_id
    flexible = version in reply.message.FLEXIBLE_VERSIONS and context.api_key != _API_VERSIONS
    header = messages.ResponseHeader(correlation_id=correlation_id).encode(1 if flexible else 0)
    body: bytes = reply.message.encode(version)
    return _PREFIX.pack(len(header) + len(body)) + header + body
