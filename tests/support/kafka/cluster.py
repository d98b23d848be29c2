"""Apache Kafka with one or several nodes, on free loopback ports, with its data in a temporary folder.

``KafkaCluster`` starts the nodes (KRaft versions format their storage first, older ones need ZooKeeper),
waits for the log lines that report readiness, and stops them by pid. Single nodes can be stopped, killed and
restarted. Not thread-safe: use it from the thread that created it.
"""

from __future__ import annotations

import base64
import random
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from tests.support.kafka.java_process import JavaProcess, java_arguments, run_java
from tests.support.kafka.log_dump import DumpedBatch, dump_log_files
from tests.support.kafka.maven_artifacts import KafkaUnavailableError
from tests.support.kafka.properties import (
    NodeAddress,
    as_text,
    broker_properties,
    uses_kraft,
    zookeeper_properties,
)

DEFAULT_LIFETIME_SECONDS = 3 * 3600
START_TIMEOUT_SECONDS = 120
#: Below the range of ephemeral ports, so that outgoing connections never take them.
PORT_RANGE = (20000, 32000)
#: Faster start, slower later: right for tests, wrong for benchmarks.
QUICK_START_OPTIONS = ("-XX:TieredStopAtLevel=1",)
_READY_PATTERN = r"Kafka Server started|\[?KafkaServer id=\d+\]? started"


class ReservedPorts:
    """Ports on 127.0.0.1, reserved until ``close`` whether their broker is up or down.

    Each port is held by a socket that is bound but never listens. Brokers can still bind to it, because both
    sides set SO_REUSEADDR; processes that look for a free port skip it, and connections are refused while no
    broker listens.
    """

    def __init__(self, count: int) -> None:
        self.ports: list[int] = []
        self._sockets: list[socket.socket] = []
        while len(self.ports) < count:
            port = random.SystemRandom().randrange(*PORT_RANGE)
            reservation = socket.socket()
            try:
                reservation.bind(("127.0.0.1", port))
            except OSError:
                reservation.close()
                continue
            # Set after bind: this bind must find the port free, the broker's bind need not.
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.ports.append(port)
            self._sockets.append(reservation)

    def close(self) -> None:
        for each in self._sockets:
            each.close()


def _check_free(port: int) -> None:
    """Whether a broker could listen on a port; it reports a port in use only after half a minute."""
    with socket.socket() as probe:
        # As brokers do: connections that were closed a short time ago do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise KafkaUnavailableError(
                f"no broker can listen on 127.0.0.1:{port} ({reason}): stop the program that uses the port,"
                " or choose another one"
            ) from None


