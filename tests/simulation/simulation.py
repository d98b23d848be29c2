"""Simulation: runs a plan, and says what was wrong."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import pyarrow as pa

from kproducer import (
    AbortTransactionError,
    AsyncKafkaProducer,
    CloseTimeoutError,
    FatalProducerError,
    FencedError,
    IllegalStateError,
    KafkaError,
    KafkaProducer,
    KafkaTimeoutError,
    ProducerClosedError,
)
from kproducer.testing.fakebroker import FakeCluster
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from kproducer.transactions.transaction_arguments import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.types import TopicPartition
from tests.simulation import plan as planned
from tests.simulation.curable import cured_after_s, has_stable_connections
from tests.simulation.faults import ClusterFaults, RequestFaults
from tests.simulation.ledger import Ledger, Sent, TransactionFate
from tests.simulation.plan import AtTime, Caller, OnRequest, Plan
from tests.simulation.scheduler import SimulationError
from tests.simulation.world import World

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
#: After the last fault and the last call, ``close`` waits for deliveries, and for requests that may still
#: be answered.
_SETTLING_S = 2.0
#: What waits for deliveries takes so long without faults, at most, apart from latency.
_PROMPT_S = 1.0
#: Connections to each broker that never end: as a bootstrap server, and as itself.
_CONNECTIONS = 2
#: Of the I/O thread: steps that need no reason, and steps per event and per virtual second.
_IDLE_STEPS, _STEPS_PER_EVENT, _STEPS_PER_SECOND = 2_000, 100, 1_500


#: Bytes that were wanted, bytes that are free, and how many others wait for memory.
_EXHAUSTED = re.compile(r"could not allocate (\d+) bytes .*: (\d+) of buffer_memory=.* (\d+) other callers")


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
    """

    findings: list[str]
    digest: str
    virtual_s: float
    steps: int
    records: int
    outcomes: Counter[str]
    met: Counter[str]


def simulate(plan: Plan) -> Result:
    """Run a plan to its end."""
    latency_ns = (int(plan.latency_ms[0] * 1e6), int(plan.latency_ms[1] * 1e6))
    world = World(
        plan.seed, latency_ns=latency_ns, partial_rate=plan.partial_rate, switch_rate=plan.switch_rate
    )
    world.network.buffer_bytes = plan.socket_bytes
    with world:
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
    )


def _outcome(sent: Sent) -> str:
    if sent.raised is not None:
        return "raised"
    if sent.error is not None:
        return str(sent.error.outcome)
    return "delivered" if sent.metadata is not None else "open"


def _key_of(sent: Sent, step: planned.Send) -> bytes | None:
    return b"%d" % sent.place[1] if step.is_keyed else None


