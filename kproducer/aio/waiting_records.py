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
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
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

#: What ``RecordSender.send`` takes before ``is_serialized``.
Arguments = tuple[Any, Any, Any, Any, Any, Any, Any]


class _Waiting:
    """One record that was not accepted yet.

    The garbage collector stops the loop to walk the objects of all records that wait, so a record has few.

    Attributes:
        owner: of this loop.
        number: grows with each send.
        future: the caller's.
        arguments: the caller's, for the first attempt; ``None`` once there is ``resume``.
        awaits_delivery: it is completed when the record is delivered, and not when it is accepted.
        resume: continues the send, with the topics that are held back; raises ``WouldWaitError``.
        engine: that of the last attempt.
        memory, grant, is_granted: what it needs, its place in the pool's queue, and whether to collect.
        gate: where it waits for metadata, or for a serializer.
        on_failure: what an attempt has left to do if the record is not sent.
        on_settled: called when it waits no more.
        was_tried: its interceptors have seen it, and the transaction was checked.
        transaction: the one that was open when it began to wait.
        accepted: the record's own future, as soon as it was accepted.
    """

    __slots__ = (
        "accepted", "arguments", "awaits_delivery", "context", "engine", "future", "gate", "grant",
        "is_granted", "is_kept", "memory", "number", "on_failure", "on_settled", "owner", "resume",
        "started_ms", "transaction", "was_tried",
    )  # fmt: skip

    def __init__(
        self,
        owner: WaitingRecords,
        number: int,
        future: SendFuture,
        arguments: Arguments,
        awaits_delivery: bool,
    ) -> None:
        self.owner = owner
        self.number = number
        self.future = future
        self.arguments: Arguments | None = arguments
        self.awaits_delivery = awaits_delivery
        self.resume: Callable[..., Any] | None = None
        self.context: contextvars.Context | None = None
        self.engine: ProducerEngine | None = None
        self.memory: MemoryNeededError | None = None
        self.grant: Grant | None = None
        self.is_granted = False
        self.is_kept = False
        self.gate: _Gate | None = None
        self.on_failure: Sequence[Callable[[BaseException], object]] = ()
        self.on_settled: Sequence[Callable[[_Waiting], object]] = ()
        self.was_tried = False
        self.started_ms = 0
        self.transaction: OpenTransaction | None = None
        self.accepted: Sequence[FutureRecordMetadata] = ()

    def __call__(self, error: KafkaError | None = None) -> None:
        """Give the record up: see ``SendFuture.on_withdraw``."""
        self.owner._withdraw(self, error)


