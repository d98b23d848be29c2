"""Application: what the callers of a plan do with a producer, from threads and from event loops.

Every call is bounded by what its documentation says, in virtual time; one that takes longer is a finding.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

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
    TransactionAbortedError,
)
from kproducer._core.event_loop.loop_waiters import CancelledSend
from kproducer._core.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
)
from kproducer.types import TopicPartition
from tests.simulation import plan as planned
from tests.simulation.ledger import GROUP, SOURCE, ApplicationError, Ledger, Sent, TransactionEnding
from tests.simulation.plan import Caller, Plan
from tests.simulation.world import World

_Result = TypeVar("_Result")
#: For the steps of other threads that come between; no call may take longer than its limit and this.
SLACK_S = 0.1
#: What waits for deliveries takes so long without faults, at most, apart from latency.
_PROMPT_S = 1.0
#: Bytes that were wanted, bytes that are free, and how many others wait for memory.
_EXHAUSTED = re.compile(r"could not allocate (\d+) bytes .*: (\d+) of buffer_memory=.* (\d+) other callers")
#: A value whose number leaves this rest is refused by serializers and partitioners.
_REFUSED = (9, 4)
#: The caller that ``on_delivery`` is.
_CALLBACK = 900
#: The caller of the producer that fences the others' one.
_FENCING = 901
#: Each refusal of ``init_transactions`` is a fault of the plan.
_MOST_ATTEMPTS = 20
#: What ends a caller: nothing more can be done with the producer.
_ENDING = (ProducerClosedError, FatalProducerError, FencedError)


class Application:
    """See the module. Its methods run in tasks of the world.

    Args:
        plan, world, ledger: of the simulation.
        servers, settings: for further producers.
        producer: of all callers.
        cured_after_s: see ``curable``.

    Attributes:
        slack_s: by how much calls may exceed their limits.
        late_sends: how often ``send`` returned a future after all of ``max_block_ms``.
    """

    def __init__(
        self,
        plan: Plan,
        world: World,
        ledger: Ledger,
        servers: list[str],
        settings: dict[str, Any],
        producer: KafkaProducer,
        cured_after_s: float | None,
    ) -> None:
        self._plan = plan
        self._world = world
        self._ledger = ledger
        self._servers = servers
        self._settings = settings
        self._producer = producer
        config = producer.config
        self._cured_after_s = cured_after_s
        self.late_sends = 0
        self._is_transactional = bool(config.transactional_id)
        self._max_block_s = config.max_block_ms / 1000
        # The timeout begins when a batch is full, or has been open for a tenth of it.
        self._delivery_s = (
            config.delivery_timeout_ms + max(config.linger_ms, config.delivery_timeout_ms / 10)
        ) / 1000
        # Closing aborts a transaction, which has this time.
        self._close_s = self._delivery_s + config.request_timeout_ms / 1000
        suspended = sum(fault.seconds for fault in plan.faults if getattr(fault, "kind", "") == "suspend")
        self.slack_s = SLACK_S + suspended

    def body(self, number: int, caller: Caller) -> Callable[[], None]:
        """What a caller does, as the function of a thread."""
        if caller.uses_asyncio:
            return lambda: asyncio.run(self._in_loop(number, caller))

        def run() -> None:
            for step in caller.steps:
                try:
                    self._step(number, step, None)
                except _ENDING:
                    return

        return run

    # -- limits ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def within(self, what: str, seconds: float | None) -> Iterator[None]:
        """Note a finding if the block takes longer than this virtual time."""
        began_ns = self._world.scheduler.now_ns
        try:
            yield
        finally:
            took_s = (self._world.scheduler.now_ns - began_ns) / 1e9
            if seconds is not None and took_s > seconds + self.slack_s:
                self._ledger.notes.append(f"{what} took {took_s:.3f} s, and may take {seconds:.3f} s")

    def _prompt_s(self, limit_s: float) -> float:
        """What waits for deliveries takes no longer than the faults and the linger explain."""
        if self._cured_after_s is None:
            return limit_s
        # With one request at a time, each record may take two ways, in several pieces.
        ways_s = 4 * len(self._ledger.sent) * self._plan.latency_ms[1] / 1000
        return min(limit_s, self._cured_after_s + _PROMPT_S + ways_s)

    def _or_max_block(self, timeout: float | None) -> float:
        return self._max_block_s if timeout is None else timeout

    def close(self, producer: KafkaProducer, timeout: float | None = None) -> None:
        """Close a producer. Raises as ``KafkaProducer.close``."""
        with self.within(f"close({timeout})", self._prompt_s(self._close_s) if timeout is None else timeout):
            producer.close(timeout)

    # -- threads -----------------------------------------------------------------------------------------

    def _step(self, number: int, step: planned.Step, ending: TransactionEnding | None) -> None:
        producer = self._producer
        match step:
            case planned.Send():
                sent = self._send(number, step, ending)
                if step.waits:
                    with self.within("a delivery", self._delivery_s):
                        for each in sent:
                            if each.future is not None:
                                each.future.exception()
            case planned.Flush(timeout):
                self._flush(number, timeout)
            case planned.Purge(in_queue, in_flight):
                with self.within("purge", 0.0):
                    producer.purge(in_queue, in_flight)
            case planned.Sleep(seconds):
                self._world.sleep(seconds)
            case planned.Close(timeout):
                with contextlib.suppress(CloseTimeoutError):
                    self.close(producer, timeout)
            case planned.Ask(topic):
                with self.within("partitions_for", self._max_block_s), contextlib.suppress(KafkaTimeoutError):
                    producer.partitions_for(topic)
                producer.metrics()
                producer.health()
            case planned.Transaction():
                self._transaction(number, step)

    def _flush(self, number: int, timeout: float | None) -> None:
        before = [s for s in self._ledger.sent if s.place[0] == number and s.future is not None]
        try:
            with self.within(
                f"flush({timeout})", self._prompt_s(self._delivery_s) if timeout is None else timeout
            ):
                self._producer.flush(timeout)
        except KafkaTimeoutError:
            if timeout is None:
                self._ledger.notes.append("flush() without a timeout ended with a timeout")
            return
        for sent in before:
            if not sent.future.done():
                self._ledger.notes.append(f"flush() returned, and {sent} is not done")

    def _new(self, number: int, step: planned.Send, ending: TransactionEnding | None) -> list[Sent]:
        now_ns = self._world.scheduler.now_ns
        return [self._ledger.add(number, step.topic, step.size, ending, now_ns) for _ in range(step.count)]

    def _note_transactions(
        self, sent: list[Sent], ending: TransactionEnding | None, possible: list[TransactionEnding]
    ) -> None:
        """Records of a thread that does not end transactions belong to one that was open meanwhile."""
        if not self._is_transactional or ending is not None:
            return
        for each in sent:
            each.transactions = tuple(possible)
            if not possible and each.future is not None:
                self._ledger.notes.append(f"{each} was accepted outside of a transaction")

    def _note_later_transactions(self, sent: list[Sent], ending: TransactionEnding | None) -> None:
        """Likewise for records that may be accepted in any later transaction."""
        if self._is_transactional and ending is None:
            for each in sent:
                each.first_transaction = self._ledger.first_open()

    def _send(self, number: int, step: planned.Send, ending: TransactionEnding | None) -> list[Sent]:
        producer, sent = self._producer, self._new(number, step, ending)
        for each in sent if step.by not in ("send_many", "send_arrow") else ():
            each.callbacks = []
            action = step.on_delivery if each is sent[-1] else ""
            began_ns = self._world.scheduler.now_ns
            with self._ledger.watching() as possible:
                try:
                    with self.within("send", 0.0 if number == _CALLBACK else self._max_block_s):
                        each.future = producer.send(
                            step.topic,
                            each.value,
                            _key_of(each, step),
                            partition=step.partition,
                            on_delivery=self._callback(each, action),
                        )
                except (KafkaError, ApplicationError) as error:
                    self._note_raised([each], error, ending)
                    self._check_exhausted(error)
                else:
                    took_s = (self._world.scheduler.now_ns - began_ns) / 1e9
                    self.late_sends += took_s >= self._max_block_s
            self._note_transactions([each], ending, possible)
        if step.by not in ("send_many", "send_arrow"):
            return sent
        with self._ledger.watching() as possible:
            try:
                # Each record may wait, for less than max_block_ms; one that waits for longer ends the call.
                with self.within(step.by, self._max_block_s * (step.count + 1)):
                    self._note_result(sent, _bulk_call(producer, step, sent)())
            except KafkaError as error:
                self._note_raised(sent, error, ending)
        self._note_transactions(sent, ending, possible)
        return sent

    def _check_exhausted(self, error: Exception) -> None:
        """Nobody is told that there is no memory if there is, and nobody else waits for it."""
        numbers = _EXHAUSTED.search(str(error))
        if numbers is not None and int(numbers[1]) <= int(numbers[2]) and not int(numbers[3]):
            self._ledger.notes.append(f"send() raised although there is memory: {error!r}")

    def _note_raised(self, sent: list[Sent], error: BaseException, ending: TransactionEnding | None) -> None:
        for each in sent:
            each.raised = error
        is_closed = self._producer._lifecycle.is_closed
        if ending is not None and isinstance(error, IllegalStateError) and not is_closed:
            self._ledger.notes.append(f"{sent[0]} was refused in its transaction: {error!r}")

    def _note_result(self, sent: list[Sent], result: Any) -> None:
        for each, future in zip(sent, result, strict=True):
            each.future = future

    def _callback(self, sent: Sent, action: str) -> Callable[[Any, Any], None]:
        def on_delivery(metadata: Any, error: Any) -> None:
            sent.note(metadata, error)
            if action and action != "raise":
                self._in_callback(action, sent.topic)
            if action == "raise" or self._plan.callbacks_raise:
                raise ValueError("a callback that raises")

        return on_delivery

    def _in_callback(self, action: str, topic: str) -> None:
        """Call a method of the producer on the thread that runs callbacks. None may wait there."""
        producer = self._producer
        try:
            with self.within(f"{action} in a callback", 0.0):
                if action == "close":
                    producer.close()
                elif action == "flush":
                    producer.flush()
                elif action == "purge":
                    producer.purge()
        except (IllegalStateError, ProducerClosedError):
            pass
        if action.startswith("send"):
            topic = topic if action == "send" else "unknown"
            self._send(_CALLBACK, planned.Send(topic, None), None)

    # -- transactions of threads -------------------------------------------------------------------------

    def initialize(self, producer: KafkaProducer) -> None:
        """``init_transactions``, as an application that waits for permissions. Raises what ends a caller."""
        for _ in range(_MOST_ATTEMPTS):
            try:
                self._until_it_ends("init_transactions", None, producer.init_transactions)
                return
            except _ENDING:
                raise
            except KafkaError as error:
                refusal = error
        raise refusal

    def fence(self) -> None:
        """Another producer takes the transactional id over, sends and commits."""
        ledger, another = self._ledger, self.another_producer()
        ending = ledger.begin()
        try:
            self.initialize(another)
            ledger.fenced_ns = self._world.scheduler.now_ns
            another.begin_transaction()
            sent = ledger.add(_FENCING, "t", 0, ending, ledger.fenced_ns)
            sent.is_fencing = True
            try:
                sent.future = another.send("t", sent.value)
            except KafkaError as error:
                sent.raised = error
                raise
            self._until_it_ends("commit_transaction", None, another.commit_transaction)
            ending.told = "committed"
        except KafkaError:
            pass
        finally:
            ending.is_over = True
            self.close(another)

    def note_forgotten_fencing(self) -> None:
        """The coordinator knows of no newer producer any more, and takes the callers' one again."""
        self._ledger.fenced_ns = None

    def _transaction(self, number: int, step: planned.Transaction) -> None:
        producer = self._producer
        ending = self._ledger.begin(step.commits)
        try:
            if step.uses_block:
                self._block(number, step, ending)
            else:
                self._begin(producer.begin_transaction)
                self._in_transaction(number, step, ending)
        finally:
            ending.is_over = True
        if step.renames or step.prepared_for == "another":
            producer.change_transactional_id(producer.config.transactional_id)
            self.initialize(producer)

    def _begin(self, begin: Callable[[], _Result]) -> _Result:
        try:
            return begin()
        except ProducerClosedError:
            raise
        except IllegalStateError:
            # The epoch for this transaction was refused after the last one.
            self._ledger.was_initialized_again = True
            self.initialize(self._producer)
            return begin()

    def _entered_block(self) -> AbstractContextManager[None]:
        block = self._producer.transaction()
        block.__enter__()
        return block

    def _block(self, number: int, step: planned.Transaction, ending: TransactionEnding) -> None:
        """With a ``with`` block; what it leaves is ended by single calls, as it says."""
        producer = self._producer
        block = self._begin(self._entered_block)
        try:
            try:
                self._steps(number, step, ending)
                if not step.commits:
                    raise ApplicationError("an application that changes its mind")
            except BaseException as error:
                block.__exit__(type(error), error, error.__traceback__)
                raise
            block.__exit__(None, None, None)
            ending.told = "committed"
            return
        except KafkaTimeoutError:
            with contextlib.suppress(AbortTransactionError):
                self._until_it_ends("commit_transaction", None, producer.commit_transaction)
                ending.told = "committed"
                return
        except (ApplicationError, AbortTransactionError, TransactionAbortedError):
            pass
        try:
            # The block has done it, unless that took too long.
            self._until_it_ends("abort_transaction", None, producer.abort_transaction)
        except ProducerClosedError:
            raise
        except IllegalStateError:
            pass
        ending.told = "aborted"

    def _in_transaction(self, number: int, step: planned.Transaction, ending: TransactionEnding) -> None:
        producer = self._producer
        try:
            self._steps(number, step, ending)
            if step.prepared_for:
                prepared = self._prepare(step.timeout)
                if prepared is not None and step.prepared_for == "another":
                    self._end_with_another(prepared, step, ending)
                    return
            if step.commits:
                self._until_it_ends("commit_transaction", step.timeout, producer.commit_transaction)
                ending.told = "committed"
                return
        except (AbortTransactionError, TransactionAbortedError):
            pass
        self._until_it_ends("abort_transaction", step.timeout, producer.abort_transaction)
        ending.told = "aborted"

    def _steps(self, number: int, step: planned.Transaction, ending: TransactionEnding) -> None:
        """What is done within a transaction."""
        for each in step.steps:
            try:
                self._step(number, each, ending)
            except ProducerClosedError:
                raise
            except IllegalStateError as error:
                self._ledger.notes.append(f"a step of a transaction raised {error!r}")
        if step.with_offsets:
            self._until_it_ends(
                "send_offsets_to_transaction",
                step.timeout,
                lambda timeout: self._producer.send_offsets_to_transaction(*_offsets(ending), timeout),
            )

    def _prepare(self, timeout: float | None) -> PreparedTransaction | None:
        """``None``: another thread sends all the time."""
        try:
            return self._until_it_ends("prepare", timeout, self._producer.prepare)
        except IllegalStateError:
            return None

    def _end_with_another(
        self, prepared: PreparedTransaction, step: planned.Transaction, ending: TransactionEnding
    ) -> None:
        """As another process does that was given the transaction."""
        another = self.another_producer()
        try:
            if step.commits:
                self._until_it_ends(
                    "commit_prepared",
                    step.timeout,
                    lambda timeout: another.commit_prepared(prepared, timeout),
                )
                ending.told = "committed"
            else:
                self._until_it_ends(
                    "abort_prepared", step.timeout, lambda timeout: another.abort_prepared(prepared, timeout)
                )
                ending.told = "aborted"
        except TransactionAbortedError:
            ending.told = "aborted"
        except (FatalProducerError, FencedError, KafkaError):
            pass
        finally:
            self.close(another)

    def another_producer(self) -> KafkaProducer:
        """Another one with the same settings."""
        return KafkaProducer(self._servers, **self._settings)

    def _until_it_ends(
        self, name: str, timeout: float | None, call: Callable[[float | None], _Result]
    ) -> _Result:
        """Make a transactional call again for as long as it is not done, as the documentation says."""
        while True:
            try:
                with self.within(name, self._or_max_block(timeout)):
                    return call(timeout)
            except KafkaTimeoutError:
                continue

    # -- event loops -------------------------------------------------------------------------------------

    async def _in_loop(self, number: int, caller: Caller) -> None:
        producer = AsyncKafkaProducer.__new__(AsyncKafkaProducer)
        producer._start(self._producer)
        mine = _AsyncCaller(self, producer, number)
        with contextlib.suppress(*_ENDING):
            await mine.steps(caller.steps, None)
        # What is not done when the loop ends stays open, as all futures of asyncio do.
        await mine.settle()


