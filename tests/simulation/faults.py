"""What goes wrong in a simulation: faults of single requests, and of brokers, network and machine."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable

from kproducer import KafkaProducer
from kproducer.testing.fakebroker import FakeCluster, RequestContext, faults
from kproducer.testing.fakebroker.actions import Action, Close, Delay, Reply, Steps
from kproducer.testing.fakebroker.faults import Forgery
from kproducer.testing.fakebroker.transaction_coordinator import State
from tests.scenarios import internals
from tests.simulation.callers import Application
from tests.simulation.plan import METADATA, PRODUCE, AtTime, OnRequest
from tests.simulation.world import World

#: Milliseconds for which ``forget_producers`` waits for a quiet moment.
_PATIENCE = 1000
_STORAGE_ERROR = 56
#: The first version of Produce that adds partitions to transactions.
_ADDS_PARTITIONS = 12
#: Neither transaction version 2 nor zstd.
_OLDER = {0: (3, 5), 22: (0, 4), 26: (0, 4), 28: (0, 4)}
_COORDINATION = (10, 22, 24, 25, 26, 28)


class RequestFaults:
    """Decides about requests as the plan says. A handler of ``FakeCluster.control``.

    Attributes:
        met: the faults that have found their request.
    """

    def __init__(self, planned: Iterable[OnRequest]) -> None:
        self._planned: dict[tuple[int, int], OnRequest] = {}
        self._afterwards: dict[tuple[int, int], OnRequest] = {}
        for fault in planned:
            faults = self._afterwards if fault.kind.startswith("then_") else self._planned
            faults[fault.api_key, fault.number] = fault
        self._counts: Counter[int] = Counter()
        self.met: list[OnRequest] = []

    def __call__(self, context: RequestContext) -> Action | None:
        key = context.api_key
        number = self._counts[key]
        self._counts[key] += 1
        action: Action | None = None
        if fault := self._planned.get((key, number)):
            action = getattr(self, fault.kind)(context, fault)
            if action is not None:
                self.met.append(fault)
        if afterwards := self._afterwards.get((key, number)):
            self.met.append(afterwards)
            action = getattr(self, afterwards.kind)(context, action or context.answer())
        return action

    def refuse(self, context: RequestContext, fault: OnRequest) -> Action | None:
        """The broker does not process the request and returns an error code."""
        if context.api_key == PRODUCE:
            return faults.forge_produce(lambda *_: Forgery(fault.code))(context)
        if context.api_key == METADATA:
            return faults.refuse_metadata(fault.code)(context)
        if context.api_key in _COORDINATION:
            return faults.refuse_coordination(fault.code)(context)
        return None

    def refuse_and_forget(self, context: RequestContext, fault: OnRequest) -> Action | None:
        """As ``refuse``, and the leaders lose the state of all producers at this moment.

        Not together with a fault that loses a response: a leader that forgets what it has written and not
        answered accepts it twice.
        """
        for name, index in faults.named_partitions(context):
            context.cluster.topics[name].partitions[index].producers.forget()
        return self.refuse(context, fault)

    def process_and_refuse(self, context: RequestContext, fault: OnRequest) -> Action | None:
        """The broker processes the request and returns an error code all the same, where it had none."""
        if context.api_key == PRODUCE:
            answer = context.answer()
            if isinstance(answer, Reply) and answer.message is not None:
                for topic in answer.message.responses:
                    for entry in topic.partition_responses:
                        if entry.error_code == 0:
                            entry.error_code, entry.base_offset = fault.code, -1
            return answer
        if context.api_key in _COORDINATION:
            context.apply()
            return faults.refuse_coordination(fault.code)(context)
        return None

    def close_before(self, context: RequestContext, fault: OnRequest) -> Action | None:
        return faults.close_before()(context)

    def close_after(self, context: RequestContext, fault: OnRequest) -> Action | None:
        return faults.close_after()(context)

    def reset_after(self, context: RequestContext, fault: OnRequest) -> Action | None:
        return faults.close_after(reset=True)(context)

    def stall_before(self, context: RequestContext, fault: OnRequest) -> Action | None:
        return faults.stall_before()(context)

    def stall_after(self, context: RequestContext, fault: OnRequest) -> Action | None:
        return faults.stall_after()(context)

    def silence(self, context: RequestContext, fault: OnRequest) -> Action | None:
        """The request is processed, and the responses to later ones come first."""
        context.apply()
        return faults.silence()(context)

    def wrong_correlation_id(self, context: RequestContext, fault: OnRequest) -> Action | None:
        return faults.wrong_correlation_id()(context)

    def fragmented(self, context: RequestContext, fault: OnRequest) -> Action | None:
        return faults.fragmented()(context)

    def late(self, context: RequestContext, fault: OnRequest) -> Action | None:
        """Processed at once, answered later; so are the next requests of the connection."""
        return Delay(fault.seconds, context.answer())

    def overtaken(self, context: RequestContext, fault: OnRequest) -> Action | None:
        """The connection ends, and the broker processes the request later, after others (KIP-890)."""

        def process() -> None:
            with context.cluster.log.changed:
                context.apply()

        asyncio.get_running_loop().call_later(fault.seconds, process)
        return faults.close_before()(context)

    def behind(self, context: RequestContext, fault: OnRequest) -> Action | None:
        """The broker has not heard of the last election of each partition (KIP-320)."""
        answer = context.answer()
        if context.api_key == METADATA and isinstance(answer, Reply):
            brokers = [broker.node_id for broker in answer.message.brokers]
            for topic in answer.message.topics:
                for partition in topic.partitions:
                    if partition.leader_epoch > 0:
                        partition.leader_epoch -= 1
                        others = [each for each in brokers if each != partition.leader_id]
                        partition.leader_id = others[0] if others else partition.leader_id
        return answer

    def throttled(self, context: RequestContext, fault: OnRequest) -> Action | None:
        answer = context.answer()
        if isinstance(answer, Reply) and hasattr(answer.message, "throttle_time_ms"):
            answer.message.throttle_time_ms = int(fault.seconds * 1000)
        return answer

    # What happens when the request has been dealt with; another fault of the same request comes first.

    def then_restart(self, context: RequestContext, action: Action) -> Action:
        """The leaders restart cleanly once the response is sent, and know each producer's last batch only."""
        self._reload(context)
        return Steps((action, Close()))

    def then_move(self, context: RequestContext, action: Action) -> Action:
        """Another broker becomes the leader."""
        for topic, partition in faults.named_partitions(context):
            others = [each for each in context.cluster.brokers if each != context.broker.node_id]
            context.cluster.move_leader(topic, partition, others[0])
        return action

    def then_move_after_restart(self, context: RequestContext, action: Action) -> Action:
        """Another broker becomes the leader, and knows each producer's last batch only."""
        self._reload(context)
        return self.then_move(context, action)

    def _reload(self, context: RequestContext) -> None:
        for topic, partition in faults.named_partitions(context):
            context.cluster.topics[topic].partitions[partition].producers.reload_snapshot()


