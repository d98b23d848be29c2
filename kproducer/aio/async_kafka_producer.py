"""AsyncKafkaProducer: ``KafkaProducer`` for asyncio, which suspends tasks where that one blocks threads.

It has a ``KafkaProducer``, so engine, settings, errors and batches are the same. Records take the same path:
the compiled kernel first, then a ``PendingSend``. Where a thread would wait for what that needs,
``waiting_records`` keeps the record. Calls that take long by themselves (transactions, bulk calls,
``aclose``) run on a thread of their own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kproducer._core.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer._core.bulk.send_many_result import SendManyResult
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.engine.transaction_calls import TransactionCalls, abort_after
from kproducer._core.event_loop.loop_waiters import CancelledSend, SendFuture, waiters_of
from kproducer._core.runtime.arguments import HeadersInput, checked_timeout_s
from kproducer.aio.background_calls import BackgroundCalls
from kproducer.aio.waiting_records import WaitingRecords
from kproducer.errors import (
    FatalProducerError,
    IllegalStateError,
    KafkaTimeoutError,
    MetadataTimeoutError,
)
from kproducer.errors.hidden_variables import hides_arguments
from kproducer.errors.suggestions import (
    ASYNC_PRODUCER_METHODS,
    WrongStatement,
    keyword_hints,
    no_such_attribute,
)
from kproducer.kafka_producer import KafkaProducer, lifecycle_of
from kproducer.types import ClusterMetadata, FlushResult, PartitionInfo

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from kproducer._core.accumulator.pending_records import PendingRecords
    from kproducer._core.bulk.column_format import ColumnFormat
    from kproducer._core.config.producer_settings import ProducerSettings
    from kproducer._core.engine.producer_health import ProducerHealth
    from kproducer._core.metrics.metric_sample import MetricSample
    from kproducer._core.transactions.transaction_arguments import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        PreparedTransaction,
    )
    from kproducer.types import TopicPartition


class AsyncKafkaProducer:
    """Sends records to a Kafka cluster from asyncio, without blocking the event loop.

    Args:
        bootstrap_servers, settings: as for ``KafkaProducer``.

    Raises:
        ConfigError: as ``KafkaProducer``.

    The constructor starts the producer and needs no event loop. It does not wait, except for the name service
    with ``client_dns_lookup="resolve_canonical_bootstrap_servers_only"``. One producer serves all event loops
    of a process, also several at once or one after another, each on its own thread; records of one loop keep
    their order. Interceptors, serializers and the partitioner run on the thread of the loop, once per record;
    a ``PreparableSerializer`` is prepared on another thread. ``on_delivery`` runs on the I/O thread. Fork and
    interpreter exit: as for ``KafkaProducer``.

    If a call is cancelled: ``CancelledSend.of`` explains the ``CancelledError`` of ``send``. ``flush`` and
    ``partitions_for`` only stop waiting. ``send_many``, ``send_arrow`` and the calls of transactions do
    nothing if it was not their turn yet; otherwise they continue in the background, and the same
    transactional call made again waits for the end and has the same outcome, even if the first call has ended
    meanwhile. Its timeout starts when the cancelled call stops waiting. ``send_offsets_to_transaction`` made
    again adds the offsets again, which is harmless. ``abort_transaction`` and ``aclose`` are carried out in
    any case.
    """

    @hides_arguments
    def __init__(
        self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[ProducerSettings]
    ) -> None:
        self._start(KafkaProducer(bootstrap_servers, **settings))

    @classmethod
    @hides_arguments
    def from_config(cls, settings: ProducerConfig | Mapping[str, Any] | str | os.PathLike[str]) -> Self:
        """See ``KafkaProducer.from_config``."""
        made = cls.__new__(cls)
        made._start(KafkaProducer.from_config(settings))
        return made

    def _start(self, producer: KafkaProducer) -> None:
        self._producer = producer
        self._lifecycle = lifecycle = lifecycle_of(producer)
        lifecycle.fast_send.leave_compression()
        self._transactions = TransactionCalls(lifecycle)
        rules = lifecycle.rules
        #: Whether the compiled kernel may try each record as it is given.
        self._tries_fast = rules.has_fast_path and not (rules.serializes_key or rules.serializes_value)
        self._try_send = lifecycle.fast_send.try_send
        self._calls = BackgroundCalls(f"kproducer-call-{self.config.client_id}")
        #: Those in which records wait to be accepted.
        self._busy: set[WaitingRecords] = set()
        #: By event loop; those of closed loops are removed when another loop comes.
        self._by_loop: dict[asyncio.AbstractEventLoop, WaitingRecords] = {}
        #: That of the loop that called last.
        self._latest: WaitingRecords | None = None

    # -- records ---------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: HeadersInput | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> SendFuture:
        """Send one record: ``await send(...)`` returns when it is delivered.

        The record is sent when ``send`` is called, in the order of the calls, and not only when the result is
        awaited; or it then begins to wait for metadata, memory or its serializer, for up to ``max_block_ms``.
        The result is an ``asyncio.Future``, so ``asyncio.gather`` needs no task for it.

        Args:
            topic, value, key, headers, partition, timestamp_ms, on_delivery: as for ``KafkaProducer.send``.

        Returns:
            The ``RecordMetadata``, to be awaited. All errors are raised there.

        Raises:
            InvalidArgumentError, SerializationError, RecordTooLargeError, MetadataTimeoutError,
                BufferExhaustedError, BrokerError, ProducerClosedError: not sent, as ``KafkaProducer.send``.
            KafkaTimeoutError: not sent, because the serializer was not prepared within ``max_block_ms``.
            KafkaError: not delivered; ``error.outcome`` says what is known.
            asyncio.CancelledError: the task was cancelled. ``CancelledSend.of(error)`` says whether the
                record may be written. No report: the outcome was decided in the same moment; keep the future
                of ``send`` and ask it.
            RuntimeError: called without a running event loop.
        """
        waiting = self._latest
        loop = asyncio.get_running_loop()
        if waiting is None or waiting.loop is not loop:
            waiting = self._waiting_of(loop)
        if self._tries_fast and waiting not in self._busy:
            record = self._try_send(topic, value, key, headers, partition, timestamp_ms, on_delivery)
            if record is not None:
                future = SendFuture(loop=loop)
                waiting.waiters.add(record, future)
                return future
        return waiting.accept((topic, value, key, headers, partition, timestamp_ms, on_delivery), True)

    async def submit(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: HeadersInput | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> FutureRecordMetadata:
        """Accept one record: returns at once, unless it has to wait as in ``send``.

        Args:
            topic, value, key, headers, partition, timestamp_ms, on_delivery: as for ``KafkaProducer.send``.

        Returns:
            The future of the record, to be awaited in any event loop, or asked in any thread.

        Raises:
            InvalidArgumentError, SerializationError, RecordTooLargeError, MetadataTimeoutError,
                BufferExhaustedError, BrokerError, ProducerClosedError: not sent, as ``KafkaProducer.send``.
            asyncio.CancelledError: see ``send``. Cancelled while it waits, the record is not sent.
            RuntimeError: it would have to wait, without a running event loop.
        """
        # Which loop runs is asked only if records wait: before Python 3.12, the answer takes a system call.
        waiting = self._waiting_of(asyncio.get_running_loop()) if self._busy else None
        if self._tries_fast and waiting not in self._busy:
            record: FutureRecordMetadata | None = self._try_send(
                topic, value, key, headers, partition, timestamp_ms, on_delivery
            )
            if record is not None:
                return record
        if waiting is None:
            waiting = self._waiting_of(asyncio.get_running_loop())
        arguments = topic, value, key, headers, partition, timestamp_ms, on_delivery
        future: Any = waiting.accept(arguments, False)
        try:
            accepted: FutureRecordMetadata = await future
        except asyncio.CancelledError as error:
            if future.record is not None and not any(isinstance(each, CancelledSend) for each in error.args):
                # It was accepted, and then cancelled before this continued.
                text = error.args[0] if error.args else None
                raise asyncio.CancelledError(CancelledSend(text, future.record)) from error
            raise
        return accepted

    def _waiting_of(self, loop: asyncio.AbstractEventLoop) -> WaitingRecords:
        waiting = self._by_loop.get(loop)
        if waiting is None:
            self._drop_closed_loops()
            waiting = WaitingRecords(self._lifecycle, waiters_of(loop), self._calls, self._busy)
            self._by_loop[loop] = waiting
        self._latest = waiting
        return waiting

    def _drop_closed_loops(self) -> None:
        """What waits in an event loop that was closed will not be sent."""
        for loop in list(self._by_loop):
            if loop.is_closed():
                # Another thread may do the same.
                gone = self._by_loop.pop(loop, None)
                if gone is not None:
                    gone.abandon()

    async def _until_accepted(self, or_sent_meanwhile: bool = False) -> None:
        """Wait until the records that this loop has sent so far are accepted, or have failed.

        Args:
            or_sent_meanwhile: also those that other tasks send during this call.
        """
        self._drop_closed_loops()
        waiting = self._by_loop.get(asyncio.get_running_loop())
        if waiting is not None:
            await waiting.settled()
            while or_sent_meanwhile and waiting.count:
                await waiting.settled()

    @keyword_hints
    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None = None,
        headers: Iterable[HeadersInput | None] | None = None,
        partitions: Iterable[int | None] | int | None = None,
        timestamps_ms: Iterable[int | None] | int | None = None,
    ) -> SendManyResult:
        """Accept many records for one topic, on a thread, after the records that wait in this event loop.

        Iterators and serializers run on that thread. A call that is cancelled after it has begun continues.

        Args:
            topic, values, keys, headers, partitions, timestamps_ms: as for ``KafkaProducer.send_many``.

        Returns:
            The outcome of every record; await it to wait for the delivery.

        Raises:
            KafkaError: as ``KafkaProducer.send_many``.
        """
        await self._until_accepted()
        call = partial(self._producer.send_many, topic, values, keys, headers, partitions, timestamps_ms)
        return await self._calls.run(call)

    @keyword_hints
    async def send_arrow(
        self,
        topic: str | None,
        data: Any,
        *,
        value: str | ColumnFormat | None = None,
        key: str | ColumnFormat | None = None,
        headers: str | None = None,
        partition: str | int | None = None,
        timestamp: str | int | None = None,
        topic_column: str | None = None,
    ) -> SendManyResult:
        """Accept the rows of Arrow data: see ``send_many`` here, and ``KafkaProducer.send_arrow``.

        Raises:
            KafkaError: as ``KafkaProducer.send_arrow``.
        """
        await self._until_accepted()
        call = partial(
            self._producer.send_arrow,
            topic,
            data,
            value=value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            topic_column=topic_column,
        )
        return await self._calls.run(call)

    @keyword_hints
    async def flush(self, timeout: float | None = None) -> FlushResult:
        """Wait until the outcome of everything sent before this call is known, without linger.

        Includes records of this event loop that still wait to be accepted. Failures are not raised here.

        Args:
            timeout: seconds; ``None`` waits as long as ``max_block_ms`` and ``delivery_timeout_ms`` allow.

        Returns:
            As ``KafkaProducer.flush``.

        Raises:
            KafkaTimeoutError: not done within ``timeout``; the records may still be delivered.
            InvalidArgumentError: ``timeout`` is not a number.
            ProducerClosedError: the producer is closed, or its I/O thread has ended.
        """
        timeout_s = checked_timeout_s("flush", timeout)
        if timeout_s is not None:
            timeout_s = max(timeout_s, 0.001)  # before Python 3.12, wait_for does not even begin with 0
        engine = self._lifecycle.running_engine()
        with engine.flushing() as pending:
            try:
                return await asyncio.wait_for(self._flushed(pending), timeout_s)
            except asyncio.TimeoutError:
                waiting = self._by_loop.get(asyncio.get_running_loop())
                raise engine.unfinished_flush(timeout, 0 if waiting is None else waiting.count) from None

    async def _flushed(self, pending: PendingRecords) -> FlushResult:
        loop = asyncio.get_running_loop()
        await self._until_accepted()
        # The batches that were begun meanwhile must not linger either.
        with self._lifecycle.running_engine().flushing() as later:
            pending.include(later)
        waiters = waiters_of(loop)
        for result in pending:
            await waiters.result_done(result)
        await waiters.caught_up()
        return pending.outcome()

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, by number; waits for metadata up to ``max_block_ms``.

        Raises:
            MetadataTimeoutError, BrokerError, InvalidArgumentError, ProducerClosedError: as ``send`` does.
        """
        if known_partition_count(self, topic) or not isinstance(topic, str):
            return self._producer.partitions_for(topic)
        # One thread for all that ask for the same.
        loop = asyncio.get_running_loop()
        look_ups = self._waiting_of(loop).look_ups
        look_up = look_ups.get(topic)
        if look_up is None:

            def forget(done: asyncio.Task[list[PartitionInfo]]) -> None:
                look_ups.pop(topic, None)
                if not done.cancelled():
                    done.exception()  # if all have stopped waiting, nobody retrieves it

            call = self._calls.run(self._producer.partitions_for, topic, waits=False)
            look_up = look_ups[topic] = loop.create_task(call)
            look_up.add_done_callback(forget)
        return list(await asyncio.shield(look_up))

    async def has_brokers(self) -> bool:
        """Whether a broker has answered; waits for it for up to ``max_block_ms``.

        Raises:
            KafkaError: the credentials were refused, or the brokers are too old.
            ProducerClosedError: the producer is closed.
        """
        topics = self._lifecycle.running_engine().topics
        try:
            await self._calls.run(topics.await_brokers, topics.config.max_block_ms, waits=False)
        except MetadataTimeoutError:
            return False
        return True

    async def list_topics(self, topic: str | None = None, timeout: float | None = None) -> ClusterMetadata:
        """See ``KafkaProducer.list_topics``."""
        return await self._calls.run(self._producer.list_topics, topic, timeout, waits=False)

    async def purge(self, in_queue: bool = True, in_flight: bool = True) -> int:
        """See ``KafkaProducer.purge``. Records that still wait in an event loop are not given up."""
        return await self._calls.run(self._producer.purge, in_queue, in_flight, waits=False)

    def metrics(self) -> dict[str, dict[str, Any]]:
        """See ``KafkaProducer.metrics``."""
        return self._producer.metrics()

    def metric_samples(self) -> list[MetricSample]:
        """See ``KafkaProducer.metric_samples``."""
        return self._producer.metric_samples()

    def health(self) -> ProducerHealth:
        """See ``KafkaProducer.health``."""
        return self._producer.health()

    # -- transactions ----------------------------------------------------------------------------------
    # Each call waits on a thread, one after another. A call that is cancelled before its turn does nothing;
    # afterwards it continues, as one that times out does, and the same call made again waits for it. So see()
    # is the last statement, with no await after it: the caller gets the outcome that it acknowledges.

    async def init_transactions(self, timeout: float | None = None) -> None:
        """See ``KafkaProducer.init_transactions``."""
        see = await self._calls.run(self._transactions.initialize, timeout)
        see()

    def begin_transaction(self) -> None:
        """See ``KafkaProducer.begin_transaction``. It does not wait, so it is not awaited."""
        self._producer.begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """See ``KafkaProducer.send_offsets_to_transaction``."""
        see = await self._calls.run(self._transactions.send_offsets, offsets, group_metadata, timeout)
        see()

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """See ``KafkaProducer.commit_transaction``. Waits for records of this loop that still wait.

        Those of other loops, and those sent while it commits, fail with IllegalStateError.
        """
        await self._until_accepted(or_sent_meanwhile=True)
        await self._commit(timeout)

    async def _commit(self, timeout: float | None = None, always: bool = False) -> None:
        try:
            see = await self._calls.run(self._transactions.commit, timeout, always=always)
        finally:
            self._refuse_late()
        see()

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """See ``KafkaProducer.abort_transaction``. Records that wait to be accepted fail."""
        waiting = self._by_loop.get(asyncio.get_running_loop())
        error = IllegalStateError("the transaction was aborted before the record was accepted")
        refused = None if waiting is None else waiting.refuse_all(error)
        try:
            see = await self._calls.run(self._transactions.abort, timeout, always=True)
        finally:
            self._refuse_late()
        if refused is not None:
            await refused
        see()

    def _refuse_late(self) -> None:
        """Fail the records, of all loops, that the transaction can no longer accept."""
        this_loop = asyncio.get_running_loop()
        for loop in list(self._by_loop):
            waiting = self._by_loop.get(loop)
            if waiting is None:  # another thread has found that the loop is closed
                continue
            if loop is this_loop:
                waiting.refuse_late()
            else:
                waiting.waiters.wakeup.post(waiting.refuse_late)

    async def prepare(self, timeout: float | None = None) -> PreparedTransaction:
        """See ``KafkaProducer.prepare``. Waits, and refuses, as ``commit_transaction``."""
        await self._until_accepted(or_sent_meanwhile=True)
        try:
            return await self._calls.run(self._producer.prepare, timeout)
        finally:
            self._refuse_late()

    async def commit_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """See ``KafkaProducer.commit_prepared``."""
        see = await self._calls.run(self._transactions.commit_prepared, prepared, timeout)
        see()

    async def abort_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """See ``KafkaProducer.abort_prepared``."""
        see = await self._calls.run(self._transactions.abort_prepared, prepared, timeout)
        see()

    def change_transactional_id(self, transactional_id: str) -> None:
        """See ``KafkaProducer.change_transactional_id``."""
        self._producer.change_transactional_id(transactional_id)

    def transaction(self) -> AsyncTransaction:
        """Begin a transaction for an ``async with`` block: commit at its end, or abort if it raises.

        Raises the error that caused the abort; if the abort itself fails, the log has a warning. A
        cancellation aborts as long as records wait to be accepted. After that, and after a KafkaTimeoutError,
        nothing is aborted: the commit is made, and ``commit_transaction`` waits for it.
        """
        return AsyncTransaction(self)

    # -- the end ---------------------------------------------------------------------------------------

    @keyword_hints
    async def aclose(self, timeout: float | None = None) -> None:
        """Deliver what was sent, then stop. May be repeated, and called in any event loop.

        Records of this event loop that wait to be accepted are waited for; what still waits at the timeout,
        or in another loop, fails with ProducerClosedError. If this is cancelled, the producer closes all the
        same, in the background.

        Args:
            timeout: seconds; ``None`` waits until every record is delivered or has failed, which takes at
                most about ``max_block_ms`` and ``delivery_timeout_ms``; 0 gives up unacknowledged records at
                once.

        Raises:
            CloseTimeoutError, InvalidArgumentError: as ``KafkaProducer.close``.
        """
        timeout_s = checked_timeout_s("aclose", timeout)
        self._drop_closed_loops()
        started_ms = self._lifecycle.clock.monotonic_ms()
        try:
            if timeout_s != 0:
                await asyncio.wait_for(self._until_accepted(), timeout_s)
        except asyncio.TimeoutError:
            pass
        except asyncio.CancelledError:
            self._calls.begin(self._producer.close, timeout)
            raise
        if timeout_s:
            # Not 0, with which nothing is raised.
            timeout = max(timeout_s - (self._lifecycle.clock.monotonic_ms() - started_ms) / 1000, 0.001)
        try:
            await self._calls.run(self._producer.close, timeout, waits=False, always=True)
        finally:
            # Now every record has an outcome; so that the futures of this loop have it, too:
            await self._until_accepted()
            await waiters_of(asyncio.get_running_loop()).caught_up()

    @property
    def config(self) -> ProducerConfig:
        """The settings in force."""
        return self._producer.config

    if not TYPE_CHECKING:  # type checkers would take it for a method
        __enter__ = WrongStatement("with", "use 'async with', or 'with KafkaProducer(...)' without asyncio")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name):
            raise no_such_attribute(self, name, ASYNC_PRODUCER_METHODS)

    def __reduce__(self) -> Any:
        raise TypeError(
            "an AsyncKafkaProducer cannot be pickled: it has a thread and sockets. Send its settings instead,"
            " and make a producer where it is needed"
        )

    def __repr__(self) -> str:
        if not hasattr(self, "_producer"):  # the constructor has failed
            return super().__repr__()
        return repr(self._producer).replace("KafkaProducer", type(self).__name__, 1)