class _AsyncCaller:
    """The steps of one event loop."""

    def __init__(self, application: Application, producer: AsyncKafkaProducer, number: int) -> None:
        self._application = application
        self._ledger = application._ledger
        self._producer = producer
        self._number = number
        self._beside: list[asyncio.Task[None]] = []

    async def settle(self) -> None:
        """Wait for the outcome of every record that has a future."""
        await asyncio.gather(*self._beside)
        for sent in self._ledger.sent:
            if sent.place[0] == self._number and sent.future is not None:
                with contextlib.suppress(KafkaError, ApplicationError, asyncio.CancelledError):
                    await sent.future

    async def steps(self, steps: tuple[planned.Step, ...], ending: TransactionEnding | None) -> None:
        for step in steps:
            await self._step(step, ending)

    async def _step(self, step: planned.Step, ending: TransactionEnding | None) -> None:
        producer, application = self._producer, self._application
        within = application.within
        match step:
            case planned.Send():
                await self._send(step, ending)
            case planned.Flush(timeout):
                limit = application._max_block_s + application._delivery_s if timeout is None else timeout
                with within(f"flush({timeout})", limit), contextlib.suppress(KafkaTimeoutError):
                    await producer.flush(timeout)
            case planned.Sleep(seconds):
                await asyncio.sleep(seconds)
            case planned.Purge(in_queue, in_flight):
                with within("purge", 0.0):
                    await producer.purge(in_queue, in_flight)
            case planned.Close(timeout):
                limit = application._max_block_s + application._close_s if timeout is None else timeout
                with within(f"aclose({timeout})", limit), contextlib.suppress(CloseTimeoutError):
                    await producer.aclose(timeout)
            case planned.Ask(topic):
                limit = application._max_block_s
                with within("partitions_for", limit), contextlib.suppress(KafkaTimeoutError):
                    await producer.partitions_for(topic)
                producer.health()
            case planned.Transaction():
                await self._transaction(step)
            case planned.Cancelled(steps, seconds, is_beside):
                task = asyncio.get_running_loop().create_task(self._cancelled(steps, seconds, ending))
                if is_beside:
                    self._beside.append(task)
                    await asyncio.sleep(0)
                else:
                    await task

    async def _cancelled(
        self, steps: tuple[planned.Step, ...], seconds: float, ending: TransactionEnding | None
    ) -> None:
        task = asyncio.get_running_loop().create_task(self.steps(steps, ending))
        await asyncio.wait({task}, timeout=seconds)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _send(self, step: planned.Send, ending: TransactionEnding | None) -> None:
        application, producer = self._application, self._producer
        sent = application._new(self._number, step, ending)
        # They may be accepted much later.
        application._note_later_transactions(sent, ending)
        for number, each in enumerate(sent):
            each.is_asyncio = True
            if step.by not in ("send", "submit"):
                continue
            each.callbacks = []
            on_delivery = application._callback(each, step.on_delivery if each is sent[-1] else "")
            arguments: Any = {
                "key": _key_of(each, step),
                "partition": step.partition,
                "on_delivery": on_delivery,
            }
            if step.by == "send":
                each.future = producer.send(step.topic, each.value, **arguments)
                continue
            try:
                each.future = await producer.submit(step.topic, each.value, **arguments)
            except asyncio.CancelledError as error:
                report = CancelledSend.of(error)
                each.future = None if report is None else report.record
                each.is_withdrawn = report is not None and report.record is None
                each.is_lost = report is None
                for later in sent[number + 1 :]:
                    later.is_withdrawn = True
                raise
            except (KafkaError, ApplicationError) as error:
                each.raised = error
        if step.by in ("send_many", "send_arrow"):
            try:
                application._note_result(sent, await _bulk_call(producer, step, sent)())
            except asyncio.CancelledError:
                # It goes on without its caller, or has not begun.
                for each in sent:
                    each.is_lost = True
                raise
            except KafkaError as error:
                for each in sent:
                    each.raised = error
        if step.waits:
            for each in sent:
                if each.future is not None:
                    with contextlib.suppress(KafkaError, ApplicationError):
                        await each.future

    # -- transactions ------------------------------------------------------------------------------------

    async def _transaction(self, step: planned.Transaction) -> None:
        producer, ending = self._producer, self._ledger.begin(step.commits)
        cancellations: list[asyncio.CancelledError] = []
        try:
            if step.uses_block:
                await self._block(step, ending, cancellations)
                return
            await self._begin(producer.begin_transaction, cancellations)
            try:
                await self._steps_of(step, ending, cancellations)
                if step.commits:
                    await self._until_it_ends(
                        lambda: producer.commit_transaction(step.timeout), cancellations
                    )
                    ending.told = "committed"
            except asyncio.CancelledError as error:
                cancellations.append(error)
            except (AbortTransactionError, TransactionAbortedError):
                pass
            if ending.told != "committed":
                await self._until_it_ends(lambda: producer.abort_transaction(step.timeout), cancellations)
                ending.told = "aborted"
        finally:
            ending.is_over = True
            if cancellations:
                raise cancellations[0]

    async def _begin(self, begin: Callable[[], object], cancellations: list[asyncio.CancelledError]) -> None:
        try:
            begin()
        except ProducerClosedError:
            raise
        except IllegalStateError:
            # The epoch for this transaction was refused after the last one.
            self._ledger.was_initialized_again = True
            await self._until_it_ends(self._producer.init_transactions, cancellations)
            begin()

    async def _steps_of(
        self,
        step: planned.Transaction,
        ending: TransactionEnding,
        cancellations: list[asyncio.CancelledError],
    ) -> None:
        """What is done within a transaction."""
        await self.steps(step.steps, ending)
        if step.with_offsets:
            await self._until_it_ends(
                lambda: self._producer.send_offsets_to_transaction(*_offsets(ending), step.timeout),
                cancellations,
            )

    async def _block(
        self,
        step: planned.Transaction,
        ending: TransactionEnding,
        cancellations: list[asyncio.CancelledError],
    ) -> None:
        """With an ``async with`` block; what it leaves is ended by single calls, as it says."""
        producer, block = self._producer, self._producer.transaction()
        # ``__aenter__`` does nothing else.
        await self._begin(producer.begin_transaction, cancellations)
        may_commit = False
        try:
            try:
                await self._steps_of(step, ending, cancellations)
                if not step.commits:
                    raise ApplicationError("an application that changes its mind")
            except BaseException as error:
                await block.__aexit__(type(error), error, error.__traceback__)
                raise
            may_commit = True
            await block.__aexit__(None, None, None)
            ending.told = "committed"
            return
        except asyncio.CancelledError as error:
            cancellations.append(error)
        except (KafkaTimeoutError, ApplicationError, AbortTransactionError, TransactionAbortedError):
            pass
        try:
            if may_commit:
                # If records still waited, the block has aborted the transaction.
                await self._until_it_ends(producer.commit_transaction, cancellations)
                ending.told = "committed"
                return
        except ProducerClosedError:
            raise
        except (AbortTransactionError, TransactionAbortedError, IllegalStateError):
            pass
        try:
            await self._until_it_ends(producer.abort_transaction, cancellations)
        except ProducerClosedError:
            raise
        except IllegalStateError:
            pass
        ending.told = "aborted"

    async def _until_it_ends(
        self, call: Callable[[], Awaitable[object]], cancellations: list[asyncio.CancelledError]
    ) -> None:
        """Make a call again for as long as it is not done, also after it was cancelled."""
        while True:
            try:
                await call()
            except KafkaTimeoutError:
                continue
            except asyncio.CancelledError as error:
                cancellations.append(error)
                continue
            return


