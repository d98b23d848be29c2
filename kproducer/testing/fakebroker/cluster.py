"""``FakeCluster``: brokers, topics and scripts behind one thread-safe interface.

One thread runs an event loop for all brokers of the cluster. The lock of the request log guards the
state: handlers run with it, and tests evaluate their predicates with it. Elections, replication and
authorization are not simulated: tests move leaders and set errors themselves.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kproducer.testing.fakebroker.actions import Action, Close, Control, Delay, Gate, Handler
from kproducer.testing.fakebroker.batch_check import StoredRecord
from kproducer.testing.fakebroker.broker import FakeBroker
from kproducer.testing.fakebroker.connection import Connection, RequestContext
from kproducer.testing.fakebroker.metadata import LEADER_NOT_AVAILABLE
from kproducer.testing.fakebroker.model import Partition, Topic, TopicOptions, Topics
from kproducer.testing.fakebroker.request_log import LoggedRequest, RequestLog
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from kproducer.testing.fakebroker.telemetry import Telemetry
from kproducer.testing.fakebroker.transaction_support import Coordination

_Result = TypeVar("_Result")
_WAIT_S = 60.0
_open_clusters: weakref.WeakSet[FakeCluster] = weakref.WeakSet()


class FakeCluster:
    """A cluster of ``broker_count`` nodes with ids from 1. Thread-safe; close it, or use ``with``.

    Args:
        broker_count: number of listening nodes.
        auto_create_partitions: partitions of topics created by Metadata requests; ``None``: never created.
        cluster_id: sent in Metadata responses.

    Attributes:
        transaction_version: the finalized feature of that name: 2 with KIP-890, 1 or 0 without.
        two_phase_commit: ``transaction.two.phase.commit.enable`` (KIP-939), for InitProducerId 6.
        sasl: what every listener demands; ``None``: no authentication.
        tls: with the brokers' certificate; ``None``: no encryption.
        coordination: transactions and consumer groups.
        telemetry: which metrics clients push, and their pushes. As in Kafka without a receiver of metrics,
        no broker offers the APIs, until ``offer_telemetry``.
        producer_id_expiration_ms: ``producer.id.expiration.ms``: before each batch, leaders drop producers
            whose newest record timestamp is older; ``None``: never.
        now_ms: the brokers' wall clock, for the expiration.
        violations: what clients did that no correct client does; tests check it at the end.
    """

    def __init__(
        self, broker_count: int = 1, *, auto_create_partitions: int | None = None, cluster_id: str = "fake"
    ) -> None:
        # Constant after construction.
        self.log = RequestLog()
        self.cluster_id = cluster_id
        # Guarded by the log's lock.
        self.auto_create_partitions = auto_create_partitions
        self.auto_create_first_error = LEADER_NOT_AVAILABLE
        self.topics = Topics()
        self.deleted_topics: list[Topic] = []
        self.metadata_errors: dict[str, int] = {}
        self.transaction_version = 2
        self.two_phase_commit = False
        self.sasl: SaslListener | None = None
        self.tls: ssl.SSLContext | None = None
        self.coordination = Coordination(self)
        self.telemetry = Telemetry()
        self.producer_id_expiration_ms: int | None = None
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self.violations: list[str] = []
        self.internal_errors: list[BaseException] = []
        self._tolerated: list[str] = []
        self._controls: list[Control] = []
        self._accept_handlers: list[Callable[[Connection], Action | None]] = []
        self._connection_count = 0
        # Event loop.
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._loop_error)
        self._thread = threading.Thread(target=self._run, name="fake-cluster", daemon=True)
        self.brokers: dict[int, FakeBroker] = {}
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

    # -- topics -------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, *, leaders: list[int] | None = None, **options: Any
    ) -> Topic:
        """Create a topic. ``leaders`` has each partition's leader; default: the running brokers in turn."""
        with self.log.changed:
            nodes = sorted(self.brokers)
            up = [node for node in nodes if self.brokers[node].up] or nodes
            chosen = leaders or [up[index % len(up)] for index in range(partitions)]
            topic = Topic(
                name,
                uuid.uuid4(),
                [
                    Partition(index, leader, 0, _leader_first(leader, nodes), _leader_first(leader, up))
                    for index, leader in enumerate(chosen)
                ],
                TopicOptions(**options),
            )
            self.topics[name] = topic
            return topic

    def delete_topic(self, name: str) -> None:
        with self.log.changed:
            self.deleted_topics.append(self.topics.pop(name))

    def recreate_topic(self, name: str, partitions: int | None = None) -> Topic:
        """Delete and recreate the topic: same name and options, new id, empty logs, epoch 0."""
        with self.log.changed:
            self.delete_topic(name)
            old = self.deleted_topics[-1]
            leaders = [partition.leader_id for partition in old.partitions]
            topic = self.create_topic(
                name, partitions or len(leaders), leaders=None if partitions else leaders
            )
            topic.options = old.options
            return topic

    def move_leader(self, topic: str, partition: int, leader_id: int) -> None:
        """Make another broker the leader; -1 makes the partition leaderless."""
        with self.log.changed:
            moved = self.topics[topic].partitions[partition]
            moved.leader_id = leader_id
            moved.leader_epoch += 1

    def elect_leaders(self) -> None:
        """Let running brokers take part again, and lead the partitions whose leader is down.

        A partition without a running in-sync replica keeps its leader: there are no unclean elections.
        """
        with self.log.changed:
            up = [node_id for node_id, broker in self.brokers.items() if broker.up]
            for topic in self.topics.values():
                for partition in topic.partitions:
                    in_sync = [node_id for node_id in partition.in_sync if node_id in up]
                    if not in_sync:
                        continue
                    if partition.leader_id not in in_sync:
                        partition.leader_id = in_sync[0]
                        partition.leader_epoch += 1
                    partition.in_sync = _leader_first(partition.leader_id, sorted(up))

    def reset(self) -> None:
        """Forget all topics, transactions, requests and violations. Brokers and scripts stay."""
        with self.log.changed:
            self.topics.clear()
            self.deleted_topics.clear()
            self.violations.clear()
            self.coordination = Coordination(self)
            self.log.clear()
            self.log.changed.notify_all()

    def records(self, topic: str, partition: int = 0) -> list[StoredRecord]:
        """Everything in a partition's log, oldest first."""
        with self.log.changed:
            return self.topics[topic].partitions[partition].records

    def committed_records(self, topic: str, partition: int = 0) -> list[StoredRecord]:
        """What a ``read_committed`` consumer sees of a partition, oldest first."""
        with self.log.changed:
            return self.topics[topic].partitions[partition].committed_records

    # -- scripts ------------------------------------------------------------------------------------

    def control(
        self, api_key: int | None, handler: Handler, *, times: int | None = 1, broker_id: int | None = None
    ) -> Control:
        """Let ``handler`` decide about requests before the broker does.

        Args:
            api_key: the API; ``None`` for all.
            handler: called under the cluster's lock; returns an action, or ``None`` to pass the request on.
            times: number of requests that it may handle; ``None``: no limit.
            broker_id: only requests to this broker.

        Handlers are called in the order of their registration.
        """
        return self.add(Control(api_key, broker_id, times, handler))

    def add(self, control: Control) -> Control:
        """Register a handler, or a delay, which applies to what handlers decide, too. Delays add up."""
        with self.log.changed:
            self._controls.append(control)
        return control

    def remove_controls(self) -> None:
        """Remove all handlers and delays."""
        with self.log.changed:
            self._controls.clear()

    def control_accept(self, handler: Callable[[Connection], Action | None]) -> None:
        """Let ``handler`` decide about each new connection before anything is read from it."""
        with self.log.changed:
            self._accept_handlers.append(handler)

    def gate(self) -> Gate:
        """A closed gate for ``Hold``."""
        return Gate(self._loop)

    def tolerate(self, pattern: str) -> None:
        """Do not count violations that match this regular expression."""
        with self.log.changed:
            self._tolerated.append(pattern)

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

    def all_topics(self) -> list[Topic]:
        """Every existing and deleted topic."""
        with self.log.changed:
            return [*self.topics.values(), *self.deleted_topics]

    def accepted_count(self) -> int:
        """Number of connections accepted so far."""
        return sum(broker.accepted_count for broker in list(self.brokers.values()))

    def open_connections(self) -> set[int]:
        """Numbers of the open connections."""
        return {each.number for broker in list(self.brokers.values()) for each in list(broker.connections)}

    # -- for connections and handlers (event loop) -----------------------------------------------------

    def decide(self, context: RequestContext) -> Action:
        with self.log.changed:
            try:
                violation = self.sasl.violation(context) if self.sasl is not None else None
                if violation is not None:
                    self.note_violation(f"{context.logged}: {violation}")
                    return Close()
                return self._choose(context)
            finally:
                self.log.changed.notify_all()

    def _choose(self, context: RequestContext) -> Action:
        action, delay_s = None, 0.0
        for control in list(self._controls):
            if not control.applies_to(context.api_key, context.broker.node_id):
                continue
            if control.handler is None:
                control.note_taken()
                delay_s += control.delay_s
            elif action is None and (action := control.handler(context)) is not None:
                control.note_taken()
        action = action or context.answer()
        return Delay(delay_s, action) if delay_s else action

    def call_handler(self, handler: Handler, context: RequestContext) -> Action | None:
        with self.log.changed:
            try:
                return handler(context)
            finally:
                self.log.changed.notify_all()

    def on_accept(self, connection: Connection) -> Action | None:
        with self.log.changed:
            for handler in self._accept_handlers:
                if (action := handler(connection)) is not None:
                    return action
            return None

    def next_connection_number(self) -> int:
        with self.log.changed:
            self._connection_count += 1
            return self._connection_count

    def note_violation(self, text: str) -> None:
        with self.log.changed:
            if not any(re.search(pattern, text) for pattern in self._tolerated):
                self.violations.append(text)
            self.log.changed.notify_all()

    def note_internal_error(self, error: BaseException) -> None:
        with self.log.changed:
            self.internal_errors.append(error)

    def notify(self) -> None:
        with self.log.changed:
            self.log.changed.notify_all()


def _close_sockets_after_fork() -> None:
    for cluster in list(_open_clusters):
        cluster.close_sockets_after_fork()


os.register_at_fork(after_in_child=_close_sockets_after_fork)


def _leader_first(leader_id: int, nodes: list[int]) -> list[int]:
    return [leader_id, *(node for node in nodes if node != leader_id)] if leader_id >= 0 else list(nodes)
