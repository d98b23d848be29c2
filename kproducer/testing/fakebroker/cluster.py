"""``FakeCluster``: brokers, topics and scripts behind one thread-safe interface.

One thread runs an event loop for all brokers of the cluster. The lock of the request log guards the
state: handlers run with it, and tests evaluate their predicates with it. Elections, replication and
authorization are not simulated: tests move leaders and set errors themselves.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kproducer.testing.fakebroker.actions import Gate
from kproducer.testing.fakebroker.broker import FakeBroker
from kproducer.testing.fakebroker.request_log import LoggedRequest
from kproducer.testing.fakebroker.scripted_cluster import ScriptedCluster
from kproducer.testing.fakebroker.telemetry import Telemetry

_Result = TypeVar("_Result")
_WAIT_S = 60.0
_open_clusters: weakref.WeakSet[FakeCluster] = weakref.WeakSet()


class FakeCluster(ScriptedCluster):
    """A cluster of ``broker_count`` nodes with ids from 1. Thread-safe; close it, or use ``with``.

    Tests change its settings and topics through ``ClusterState``, and script it through ``ScriptedCluster``.

    Args:
        broker_count: number of listening nodes.
        auto_create_partitions: partitions of topics created by Metadata requests; ``None``: never created.
        cluster_id: sent in Metadata responses.
    """

    brokers: dict[int, FakeBroker]

    def __init__(
        self, broker_count: int = 1, *, auto_create_partitions: int | None = None, cluster_id: str = "fake"
    ) -> None:
        super().__init__(auto_create_partitions, cluster_id)
        # Event loop.
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._loop_error)
        self._thread = threading.Thread(target=self._run, name="fake-cluster", daemon=True)
        self._process_id = os.getpid()
        _open_clusters.add(self)
        self._thread.start()
        for node_id in range(1, broker_count + 1):
            self.add_broker(node_id)

    # -- life cycle ---------------------------------------------------------------------------------

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything. Idempotent. Raises errors of the fake cluster itself, if any.

        Does nothing in a forked child: the cluster runs in the process that created it.
        """
        if self._loop.is_closed() or not self.is_in_this_process:
            return
        for broker in self.brokers.values():
            self._call(broker.release())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_S)
        self._loop.close()
        if self.internal_errors:
            raise AssertionError("the fake cluster itself failed") from self.internal_errors[0]

    @property
    def is_in_this_process(self) -> bool:
        """Whether this process created the cluster: the thread that serves it does not survive a fork."""
        return self._process_id == os.getpid()

    def in_this_process(self) -> FakeCluster:
        """This cluster.

        Raises:
            RuntimeError: this is a forked child, where the lock may be held forever.
        """
        if not self.is_in_this_process:
            raise RuntimeError(
                "FakeKafka runs in the process that created it; a forked child can only use bootstrap_servers"
            )
        return self

    def close_sockets_after_fork(self) -> None:
        """Close the forked child's copies of the sockets, with which connections would not end."""
        for broker in self.brokers.values():
            broker.close_sockets_after_fork()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_WAIT_S)

    def _loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception") or RuntimeError(context["message"])
        # A disconnecting client is not a failure; asyncio may keep its reset in a future that is never
        # awaited.
        if not isinstance(error, (ConnectionError, ssl.SSLError)):
            self.note_internal_error(error)

    # -- brokers ------------------------------------------------------------------------------------

    def add_broker(self, node_id: int) -> FakeBroker:
        broker = FakeBroker(self, node_id)
        with self.log.changed:
            self.brokers[node_id] = broker
        self._call(broker.start())
        return broker

    @property
    def bootstrap_servers(self) -> list[str]:
        return [f"127.0.0.1:{broker.port}" for broker in self.brokers.values()]

    def kill(self, broker_id: int, *, reset: bool = False) -> None:
        """Take a broker down: its connections end, new ones are refused. Its logs are kept."""
        self._call(self.brokers[broker_id].stop(reset=reset))

    def restart(self, broker_id: int) -> None:
        """Restart a broker on the same port. It still knows all producers, as after a crash."""
        self._call(self.brokers[broker_id].start())

    def restart_cleanly(self, broker_id: int) -> None:
        """Shut down and restart a broker: partitions that it leads keep only each producer's last batch."""
        self._call(self.brokers[broker_id].stop())
        with self.log.changed:
            for topic in self.topics.values():
                for partition in topic.partitions:
                    if partition.leader_id == broker_id:
                        partition.producers.reload_snapshot()
        self._call(self.brokers[broker_id].start())

    def replace_broker(self, broker_id: int) -> FakeBroker:
        """Replace the broker by one with the same id on another port; logs are kept."""
        old = self.brokers[broker_id]
        self._call(old.stop())
        fresh = self.add_broker(broker_id)
        # Released only now, so that the old port cannot be assigned again.
        self._call(old.release())
        return fresh

    def drop_connections(self, broker_id: int, *, reset: bool = False) -> None:
        """Close a broker's connections; it keeps listening."""
        self._call(self.brokers[broker_id].drop_connections(reset=reset))

    def stall_reading(self, broker_id: int) -> None:
        """Act like a frozen broker process: connections stay open, nothing is read."""
        self._call(self.brokers[broker_id].stall_reading())

    def resume_reading(self, broker_id: int) -> None:
        self._call(self.brokers[broker_id].resume_reading())

    def set_versions(
        self, api_key: int, offered: tuple[int, int] | None, broker_id: int | None = None
    ) -> None:
        """Offer this range of an API (``None``: do not offer the API), on one broker or on all."""
        with self.log.changed:
            for broker in self.brokers.values():
                if broker_id in (None, broker.node_id):
                    if offered is None:
                        broker.versions.pop(api_key, None)
                    else:
                        broker.versions[api_key] = offered

    def offer_telemetry(self, *metrics: str, **options: Any) -> Telemetry:
        """Offer the telemetry APIs on all brokers, with this subscription; see ``Telemetry.subscribe``."""
        with self.log.changed:
            for api_key in (71, 72):
                self.set_versions(api_key, (0, 0))
            self.telemetry.subscribe(*metrics, **options)
            return self.telemetry

    def gate(self) -> Gate:
        """A closed gate for ``Hold``."""
        return Gate(self._loop)

    # -- inspection ---------------------------------------------------------------------------------

    def requests(self, api_key: int | None = None, broker_id: int | None = None) -> list[LoggedRequest]:
        return self.log.select(api_key, broker_id)

    def wait_for(
        self, predicate: Callable[[], Any], timeout_s: float = _WAIT_S, what: str = "condition"
    ) -> Any:
        """Wait until ``predicate()`` is true; it is evaluated after each change of the cluster."""
        return self.log.wait_for(predicate, timeout_s, what)

    def wait_for_requests(
        self, api_key: int, count: int, *, broker_id: int | None = None, timeout_s: float = _WAIT_S
    ) -> list[LoggedRequest]:
        """Wait until at least ``count`` requests of an API have arrived, and return all of them."""
        what = f"{count} requests of API {api_key} at broker {broker_id or 'any'}"
        self.wait_for(lambda: len(self.requests(api_key, broker_id)) >= count, timeout_s, what)
        return self.requests(api_key, broker_id)

    def accepted_count(self) -> int:
        """Number of connections accepted so far."""
        return sum(broker.accepted_count for broker in list(self.brokers.values()))

    def open_connections(self) -> set[int]:
        """Numbers of the open connections."""
        return {each.number for broker in list(self.brokers.values()) for each in list(broker.connections)}


def _close_sockets_after_fork() -> None:
    for cluster in list(_open_clusters):
        cluster.close_sockets_after_fork()


os.register_at_fork(after_in_child=_close_sockets_after_fork)
