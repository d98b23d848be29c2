"""``FakeKafka``: the Kafka brokers that tests of applications start, break and inspect."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Mapping

from kproducer_messages import API_NAMES

from kproducer.errors import BrokerError
from kproducer.errors.suggestions import keyword_hints
from kproducer.testing.fakebroker import faults
from kproducer.testing.fakebroker.actions import Control
from kproducer.testing.fakebroker.cluster import FakeCluster
from kproducer.testing.fakebroker.model import DEFAULT_MAX_MESSAGE_BYTES, is_legal_topic_name
from kproducer.testing.fakebroker.produce import WITHOUT_PRODUCER_ID
from kproducer.testing.fakebroker.request_log import LoggedRequest
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from kproducer.testing.fault import Fault, api_key_of, error_name, error_of, refusal
from kproducer.testing.topic import Topic
from kproducer.types import TopicPartition

_FETCH, _FETCH_VERSIONS = 1, (4, 11)


class FakeKafka:
    """Kafka brokers for tests, in a thread of this process. Running until ``close()`` or the end of ``with``.

    As strict as Apache Kafka with what producers send: checksums and format of batches, sequence numbers of
    idempotent producers, states of transactions. Clients of any language can connect. Thread-safe.

    Args:
        nodes: number of brokers; their ids are 1, 2, and so on. Every topic has a replica on each.
        auto_create: topics are created when a producer asks for their metadata.
        default_partitions: number of partitions of topics that are created so.
        users: passwords by user name. Clients then need SASL/PLAIN.
        ssl_context: with the brokers' certificate. Clients then need TLS.

    Raises:
        ValueError: ``nodes`` or ``default_partitions`` is not a whole number of at least 1.
        TypeError: there is no such argument, or ``users`` or ``ssl_context`` has the wrong type.
        OSError: no port could be opened.
    """

    @keyword_hints
    def __init__(
        self,
        *,
        nodes: int = 1,
        auto_create: bool = True,
        default_partitions: int = 1,
        users: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        for name, number in (("nodes", nodes), ("default_partitions", default_partitions)):
            if type(number) is not int or number < 1:
                raise ValueError(f"FakeKafka: {name} must be a whole number of at least 1, not {number!r}")
        if users is not None and not isinstance(users, Mapping):
            raise TypeError(
                f"FakeKafka: users must be a dict of names and passwords, not {type(users).__name__}"
            )
        if ssl_context is not None and not isinstance(ssl_context, ssl.SSLContext):
            raise TypeError(
                "FakeKafka: ssl_context must be an ssl.SSLContext with a certificate, not"
                f" {type(ssl_context).__name__}"
            )
        # Set by close(), which any thread may call.
        self._is_closed = False
        self._cluster_of_creator = FakeCluster(
            0, auto_create_partitions=default_partitions if auto_create else None, cluster_id="FakeKafka"
        )
        cluster = self._cluster_of_creator
        cluster.auto_create_first_error = 0
        cluster.sasl = SaslListener(dict(users)) if users is not None else None
        cluster.tls = ssl_context
        try:
            for node in range(1, nodes + 1):
                cluster.add_broker(node)
        except BaseException:
            cluster.close()
            raise
        # aiokafka sends them, and brokers ignore them.
        cluster.tolerate(WITHOUT_PRODUCER_ID)
        # librdkafka sends batches of the present format only to brokers that offer this version of Fetch.
        cluster.set_versions(_FETCH, _FETCH_VERSIONS)
        self._bootstrap_servers = ",".join(cluster.bootstrap_servers)

    def __enter__(self) -> FakeKafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FakeKafka {self._bootstrap_servers}>"

    def close(self) -> None:
        """Close all connections and release the ports. May be called more than once.

        What was written can still be read.

        Raises:
            AssertionError: the fake broker itself failed. This is a bug of kproducer.
        """
        self._is_closed = True
        self._cluster_of_creator.close()

    def reset(self) -> None:
        """Begin again on the same ports: without topics, faults, transactions, requests and connections.

        For a broker that several tests share. All nodes are up afterwards. Transactional producers must be
        created after it.

        Raises:
            RuntimeError: ``close()`` was called.
        """
        self._check_open()
        self.clear_faults()
        self.drop_connections()
        self._cluster.reset()
        self.up()

    # -- for clients ----------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, with commas between them. Also valid in a forked child."""
        return self._bootstrap_servers

    @property
    def nodes(self) -> list[int]:
        """The ids of all nodes."""
        return sorted(self._cluster.brokers)

    # -- topics ---------------------------------------------------------------------------------------

    @keyword_hints
    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        min_insync_replicas: int = 1,
        compacted: bool = False,
    ) -> Topic:
        """Create a topic. Its partitions are led by the nodes in turn.

        Args:
            name: letters, digits, dot, underscore and dash.
            partitions: number of partitions.
            max_message_bytes: ``max.message.bytes``: larger batches get MESSAGE_TOO_LARGE.
            min_insync_replicas: ``min.insync.replicas``: with fewer nodes up, ``acks=all`` gets
                NOT_ENOUGH_REPLICAS.
            compacted: ``cleanup.policy=compact``: records need keys. Nothing is compacted.

        Raises:
            ValueError: the topic exists, its name is not legal, or it has no partition.
        """
        if not is_legal_topic_name(name):
            raise ValueError(
                f"{name!r} is not the name of a topic: up to 249 letters, digits, '.', '_' and '-'"
            )
        if type(partitions) is not int or partitions < 1:
            raise ValueError(f"topic {name!r} needs at least one partition, not {partitions!r}")
        cluster = self._cluster
        with cluster.log.changed:
            if name in cluster.topics:
                raise ValueError(f"topic {name!r} exists; create_topic() comes before the first record")
            cluster.create_topic(
                name,
                partitions,
                max_message_bytes=max_message_bytes,
                min_insync_replicas=min_insync_replicas,
                compacted=compacted,
            )
        return self.topic(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records.

        Raises:
            ValueError: there is no such topic.
        """
        cluster = self._cluster
        with cluster.log.changed:
            self._existing(name)
            cluster.delete_topic(name)

    def topic(self, name: str) -> Topic:
        """The topic of this name, which need not exist yet."""
        return Topic(self._cluster, name)

    @property
    def topics(self) -> list[str]:
        """The names of all topics."""
        cluster = self._cluster
        with cluster.log.changed:
            return sorted(cluster.topics)

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """The offsets of a consumer group that committed transactions have written."""
        cluster = self._cluster
        with cluster.log.changed:
            known = cluster.coordination.group(group).committed
            return {TopicPartition(*place): position.offset for place, position in known.items()}

    # -- faults of requests ---------------------------------------------------------------------------

    @keyword_hints
    def fail_next(
        self,
        api: str,
        error: type[BrokerError] | BrokerError | str | int,
        *,
        times: int | None = 1,
        processed: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        node: int | None = None,
    ) -> Fault:
        """Answer the next requests of an API with an error code.

        Args:
            api: the name of the API in Kafka's protocol, such as ``Produce``, ``Metadata`` or ``EndTxn``.
            error: a class of ``kproducer.errors.broker_errors``, an object of such a class, whose message is
                sent, too, or Kafka's name or code.
            times: number of requests; ``None``: all, until the fault is removed.
            processed: the broker does what the request asks for, such as appending the records, and then
                sends the error.
            topic: only this topic, of Produce and Metadata.
            partition: only this partition, of Produce. Other partitions in the request are processed.
            node: only requests to this node.

        Faults of the same API apply in the order in which they were injected.

        Raises:
            ValueError: there is no such API, error or node.
            TypeError: ``error`` is an error of the producer and not of a broker.
        """
        key = api_key_of(api)
        code, message = error_of(error)
        handler = refusal(key, code, message, processed=processed, topic=topic, partition=partition)
        control = Control(key, node, times, handler)
        return self._inject(control, f"fail_next({API_NAMES[key]!r}, {error_name(code)})")

    @keyword_hints
    def disconnect_next(
        self, api: str, *, times: int | None = 1, processed: bool = False, node: int | None = None
    ) -> Fault:
        """Close the connection instead of answering the next requests of an API.

        The arguments and errors are those of ``fail_next``.
        """
        key = api_key_of(api)
        handler = faults.close_after() if processed else faults.close_before()
        return self._inject(Control(key, node, times, handler), f"disconnect_next({API_NAMES[key]!r})")

    @keyword_hints
    def hang_next(
        self, api: str, *, times: int | None = 1, processed: bool = False, node: int | None = None
    ) -> Fault:
        """Never answer the next requests of an API, and nothing after them on the same connection.

        The arguments and errors are those of ``fail_next``.
        """
        key = api_key_of(api)
        handler = faults.stall_after() if processed else faults.stall_before()
        return self._inject(Control(key, node, times, handler), f"hang_next({API_NAMES[key]!r})")

    @keyword_hints
    def delay(
        self, api: str | None, seconds: float, *, times: int | None = None, node: int | None = None
    ) -> Fault:
        """Delay the answers to requests of an API, or of all (``None``).

        The broker processes requests when they arrive, and those of one connection in order. Other faults
        apply, too. Delays of the same request add up.

        Args:
            api: as for ``fail_next``; ``None``: all.
            seconds: the delay of each answer.
            times: number of requests; ``None``: all, until the fault is removed.
            node: only requests to this node.

        Raises:
            ValueError: there is no such API or node, or ``seconds`` is negative.
        """
        key = None if api is None else api_key_of(api)
        if seconds < 0:
            raise ValueError(f"a delay is not negative, found {seconds} s")
        name = "all APIs" if key is None else API_NAMES[key]
        return self._inject(Control(key, node, times, delay_s=seconds), f"delay({name!r}, {seconds:g})")

    def clear_faults(self) -> None:
        """Remove all faults of requests. Nodes that are down stay down."""
        self._cluster.remove_controls()

    # -- faults of nodes ------------------------------------------------------------------------------

    def down(self, node: int | None = None) -> None:
        """Stop a node, or all: its connections end, and new ones are refused. The records are kept.

        If other nodes are up, one of them becomes the leader of its partitions.

        Raises:
            ValueError: there is no such node.
            RuntimeError: ``close()`` was called.
        """
        self._check_open()
        cluster = self._cluster
        for each in self._nodes(node):
            cluster.kill(each)
            if node is not None:
                cluster.elect_leaders()

    def up(self, node: int | None = None) -> None:
        """Start a node, or all, on the same port. Does nothing if it is up.

        It leads no partition that has moved to another node.

        Raises:
            ValueError: there is no such node.
            RuntimeError: ``close()`` was called.
        """
        self._check_open()
        cluster = self._cluster
        for each in self._nodes(node):
            if not cluster.brokers[each].up:
                cluster.restart(each)
        cluster.elect_leaders()

    @contextlib.contextmanager
    def unreachable(self, node: int | None = None) -> Iterator[None]:
        """``down()`` for the block, then ``up()``.

        Raises:
            ValueError: there is no such node.
            RuntimeError: ``close()`` was called.
        """
        self.down(node)
        try:
            yield
        finally:
            self.up(node)

    def drop_connections(self, node: int | None = None) -> None:
        """Close all connections with a node, or with all. They accept new ones.

        Raises:
            ValueError: there is no such node.
            RuntimeError: ``close()`` was called.
        """
        self._check_open()
        for each in self._nodes(node):
            self._cluster.drop_connections(each)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another node the leader of a partition.

        Raises:
            ValueError: there is no such topic, partition or node.
        """
        self._nodes(node)
        cluster = self._cluster
        with cluster.log.changed:
            self._existing(topic)
            if not 0 <= partition < self.topic(topic).partition_count:
                raise ValueError(f"topic {topic!r} has no partition {partition}")
            cluster.move_leader(topic, partition, node)

    # -- what clients did -----------------------------------------------------------------------------

    def requests(self, api: str | None = None, *, node: int | None = None) -> list[LoggedRequest]:
        """The requests that have arrived, of an API or of all, at a node or at all. Oldest first.

        Raises:
            ValueError: there is no such API.
        """
        return self._cluster.requests(None if api is None else api_key_of(api), node)

    @property
    def violations(self) -> list[str]:
        """What clients did that Kafka's protocol does not allow. Empty, unless a client has a bug."""
        cluster = self._cluster
        with cluster.log.changed:
            return list(cluster.violations)

    # -- internal -------------------------------------------------------------------------------------

    @property
    def _cluster(self) -> FakeCluster:
        return self._cluster_of_creator.in_this_process()

    def _check_open(self) -> None:
        self._cluster_of_creator.in_this_process()  # a forked child gets the error for forked children
        if self._is_closed:
            raise RuntimeError("this FakeKafka was closed")

    def _inject(self, control: Control, description: str) -> Fault:
        times = control.remaining
        if times is not None and times < 1:
            raise ValueError(f"a fault applies to at least one request, not {times}; None: to all")
        self._nodes(control.broker_id)
        return Fault(self._cluster, self._cluster.add(control), description)

    def _nodes(self, node: int | None) -> list[int]:
        """All nodes, or this one."""
        if node is not None and node not in self._cluster.brokers:
            raise ValueError(f"there is no node {node}; nodes: {', '.join(map(str, self.nodes))}")
        return self.nodes if node is None else [node]

    def _existing(self, topic: str) -> None:
        if topic not in self._cluster.topics:
            raise ValueError(f"there is no topic {topic!r}; topics: {', '.join(self.topics) or 'none'}")
