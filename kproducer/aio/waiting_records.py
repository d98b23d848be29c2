"""WaitingRecords: the records of one event loop that cannot be accepted at once, in the order of their sends.

Three things may be missing. Memory: then a record, and all later ones of this loop, wait in ``_line``; the
head has a place among the threads that wait for memory in the same pool. Metadata: then a record waits at the
gate of its topic (or of its partition), which holds back later records for it and no others. The schema that
a serializer has to look up: then a thread prepares the serializer, and the record waits at such a gate, too.
When the gate opens, its records go to their places in the line, in front of later ones.

Everything here belongs to the thread of the loop. Other threads only post wake-ups. Interceptors, serializers
and partitioner run when it is a record's turn, once, in the context of its caller.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kproducer.accumulator.loop_waiters import LoopWaiters, SendFuture
from kproducer.errors import (
    BufferExhaustedError,
    KafkaError,
    KafkaTimeoutError,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
)
from kproducer.errors.internal_errors import (
    MemoryNeededError,
    PreparationNeededError,
    TopicNeededError,
    WouldWaitError,
)
from kproducer.sending.topic_wait import TopicWait

if TYPE_CHECKING:
    from kproducer.accumulator.buffer_pool import Grant
    from kproducer.accumulator.future_record_metadata import FutureRecordMetadata
    from kproducer.aio.background_calls import BackgroundCalls
    from kproducer.engine.engine_lifecycle import EngineLifecycle
    from kproducer.engine.producer_engine import ProducerEngine
    from kproducer.sending.record_sender import RecordSender
    from kproducer.transactions.transaction_lifecycle import TransactionLifecycle
    from kproducer.transactions.transaction_state import OpenTransaction
    from kproducer.types import PartitionInfo

#: Records that are accepted in one turn of the loop; between two turns, the application's tasks run.
_RECORDS_PER_TURN = 128

#: Turns in which all records that wait have timed out, if their time ends at once and they are many.
_TURNS_TO_EXPIRE = 32

#: What ``RecordSender.send`` takes before ``is_serialized``.
Arguments = tuple[Any, Any, Any, Any, Any, Any, Any]


class WaitingSend(SendFuture):
    """The future of a record that is not accepted at once, and what sends the record later.

    The garbage collector stops the loop to walk the objects of all records that wait: a record has this one,
    with few attributes, and its arguments.

    Attributes:
        owner: of this loop.
        number: grows with each send.
        arguments: the caller's, for the first attempt; ``None`` afterwards.
        awaits_delivery: it is completed when the record is delivered, and not when it is accepted.
        started_ms: when it began to wait (monotonic).
        context: of the caller, if the send calls the application.
        transaction: the one that was open when it began to wait.
        gate: where it waits for metadata, or for a serializer.
        attempt: what the attempts so far have left behind.
    """

    __slots__ = (
        "arguments", "attempt", "awaits_delivery", "context", "gate", "number", "owner", "started_ms",
        "transaction",
    )  # fmt: skip

    arguments: Arguments | None
    attempt: _Attempt | None
    awaits_delivery: bool
    context: contextvars.Context | None
    gate: _Gate | None
    number: int
    owner: WaitingRecords
    started_ms: int
    transaction: OpenTransaction | None

    def cancel(self, msg: Any = None) -> bool:
        """See ``SendFuture``. ``False`` also while its own interceptors or serializers run."""
        if not self.done():
            if self.attempt is not None and self.attempt.is_running:
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
        self.arguments = self.context = self.transaction = self.attempt = None


class _Attempt:
    """What attempts to send a record have left behind.

    Attributes:
        engine: that of the last attempt.
        resume: continues the send, with the topics that are held back; raises ``WouldWaitError``.
        memory, grant, is_granted: what it needs, its place in the pool's queue, and whether to collect.
        on_failure: what is left to do if the record is not sent.
        was_tried: its interceptors have seen it, and the transaction was checked.
        is_running: the application's code may run.
        accepted: the record's own future, as soon as it was accepted.
    """

    __slots__ = (
        "accepted", "engine", "grant", "is_granted", "is_running", "memory", "on_failure", "resume",
        "was_tried",
    )  # fmt: skip

    def __init__(self) -> None:
        self.engine: ProducerEngine | None = None
        self.resume: Callable[..., Any] | None = None
        self.memory: MemoryNeededError | None = None
        self.grant: Grant | None = None
        self.is_granted = False
        self.on_failure: Sequence[Callable[[BaseException], object]] = ()
        self.was_tried = False
        self.is_running = False
        self.accepted: Sequence[FutureRecordMetadata] = ()


class _Gate:
    """The records that wait for one topic, or for one partition of it."""

    def __init__(self) -> None:
        self.members: deque[WaitingSend] = deque()

    def opens(self) -> bool:
        """Whether there is no more to wait for, after something has changed. Raises why its records fail."""
        raise NotImplementedError

    def timeout_error(self) -> KafkaError:
        """The error of a record that has waited for ``max_block_ms``."""
        raise NotImplementedError


class _MetadataGate(_Gate):
    """Opens when the topic, or the partition, is known. If it is not, an update is requested."""

    def __init__(self, engine: ProducerEngine, topic: str, partition: int | None) -> None:
        super().__init__()
        self._metadata = engine.metadata
        self._wait = TopicWait(engine, topic, partition)
        self._fatal_count = 0
        self._is_known()

    def _is_known(self) -> bool:
        """Raises what ``await_topic`` does."""
        if self._wait.known() is not None:
            return True
        self._fatal_count = self._metadata.begin_wait()
        return False

    def opens(self) -> bool:
        """See ``_Gate``."""
        if self._metadata.has_update(self._wait.version, self._fatal_count):
            self._wait.check_update()
            if self._is_known():
                return True
        return self._wait.known() is not None

    def timeout_error(self) -> KafkaError:
        """See ``_Gate``."""
        return self._wait.timeout_error()


class _SerializerGate(_Gate):
    """Opens when the serializers are prepared for the topic, and when the producer is closed.

    Attributes:
        is_prepared, error: how the preparation has ended.
    """

    def __init__(self, lifecycle: EngineLifecycle, topic: str) -> None:
        super().__init__()
        self._lifecycle = lifecycle
        self._topic = topic
        self.is_prepared = False
        self.error: BaseException | None = None

    def opens(self) -> bool:
        """See ``_Gate``."""
        if self.error is not None:
            raise self.error
        return self.is_prepared or self._lifecycle.is_closed

    def timeout_error(self) -> KafkaError:
        """See ``_Gate``."""
        return KafkaTimeoutError(
            f"the serializer did not become ready for topic {self._topic!r} within"
            f" max_block_ms={self._lifecycle.config.max_block_ms}"
        )


class WaitingRecords:
    """Accepts records without blocking. See above.

    Args:
        lifecycle, sender: of the producer.
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
        sender: RecordSender,
        waiters: LoopWaiters,
        calls: BackgroundCalls,
        busy: set[WaitingRecords],
    ) -> None:
        self._lifecycle = lifecycle
        self._sender = sender
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
        self._engine_listened_to: ProducerEngine | None = None

    @property
    def count(self) -> int:
        """How many records wait."""
        return len(self._kept)

    def accept(self, arguments: Arguments, awaits_delivery: bool) -> WaitingSend:
        """Accept a record now, or as soon as that is possible. Errors are those of the future."""
        self._send_count += 1
        waiting = WaitingSend(loop=self.loop)
        waiting.record = waiting.attempt = waiting.context = waiting.gate = waiting.transaction = None
        waiting.owner = self
        waiting.number = self._send_count
        waiting.arguments = arguments
        waiting.awaits_delivery = awaits_delivery
        waiting.started_ms = 0
        gate = self._gate_of(arguments[0])
        if gate is not None:
            self._keep_at(gate, waiting)
            return waiting
        if not self._line:
            if self._try(waiting):
                return waiting
        elif not self._may_begin_to_wait(waiting):
            return waiting
        self._keep(waiting)
        self._line.append(waiting)
        self._pump()
        return waiting

    def _may_begin_to_wait(self, waiting: WaitingSend) -> bool:
        """Whether a record that was not tried belongs to a transaction, if the producer has them."""
        engine = self._engine_of(waiting)
        if engine is not None and engine.transaction_lifecycle is not None:
            try:
                engine.transaction_lifecycle.check_send()
            except KafkaError as error:
                self._fail(waiting, error)
                return False
        return True

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
        self._fail_all(self._kept, lambda _: error.copy().with_outcome(Outcome.NOT_SENT))
        return all_settled

    def refuse_late(self) -> None:
        """As ``refuse_all``, but only those that their transaction can no longer accept."""
        self._fail_all(self._kept, self._lateness)

    def _lateness(self, waiting: WaitingSend) -> KafkaError | None:
        engine = self._engine_of(waiting)
        if engine is not None and engine.transaction_lifecycle is not None:
            try:
                self._check_transaction(waiting, engine.transaction_lifecycle)
            except KafkaError as error:
                return error
        return None

    def abandon(self) -> None:
        """The loop was closed: return what is reserved for it. On any thread."""
        for waiting in list(self._kept):
            self._release(waiting)
            if not waiting.done():
                lost = ProducerClosedError("the event loop was closed before the record was accepted")
                self._note_failure(waiting, lost.with_outcome(Outcome.NOT_SENT))
        self._kept.clear()
        self._busy.discard(self)
        self._line.clear()
        self._gates.clear()
        self._listen_to(None)

    # -- one record ------------------------------------------------------------------------------------

    def _keep(self, waiting: WaitingSend) -> None:
        """The record begins to wait."""
        if waiting in self._kept:
            return
        waiting.started_ms = waiting.started_ms or self._lifecycle.clock.monotonic_ms()
        if self._sender.runs_application_code:
            waiting.context = contextvars.copy_context()
        engine = self._engine_of(waiting)
        if engine is not None and engine.transaction_lifecycle is not None:
            waiting.transaction = engine.transaction_lifecycle.transaction
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
            self._release(waiting)
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
            self._gates.clear()
            self._listen_to(None)

    def _engine_of(self, waiting: WaitingSend) -> ProducerEngine | None:
        engine = None if waiting.attempt is None else waiting.attempt.engine
        return engine or self._lifecycle.last_engine

    def _release(self, waiting: WaitingSend) -> None:
        attempt = waiting.attempt
        if attempt is not None:
            if attempt.grant is not None and attempt.engine is not None:
                attempt.engine.pool.withdraw(attempt.grant)
            attempt.grant = None

    def _try(self, waiting: WaitingSend) -> bool:
        """Try to accept the record. ``False``: it needs memory, and has to be the head of the line."""
        attempt = waiting.attempt
        if attempt is None:
            attempt = waiting.attempt = _Attempt()
        try:
            if not attempt.accepted:
                try:
                    self._attempt(waiting, attempt)
                finally:
                    attempt.is_running = False
        except TopicNeededError as needed:
            self._note(waiting, attempt, needed)
            attempt.resume, waiting.arguments = needed.resume, None
            self._wait_for_topic(waiting, attempt.engine, needed)
        except PreparationNeededError as needed:
            self._note(waiting, attempt, needed)
            attempt.resume, waiting.arguments = needed.resume, None
            self._wait_for_serializer(waiting, attempt.engine, needed)
        except MemoryNeededError as needed:
            self._note(waiting, attempt, needed)
            attempt.memory = needed
            return False
        except (KeyboardInterrupt, SystemExit) as error:
            if not attempt.accepted:
                self._fail(waiting, error)
            raise
        except BaseException as error:
            self._fail(waiting, error)
        else:
            try:
                self._accepted(waiting, attempt.accepted[0])
            except (KeyboardInterrupt, SystemExit):
                self._accepted(waiting, attempt.accepted[0])  # what is left of it
                raise
        return True

    def _attempt(self, waiting: WaitingSend, attempt: _Attempt) -> None:
        """Accept the record, or raise.

        ``+=`` and ``map`` do their calls in one step of the interpreter: an interrupt cannot come between the
        acceptance and its note in ``accepted``, after which the record is not sent again.
        """
        engine = attempt.engine = self._lifecycle.running_engine()
        if waiting in self._kept and engine.transaction_lifecycle is not None:
            self._check_transaction(waiting, engine.transaction_lifecycle)
        accepted: list[FutureRecordMetadata] = []
        attempt.accepted = accepted
        attempt.is_running = True
        if attempt.memory is not None and attempt.grant is not None:
            resumed: list[tuple[FutureRecordMetadata, bool]] = []
            buffer = map(engine.pool.collect, (attempt.grant,))
            resumed += map(engine.accumulator.resume, (attempt.memory,), buffer)
            accepted += resumed[0][:1]
            if resumed[0][1]:
                engine.sender.wakeup()
            return
        send = attempt.resume
        if send is None:
            assert waiting.arguments is not None
            send = partial(self._sender.send, *waiting.arguments, False, False, None, False)
        if waiting.context is not None:
            accepted += map(waiting.context.run, (send,), (self._gates,))
        else:
            accepted += map(send, (self._gates,))

    def _check_transaction(self, waiting: WaitingSend, lifecycle: TransactionLifecycle) -> None:
        """A record that has waited belongs to the transaction in which it was sent, or to none."""
        was_tried = waiting.attempt is not None and waiting.attempt.was_tried
        if was_tried or waiting.transaction is not None:
            lifecycle.check_send(waiting.transaction)

    def _note(self, waiting: WaitingSend, attempt: _Attempt, needed: WouldWaitError) -> None:
        attempt.was_tried = True
        attempt.accepted = ()
        attempt.on_failure = (*attempt.on_failure, *needed.on_failure)
        waiting.started_ms = waiting.started_ms or self._lifecycle.clock.monotonic_ms()

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
        if waiting.attempt is not None and waiting.attempt.accepted:
            self._accepted(waiting, waiting.attempt.accepted[0])
            return
        if isinstance(error, KafkaError) and error.outcome is None:
            error.outcome = Outcome.NOT_SENT
        if not waiting.done():
            waiting.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
        self._give_up(waiting, error)

    def _give_up(self, waiting: WaitingSend, error: BaseException) -> None:
        was_kept = waiting in self._kept
        self._forget(waiting)
        if was_kept or (waiting.attempt is not None and waiting.attempt.was_tried):
            self._note_failure(waiting, error)
        waiting.drop()

    def _note_failure(self, waiting: WaitingSend, error: BaseException) -> None:
        """A transaction must not be committed without the record, unless it has ended already."""
        attempt = waiting.attempt
        notes: Sequence[Callable[[BaseException], object]]
        if attempt is not None and attempt.was_tried:
            notes, attempt.on_failure = attempt.on_failure, ()
        else:
            notes = [partial(self._sender.note_refusal, transaction=waiting.transaction)]
        for note in notes:
            note(error)

    def _withdraw(self, waiting: WaitingSend) -> None:
        """Its future is being cancelled."""
        if waiting not in self._kept:
            return
        if waiting.attempt is not None and waiting.attempt.accepted:
            self._accepted(waiting, waiting.attempt.accepted[0])
        else:
            was_cancelled = KafkaError("the send was cancelled before the record was accepted")
            self._give_up(waiting, was_cancelled.with_outcome(Outcome.NOT_SENT))
        self._pump_soon()

    def _fail_all(
        self, records: Iterable[WaitingSend], error_of: Callable[[WaitingSend], BaseException | None]
    ) -> None:
        """Fail those of the records that still wait and for which ``error_of`` returns an error, in turns."""
        self._fail_some(deque(records), error_of)

    def _fail_some(
        self, records: deque[WaitingSend], error_of: Callable[[WaitingSend], BaseException | None]
    ) -> None:
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
        attempt = waiting.attempt or _Attempt()
        error: BaseException
        if attempt.grant is not None and attempt.grant.is_complete:
            self._granted(attempt)  # in the last moment
            return
        if waiting.gate is not None:
            error = waiting.gate.timeout_error()
        elif attempt.grant is not None and attempt.engine is not None:
            grant, attempt.grant = attempt.grant, None
            try:
                attempt.engine.pool.withdraw_expired(grant)
            except KafkaError as exhausted:
                error = exhausted
        else:
            error = self._exhausted(waiting)
        self._fail(waiting, error)
        self._pump_soon()

    def _exhausted(self, waiting: WaitingSend) -> KafkaError:
        engine = self._engine_of(waiting)
        waited_ms = self._lifecycle.clock.monotonic_ms() - waiting.started_ms
        if engine is None:
            return MetadataTimeoutError(f"the record was not accepted within {waited_ms} ms")
        return BufferExhaustedError(
            f"could not allocate buffer memory within max_block_ms (waited {waited_ms} ms):"
            f" {engine.pool.available_bytes} of buffer_memory={engine.pool.total_bytes} bytes free,"
            f" {self.count - 1} other records waiting; records are produced faster than the brokers accept"
            " them"
        )

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
        line = self._line
        try:
            for _ in range(_RECORDS_PER_TURN):
                while line and line[0] not in self._kept:
                    line.popleft()
                if not line:
                    return
                head = line[0]
                attempt = head.attempt
                if attempt is not None and attempt.grant is not None and not attempt.is_granted:
                    return
                needs_memory = (
                    attempt is not None
                    and attempt.memory is not None
                    and attempt.grant is None
                    and not attempt.accepted
                )
                if (needs_memory or not self._try(head)) and not self._request_memory(head):
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
        """Take a place in the pool's queue. ``True``: that failed, and so has the record."""
        attempt = head.attempt
        assert attempt is not None
        assert attempt.engine is not None
        assert attempt.memory is not None
        attempt.is_granted = False
        granted = partial(self._granted, attempt)
        try:
            attempt.grant = attempt.engine.pool.request(
                attempt.memory.size_bytes, lambda: self.waiters.wakeup.post(granted)
            )
        except KafkaError as error:
            self._fail(head, error)
            return True
        return False

    def _granted(self, attempt: _Attempt) -> None:
        attempt.is_granted = True
        self._pump()

    # -- gates -----------------------------------------------------------------------------------------

    def _gate_of(self, topic: Any) -> _Gate | None:
        """Where a record for the topic would have to wait, if no attempt has to find that out.

        With an attempt, it would have four more objects. It is necessary if the application's code is to see
        the record now, or the transaction.
        """
        engine = self._lifecycle.last_engine
        if (
            topic.__class__ is not str
            or self._sender.runs_application_code
            or (engine is not None and engine.transaction_lifecycle is not None)
        ):
            return None
        return self._gates.get(topic)

    def _wait_for_topic(
        self, waiting: WaitingSend, engine: ProducerEngine | None, needed: TopicNeededError
    ) -> None:
        topic = needed.topic
        assert engine is not None
        try:
            key: object = topic
            if topic not in self._gates:
                # If only the topic was missing, later records without a partition must find the gate, too,
                # although the topic may have become known in this moment.
                place = topic, needed.partition
                count = engine.metadata.snapshot.partition_count(topic)
                if place in self._gates or (count and (needed.partition or 0) >= count):
                    key = place
            gate = self._gates.get(key)
            if gate is None:
                self._listen_to(engine)
                gate = _MetadataGate(engine, topic, needed.partition if key is not topic else None)
                self._gates[key] = gate
        except BaseException as error:
            self._fail(waiting, error)
            return
        self._keep_at(gate, waiting)
        # It may have become known, or the producer closed, before anybody listened.
        if gate.members[0] is waiting:
            self.waiters.wakeup.post(self._metadata_changed)

    def _wait_for_serializer(
        self, waiting: WaitingSend, engine: ProducerEngine | None, needed: PreparationNeededError
    ) -> None:
        """A thread prepares the serializers. If its result is no longer wanted, it stays with them."""
        topic = needed.topic
        gate = self._gates[topic] = _SerializerGate(self._lifecycle, topic)
        self._listen_to(engine)  # for the close
        self._keep_at(gate, waiting)
        assert waiting.context is not None
        run = waiting.context.copy().run

        def prepare() -> None:
            error: BaseException | None = None
            try:
                run(needed.prepare)
            except BaseException as failure:
                error = failure
            self.waiters.wakeup.post(partial(self._prepared, topic, gate, error))

        try:
            self._calls.begin(prepare)
        except BaseException as error:  # no thread can be started
            self._close_gate(topic, gate, error)

    def _keep_at(self, gate: _Gate, waiting: WaitingSend) -> None:
        gate.members.append(waiting)
        waiting.gate = gate
        self._keep(waiting)

    def _prepared(self, topic: str, gate: _SerializerGate, error: BaseException | None) -> None:
        gate.is_prepared, gate.error = True, error
        if self._gates.get(topic) is gate:
            self._look_at({topic: gate})

    def _listen_to(self, engine: ProducerEngine | None) -> None:
        before, self._engine_listened_to = self._engine_listened_to, engine
        if before is engine:
            return
        if before is not None:
            before.metadata.remove_listener(self._on_metadata)
        if engine is not None:
            engine.metadata.add_listener(self._on_metadata)

    def _on_metadata(self) -> None:
        """On any thread."""
        self.waiters.wakeup.post(self._metadata_changed)

    def _metadata_changed(self) -> None:
        self._look_at(dict(self._gates))

    def _look_at(self, gates: Mapping[object, _Gate]) -> None:
        """Let the records of these gates go on, or fail, if it is time."""
        released: list[WaitingSend] = []
        for key, gate in gates.items():
            try:
                if not gate.opens():
                    continue
            except BaseException as error:
                self._close_gate(key, gate, error)
                continue
            self._gates.pop(key, None)
            released += gate.members
        if released:
            self._put_in_line(released)
        self._pump()

    def _put_in_line(self, released: list[WaitingSend]) -> None:
        """In the order of the sends, but not in front of a head that has asked for memory."""
        for waiting in released:
            waiting.gate = None
        line = self._line
        first = line[0].attempt if line else None
        head = [line.popleft()] if first is not None and first.memory is not None else []
        # Two or more runs in order: sorted() merges them, which takes microseconds per thousand records.
        in_order = sorted([*line, *released], key=attrgetter("number"))
        line.clear()
        line.extend(head + in_order)

    def _close_gate(self, key: object, gate: _Gate, error: BaseException) -> None:
        self._gates.pop(key, None)
        self._fail_all(gate.members, lambda _: error.copy() if isinstance(error, KafkaError) else error)
