"""Simulation: runs a plan, and says what was wrong.

What has to hold at the end: what callers were told agrees with the logs (``ledger``); every call has returned
in the time that its documentation allows (``callers``); after the last fault and the last call, ``close()``
takes at most ``delivery_timeout_ms``, the tenth of it or ``linger_ms`` by which a batch may be late, and
``request_timeout_ms`` together; no memory, request or thread is left; and no loop makes more steps than what
happened explains.

Not simulated: forks, signals, finalizers, TLS. With the native kernel, a record's future that is asked within
the record's own callback sees the thread of the operating system instead of the task.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs

from kproducer import CloseTimeoutError, KafkaError, KafkaProducer
from kproducer._core.client.metadata import Metadata
from kproducer._core.client.metadata_snapshot import ZERO_TOPIC_ID
from kproducer.testing.fakebroker import FakeCluster
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.simulation import callers, coverage, lanes
from tests.simulation.callers import Application
from tests.simulation.curable import cured_after_s, has_stable_connections
from tests.simulation.faults import ClusterFaults, RequestFaults
from tests.simulation.ledger import Ledger, Sent
from tests.simulation.plan import AtTime, OnRequest, Plan
from tests.simulation.scheduler import SimulationError, Task
from tests.simulation.world import HOST_SUFFIX, World

#: Short times: many timeouts happen in a second of virtual time.
DEFAULTS: dict[str, Any] = {
    "client_id": "simulated",
    "linger_ms": 0,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
    "request_timeout_ms": 300,
    "delivery_timeout_ms": 2000,
    "max_block_ms": 3000,
    "metadata_max_age_ms": 5000,
    "socket_connection_setup_timeout_ms": 200,
    "socket_connection_setup_timeout_max_ms": 400,
    "enable_metrics_push": False,
}
#: A run that takes longer hangs: each step of a caller may block for up to a few seconds.
_LIMIT_S = 600.0
#: Connections to each broker that never end: as a bootstrap server, and as itself.
_CONNECTIONS = 2
#: Steps of the I/O thread: that need no reason, per request, record, connection and transfer of a socket, and
#: per virtual second.
#: In most runs it makes 2 per event, and 8 in the worst ones.
_IO_STEPS = (100, 12, 20)
#: Steps of a caller: that need no reason, per record, and per virtual second.
_CALLER_STEPS = (200, 100, 200)


@attrs.define
class Result:
    """How a simulation ended.

    Attributes:
        findings: what was wrong, a sentence each.
        digest: of every byte that was sent, with its time: equal for equal runs.
        virtual_s: how long it took in virtual time.
        steps: how many steps the scheduler made.
        records: how many records callers have tried to send.
        outcomes: how many of them had each outcome.
        met: kinds and codes of the faults that happened.
        reached: which entries of ``coverage.ALL`` were reached, and how often.
    """

    findings: list[str]
    digest: str
    virtual_s: float
    steps: int
    records: int
    outcomes: Counter[str]
    met: Counter[str]
    reached: Counter[str]


def simulate(plan: Plan) -> Result:
    """Run a plan to its end."""
    latency_ns = (int(plan.latency_ms[0] * 1e6), int(plan.latency_ms[1] * 1e6))
    world = World(
        plan.seed,
        latency_ns=latency_ns,
        partial_rate=plan.partial_rate,
        switch_rate=plan.switch_rate,
        logs_raise=plan.logs_raise,
    )
    world.network.buffer_bytes = plan.socket_bytes
    reached: Counter[str] = Counter()
    with world:
        world.replace(coverage.recording(reached))
        draw = random.Random(f"hand-overs {plan.seed}").random
        world.replace(lanes.choosing(plan.hand_overs, draw, reached))
        run = _Run(plan, world)
        try:
            (task,) = world.run(run.main, limit_s=_LIMIT_S)
            if task.error is not None:
                raise task.error
        except SimulationError as error:
            run.ledger.notes.append(str(error))
        finally:
            run.abandon()
        findings = run.findings()
    outcomes = Counter(_outcome(sent) for sent in run.ledger.sent)
    met = Counter(f"{f.kind} {f.code}" if f.code else f.kind for f in run.requests.met)
    met.update(run.carried_out)
    return Result(
        findings,
        run.digest.hexdigest(),
        world.scheduler.now_ns / 1e9,
        world.scheduler.steps,
        len(run.ledger.sent),
        outcomes,
        met,
        reached,
    )


def _outcome(sent: Sent) -> str:
    if sent.raised is not None:
        return "raised"
    if sent.error is not None:
        return str(sent.error.outcome)
    if sent.is_withdrawn or sent.is_lost:
        return "cancelled"
    return "delivered" if sent.metadata is not None else "open"


class _Run:
    """One simulation. Its methods run in tasks of the world."""

    def __init__(self, plan: Plan, world: World) -> None:
        self.plan = plan
        self.world = world
        self.ledger = Ledger()
        self.requests = RequestFaults(f for f in plan.faults if isinstance(f, OnRequest))
        self.carried_out: Counter[str] = Counter()
        self.digest = hashlib.sha256()
        self.cluster: FakeCluster
        self.settings = {**DEFAULTS, **plan.settings}
        self._metadata: Metadata | None = None
        self._newest_epochs: dict[tuple[Any, int], int] = {}
        self._application: Application
        self.cured_after_s = cured_after_s(plan, self.settings)
        self._io_task: Any = None
        self._callers: list[Task] = []
        world.network.on_sent = self._note_sent

    def abandon(self) -> None:
        """Close what a run that failed has left open."""
        self.world.scheduler.end()
        cluster: FakeCluster | None = getattr(self, "cluster", None)
        if cluster is not None:
            cluster._loop.close()

    def _note_sent(self, port: int, is_to_broker: bool, data: bytes) -> None:
        self.digest.update(b"%d %d %d" % (self.world.scheduler.now_ns, port, is_to_broker))
        self.digest.update(data)

    # -- the course --------------------------------------------------------------------------------------

    def main(self) -> None:
        plan, world = self.plan, self.world
        self.cluster = cluster = FakeCluster(plan.brokers)
        settings = dict(self.settings)
        if plan.session_s:
            cluster.sasl = SaslListener({"user": "secret"})
            cluster.sasl.session_lifetime_ms = int(plan.session_s * 1000)
            settings |= {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "user",
                "sasl_plain_password": "secret",
            }
        settings |= callers.own_code(plan, world)
        for name, partitions in plan.topics.items():
            cluster.create_topic(name, partitions)
        cluster.control(None, self.requests, times=None)
        _configure(cluster, plan)
        servers = [f"{host}:{port}" for host, port in (each.advertised for each in cluster.brokers.values())]
        producer = KafkaProducer(servers, **settings)
        self._metadata = metadata = producer._lifecycle.last_engine.metadata
        note_epochs = self._note_epochs
        metadata.add_listener(note_epochs)
        scheduler = world.scheduler
        self._io_task = next(task for task in scheduler.tasks if task.name.startswith("kproducer-io"))
        timed = [fault for fault in plan.faults if isinstance(fault, AtTime)]
        self._application = application = Application(
            plan, world, self.ledger, servers, settings, producer, self.cured_after_s
        )
        faults = ClusterFaults(world, cluster, producer, application)
        tasks = [
            scheduler.spawn(
                f"faults {kind}", _each_in_turn(faults, [f for f in timed if f.kind == kind], self)
            )
            for kind in sorted({fault.kind for fault in timed})
        ]
        if producer.config.transactional_id:
            try:
                application.initialize(producer)
                faults.may_fence = True
            except KafkaError as error:
                self.carried_out[f"init_transactions: {type(error).__name__}"] += 1
        for number, caller in enumerate(plan.callers):
            self._callers.append(scheduler.spawn(f"caller {number}", application.body(number, caller)))
        for task in (*self._callers, *tasks):
            self._join(task)
        try:
            # Nothing is suspended any more.
            application.slack_s = callers.SLACK_S
            application.close(producer)
        except CloseTimeoutError as error:
            self.ledger.notes.append(f"close() without a timeout raised {error!r}")
        self._check_resources(producer)
        metadata.remove_listener(note_epochs)
        cluster.close()

    def _note_epochs(self) -> None:
        """Metadata of a broker that is behind does not replace newer metadata."""
        assert self._metadata is not None
        for topic in self._metadata.snapshot.topics.values():
            # Without an id, a topic that was created again looks the same.
            for partition in topic.partitions if topic.topic_id != ZERO_TOPIC_ID else ():
                key = topic.topic_id, partition.partition
                newest = self._newest_epochs.get(key, -1)
                if 0 <= partition.leader_epoch < newest:
                    place = f"{topic.name}-{partition.partition}"
                    note = f"leader epoch {partition.leader_epoch} of {place} has replaced {newest}"
                    self.ledger.notes.append(note)
                self._newest_epochs[key] = max(newest, partition.leader_epoch)

    def _join(self, task: Task) -> None:
        self.world.scheduler.join(task)
        if task.error is not None:
            self.ledger.notes.append(f"{task.name} ended with {task.error!r}")

    # -- the end -----------------------------------------------------------------------------------------

    def _check_resources(self, producer: KafkaProducer) -> None:
        engine: Any = producer._lifecycle.last_engine
        note = self.ledger.notes.append
        missing = engine.config.buffer_memory - engine.pool.available_bytes
        if missing:
            note(f"{missing} bytes of buffer memory are missing")
        # Once may be a coincidence; where records expire, their memory comes when the time is over, too.
        late_sends = self._application.late_sends
        if late_sends > 1 and self.cured_after_s is not None:
            note(f"send() returned after all of max_block_ms {late_sends} times")
        if errors := engine.sender.metrics.io_error_total:
            note(f"the I/O thread had {errors} internal errors")
        accepted = self.cluster.accepted_count()
        if has_stable_connections(self.plan, self.settings) and accepted > _CONNECTIONS * self.plan.brokers:
            note(f"{accepted} connections to {self.plan.brokers} brokers, although no fault has ended one")
        if engine.client.in_flight_request_count():
            note("requests are in flight after close()")
        if engine.accumulator.incomplete_count:
            note(f"{engine.accumulator.incomplete_count} batches are not done after close()")
        if not self._io_task.has_ended:
            note("the I/O thread runs after close()")
        events = len(self.cluster.requests()) + len(self.ledger.sent) + accepted
        events += self.world.network.transfers
        self._check_steps(self._io_task, events, _IO_STEPS)
        for task in self._callers:
            self._check_steps(task, len(self.ledger.sent), _CALLER_STEPS)

    def _check_steps(self, task: Task, events: int, most: tuple[int, int, int]) -> None:
        """A loop that polls instead of waiting makes more steps than what happens explains."""
        idle, per_event, per_second = most
        seconds = self.world.scheduler.now_ns / 1e9
        if task.steps > idle + per_event * events + per_second * seconds:
            self.ledger.notes.append(
                f"{task.name} made {task.steps} steps for {events} events in {seconds:.2f} s"
            )

    def findings(self) -> list[str]:
        """What was wrong."""
        config = self.settings
        in_flight = config.get("max_in_flight_requests_per_connection", 5)
        is_idempotent = config.get("enable_idempotence", config.get("acks", "all") == "all")
        acks = {"all": -1}.get(config.get("acks", "all"), config.get("acks"))
        found = self.ledger.findings(
            self.cluster,
            acks=acks,  # type: ignore[arg-type]
            exactly_once=is_idempotent or config.get("retries") == 0,
            in_order=is_idempotent or in_flight == 1,
        )
        if self.cured_after_s is not None:
            has_metadata = self.cured_after_s < config["max_block_ms"] / 2000
            found += self.ledger.not_delivered(has_metadata)
        found += [f"the broker received: {text}" for text in self.cluster.violations]
        found += [f"the fake broker failed: {error!r}" for error in self.cluster.internal_errors]
        return found


def _configure(cluster: FakeCluster, plan: Plan) -> None:
    cluster.transaction_version = plan.transaction_version
    coordinator = cluster.coordination.transactions
    coordinator.first_epoch, coordinator.newest_epoch = plan.first_epoch, plan.epochs - 1
    coordinator.settling = plan.settling
    if plan.settings.get("transaction_two_phase_commit_enable"):
        cluster.two_phase_commit = True
        cluster.set_versions(22, (0, 6))
    for api_key, offered in plan.versions.items():
        cluster.set_versions(api_key, offered)
    if plan.host_names:
        for broker in cluster.brokers.values():
            broker.advertised = (f"broker-{broker.node_id}.{HOST_SUFFIX}", broker.port)


def _each_in_turn(faults: ClusterFaults, planned_faults: list[AtTime], run: _Run) -> Callable[[], None]:
    def carry_out() -> None:
        faults.carry_out(planned_faults)
        run.carried_out.update(fault.kind for fault in planned_faults)

    return carry_out
