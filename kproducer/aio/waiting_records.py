"""WaitingRecords: the records of one event loop that cannot be accepted at once, in the order of their sends.

The driver of ``PendingSend`` for an event loop: it knows order, fairness and cancellation; ``PendingSend``
knows what a record needs, and what was done for it. A record that needs memory waits in ``_line``, as do all
later ones of this loop; the head has a place among the threads that wait for memory in the same pool. A
record that needs its topic (or a partition of it), or a serializer that has to look up a schema, waits at a
gate, which holds back later records for the topic and no others. When the gate opens, its records go to their
places in the line, in front of later ones.

Everything here belongs to the thread of the loop. Other threads only post wake-ups. Interceptors, serializers
and partitioner run when it is a record's turn, once, in the context of its caller.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from itertools import islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kproducer._core.event_loop.loop_waiters import LoopWaiters, SendFuture
from kproducer._core.sending.admission import PendingSend
from kproducer._core.sending.needs import MemoryNeed, Need, PreparationNeed, TopicNeed
from kproducer.errors import (
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
)

if TYPE_CHECKING:
    from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
    from kproducer._core.engine.engine_lifecycle import EngineLifecycle
    from kproducer.aio.background_calls import BackgroundCalls
    from kproducer.types import PartitionInfo

#: Records that are accepted in one turn of the loop; between two turns, the application's tasks run.
_RECORDS_PER_TURN = 128

#: Turns in which all records that wait have timed out, if their time ends at once and they are many.
_TURNS_TO_EXPIRE = 32

#: Those of ``send``.
Arguments = tuple[Any, Any, Any, Any, Any, Any, Any]


class WaitingSend(SendFuture):
    """The future of a record that is not accepted at once, and what sends the record later.

    The garbage collector stops the loop to walk the objects of all records that wait: a record has this one,
    with few attributes, and its arguments.

    Attributes:
        owner: of this loop.
        number: grows with each send.
        arguments: the caller's; ``None`` once there is ``pending``.
        pending: the record, from the first attempt to accept it, or from the check of its transaction.
        awaits_delivery: it is completed when the record is delivered, and not when it is accepted.
        started_ms: when it began to wait (monotonic).
        context: of the caller, if the send calls the application.
        gate: where it waits.
    """

    __slots__ = (
        "arguments", "awaits_delivery", "context", "gate", "number", "owner", "pending", "started_ms"
    )  # fmt: skip

    arguments: Arguments | None
    awaits_delivery: bool
    context: contextvars.Context | None
    gate: _Gate | None
    number: int
    owner: WaitingRecords
    pending: PendingSend | None
    started_ms: int

    def cancel(self, msg: Any = None) -> bool:
        """See ``SendFuture``. ``False`` also while its own interceptors or serializers run."""
        if not self.done():
            if self.pending is not None and self.pending.is_running:
                return False  # whether it will be accepted is not known
            try:
                self.owner._withdraw(self)
            except (KeyboardInterrupt, SystemExit):
                self.owner._withdraw(self)  # what is left of it
                super().cancel(msg)
                raise
        return super().cancel(msg)

    def drop(self) -> None:
        """Drop the references, because the application may keep this future for long."""
        self.arguments = self.context = self.pending = None


class _Gate:
    """The records that wait for one topic, for one partition of it, or for serializers.

    Attributes:
        need: what the first of them needs.
        members: may contain records that wait no more: they are skipped.
    """

    __slots__ = ("members", "need")

    def __init__(self, need: Need) -> None:
        self.need = need
        self.members: deque[WaitingSend] = deque()


class WaitingRecords:
    """Accepts records without blocking. See above.

    Args:
        lifecycle: of the producer.
        waiters: of the event loop.
        calls: makes calls on threads.
        busy: contains this object while records wait in it; may be read on any thread.

    Attributes:
        waiters: as given.
        look_ups: of ``AsyncKafkaProducer.partitions_for``, by topic.
    """

    def __init__(
        self,
        lifecycle: EngineLifecycle,
        waiters: LoopWaiters,
        calls: BackgroundCalls,
        busy: set[WaitingRecords],
    ) -> None:
        self._lifecycle = lifecycle
        self._rules = lifecycle.rules
        self._calls = calls
        self._busy = busy
        self.waiters = waiters
        self.loop = waiters.wakeup.loop
        self.look_ups: dict[str, asyncio.Task[list[PartitionInfo]]] = {}
        self._send_count = 0
        #: All that wait, in the order in which their time ends. ``_timer`` looks at the first ones.
        self._kept: dict[WaitingSend, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        #: Like the members of a gate, it may contain records that wait no more: they are skipped.
        self._line: deque[WaitingSend] = deque()
        self._gates: dict[object, _Gate] = {}
        #: For each future of ``settled``, the records that it still waits for.
        self._awaited: dict[asyncio.Future[None], set[WaitingSend]] = {}
        self._is_pumping = False
        #: Whether ``_pump`` is scheduled.
        self._will_pump = False
        #: Whether ``_look`` is scheduled. Any thread.
        self._will_look = False

    @property
    def count(self) -> int:
        """How many records wait."""
        return len(self._kept)

    def accept(self, arguments: Arguments, awaits_delivery: bool) -> WaitingSend:
        """Accept a record now, or as soon as that is possible. Errors are those of the future."""
        self._send_count += 1
        waiting = WaitingSend(loop=self.loop)
        waiting.record = waiting.pending = waiting.context = waiting.gate = None
        waiting.owner = self
        waiting.number = self._send_count
        waiting.arguments = arguments
        waiting.awaits_delivery = awaits_delivery
        waiting.started_ms = 0
        gate = self._gate_of(arguments[0])
        if gate is not None:
            self._keep_at(gate, waiting)
            return waiting
        if self._line and self._lifecycle.config.transactional_id:
            try:
                admission = self._lifecycle.running_engine().admission
                waiting.pending = PendingSend(admission, arguments, None, self._gates)
                waiting.pending.check_transaction()
            except KafkaError as error:
                self._fail(waiting, error)
                return waiting
        elif not self._line and self._try(waiting):
            return waiting
        self._keep(waiting)
        self._line.append(waiting)
        self._pump()
        return waiting

    def settled(self) -> asyncio.Future[None]:
        """Done as soon as every record that waits now is accepted or has failed."""
        all_settled: asyncio.Future[None] = self.loop.create_future()
        if self._kept:
            self._awaited[all_settled] = set(self._kept)
            # Also if the caller no longer waits for it.
            all_settled.add_done_callback(lambda done: self._awaited.pop(done, None))
        else:
            all_settled.set_result(None)
        return all_settled

    def refuse_all(self, error: KafkaError) -> asyncio.Future[None]:
        """Fail every record that waits now, some in each turn of the loop. Returns ``settled()``."""
        all_settled = self.settled()
        self._fail_some(deque(self._kept), lambda _: error.copy().with_outcome(Outcome.NOT_SENT))
        return all_settled

    def refuse_late(self) -> None:
        """As ``refuse_all``, but only those that their transaction can no longer accept."""
        self._fail_some(deque(self._kept), self._lateness)

    def _lateness(self, waiting: WaitingSend) -> KafkaError | None:
        """Why its transaction cannot accept the record."""
        try:
            if waiting.pending is not None:
                waiting.pending.check_transaction()
        except KafkaError as error:
            return error
        return None

    def abandon(self) -> None:
        """The loop was closed: return what is reserved for it. On any thread."""
        for waiting in list(self._kept):
            if waiting.pending is not None:
                lost = ProducerClosedError("the event loop was closed before the record was accepted")
                waiting.pending.refuse(lost)
        self._kept.clear()
        self._busy.discard(self)
        self._line.clear()
        self._drop_gates()

    # -- one record ------------------------------------------------------------------------------------

    def _keep(self, waiting: WaitingSend) -> None:
        """The record begins to wait."""
        if waiting in self._kept:
            return
        waiting.started_ms = waiting.started_ms or self._lifecycle.clock.monotonic_ms()
        if self._rules.runs_application_code:
            waiting.context = contextvars.copy_context()
        self._kept[waiting] = None
        self._busy.add(self)
        if self._timer is None:
            self._set_timer()

    def _forget(self, waiting: WaitingSend) -> None:
        """The record waits no more. An interrupted call may be repeated."""
        for all_settled, awaited in list(self._awaited.items()):
            awaited.discard(waiting)
            if not awaited:
                if not all_settled.done():
                    all_settled.set_result(None)
                self._awaited.pop(all_settled, None)
        gate = waiting.gate
        if waiting in self._kept:
            if waiting.pending is not None:
                waiting.pending.release()
            self._kept.pop(waiting, None)
        if gate is not None:
            waiting.gate = None
            while gate.members and gate.members[0] not in self._kept:
                gate.members.popleft()
        if not self._kept:
            self._busy.discard(self)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._line.clear()
            self._drop_gates()

    def _try(self, waiting: WaitingSend) -> bool:
        """Try to accept the record. ``False``: it needs memory, and has to be the head of the line."""
        try:
            advance, context = self._advance, waiting.context
            advanced = advance(waiting) if context is None else context.run(advance, waiting)
        except BaseException as error:
            self._fail(waiting, error)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            return True
        if isinstance(advanced, MemoryNeed):
            return False
        if isinstance(advanced, (TopicNeed, PreparationNeed)):
            self._wait_at_gate(waiting, advanced)
            return True
        assert not isinstance(advanced, Need)
        try:
            self._accepted(waiting, advanced)
        except (KeyboardInterrupt, SystemExit):
            self._accepted(waiting, advanced)  # what is left of it
            raise
        return True

    def _advance(self, waiting: WaitingSend) -> FutureRecordMetadata | Need:
        """See ``PendingSend.advance``."""
        pending, arguments = waiting.pending, waiting.arguments
        if pending is None:
            assert arguments is not None
            admission = self._lifecycle.running_engine().admission
            if self._kept or self._rules.may_prepare:
                pending = PendingSend(admission, arguments, None, self._gates)
            else:
                # The straight path. An interrupt in here ends the call, so nobody gets this future.
                admitted = admission.admit(*arguments)
                if not isinstance(admitted, PendingSend):
                    return admitted
                pending = admitted
                pending.hold(self._gates)
            waiting.pending, waiting.arguments = pending, None
        return pending.advance()

    def _accepted(self, waiting: WaitingSend, record: FutureRecordMetadata) -> None:
        """Tell the caller. An interrupted call may be repeated."""
        self._forget(waiting)
        if waiting.done():
            # The application has completed it.
            waiting.record = record
        elif waiting.awaits_delivery:
            self.waiters.add(record, waiting)
        else:
            waiting.record = record
            # submit() returns the record's future, which has another type than the result of send().
            waiting.set_result(record)  # type: ignore[arg-type]
        waiting.drop()

    def _fail(self, waiting: WaitingSend, error: BaseException) -> None:
        """The record is not sent, unless an interrupt came just after its acceptance."""
        pending = waiting.pending
        if pending is not None and pending.future is not None:
            pending.admission.topics.wakeup()
            self._accepted(waiting, pending.future)
            return
        if isinstance(error, KafkaError) and error.outcome is None:
            error.outcome = Outcome.NOT_SENT
        if not waiting.done():
            waiting.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
        self._give_up(waiting, error)

    def _give_up(self, waiting: WaitingSend, error: BaseException) -> None:
        """Tell the interceptors and the transaction, which must not be committed without the record."""
        self._forget(waiting)
        if waiting.pending is not None:
            waiting.pending.refuse(error)
        waiting.drop()

    def _withdraw(self, waiting: WaitingSend) -> None:
        """Its future is being cancelled."""
        if waiting not in self._kept:
            return
        pending = waiting.pending
        if pending is not None and pending.future is not None:
            self._accepted(waiting, pending.future)
        else:
            was_cancelled = KafkaError("the send was cancelled before the record was accepted")
            self._give_up(waiting, was_cancelled.with_outcome(Outcome.NOT_SENT))
        self._pump_soon()

    def _fail_some(
        self, records: deque[WaitingSend], error_of: Callable[[WaitingSend], BaseException | None]
    ) -> None:
        """Fail those of the records that still wait and for which ``error_of`` returns an error, in turns."""
        try:
            for _ in range(min(_RECORDS_PER_TURN, len(records))):
                waiting = records[0]
                error = error_of(waiting) if waiting in self._kept else None
                if error is not None:
                    self._fail(waiting, error)
                records.popleft()  # not before: an interrupted failure is repeated
        finally:
            if records:
                self.loop.call_soon(self._fail_some, records, error_of)
            self._pump_soon()

    def _set_timer(self) -> None:
        """Look again when the time of the first one is over."""
        first = next(iter(self._kept))
        left_ms = self._end_ms(first) - self._lifecycle.clock.monotonic_ms()
        # If more are overdue, in the next turn: they must not become more and more.
        self._timer = self.loop.call_later(max(left_ms, 0) / 1000, self._expire_some)

    def _end_ms(self, waiting: WaitingSend) -> int:
        return waiting.started_ms + self._lifecycle.config.max_block_ms

    def _expire_some(self) -> None:
        try:
            self._timer = None
            now_ms = self._lifecycle.clock.monotonic_ms()
            over = takewhile(lambda each: self._end_ms(each) <= now_ms, self._kept)
            # A share of them: otherwise a task that sends more in each turn would keep all others waiting.
            most = max(_RECORDS_PER_TURN, len(self._kept) // _TURNS_TO_EXPIRE)
            for waiting in list(islice(over, most)):
                if waiting in self._kept:
                    self._expire(waiting)
        finally:
            if self._kept and self._timer is None:
                self._set_timer()

    def _expire(self, waiting: WaitingSend) -> None:
        """``max_block_ms`` has passed."""
        memory = None if waiting.pending is None else waiting.pending.memory
        if waiting.gate is not None:
            error = waiting.gate.need.timeout_error()
        elif memory is None or not memory.is_subscribed:
            error = self._exhausted(waiting)
        elif memory.is_ready:
            self._pump()  # in the last moment
            return
        else:
            error = memory.timeout_error()
        self._fail(waiting, error)
        self._pump_soon()

    def _exhausted(self, waiting: WaitingSend) -> KafkaError:
        engine = self._lifecycle.last_engine
        waited_ms = self._lifecycle.clock.monotonic_ms() - waiting.started_ms
        if engine is None:
            return MetadataTimeoutError(f"the record was not accepted within {waited_ms} ms")
        return engine.exhausted_error(waited_ms, self.count - 1)

    # -- memory ----------------------------------------------------------------------------------------

    def _pump_soon(self) -> None:
        if self._line and not self._will_pump:
            self._will_pump = True
            self.loop.call_soon(self._pump_later)

    def _pump_later(self) -> None:
        self._will_pump = False
        self._pump()

    def _pump(self) -> None:
        """Accept records from the head of the line on, until one has to wait."""
        if self._is_pumping:  # an interceptor or serializer has sent a record
            return
        self._is_pumping = True
        try:
            for _ in range(_RECORDS_PER_TURN):
                line = self._line
                while line and line[0] not in self._kept:
                    line.popleft()
                if not line:
                    return
                head = line[0]
                if not self._try(head) and not self._request_memory(head):
                    return
                if line and line[0] is head:
                    line.popleft()
        except BaseException:
            self._pump_soon()
            raise
        finally:
            self._is_pumping = False
        self._pump_soon()

    def _request_memory(self, head: WaitingSend) -> bool:
        """Take a place in the pool's queue, unless it has one. ``True``: the record has failed."""
        memory = None if head.pending is None else head.pending.memory
        assert memory is not None
        if not memory.is_subscribed:
            try:
                memory.subscribe(self._pump_from_elsewhere)
            except KafkaError as error:
                self._fail(head, error)
                return True
        return False

    def _pump_from_elsewhere(self) -> bool:
        """On any thread. ``False``: the loop is closed."""
        return self.waiters.wakeup.post(self._pump)

    # -- gates -----------------------------------------------------------------------------------------

    def _gate_of(self, topic: Any) -> _Gate | None:
        """Where a record for the topic would have to wait, if no attempt has to find that out.

        With an attempt, it would have four more objects. It is necessary if the application's code is to see
        the record now, or the transaction.
        """
        if (
            topic.__class__ is not str
            or self._rules.runs_application_code
            or self._lifecycle.config.transactional_id
        ):
            return None
        return self._gates.get(topic)

    def _wait_at_gate(self, waiting: WaitingSend, need: TopicNeed | PreparationNeed) -> None:
        """The record needs its topic, or serializers: put it behind the earlier ones that do."""
        try:
            key: object = self._gate_key(need) if isinstance(need, TopicNeed) else need.topic
            gate = self._gates.get(key)
            if gate is None:
                gate = _Gate(need)
                need.subscribe(self._look_soon)
                self._gates[key] = gate
        except BaseException as error:
            need.cancel()
            self._fail(waiting, error)
            if not isinstance(error, Exception):
                raise
            return
        self._keep_at(gate, waiting)
        if gate.members[0] is not waiting:
            return
        if isinstance(gate.need, PreparationNeed):
            assert waiting.context is not None
            try:
                # If its result is no longer wanted, it stays with the serializers.
                self._calls.begin(waiting.context.copy().run, gate.need.prepare)
            except BaseException as error:  # no thread can be started
                self._close_gate(key, gate, error)
        # It may have become known, or the producer closed, before anybody listened.
        self._look_soon()

    def _gate_key(self, need: TopicNeed) -> object:
        """Where a record waits: at the gate of its topic, or of its partition if only that is missing."""
        topic = need.topic
        if topic not in self._gates:
            # If only the topic was missing, later records without a partition must find the gate, too,
            # although the topic may have become known in this moment.
            place = topic, need.partition
            if place in self._gates or need.is_only_partition:
                return place
        need.partition = None
        return topic

    def _keep_at(self, gate: _Gate, waiting: WaitingSend) -> None:
        gate.members.append(waiting)
        waiting.gate = gate
        self._keep(waiting)

    def _drop_gates(self) -> None:
        for gate in list(self._gates.values()):
            gate.need.cancel()
        self._gates.clear()

    def _look_soon(self) -> bool:
        """On any thread. ``False``: the loop is closed."""
        if self._will_look:
            return True
        self._will_look = True
        return self.waiters.wakeup.post(self._look)

    def _look(self) -> None:
        """Let the records of gates go on, or fail, if it is time."""
        self._will_look = False
        open_gates: dict[object, _Gate] = {}
        for key, gate in list(self._gates.items()):
            try:
                if gate.need.is_met():
                    open_gates[key] = gate
            except Exception as error:
                self._close_gate(key, gate, error)
        if open_gates:
            self._put_in_line([each for gate in open_gates.values() for each in gate.members])
        for key, gate in open_gates.items():
            # Not before: if it is interrupted, this is called again.
            gate.need.cancel()
            self._gates.pop(key, None)
        self._pump()

    def _put_in_line(self, released: list[WaitingSend]) -> None:
        """In the order of the sends, but not in front of a head that has asked for memory."""
        for waiting in released:
            waiting.gate = None
        line = list(self._line)
        first = line[0].pending if line else None
        head = line[:1] if first is not None and first.memory is not None else []
        # Two or more runs in order: sorted() merges them, which takes microseconds per thousand records.
        in_order = sorted(line[len(head) :] + released, key=attrgetter("number"))
        self._line = deque(head + in_order)

    def _close_gate(self, key: object, gate: _Gate, error: BaseException) -> None:
        self._fail_some(
            deque(gate.members), lambda _: error.copy() if isinstance(error, KafkaError) else error
        )
        gate.need.cancel()
        self._gates.pop(key, None)