class KafkaNode:
    """One broker of a cluster (with KRaft also a controller)."""

    def __init__(self, cluster: KafkaCluster, address: NodeAddress, properties_path: Path) -> None:
        self.address = address
        self.node_id = address.node_id
        self.data_folder = properties_path.parent / "data"
        self._cluster = cluster
        self._properties_path = properties_path
        self._process: JavaProcess | None = None

    @property
    def log_path(self) -> Path:
        """The output of all runs of the broker."""
        return self._properties_path.parent / "server.log"

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def launch(self) -> None:
        """Start the process; ``await_ready`` waits for it."""
        cluster = self._cluster
        command = java_arguments(
            cluster.version,
            "kafka.Kafka",
            [str(self._properties_path)],
            cluster.heap_mb,
            cluster.java_options,
            cluster.classes,
        )
        self._process = JavaProcess(
            command, self.log_path, _READY_PATTERN, lifetime_seconds=cluster.lifetime_seconds
        )

    def await_ready(self) -> None:
        assert self._process is not None
        self._process.await_ready(START_TIMEOUT_SECONDS)

    def start(self) -> None:
        """Start on the same port with the same data, and wait until the broker is ready."""
        self.launch()
        self.await_ready()

    def stop(self) -> None:
        """Shut down cleanly: the broker hands over its leaderships first."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()

    def request_stop(self) -> None:
        if self._process is not None:
            self._process.request_stop()


class KafkaCluster:
    """A running cluster of ``node_count`` brokers of one version. Ends on ``close`` or after its lifetime.

    Attributes:
        bootstrap_servers: ``host:port`` of every node, comma-separated.
        nodes: by node id, which counts from 1.
    """

    def __init__(
        self,
        version: str,
        node_count: int = 1,
        *,
        properties: dict[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        heap_mb: int = 384,
        lifetime_seconds: int = DEFAULT_LIFETIME_SECONDS,
        java_options: Iterable[str] = QUICK_START_OPTIONS,
        first_port: int | None = None,
        classes: Path | None = None,
    ) -> None:
        """Start the cluster.

        Args:
            properties: added to the properties of every node; ``${node}`` in a value is its node id.
            listeners: beside the PLAINTEXT one, which stays for test tools and between brokers: name to
                security protocol, for example ``{"SSL": "SSL", "MTLS": "SSL"}``. Their certificates and
                SASL settings are ``properties``, for all (``ssl.keystore.type``) or for one listener
                (``listener.name.mtls.ssl.client.auth``). ``bootstrap`` has their addresses.
            first_port: the port of node 1, ``None`` for a free one as for the others.
            classes: a folder of classes that the properties name; see ``compile_java``.

        Raises:
            KafkaUnavailableError: Kafka cannot run here, or ``first_port`` is in use.
            RuntimeError: a process ended or was not ready in time.
        """
        if first_port is not None:
            _check_free(first_port)
        self.version = version
        self.heap_mb = heap_mb
        self.lifetime_seconds = lifetime_seconds
        self.java_options = tuple(java_options)
        self.classes = classes
        self.folder = Path(tempfile.mkdtemp(prefix=f"kafka-{version}-"))
        self._listeners = dict(listeners or {})
        ports_per_node = 2 + len(self._listeners)
        self._reserved = ReservedPorts(ports_per_node * node_count + 1)
        ports = self._reserved.ports
        if first_port is not None:
            ports[0] = first_port
        self._zookeeper_port = ports[-1]
        self._zookeeper: JavaProcess | None = None
        addresses = []
        for i in range(node_count):
            port, controller_port, *others = ports[ports_per_node * i : ports_per_node * (i + 1)]
            listener_ports = dict(zip(self._listeners, others, strict=True))
            addresses.append(NodeAddress(1 + i, port, controller_port, listener_ports))
        self.bootstrap_servers = ",".join(address.bootstrap for address in addresses)
        self.nodes = {
            address.node_id: self._prepare_node(address, addresses, properties or {}) for address in addresses
        }
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def bootstrap(self, listener: str) -> str:
        """``host:port`` of every node's listener of this name, comma-separated."""
        return ",".join(f"127.0.0.1:{node.address.listener_ports[listener]}" for node in self.nodes.values())

    def close(self) -> None:
        """Stop every process and remove the data."""
        # All at once: otherwise the last controller of a quorum would wait for its peers. The data is no
        # longer needed, so there is no reason to wait for a clean shutdown.
        for node in self.nodes.values():
            node.kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
        self._reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def dump_log(self, *topics: str, is_deep: bool = True) -> list[DumpedBatch]:
        """Every batch of these topics on every node, as Kafka's dump tool prints it. See ``dump_log_files``.

        Raises:
            RuntimeError: the tool failed, or there is no log.
        """
        files = [
            path
            for node in self.nodes.values()
            for folder in sorted(node.data_folder.iterdir())
            if folder.name.rpartition("-")[0] in topics
            for path in sorted(folder.glob("*.log"))
        ]
        return dump_log_files(files, is_deep)

    def _prepare_node(
        self, address: NodeAddress, addresses: list[NodeAddress], extra: dict[str, str]
    ) -> KafkaNode:
        folder = self.folder / f"node-{address.node_id}"
        folder.mkdir()
        path = folder / "server.properties"
        zookeeper_port = None if uses_kraft(self.version) else self._zookeeper_port
        properties = broker_properties(
            self.version, address, addresses, str(folder / "data"), zookeeper_port, self._listeners
        )
        of_node = {name: value.replace("${node}", str(address.node_id)) for name, value in extra.items()}
        path.write_text(as_text({**properties, **of_node}))
        return KafkaNode(self, address, path)

    def _start(self) -> None:
        if uses_kraft(self.version):
            self._format_storage()
        else:
            self._start_zookeeper()
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.await_ready()
        self._await_all_in_metadata()

    def _format_storage(self) -> None:
        # The tool takes an id that begins with "-" (1 of 64) for an option; Kafka avoids such ids, too.
        cluster_id = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        errors: list[BaseException] = []

        def format_one(node: KafkaNode) -> None:
            path = str(self.folder / f"node-{node.node_id}" / "server.properties")
            try:
                run_java(self.version, "kafka.tools.StorageTool", ["format", "-t", cluster_id, "-c", path])
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=format_one, args=(node,)) for node in self.nodes.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _start_zookeeper(self) -> None:
        folder = self.folder / "zookeeper"
        folder.mkdir()
        path = folder / "zookeeper.properties"
        path.write_text(as_text(zookeeper_properties(self._zookeeper_port, str(folder / "data"))))
        main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._zookeeper = JavaProcess(
            java_arguments(self.version, main_class, [str(path)], 128, self.java_options),
            folder / "zookeeper.log",
            r"binding to port|PrepRequestProcessor \(sid:0\) started",
            lifetime_seconds=self.lifetime_seconds,
        )
        self._zookeeper.await_ready(START_TIMEOUT_SECONDS)

    def _await_all_in_metadata(self) -> None:
        # A started broker may still be unknown to the controller; only a request shows this.
        from tests.support.kafka.topics import broker_ids

        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while broker_ids(self.bootstrap_servers) != set(self.nodes):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all of {sorted(self.nodes)} joined the cluster")
            time.sleep(0.05)