class _Gate:
    """The records that wait for one topic, or for one partition of it."""

    def __init__(self) -> None:
        self.members: deque[_Waiting] = deque()

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

    Attributes:
        count: records that wait now. While it is 0, a record may be sent past this object.
        waiters: as given.
        look_ups: of ``AsyncKafkaProducer.partitions_for``, by topic.
    """

    def __init__(
        self, lifecycle: EngineLifecycle, sender: RecordSender, waiters: LoopWaiters, calls: BackgroundCalls
    ) -> None:
        self._lifecycle = lifecycle
        self._sender = sender
        self._calls = calls
        self.waiters = waiters
        self.loop = waiters.wakeup.loop
        self.look_ups: dict[str, asyncio.Task[list[PartitionInfo]]] = {}
        self.count = 0
        self._send_count = 0
        #: All that wait, in the order in which their time ends. ``_timer`` looks at the first one.
        self._kept: OrderedDict[_Waiting, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        #: May contain records whose future is done: they are skipped.
        self._line: deque[_Waiting] = deque()
        self._gates: dict[object, _Gate] = {}
        self._is_pumping = False
        #: Whether ``_pump`` is scheduled.
        self._will_pump = False
        self._engine_listened_to: ProducerEngine | None = None

    def accept(self, future: SendFuture, arguments: Arguments, awaits_delivery: bool) -> None:
        """Accept a record now, or as soon as that is possible. Errors are those of ``future``."""
        self._send_count += 1
        future.record = future.on_withdraw = None
        waiting = _Waiting(self, self._send_count, future, arguments, awaits_delivery)
        if not self._line and self._try(waiting):
            return
        waiting.started_ms = waiting.started_ms or self._lifecycle.clock.monotonic_ms()
        self._keep(waiting)
        self._line.append(waiting)
        self._pump()

    def futures(self) -> list[SendFuture]:
        """The futures of the records that wait."""
        return [each.future for each in self._all() if not each.future.done()]

    def _all(self) -> list[_Waiting]:
        return list(self._kept)

    async def until_accepted(self) -> bool:
        """Wait until every record that waits now is accepted or has failed. ``False``: none has waited."""
        left = {each for each in self._all() if not each.future.done()}
        if not left:
            return False
        all_settled = self.loop.create_future()

        def settled(waiting: _Waiting) -> None:
            left.discard(waiting)
            if not left and not all_settled.done():
                all_settled.set_result(None)

        for waiting in list(left):
            waiting.on_settled = (*waiting.on_settled, settled)
        await all_settled
        return True

    def refuse_all(self, error: KafkaError) -> None:
        """Fail every record that waits."""
        for future in self.futures():
            if future.on_withdraw is not None:
                future.on_withdraw(error.copy().with_outcome(Outcome.NOT_SENT))

    def refuse_late(self) -> None:
        """Fail every record that waits and that its transaction can no longer accept."""
        for waiting in self._all():
            engine = waiting.engine or self._lifecycle.last_engine
            if engine is None or engine.transaction_lifecycle is None or waiting.future.done():
                continue
            try:
                self._check_transaction(waiting, engine.transaction_lifecycle)
            except KafkaError as error:
                self._fail(waiting, error)
        self._pump_soon()

    def abandon(self) -> None:
        """The loop was closed: return what is reserved for it. On any thread."""
        for waiting in self._all():
            self._release(waiting)
            if not waiting.future.done():
                lost = ProducerClosedError("the event loop was closed before the record was accepted")
                self._note_failure(waiting, lost.with_outcome(Outcome.NOT_SENT))
        self.count = 0
        self._kept.clear()
        self._line.clear()
        self._gates.clear()
        self._listen_to(None)

    # -- one record ------------------------------------------------------------------------------------

    def _keep(self, waiting: _Waiting) -> None:
        """The record begins to wait."""
        if waiting.is_kept:
            return
        if self._sender.runs_application_code:
            waiting.context = contextvars.copy_context()
        engine = waiting.engine or self._lifecycle.last_engine
        if engine is not None and engine.transaction_lifecycle is not None:
            waiting.transaction = engine.transaction_lifecycle.transaction
        self._kept[waiting] = None
        if self._timer is None:
            self._set_timer()
        waiting.future.on_withdraw = waiting
        waiting.is_kept = True
        self.count += 1

    def _forget(self, waiting: _Waiting) -> None:
        """The record waits no more. An interrupted call may be repeated."""
        gate = waiting.gate
        if waiting.is_kept:
            self._kept.pop(waiting, None)
            waiting.future.on_withdraw = None
            self._release(waiting)
            waiting.is_kept = False
            self.count -= 1
        if gate is not None:
            waiting.gate = None
            while gate.members and gate.members[0].future.done():
                gate.members.popleft()
        if not self.count:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._line.clear()
            self._gates.clear()
            self._listen_to(None)
        for settled in waiting.on_settled:
            settled(waiting)

    def _release(self, waiting: _Waiting) -> None:
        if waiting.grant is not None and waiting.engine is not None:
            waiting.engine.pool.withdraw(waiting.grant)
        waiting.grant = None

    def _try(self, waiting: _Waiting) -> bool:
        """Try to accept the record. ``False``: it needs memory, and has to be the head of the line."""
        try:
            if not waiting.accepted:
                self._attempt(waiting)
        except TopicNeededError as needed:
            self._note(waiting, needed)
            waiting.resume, waiting.arguments = needed.resume, None
            self._wait_for_topic(waiting, needed)
        except PreparationNeededError as needed:
            self._note(waiting, needed)
            waiting.resume, waiting.arguments = needed.resume, None
            self._wait_for_serializer(waiting, needed)
        except MemoryNeededError as needed:
            self._note(waiting, needed)
            waiting.memory = needed
            return False
        except (KeyboardInterrupt, SystemExit) as error:
            if not waiting.accepted:
                self._fail(waiting, error)
            raise
        except BaseException as error:
            self._fail(waiting, error)
        else:
            try:
                self._accepted(waiting, waiting.accepted[0])
            except (KeyboardInterrupt, SystemExit):
                self._accepted(waiting, waiting.accepted[0])  # what is left of it
                raise
        return True

    def _attempt(self, waiting: _Waiting) -> None:
        """Accept the record, or raise.

        ``+=`` and ``map`` do their calls in one step of the interpreter: an interrupt cannot come between the
        acceptance and its note in ``accepted``, after which the record is not sent again.
        """
        engine = waiting.engine = self._lifecycle.running_engine()
        if waiting.is_kept and engine.transaction_lifecycle is not None:
            self._check_transaction(waiting, engine.transaction_lifecycle)
        accepted: list[FutureRecordMetadata] = []
        waiting.accepted = accepted
        if waiting.memory is not None and waiting.grant is not None:
            resumed: list[tuple[FutureRecordMetadata, bool]] = []
            buffer = map(engine.pool.collect, (waiting.grant,))
            resumed += map(engine.accumulator.resume, (waiting.memory,), buffer)
            accepted += resumed[0][:1]
            if resumed[0][1]:
                engine.sender.wakeup()
            return
        attempt = waiting.resume
        if attempt is None:
            assert waiting.arguments is not None
            attempt = partial(self._sender.send, *waiting.arguments, False, False, None, False)
        if waiting.context is not None:
            accepted += map(waiting.context.run, (attempt,), (self._gates,))
        else:
            accepted += map(attempt, (self._gates,))

    def _check_transaction(self, waiting: _Waiting, lifecycle: TransactionLifecycle) -> None:
        """A record that has waited belongs to the transaction in which it was sent, or to none."""
        if waiting.was_tried or waiting.transaction is not None:
            lifecycle.check_send(waiting.transaction)

    def _note(self, waiting: _Waiting, needed: WouldWaitError) -> None:
        waiting.was_tried = True
        waiting.accepted = ()
        waiting.started_ms = waiting.started_ms or self._lifecycle.clock.monotonic_ms()
        waiting.on_failure = (*waiting.on_failure, *needed.on_failure)

    def _accepted(self, waiting: _Waiting, record: FutureRecordMetadata) -> None:
        """Tell the caller. An interrupted call may be repeated."""
        future = waiting.future
        self._forget(waiting)
        if future.done():
            # Cancelled by an interceptor or serializer of its own.
            future.record = record
        elif waiting.awaits_delivery:
            self.waiters.add(record, future)
        else:
            future.record = record
            # submit() returns the record's future, which has another type than the result of send().
            future.set_result(record)  # type: ignore[arg-type]

    def _fail(self, waiting: _Waiting, error: BaseException) -> None:
        """The record is not sent, unless an interrupt came just after its acceptance."""
        if waiting.accepted:
            self._accepted(waiting, waiting.accepted[0])
            return
        future = waiting.future
        waits = waiting.is_kept
        if isinstance(error, KafkaError) and error.outcome is None:
            error.outcome = Outcome.NOT_SENT
        if not future.done():
            future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
        self._forget(waiting)
        if waits or waiting.was_tried:
            self._note_failure(waiting, error)

    def _note_failure(self, waiting: _Waiting, error: BaseException) -> None:
        """A transaction must not be committed without the record, unless it has ended already."""
        on_failure, waiting.on_failure = waiting.on_failure, ()
        if not waiting.was_tried:
            on_failure = [partial(self._sender.note_refusal, transaction=waiting.transaction)]
        for note in on_failure:
            note(error)

    def _withdraw(self, waiting: _Waiting, error: KafkaError | None = None) -> None:
        """The record is given up, with an error or because its future is cancelled."""
        if waiting.accepted:
            self._accepted(waiting, waiting.accepted[0])
        elif error is None:
            was_cancelled = KafkaError("the send was cancelled before the record was accepted")
            waiting.future.on_withdraw = None
            waiting.future = SendFuture(loop=self.loop)
            waiting.future.record = waiting.future.on_withdraw = None
            self._fail(waiting, was_cancelled.with_outcome(Outcome.NOT_SENT))
            waiting.future.exception()  # so that asyncio does not report it as never retrieved
        else:
            self._fail(waiting, error)
        self._pump_soon()

    def _set_timer(self) -> None:
        """Look again when the time of the first one is over."""
        first = next(iter(self._kept))
        left_ms = self._end_ms(first) - self._lifecycle.clock.monotonic_ms()
        # At least a little later: one whose memory has come in the last moment may still be there.
        self._timer = self.loop.call_later(max(left_ms, 1) / 1000, self._expire_some)

    def _end_ms(self, waiting: _Waiting) -> int:
        return waiting.started_ms + self._lifecycle.config.max_block_ms

    def _expire_some(self) -> None:
        self._timer = None
        now_ms = self._lifecycle.clock.monotonic_ms()
        try:
            for waiting in list(takewhile(lambda each: self._end_ms(each) <= now_ms, self._kept)):
                if waiting.is_kept:
                    self._expire(waiting)
        finally:
            if self._kept and self._timer is None:
                self._set_timer()

    def _expire(self, waiting: _Waiting) -> None:
        """``max_block_ms`` has passed."""
        engine = waiting.engine or self._lifecycle.last_engine
        gate = waiting.gate
        error: BaseException
        if waiting.grant is not None and waiting.grant.is_complete:
            self._granted(waiting)  # in the last moment
            return
        if gate is not None:
            error = gate.timeout_error()
        elif waiting.grant is not None and engine is not None:
            grant, waiting.grant = waiting.grant, None
            try:
                engine.pool.withdraw_expired(grant)
            except KafkaError as exhausted:
                error = exhausted
        else:
            error = self._exhausted(waiting, engine)
        self._fail(waiting, error)
        self._pump_soon()

    def _exhausted(self, waiting: _Waiting, engine: ProducerEngine | None) -> KafkaError:
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
                while line and line[0].future.done():
                    line.popleft()
                if not line:
                    return
                head = line[0]
                if head.grant is not None and not head.is_granted:
                    return
                needs_memory = head.memory is not None and head.grant is None and not head.accepted
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

    def _request_memory(self, head: _Waiting) -> bool:
        """Take a place in the pool's queue. ``True``: that failed, and so has the record."""
        engine, memory = head.engine, head.memory
        assert engine is not None
        assert memory is not None
        head.is_granted = False
        try:
            head.grant = engine.pool.request(
                memory.size_bytes, lambda: self.waiters.wakeup.post(partial(self._granted, head))
            )
        except KafkaError as error:
            self._fail(head, error)
            return True
        return False

    def _granted(self, waiting: _Waiting) -> None:
        waiting.is_granted = True
        self._pump()

    # -- gates -----------------------------------------------------------------------------------------

    def _wait_for_topic(self, waiting: _Waiting, needed: TopicNeededError) -> None:
        engine, topic = waiting.engine, needed.topic
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

    def _wait_for_serializer(self, waiting: _Waiting, needed: PreparationNeededError) -> None:
        """A thread prepares the serializers. If its result is no longer wanted, it stays with them."""
        topic = needed.topic
        gate = self._gates[topic] = _SerializerGate(self._lifecycle, topic)
        self._listen_to(waiting.engine)  # for the close
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

    def _keep_at(self, gate: _Gate, waiting: _Waiting) -> None:
        gate.members.append(waiting)
        waiting.gate = gate
        self._keep(waiting)

    def _prepared(self, topic: str, gate: _SerializerGate, error: BaseException | None) -> None:
        gate.is_prepared, gate.error = True, error
        if self._gates.get(topic) is gate:
            self._look_at(topic, gate)
            self._pump()

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
        for key, gate in list(self._gates.items()):
            self._look_at(key, gate)
        self._pump()

    def _look_at(self, key: object, gate: _Gate) -> None:
        """Let the records of a gate go on, or fail, if it is time."""
        try:
            if not gate.opens():
                return
        except BaseException as error:
            self._close_gate(key, gate, error)
            return
        self._gates.pop(key, None)
        self._put_in_line([each for each in gate.members if not each.future.done()])

    def _put_in_line(self, released: list[_Waiting]) -> None:
        """In the order of the sends, but not in front of a head that has asked for memory."""
        for waiting in released:
            waiting.gate = None
        line = self._line
        head = [line.popleft()] if line and line[0].memory is not None else []
        in_order = sorted([*line, *released], key=lambda each: each.number)
        line.clear()
        line.extend(head + in_order)

    def _close_gate(self, key: object, gate: _Gate, error: BaseException) -> None:
        self._gates.pop(key, None)
        for waiting in list(gate.members):
            if not waiting.future.done():
                self._fail(waiting, error.copy() if isinstance(error, KafkaError) else error)