class _Interceptor:
    """Raises in each of its methods."""

    def on_send(self, record: Any) -> Any:
        raise ValueError("an interceptor that raises")

    def on_acknowledgement(self, *_: Any) -> None:
        raise ValueError("an interceptor that raises")


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
        self.producer: KafkaProducer | None = None
        self.settings = {**DEFAULTS, **plan.settings}
        self._late_sends = 0
        self._newest_epochs: dict[tuple[Any, int], int] = {}
        self.cured_after_s = cured_after_s(plan, self.settings)
        self._io_task: Any = None
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
        cluster.transaction_version = plan.transaction_version
        cluster.coordination.transactions.newest_epoch = plan.epochs - 1
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
        if plan.interceptors_raise:
            settings["interceptors"] = [_Interceptor()]
        for name, partitions in plan.topics.items():
            cluster.create_topic(name, partitions)
        cluster.control(None, self.requests, times=None)
        self.producer = producer = KafkaProducer(cluster.bootstrap_servers, **settings)
        metadata = producer._lifecycle.last_engine.metadata
        metadata.add_listener(lambda: self._note_epochs(metadata.snapshot))
        scheduler = world.scheduler
        self._io_task = next(task for task in scheduler.tasks if task.name.startswith("kproducer-io"))
        timed = [fault for fault in plan.faults if isinstance(fault, AtTime)]
        faults = ClusterFaults(world, cluster, producer)
        tasks = [
            scheduler.spawn(
                f"faults {kind}", _each_in_turn(faults, [f for f in timed if f.kind == kind], self)
            )
            for kind in sorted({fault.kind for fault in timed})
        ]
        if producer.config.transactional_id:
            self._until_it_ends(lambda: producer.init_transactions())
        for number, caller in enumerate(plan.callers):
            body = (
                self._asyncio_caller(number, caller) if caller.uses_asyncio else self._caller(number, caller)
            )
            tasks.append(scheduler.spawn(f"caller {number}", body))
        for task in tasks:
            self._join(task)
        began_ns = scheduler.now_ns
        try:
            producer.close()
        except CloseTimeoutError as error:
            self.ledger.notes.append(f"close() without a timeout raised {error!r}")
        self._check_settled(began_ns)
        self._check_resources(producer)
        cluster.close()

    def _note_epochs(self, snapshot: Any) -> None:
        """Metadata of a broker that is behind does not replace newer metadata."""
        for topic in snapshot.topics.values():
            for partition in topic.partitions:
                key = topic.topic_id, partition.partition
                newest = self._newest_epochs.get(key, -1)
                if 0 <= partition.leader_epoch < newest:
                    place = f"{topic.name}-{partition.partition}"
                    note = f"leader epoch {partition.leader_epoch} of {place} has replaced {newest}"
                    self.ledger.notes.append(note)
                self._newest_epochs[key] = max(newest, partition.leader_epoch)

    def _join(self, task: Any) -> None:
        me = self.world.scheduler.current
        assert me is not None
        while not task.has_ended:
            task.on_end.append(lambda: self.world.scheduler.wake(me))
            self.world.scheduler.block(f"the end of {task.name}")
        if task.error is not None:
            self.ledger.notes.append(f"{task.name} ended with {task.error!r}")

    # -- callers -----------------------------------------------------------------------------------------

    def _caller(self, number: int, caller: Caller) -> Callable[[], None]:
        def run() -> None:
            for step in caller.steps:
                try:
                    self._step(number, step, None)
                except ProducerClosedError:
                    return
                except (FatalProducerError, FencedError):
                    return

        return run

    def _step(self, number: int, step: planned.Step, fate: TransactionFate | None) -> None:
        producer = self.producer
        assert producer is not None
        match step:
            case planned.Send():
                sent = self._send(number, step, fate)
                if step.waits:
                    for each in sent:
                        if each.future is not None:
                            each.future.exception()
            case planned.Flush(timeout):
                self._flush(number, timeout)
            case planned.Purge(in_queue, in_flight):
                producer.purge(in_queue, in_flight)
            case planned.Sleep(seconds):
                self.world.sleep(seconds)
            case planned.Close(timeout):
                with contextlib.suppress(CloseTimeoutError):
                    producer.close(timeout)
            case planned.Transaction():
                self._transaction(number, step)

    def _flush(self, number: int, timeout: float | None) -> None:
        before = [s for s in self.ledger.sent if s.place[0] == number and s.future is not None]
        producer = self.producer
        assert producer is not None
        began_ns = self.world.scheduler.now_ns
        try:
            producer.flush(timeout)
        except KafkaTimeoutError:
            if timeout is None:
                self.ledger.notes.append("flush() without a timeout ended with a timeout")
            return
        self._check_prompt("flush()", began_ns)
        for sent in before:
            if not sent.future.done():
                self.ledger.notes.append(f"flush() returned, and {sent} is not done")

    def _send(self, number: int, step: planned.Send, fate: TransactionFate | None) -> list[Sent]:
        producer = self.producer
        assert producer is not None
        sent = [self.ledger.add(number, step.topic, step.size, fate) for _ in range(step.count)]
        if step.by == "send":
            for each in sent:
                each.callbacks = []
                began_ns = self.world.scheduler.now_ns
                try:
                    each.future = producer.send(
                        step.topic,
                        each.value,
                        key=_key_of(each, step),
                        partition=step.partition,
                        on_delivery=self._callback(each),
                    )
                except KafkaError as error:
                    each.raised = error
                    self._check_exhausted(error)
                else:
                    took_ms = (self.world.scheduler.now_ns - began_ns) / 1e6
                    self._late_sends += took_ms >= self.settings["max_block_ms"]
            return sent
        try:
            if step.by == "send_many":
                values = [each.value for each in sent]
                keys = [_key_of(each, step) for each in sent] if step.is_keyed else None
                result = producer.send_many(step.topic, values, keys=keys, partitions=step.partition)
            else:
                column = pa.array([each.value for each in sent], pa.binary())
                result = producer.send_arrow(step.topic, column, partition=step.partition)
        except KafkaError as error:
            for each in sent:
                each.raised = error
            return sent
        for each, future in zip(sent, result, strict=True):
            each.future = future
        return sent

    def _check_exhausted(self, error: KafkaError) -> None:
        """Nobody is told that there is no memory if there is, and nobody else waits for it."""
        numbers = _EXHAUSTED.search(str(error))
        if numbers is not None and int(numbers[1]) <= int(numbers[2]) and not int(numbers[3]):
            self.ledger.notes.append(f"send() raised although there is memory: {error!r}")

    def _callback(self, sent: Sent) -> Callable[[Any, Any], None]:
        def on_delivery(metadata: Any, error: Any) -> None:
            sent.note(metadata, error)
            if self.plan.callbacks_raise:
                raise ValueError("a callback that raises")

        return on_delivery

    def _transaction(self, number: int, step: planned.Transaction) -> None:
        producer = self.producer
        assert producer is not None
        fate = TransactionFate(len(self.ledger.transactions), step.commits, step.with_offsets)
        self.ledger.transactions.append(fate)
        producer.begin_transaction()
        must_abort = not step.commits
        for each in step.steps:
            try:
                self._step(number, each, fate)
            except IllegalStateError as error:
                self.ledger.notes.append(f"a step of a transaction raised {error!r}")
        try:
            if step.with_offsets:
                self._until_it_ends(
                    lambda: producer.send_offsets_to_transaction(
                        {TopicPartition("source", 0): OffsetAndMetadata(fate.number)},
                        ConsumerGroupMetadata("g"),
                    )
                )
            if not must_abort:
                self._until_it_ends(lambda: producer.commit_transaction(step.timeout))
                fate.told = "committed"
                return
        except AbortTransactionError:
            pass
        self._until_it_ends(lambda: producer.abort_transaction(step.timeout))
        fate.told = "aborted"

    def _until_it_ends(self, call: Callable[[], object]) -> None:
        """Make a transactional call again for as long as it is not done, as the documentation says."""
        while True:
            try:
                call()
            except KafkaTimeoutError:
                continue
            return

    def _asyncio_caller(self, number: int, caller: Caller) -> Callable[[], None]:
        def run() -> None:
            asyncio.run(self._in_loop(number, caller))

        return run

    async def _in_loop(self, number: int, caller: Caller) -> None:
        producer = AsyncKafkaProducer.__new__(AsyncKafkaProducer)
        assert self.producer is not None
        producer._start(self.producer)
        for step in caller.steps:
            try:
                await self._async_step(producer, number, step)
            except ProducerClosedError:
                break
        # What is not done when the loop ends stays open, as all futures of asyncio do.
        mine = [sent.future for sent in self.ledger.sent if sent.place[0] == number]
        await asyncio.gather(*mine, return_exceptions=True)

    async def _async_step(self, producer: AsyncKafkaProducer, number: int, step: planned.Step) -> None:
        match step:
            case planned.Send():
                sent = [self.ledger.add(number, step.topic, step.size, None) for _ in range(step.count)]
                for each in sent:
                    each.callbacks, each.is_asyncio = [], True
                    each.future = producer.send(
                        step.topic,
                        each.value,
                        key=_key_of(each, step),
                        partition=step.partition,
                        on_delivery=self._callback(each),
                    )
                if step.waits:
                    await asyncio.gather(*(each.future for each in sent), return_exceptions=True)
            case planned.Flush(timeout):
                try:
                    await producer.flush(timeout)
                except KafkaTimeoutError:
                    return
            case planned.Sleep(seconds):
                await asyncio.sleep(seconds)
            case planned.Purge(in_queue, in_flight):
                await producer.purge(in_queue, in_flight)
            case planned.Close(timeout):
                with contextlib.suppress(CloseTimeoutError):
                    await producer.aclose(timeout)

    # -- the end -----------------------------------------------------------------------------------------

    def _check_prompt(self, call: str, began_ns: int) -> None:
        """What waits for deliveries takes no longer than the faults and the linger explain."""
        took_s = (self.world.scheduler.now_ns - began_ns) / 1e9
        if self.cured_after_s is None:
            return
        # With one request at a time, each record may take two ways, in several pieces.
        most_s = self.cured_after_s + _PROMPT_S + 4 * len(self.ledger.sent) * self.plan.latency_ms[1] / 1000
        if took_s > most_s:
            self.ledger.notes.append(f"{call} took {took_s:.1f} s, and has to end within {most_s:.1f} s")

    def _check_settled(self, began_ns: int) -> None:
        self._check_prompt("close()", began_ns)
        took_ns = self.world.scheduler.now_ns - began_ns
        config = self.settings
        limit_ms = config["delivery_timeout_ms"] + 2 * config["request_timeout_ms"] + 1000 * _SETTLING_S
        if took_ns > limit_ms * 1_000_000:
            self.ledger.notes.append(f"close() took {took_ns / 1e9:.1f} s after the last fault and call")

    def _check_resources(self, producer: KafkaProducer) -> None:
        engine: Any = producer._lifecycle.last_engine
        note = self.ledger.notes.append
        missing = engine.config.buffer_memory - engine.pool.available_bytes
        if missing:
            note(f"{missing} bytes of buffer memory are missing")
        # Once may be a coincidence.
        if self._late_sends > 1 and not self.carried_out["suspend"]:
            note(f"send() returned after all of max_block_ms {self._late_sends} times")
        if errors := engine.sender.metrics.io_error_total:
            note(f"the I/O thread had {errors} internal errors")
        if engine.client.in_flight_request_count():
            note("requests are in flight after close()")
        if engine.accumulator.incomplete_count:
            note(f"{engine.accumulator.incomplete_count} batches are not done after close()")
        accepted = self.cluster.accepted_count()
        if has_stable_connections(self.plan, self.settings) and accepted > _CONNECTIONS * self.plan.brokers:
            note(f"{accepted} connections to {self.plan.brokers} brokers, although no fault has ended one")
        if not self._io_task.has_ended:
            note("the I/O thread runs after close()")
        events = len(self.cluster.requests()) + len(self.ledger.sent) + self.cluster.accepted_count()
        seconds = self.world.scheduler.now_ns / 1e9
        most = _IDLE_STEPS + _STEPS_PER_EVENT * events + _STEPS_PER_SECOND * seconds
        if self._io_task.steps > most:
            note(f"the I/O thread made {self._io_task.steps} steps for {events} events in {seconds:.2f} s")

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
        group = self.cluster.coordination.groups.get("g")
        position = None if group is None else group.committed.get(("source", 0))
        found += self.ledger.offsets(None if position is None else position.offset)
        if self.cured_after_s is not None:
            found += self.ledger.not_delivered()
        found += [f"the broker received: {text}" for text in self.cluster.violations]
        found += [f"the fake broker failed: {error!r}" for error in self.cluster.internal_errors]
        return found


def _each_in_turn(faults: ClusterFaults, planned_faults: list[AtTime], run: _Run) -> Callable[[], None]:
    def carry_out() -> None:
        faults.carry_out(planned_faults)
        run.carried_out.update(fault.kind for fault in planned_faults)

    return carry_out
