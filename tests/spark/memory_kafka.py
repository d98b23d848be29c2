"""Transactions and committed offsets in memory, as far as the ports of exactly-once writes see them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kproducer._core.transactions.transaction_arguments import PreparedTransaction
from kproducer.errors import FencedError, KafkaError, TransactionAbortedError


class Rows(tuple):
    """What stands for a RecordBatch."""

    __slots__ = ()

    @property
    def num_rows(self) -> int:
        return len(self)


class SumOfRows:
    def __init__(self) -> None:
        self.rows = self.value = 0

    def update(self, batch: Rows) -> None:
        self.rows += len(batch)
        self.value = (self.value + sum(hash(row) for row in batch)) % 2**64


@dataclass
class _Transaction:
    epoch: int
    rows: list = field(default_factory=list)
    offsets: dict = field(default_factory=dict)
    state: str = "open"


class MemoryKafka:
    """One cluster. ``visible`` is what a reader with read_committed sees; ``calls`` is what was asked."""

    def __init__(self) -> None:
        self.epochs: Counter[str] = Counter()
        self.transactions: dict[str, _Transaction] = {}
        self.offsets: dict = {}
        self.visible: list = []
        self.calls: list[str] = []

    def initialize(self, transactional_id: str) -> int:
        self.epochs[transactional_id] += 1
        self.transactions[transactional_id] = _Transaction(self.epochs[transactional_id], state="none")
        return self.epochs[transactional_id]

    def write(self, transactional_id: str, epoch: int, rows=(), offsets=None) -> None:
        transaction = self._owned(transactional_id, epoch)
        if transaction.state != "open":
            self.transactions[transactional_id] = transaction = _Transaction(epoch)
        transaction.rows += rows
        transaction.offsets.update(offsets or {})

    def end(self, transactional_id: str, epoch: int, commit: bool) -> None:
        transaction = self._owned(transactional_id, epoch)
        wanted = "committed" if commit else "aborted"
        if transaction.state == wanted:
            return
        if transaction.state != "open":
            raise TransactionAbortedError("it was aborted")
        transaction.state = wanted
        if commit:
            self.visible += transaction.rows
            self.offsets.update(transaction.offsets)

    def time_out(self, transactional_id: str) -> None:
        self.transactions[transactional_id].state = "aborted"

    def _owned(self, transactional_id: str, epoch: int) -> _Transaction:
        transaction = self.transactions[transactional_id]
        if transaction.epoch != epoch:
            raise FencedError(f"{transactional_id} belongs to somebody else")
        return transaction


class MemoryTask:
    """``TaskPort``."""

    def __init__(self, kafka: MemoryKafka) -> None:
        self.kafka = kafka
        self.name = ""
        self.epoch = 0
        self.aborted = False

    def current_offset(self, group):
        return self.kafka.offsets.get(group)

    def initialize(self, transactional_id):
        self.name, self.epoch = transactional_id, self.kafka.initialize(transactional_id)

    def stable_offset(self, group):
        return self.kafka.offsets.get(group)

    def begin(self):
        pass

    def send(self, batch):
        self.kafka.write(self.name, self.epoch, batch)

    def flush(self):
        pass

    def add_marker(self, group, offset):
        self.kafka.write(self.name, self.epoch, offsets={group: offset})

    def prepare(self):
        return PreparedTransaction(self.name, 1, self.epoch, 2)

    def abort(self):
        self.aborted = True
        self.kafka.end(self.name, self.epoch, commit=False)


class MemoryDriver:
    """``DriverPort``."""

    def __init__(self, kafka: MemoryKafka) -> None:
        self.kafka = kafka
        self.epochs: dict[str, int] = {}

    def fence(self, transactional_ids):
        self.kafka.calls.append(f"fence {' '.join(transactional_ids)}")
        for each in transactional_ids:
            self.epochs[each] = self.kafka.initialize(each)

    def stable_offsets(self, groups):
        self.kafka.calls.append(f"markers {' '.join(groups)}")
        return {group: self.kafka.offsets.get(group) for group in groups}

    def current_offset(self, group):
        self.kafka.calls.append(f"decision {group}")
        return self.kafka.offsets.get(group)

    def decide(self, transactional_id, group, offset):
        self.kafka.calls.append("decide")
        self.kafka.write(transactional_id, self.epochs[transactional_id], offsets={group: offset})
        self.kafka.end(transactional_id, self.epochs[transactional_id], commit=True)

    def commit(self, prepared):
        return [self._end(each, commit=True) for each in prepared]

    def abort(self, prepared, unknown=()):
        for each in prepared:
            self._end(each, commit=False)
        if unknown:
            self.fence(unknown)

    def _end(self, prepared: PreparedTransaction, *, commit: bool) -> KafkaError | None:
        try:
            self.kafka.end(prepared.transactional_id, prepared.epoch, commit)
        except KafkaError as error:
            return error
        return None
