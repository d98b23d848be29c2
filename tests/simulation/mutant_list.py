"""The bugs that the simulation has to find: ``python -m tests.simulation.mutants``."""

from __future__ import annotations

# ruff: noqa: E501  # texts of the code stay as they are
from collections.abc import Callable
from typing import Any

from tests.simulation.mutation import Mutant, Replacement
from tests.simulation.plan import Caller, Flush, OnRequest, Plan, Purge, Send, Transaction
from tests.simulation.random_plans import random_plan
from tests.simulation.special_plans import (
    crowded_plan,
    dense_plan,
    ending_plan,
    gated_plan,
    lanes_plan,
    leaders_plan,
    recreated_plan,
)

_TRACKER = "_core/transactions/sequence_tracker.py"
_NUMBERS = "_core/transactions/partition_sequences.py"
_KNOWLEDGE = "_core/transactions/delivery_knowledge.py"
_LIFECYCLE = "_core/transactions/transaction_state_machine.py"
_PROTOCOL = "_core/transactions/transaction_protocol.py"
_MANAGER = "_core/transactions/transaction_manager.py"
_ACCUMULATOR = "_core/accumulator/record_accumulator.py"
_BATCH = "_core/accumulator/producer_batch.py"
_WAITING = "aio/waiting_records.py"
_QUEUE = "_core/accumulator/partition_queue.py"
_POOL = "_core/accumulator/buffer_pool.py"
_FUTURES = "_core/accumulator/future_record_metadata.py"
_RESPONSES = "_core/sender/produce_responses.py"
_SENDER = "_core/sender/sender.py"
_IN_FLIGHT = "_core/client/in_flight_requests.py"
_CLIENT = "_core/client/network_client.py"
_LANES = "_core/sender/fast_lanes.py"
_IO = "_core/network/channel_io.py"


# -- which plans can reach a bug -----------------------------------------------------------------------


def _steps(plan: Plan) -> list[Any]:
    steps = [step for caller in plan.callers for step in caller.steps]
    return steps + [inner for step in steps if isinstance(step, Transaction) for inner in step.steps]


def _is_transactional(plan: Plan) -> bool:
    return "transactional_id" in plan.settings


def _has_version_1(plan: Plan) -> bool:
    """Whether it has transactions that add their partitions with a request of its own."""
    return _is_transactional(plan) and plan.transaction_version < 2


def _is_idempotent(plan: Plan) -> bool:
    return not _is_transactional(plan) and plan.settings.get("enable_idempotence", True)


def _has_lanes(plan: Plan) -> bool:
    return plan.hand_overs is not None and not _is_transactional(plan)


def _purging_plan(seed: int) -> Plan:
    """Requests of a lane are taken back while their responses arrive."""
    steps = (Send(count=12), Purge(), Send(count=2), Purge(), Flush())
    refusal = OnRequest("refuse", 2, code=59)
    callers = (Caller(steps, uses_asyncio=True),)
    return Plan(seed, callers, (refusal,), {"batch_size": 0}, partial_rate=0.3, switch_rate=0.0)


def _lacks_memory(plan: Plan) -> bool:
    return plan.settings.get("buffer_memory", 1 << 25) <= 20_000


def _uses_asyncio(plan: Plan) -> bool:
    return any(caller.uses_asyncio for caller in plan.callers)


def _purges(plan: Plan) -> bool:
    return any(isinstance(step, Purge) for step in _steps(plan))


def _uses_send_many(plan: Plan) -> bool:
    return any(isinstance(step, Send) and step.by == "send_many" for step in _steps(plan))


def _splits(plan: Plan) -> bool:
    return any(
        fault.kind == "lower_limit" or (isinstance(fault, OnRequest) and fault.code == 10)
        for fault in plan.faults
    )


def _sends_in_order(plan: Plan) -> bool:
    return plan.settings.get("max_in_flight_requests_per_connection") == 1


def _bug(
    name: str,
    what: str,
    *changes: tuple[str, str, str],
    plans: Callable[[int], Plan] = random_plan,
    reaches: Callable[[Plan], bool] = lambda plan: True,
    kernel: str = "native",
) -> Mutant:
    return Mutant(name, what, tuple(Replacement(*change) for change in changes), plans, reaches, kernel)