class AsyncTransaction:
    """The block of ``AsyncKafkaProducer.transaction``."""

    def __init__(self, producer: AsyncKafkaProducer) -> None:
        self._producer = producer

    if not TYPE_CHECKING:
        __enter__ = WrongStatement("with", "use 'async with'")

    async def __aenter__(self) -> None:
        self._producer.begin_transaction()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any
    ) -> None:
        if error is not None:
            await self._abort_after(error)
            return
        try:
            await self._producer._until_accepted(or_sent_meanwhile=True)
        except asyncio.CancelledError as cancelled:
            await self._abort_after(cancelled)
            raise
        try:
            await self._producer._commit(always=True)
        except (FatalProducerError, KafkaTimeoutError, asyncio.CancelledError):
            # Nothing can be aborted, or the commit continues.
            raise
        except BaseException as failure:
            await self._abort_after(failure)
            raise

    async def _abort_after(self, error: BaseException) -> None:
        with abort_after(error, self._producer.config.transactional_id):
            await self._producer.abort_transaction()


# For the adapter of aiokafka, not for applications.


def known_partition_count(producer: AsyncKafkaProducer, topic: object) -> int | None:
    """The number of partitions, if it is known without waiting."""
    snapshot = producer._lifecycle.running_engine().topics.snapshot
    return snapshot.partition_count(topic) if isinstance(topic, str) else None


async def commit_always(producer: AsyncKafkaProducer) -> None:
    """``commit_transaction``, which is carried out even if it is cancelled before its turn.

    Not if it is cancelled while records wait to be accepted.
    """
    await producer._until_accepted(or_sent_meanwhile=True)
    await producer._commit(always=True)