class ClusterFaults:
    """Carries out the faults that have a time. Each method runs in a task of the simulation.

    Attributes:
        may_fence: the producer is initialized: from now on another one is newer.
    """

    def __init__(
        self, world: World, cluster: FakeCluster, producer: KafkaProducer, application: Application
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._producer = producer
        self._application = application
        self.may_fence = False
        #: One broker at a time.
        self._restarting = threading.Lock()

    def carry_out(self, planned: Iterable[AtTime]) -> None:
        """All of them, in the order of time; at the end, brokers and network work again."""
        started_ns = self._world.scheduler.now_ns
        for fault in sorted(planned, key=lambda each: each.at_s):
            wait_ns = started_ns + int(fault.at_s * 1e9) - self._world.scheduler.now_ns
            if wait_ns > 0:
                self._world.scheduler.sleep(wait_ns)
            getattr(self, fault.kind)(fault)

    def clean_restart(self, fault: AtTime) -> None:
        """Partitions keep each producer's last batch only."""
        with self._restarting:
            self._cluster.restart_cleanly(fault.broker_id)

    def crash(self, fault: AtTime) -> None:
        """The broker is away for some time; another one leads its partitions meanwhile, if there is one."""
        with self._restarting:
            self._cluster.kill(fault.broker_id, reset=True)
            self._cluster.elect_leaders()
            self._world.sleep(fault.seconds)
            self._cluster.restart(fault.broker_id)
            self._cluster.elect_leaders()

    def freeze(self, fault: AtTime) -> None:
        """The broker reads nothing for some time."""
        self._cluster.stall_reading(fault.broker_id)
        self._world.sleep(fault.seconds)
        self._cluster.resume_reading(fault.broker_id)

    def drop_connections(self, fault: AtTime) -> None:
        self._cluster.drop_connections(fault.broker_id)

    def reset_connections(self, fault: AtTime) -> None:
        """The network breaks the broker's connections; what is on the way arrives or is lost."""
        self._world.network.reset_connections(self._cluster.brokers[fault.broker_id].port)

    def partition_network(self, fault: AtTime) -> None:
        """Nothing arrives at and from the broker for some time, and nobody is told."""
        port = self._cluster.brokers[fault.broker_id].port
        self._world.network.block(port)
        self._world.sleep(fault.seconds)
        self._world.network.unblock(port)

    def move_leader(self, fault: AtTime) -> None:
        self._lead(fault, fault.broker_id)

    def _lead(self, fault: AtTime, broker_id: int) -> bool:
        """Whether there is such a partition: it may be gone after ``fewer_partitions``."""
        with self._cluster.log.changed:
            has_partition = fault.partition < len(self._cluster.topics[fault.topic].partitions)
            if has_partition:
                self._cluster.move_leader(fault.topic, fault.partition, broker_id)
        return has_partition

    def move_leader_after_restart(self, fault: AtTime) -> None:
        """The new leader knows each producer's last batch only."""
        with self._cluster.log.changed:
            if self._lead(fault, fault.broker_id):
                self._cluster.topics[fault.topic].partitions[fault.partition].producers.reload_snapshot()

    def no_leader(self, fault: AtTime) -> None:
        """The partition has no leader for some time."""
        if self._lead(fault, -1):
            self._world.sleep(fault.seconds)
            self._lead(fault, fault.broker_id)

    def recreate_topic(self, fault: AtTime) -> None:
        self._cluster.recreate_topic(fault.topic)

    def fewer_partitions(self, fault: AtTime) -> None:
        """The topic is deleted, and created again with one partition."""
        self._cluster.recreate_topic(fault.topic, 1)

    def forget_producers(self, fault: AtTime) -> None:
        """All producer ids expire, once everything is answered.

        A leader that forgets what it has written and not answered cannot tell a repetition from a new batch.
        """
        for _ in range(_PATIENCE):
            if not internals.incomplete_count(self._producer):
                break
            self._world.sleep(0.001)
        else:
            return
        with self._cluster.log.changed:
            for topic in self._cluster.topics.values():
                for partition in topic.partitions:
                    partition.producers.forget()

    def lower_limit(self, fault: AtTime) -> None:
        """``max.message.bytes`` is small for some time."""
        options = self._cluster.topics[fault.topic].options
        options.max_message_bytes, before = 400, options.max_message_bytes
        self._world.sleep(fault.seconds)
        options.max_message_bytes = before

    def move_coordinator(self, fault: AtTime) -> None:
        with self._cluster.log.changed:
            for key in list(self._cluster.coordination.transactions.transactions):
                self._cluster.coordination.moved[1, key] = fault.broker_id

    def time_out_transaction(self, fault: AtTime) -> None:
        """``transaction.timeout.ms`` has passed for the open transactions."""
        with self._cluster.log.changed:
            coordinator = self._cluster.coordination.transactions
            is_version_2 = self._cluster.transaction_version >= 2 and all(
                broker.versions[PRODUCE][1] >= _ADDS_PARTITIONS for broker in self._cluster.brokers.values()
            )
            for key, transaction in coordinator.transactions.items():
                if transaction.state is State.ONGOING:
                    coordinator.time_out(key, is_version_2)

    def forget_transactional_ids(self, fault: AtTime) -> None:
        """``transactional.id.expiration.ms`` has passed for all without an open transaction.

        A week, so nobody waits for the answer to an EndTxn that was processed before.
        """
        for _ in range(_PATIENCE):
            if not internals.is_ending_transaction(self._producer):
                break
            self._world.sleep(0.001)
        else:
            return
        with self._cluster.log.changed:
            coordinator = self._cluster.coordination.transactions
            for key, transaction in list(coordinator.transactions.items()):
                if transaction.state is not State.ONGOING:
                    coordinator.forget(key)
                    self._application.note_forgotten_fencing()

    def fence(self, fault: AtTime) -> None:
        """Another producer takes the transactional id over."""
        if self.may_fence:
            self._application.fence()

    def downgrade(self, fault: AtTime) -> None:
        """The broker restarts with the software of an older release."""
        with self._restarting:
            self._cluster.kill(fault.broker_id)
            for api_key, offered in _OLDER.items():
                self._cluster.set_versions(api_key, offered, fault.broker_id)
            self._cluster.restart(fault.broker_id)

    def disk_error(self, fault: AtTime) -> None:
        """The broker's disk fails for some time: it appends nothing."""
        refuse = faults.forge_produce(lambda *_: Forgery(_STORAGE_ERROR))
        control = self._cluster.control(PRODUCE, refuse, times=None, broker_id=fault.broker_id)
        self._world.sleep(fault.seconds)
        control.remove()

    def half_open(self, fault: AtTime) -> None:
        """The broker loses its connections without a word; clients learn of it when they send."""
        self._world.network.forget_connections(self._cluster.brokers[fault.broker_id].port)

    def names_fail(self, fault: AtTime) -> None:
        """No host name is resolved for some time."""
        self._world.names_fail = True
        self._world.sleep(fault.seconds)
        self._world.names_fail = False

    def names_are_slow(self, fault: AtTime) -> None:
        """Each look-up takes as long, for as long."""
        self._world.name_delay_s = fault.seconds
        self._world.sleep(fault.seconds)
        self._world.name_delay_s = 0.0

    def wall_clock(self, fault: AtTime) -> None:
        """The wall clock is set forwards, or backwards."""
        self._world.wall_shift_ns += int(fault.seconds * 1e9)

    def suspend(self, fault: AtTime) -> None:
        """The whole machine sleeps: time passes, and nothing runs."""
        self._world.scheduler.now_ns += int(fault.seconds * 1e9)