MUTANTS: tuple[Mutant, ...] = (
    # -- sequence numbers ------------------------------------------------------------------------------
    _bug(
        "unknown-renumbered",
        "Batches that an earlier attempt may have written get other sequence numbers.",
        (
            _KNOWLEDGE,
            "if is_transactional or is_passed or knowledge is Knowledge.UNKNOWN:",
            "if is_transactional or is_passed:",
        ),
        (_NUMBERS, "if batch.knowledge is Knowledge.UNKNOWN:", "if False:"),
        reaches=_is_idempotent,
        plans=dense_plan,
    ),
    _bug(
        "error-45-is-written",
        "OUT_OF_ORDER_SEQUENCE_NUMBER counts as a duplicate that is in the log.",
        (_KNOWLEDGE, "45: AttemptEnd.OUT_OF_ORDER,", "45: AttemptEnd.DUPLICATE,"),
    ),
    _bug(
        "lost-response-is-rejected",
        "A request whose response was lost counts as rejected.",
        (
            _KNOWLEDGE,
            "if end in (AttemptEnd.NO_ANSWER, AttemptEnd.MAYBE_APPENDED):",
            "if end is AttemptEnd.MAYBE_APPENDED:",
        ),
    ),
    _bug(
        "may-drain-ignores-order",
        "A batch that is sent again does not wait for earlier ones.",
        (
            _TRACKER,
            "return partition.is_first(batch) and not partition.awaits_restart(batch)",
            "return True",
        ),
        plans=recreated_plan,
    ),
    _bug(
        "kafka-14359-first-batch",
        "KAFKA-14359: several batches go to a leader that does not know the producer, and accepts any number.",
        (
            _TRACKER,
            "return acknowledged_ms is not None and now_ms - acknowledged_ms < REMEMBERED_MS",
            "return True",
        ),
        reaches=_is_idempotent,
    ),
    _bug(
        "recreated-topic-is-known",
        "KAFKA-14359 again: the leader of a recreated topic is taken for one that knows the producer.",
        (_TRACKER, "        if recreated:\n", "        if False:\n"),
        reaches=lambda plan: any(f.kind in ("recreate_topic", "fewer_partitions") for f in plan.faults),
        plans=recreated_plan,
    ),
    _bug(
        "kafka-14397-early-restart",
        "KAFKA-14397: a batch that expires with unknown outcome restarts the numbers of those behind it.",
        (
            _TRACKER,
            "if outcome in (Outcome.REJECTED, Outcome.NOT_SENT) and not self._is_transactional:",
            "if not self._is_transactional:",
        ),
        (_NUMBERS, "if batch.knowledge is Knowledge.UNKNOWN:", "if False:"),
        reaches=_is_idempotent,
        plans=dense_plan,
    ),
    _bug(
        "healthy-partitions-restart",
        "A partition whose numbers restart takes all others with it, also those with batches in flight.",
        (
            _TRACKER,
            "        unsafe = partition.renumber(producer)\n",
            "        unsafe = partition.renumber(producer)\n"
            "        for other in self._partitions.values():\n"
            "            if other is not partition:\n"
            "                other.renumber(producer)\n",
        ),
        reaches=_is_idempotent,
        plans=dense_plan,
    ),
    _bug(
        "epoch-goes-back",
        "A partition with a raised epoch returns to the epoch of the producer.",
        (
            _TRACKER,
            "return partition.producer.producer_id != self.producer.producer_id",
            "return partition.producer != self.producer",
        ),
        reaches=_is_idempotent,
    ),
    _bug(
        "renumbered-header-is-old",
        "A batch that gets another number is sent with the header that it had before.",
        (
            _BATCH,
            "            self._records = None\n            self.builder.set_producer_state",
            "            self.builder.set_producer_state",
        ),
    ),
    # -- what is known about a batch -------------------------------------------------------------------
    _bug(
        "librdkafka-4953-leader-moved",
        "librdkafka #4953: a leader that was moved has certainly not written the batch.",
        (_KNOWLEDGE, "frozenset({-1, 3, 6, 7, 13, 20, 56})", "frozenset({-1, 3, 7, 13, 20, 56})"),
        plans=leaders_plan,
    ),
    _bug(
        "librdkafka-4438-possibly-persisted",
        "librdkafka #4438: a batch whose response was lost counts as written.",
        (
            _KNOWLEDGE,
            "if end is AttemptEnd.DUPLICATE:\n        return Verdict.WRITTEN",
            "if end in (AttemptEnd.DUPLICATE, AttemptEnd.NO_ANSWER):\n        return Verdict.WRITTEN",
        ),
    ),
    _bug(
        "librdkafka-4750-other-batch",
        "librdkafka #4750: a batch that is sent again does not have the records that it had.",
        (
            _RESPONSES,
            "    def _retry(self, batch: ProducerBatch, error: KafkaError, now_ms: int) -> None:\n",
            "    def _retry(self, batch: ProducerBatch, error: KafkaError, now_ms: int) -> None:\n"
            "        if batch.record_count > 1:\n"
            "            return self._split(batch, error)\n",
        ),
    ),
    _bug(
        "expired-in-flight-is-rejected",
        "A batch that expires in flight is reported as rejected.",
        (
            _BATCH,
            "return Outcome.UNKNOWN if self.in_flight else self.knowledge.outcome or Outcome.UNKNOWN",
            "return Outcome.REJECTED if self.in_flight else self.knowledge.outcome or Outcome.UNKNOWN",
        ),
    ),
    _bug(
        "purged-is-not-sent",
        "purge() reports batches that wait to be sent again as not sent.",
        (
            _ACCUMULATOR,
            "its_error.outcome = batch.outcome\n",
            "its_error.outcome = batch.outcome if batch.in_flight else type(batch.outcome).NOT_SENT\n",
        ),
        reaches=_purges,
    ),
    _bug(
        "late-acknowledgement-counts",
        "A batch that was reported as failed becomes a success when its response comes.",
        (
            _FUTURES,
            "if outcome.settled or outcome.is_split:\n                return False\n            outcome.settled",
            "if outcome.is_split:\n                return False\n            outcome.settled",
        ),
    ),
    # -- order -----------------------------------------------------------------------------------------
    _bug(
        "retry-goes-last",
        "A batch that is sent again goes behind later ones.",
        (_QUEUE, 'bisect.insort(self.batches, batch, key=attrgetter("order"))', "self.batches.append(batch)"),
    ),
    _bug(
        "partition-not-muted",
        "With one request per connection, a partition is drained while a batch of it is in flight elsewhere.",
        (_QUEUE, "self.is_muted = is_muted\n", "self.is_muted = False\n"),
        reaches=lambda plan: (
            _sends_in_order(plan) and not _is_idempotent(plan) and not _is_transactional(plan)
        ),
        plans=leaders_plan,
    ),
    _bug(
        "older-metadata-accepted",
        "Metadata of a broker that is behind replaces a newer leader.",
        (
            "_core/client/snapshot_merger.py",
            "                if epoch < seen:\n",
            "                if False:\n",
        ),
        plans=leaders_plan,
    ),
    # -- futures, callbacks, flush ---------------------------------------------------------------------
    _bug(
        "split-loses-the-last",
        "A batch that is split loses its last record.",
        (
            _BATCH,
            "in enumerate(self.builder.records()):",
            "in list(enumerate(self.builder.records()))[: max(self.record_count - 1, 1)]:",
        ),
        reaches=_splits,
    ),
    _bug(
        "callback-twice",
        "The callbacks of a batch that has failed are called again when its response comes.",
        (
            "_core/kernel/pure/completion.py",
            "entries, self._entries = self._entries, []",
            "entries = self._entries",
        ),
        (
            _BATCH,
            "        if result.outcome.settled and result.error is None:\n            raise",
            "        result.release(self._deliveries)\n"
            "        if result.outcome.settled and result.error is None:\n            raise",
        ),
        kernel="pure",
    ),
    _bug(
        "future-stays-open",
        "When a connection ends, only the first of its requests is ended.",
        (
            _CLIENT,
            "for pending in self._in_flight.clear(node_id):",
            "for pending in self._in_flight.clear(node_id)[:1]:",
        ),
    ),
    _bug(
        "flush-ignores-parts",
        "flush() does not wait for the parts of a batch that is split meanwhile.",
        (
            "_core/accumulator/pending_records.py",
            "                self._results.extend(result.parts[1])",
            "                pass",
        ),
        reaches=_splits,
    ),
    _bug(
        "flush-ignores-retries",
        "flush() does not wait for batches that were sent already.",
        (
            _ACCUMULATOR,
            "for batch in list(self._incomplete) if not batch.result.done])",
            "for batch in list(self._incomplete) if not batch.result.done and not batch.send_count])",
        ),
    ),
    _bug(
        "asyncio-waiter-dropped",
        "The asyncio futures of a batch that is split are forgotten.",
        (
            "_core/event_loop/loop_waiters.py",
            "self.add(record, waiter)  # wait for the part of the batch that has the record",
            "pass",
        ),
        reaches=lambda plan: _uses_asyncio(plan) and _splits(plan),
    ),
    _bug(
        "asyncio-gate-is-emptied",
        "If the first of the asyncio records that wait for a topic is cancelled, the others wait for ever.",
        (_WAITING, "gate.members.popleft()", "gate.members.clear()"),
        plans=gated_plan,
    ),
    _bug(
        "send-many-by-batch",
        "The futures of send_many() come batch by batch, and not in the order of the records.",
        (
            "_core/bulk/send_many_result.py",
            "return map(self._future, range(len(self._locations)))",
            "return map(self._future, sorted(range(len(self._locations)), key=self._locations.result_numbers.__getitem__))",
        ),
        reaches=_uses_send_many,
    ),
    _bug(
        "close-does-not-wait",
        "close() without a timeout does not wait for records.",
        (_SENDER, "self._accumulator.incomplete_record_count or self._is_ending", "self._is_ending"),
    ),
    # -- memory ----------------------------------------------------------------------------------------
    _bug(
        "kafka-19012-early-reuse",
        "KAFKA-19012: the memory of a batch that has failed is used again while its request is being written.",
        (
            _ACCUMULATOR,
            "if batch.in_flight or self._incomplete.pop(batch, None) is None:",
            "if self._incomplete.pop(batch, None) is None:",
        ),
        plans=crowded_plan,
    ),
    _bug(
        "memory-returned-twice",
        "The parts of a batch that was split return memory that they have not taken.",
        (
            _ACCUMULATOR,
            "buffer = None if builder is None or batch.is_split else",
            "buffer = None if builder is None else",
        ),
        reaches=_splits,
    ),
    _bug(
        "memory-never-returned",
        "The memory of a batch that has expired in flight is not returned.",
        (
            _ACCUMULATOR,
            "        if outcome.settled or outcome.is_split:\n            self.deallocate(batch)\n",
            "",
        ),
    ),
    _bug(
        "memory-waiter-skipped",
        "Returned memory is kept although a thread waits for it.",
        (_POOL, " or self.waiters or ", " or "),
        reaches=_lacks_memory,
    ),
    _bug(
        "memory-wakeup-lost",
        "A thread that waits for memory is not woken when it has got some.",
        (
            _POOL,
            "            if not head.notify():\n",
            "            if False:\n",
        ),
        reaches=_lacks_memory,
    ),
    # -- bytes and requests ----------------------------------------------------------------------------
    _bug(
        "write-repeats-bytes",
        "After a partial write, the piece that was begun is written from its beginning.",
        ("_core/network/network_send.py", "        pieces[0] = pieces[0][count:]\n", ""),
    ),
    _bug(
        "write-skips-bytes",
        "After a partial write, the rest of the piece is skipped.",
        (
            "_core/network/network_send.py",
            "        pieces[0] = pieces[0][count:]\n",
            "        if count:\n            self.remaining_bytes -= len(pieces.pop(0)) - count\n",
        ),
    ),
    _bug(
        "read-drops-rest",
        "Bytes behind a complete frame are dropped.",
        (
            "_core/network/network_receive.py",
            "self._partial += data[position:]",
            "self._partial += data[:0] if position else data",
        ),
    ),
    _bug(
        "response-of-another-request",
        "A response is matched to the oldest request, and its correlation id is not checked.",
        (
            _IN_FLIGHT,
            "pending.api_version, pending.correlation_id, payload)",
            'pending.api_version, int.from_bytes(payload[:4], "big"), payload)',
        ),
    ),
    _bug(
        "wakeup-lost",
        "A wake-up just before the I/O thread begins to wait is lost.",
        ("_core/network/wakeup.py", "        return not self._woken\n", "        return True\n"),
    ),
    _bug(
        "busy-loop",
        "The loop does not pause while the broker of a ready batch cannot take it.",
        (_SENDER, "poll_timeout_ms = min(poll_timeout_ms, not_ready_delay_ms)", "poll_timeout_ms = 0"),
    ),
    # -- transactions ----------------------------------------------------------------------------------
    _bug(
        "end-txn-ends-the-next",
        "After an EndTxn without a response, the next transaction has the same epoch: a late one ends it.",
        (
            _PROTOCOL,
            "        elif isinstance(request, EndTxn):\n"
            "            transaction.may_be_committed |= request.is_commit\n",
            "        elif isinstance(request, EndTxn):\n            return\n",
        ),
        reaches=_has_version_1,
        plans=ending_plan,
    ),
    _bug(
        "kafka-18660-epochs-used-up",
        "KAFKA-18660: when the epochs are used up, the epoch of the new producer id is used with the old id.",
        (
            _LIFECYCLE,
            "        if producer.is_valid:\n            self._number_from_0(producer)",
            "        if producer.is_valid:\n"
            "            self._number_from_0(producer._replace(producer_id=self.sequences.producer.producer_id))",
        ),
        reaches=lambda plan: _is_transactional(plan) and plan.epochs < 100,
        plans=ending_plan,
    ),
    _bug(
        "partition-not-added",
        "In version 1, a batch does not wait until its partition was added to the transaction.",
        (
            _MANAGER,
            "                self.announce(batch.topic_partition)\n                return False\n",
            "                self.announce(batch.topic_partition)\n",
        ),
        reaches=_has_version_1,
        plans=ending_plan,
    ),
    _bug(
        "commit-does-not-wait",
        "EndTxn is sent before the batches of the transaction are done.",
        (
            _PROTOCOL,
            "if not life.is_ending or has_incomplete or life.sequences.has_pending:",
            "if not life.is_ending:",
        ),
        reaches=_is_transactional,
    ),
    _bug(
        "abort-keeps-batches",
        "An abort leaves the batches that were not sent to the next transaction.",
        (
            _PROTOCOL,
            "if not life.is_ending or has_incomplete or life.sequences.has_pending:",
            "if not life.is_ending or (life.state is _S.COMMITTING and (has_incomplete or life.sequences.has_pending)):",
        ),
        (
            _LIFECYCLE,
            "if self.state is _S.ABORTING:\n                error = Trans",
            "if False:\n                error = Trans",
        ),
        reaches=_is_transactional,
    ),
    _bug(
        "failed-record-is-committed",
        "A transaction is committed although a record of it has failed.",
        (
            _MANAGER,
            "            elif self._life.state in _SENDING:\n                self._life.fail_transaction(error)\n",
            "",
        ),
        reaches=_is_transactional,
    ),
    _bug(
        "kafka-14831-illegal-state",
        "KAFKA-14831: after an illegal change of the state on the I/O thread, the producer goes on.",
        (
            _RESPONSES,
            "            error.outcome = batch.outcome\n",
            "            error.outcome = batch.outcome\n"
            "            if end is AttemptEnd.NO_ANSWER and self._transaction_manager is not None:\n"
            "                state_machine = self._transaction_manager.state_machine\n"
            "                state_machine.move_to(type(state_machine.state).INITIALIZING)\n",
        ),
        (
            _RESPONSES,
            "if self._transaction_manager is not None and isinstance(bug, IllegalStateError):",
            "if False:",
        ),
        reaches=_is_transactional,
    ),
    _bug(
        "offsets-not-sent",
        "send_offsets_to_transaction() returns before the offsets were sent.",
        (_LIFECYCLE, "            if task.remaining:\n", "            if False:\n"),
        reaches=_is_transactional,
        plans=ending_plan,
    ),
    _bug(
        "lane-forgets-a-half-frame",
        "If a caller takes a partition from a lane, the rest of a frame that is partly written is forgotten.",
        (
            _LANES,
            "        if each.lane.is_stalled or not each.connection.is_ready(self._now_ms()):\n            self._take_back(each)\n            return\n",
            "",
        ),
        reaches=_has_lanes,
    ),
    _bug(
        "lane-overtakes-frames",
        "A connection gets a new lane before the frames that the last one has read are handled.",
        (_LANES, "            or self._client.selector.is_resuming\n", ""),
        plans=_purging_plan,
    ),
    _bug(
        "lane-waits-before-it-settles",
        "An answer that a lane has held back is reported after the next wait.",
        (
            _IO,
            "            settled = self._plane.settle(self._monotonic_ms())  # by what was held\n",
            "            settled = 0\n",
        ),
        plans=lanes_plan,
    ),
    _bug(
        "lane-has-what-is-not-added",
        "In version 1, a lane gets a partition that was not added to the transaction.",
        (
            _LANES,
            "    return transaction.version >= 2 or topic_partition in transaction.partitions\n",
            "    return True\n",
        ),
        reaches=_has_version_1,
        plans=ending_plan,
    ),
    _bug(
        "lane-keeps-partitions-in-version-1",
        "In version 1, a lane sends to a partition that only an earlier transaction has added.",
        (
            _LIFECYCLE,
            "plane.begin_transaction(self.transaction, self.uses_version_2)",
            "plane.begin_transaction(self.transaction, True)",
        ),
        (
            _LANES,
            "part.added_to = transaction if transaction is not None and transaction.version < 2 else None",
            "part.added_to = None",
        ),
        reaches=_has_version_1,
        plans=ending_plan,
    ),
    _bug(
        "lane-keeps-the-numbers",
        "Sequence numbers that a lane has used are used again.",
        (_TRACKER, "        self._partition(topic_partition).next_sequence = next_sequence\n", ""),
        plans=lanes_plan,
    ),
)