def _key_of(sent: Sent, step: planned.Send) -> bytes | None:
    return b"%d" % sent.place[1] if step.is_keyed else None


def _bulk_call(producer: Any, step: planned.Send, sent: list[Sent]) -> Callable[[], Any]:
    if step.by == "send_many":
        values = [each.value for each in sent]
        keys = [_key_of(each, step) for each in sent] if step.is_keyed else None
        return lambda: producer.send_many(step.topic, values, keys, partitions=step.partition)
    column = pa.array([each.value for each in sent], pa.binary())
    return lambda: producer.send_arrow(step.topic, column, partition=step.partition)


def _offsets(
    ending: TransactionEnding,
) -> tuple[dict[TopicPartition, OffsetAndMetadata], ConsumerGroupMetadata]:
    ending.has_offset = True
    return {TopicPartition(*SOURCE): OffsetAndMetadata(ending.number)}, ConsumerGroupMetadata(GROUP)


# -- the application's own code --------------------------------------------------------------------------


def _is_refused(value: bytes) -> bool:
    modulus, rest = _REFUSED
    return int(value.split(b" ")[1]) % modulus == rest


def _raising_serializer(value: bytes) -> bytes:
    if _is_refused(value):
        raise ValueError("a serializer that raises")
    return value


class _SlowSerializer:
    """Takes some time with the first record of a topic."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._topics: set[str] = set()

    def serialize(self, topic: str, headers: Any, value: bytes) -> bytes:
        self.prepare(topic)
        return value

    def is_prepared(self, topic: str) -> bool:
        return topic in self._topics

    def prepare(self, topic: str) -> None:
        if topic not in self._topics:
            self._world.sleep(0.03)
            self._topics.add(topic)


def _partitioner(kind: str) -> Callable[..., int]:
    def choose(topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: bytes, snapshot: Any) -> int:
        count = len(snapshot.topics[topic].partitions)
        if not _is_refused(value_bytes):
            return len(value_bytes) % count
        if kind == "raises":
            raise ApplicationError("a partitioner that raises")
        return count

    return choose


class _Interceptor:
    """Raises in each of its methods."""

    def on_send(self, record: Any) -> Any:
        raise ValueError("an interceptor that raises")

    def on_acknowledgement(self, *_: Any) -> None:
        raise ValueError("an interceptor that raises")


def own_code(plan: Plan, world: World) -> dict[str, Any]:
    """The settings with code of the application."""
    settings: dict[str, Any] = {}
    if plan.interceptors_raise:
        settings["interceptors"] = [_Interceptor()]
    if plan.serializer:
        settings["value_serializer"] = (
            _raising_serializer if plan.serializer == "raises" else _SlowSerializer(world)
        )
    if plan.partitioner:
        settings["partitioner"] = _partitioner(plan.partitioner)
    return settings
