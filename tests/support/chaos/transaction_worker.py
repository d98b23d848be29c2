"""Worker process of ``transaction_chaos``, which kills it: ``... transaction_worker ROLE SERVERS FOLDER NAME
SEED``.

``worker``: writes transactions of random size under the transactional id NAME until FOLDER/stop exists;
aborts some, and prepares others for the finisher. ``finisher``: commits or aborts prepared transactions.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kproducer import (
    AbortTransactionError,
    ConsumerGroupMetadata,
    FatalProducerError,
    KafkaError,
    KafkaProducer,
    KafkaTimeoutError,
    OffsetAndMetadata,
    TopicPartition,
    TransactionAbortedError,
)
from tests.support.chaos.transaction_ledger import Incarnation, Ledger, State
from tests.support.chaos.worker_processes import security_settings

TOPICS = ("chaos-a", "chaos-b", "chaos-c")
PARTITIONS = 3
MOST_RECORDS = 300
PAUSE_SECONDS = 0.02


def position_of(incarnation: Incarnation, transaction: int) -> int | None:
    """Offset that a transaction commits for its group: every third one does, with increasing offsets."""
    return incarnation.number * 1_000_000 + transaction if transaction % 3 == 0 else None


def again(call: Callable[[], None]) -> None:
    """Repeat a call until it does not time out."""
    while True:
        try:
            return call()
        except KafkaTimeoutError:
            continue


def make_producer(servers: str, name: str, chance: random.Random) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=servers,
        enable_idempotence=True,
        transactional_id=name,
        transaction_timeout_ms=8000,
        request_timeout_ms=3000,
        delivery_timeout_ms=60_000,
        linger_ms=chance.choice((0, 2)),
        batch_size=chance.choice((300, 2000, 16384)),
        compression_type=chance.choice(("none", "lz4")),
        retry_backoff_ms=50,
        reconnect_backoff_max_ms=500,
        **security_settings(),
    )


class Worker:
    """One process; each producer that it initializes is an incarnation with its own ledger."""

    def __init__(self, servers: str, folder: Path, name: str, seed: int) -> None:
        self._servers = servers
        self._folder = folder
        self._name = name
        self._chance = random.Random(seed)

    def run(self) -> None:
        while not self._is_over():
            producer = make_producer(self._servers, self._name, self._chance)
            try:
                again(producer.init_transactions)
                # The number is taken after the initialization: a higher number was initialized later, or is
                # already fenced and commits nothing.
                self._live(producer, *self._claim())
            except FatalProducerError as error:
                print(f"{self._name}: {error}", file=sys.stderr)
            finally:
                producer.close(timeout=5)

    def _is_over(self) -> bool:
        owner = self._folder / f"{self._name}.owner"
        return (self._folder / "stop").exists() or owner.read_text() != str(os.getpid())

    def _claim(self) -> tuple[Incarnation, Ledger]:
        number = 0
        while True:
            incarnation = Incarnation(self._name, number)
            path = self._folder / f"{incarnation}.jsonl"
            with contextlib.suppress(FileExistsError):
                path.touch(exist_ok=False)
                return incarnation, Ledger(path)
            number += 1

    def _live(self, producer: KafkaProducer, incarnation: Incarnation, ledger: Ledger) -> None:
        transaction = 0
        while not (self._folder / "stop").exists():
            transaction += 1
            if not self._one(producer, incarnation, ledger, transaction):
                return

    def _one(
        self, producer: KafkaProducer, incarnation: Incarnation, ledger: Ledger, transaction: int
    ) -> bool:
        """Run one transaction. Returns whether this producer can start another."""
        chance = self._chance
        plan = self._plan()
        ledger.note(transaction, State.BEGUN, Counter(f"{topic}-{number}" for topic, number in plan))
        try:
            producer.begin_transaction()
            self._send(producer, incarnation, transaction, plan)
            what = chance.random()
            if what < 0.15:
                ledger.note(transaction, State.ABORTED)
                again(producer.abort_transaction)
            elif what < 0.2:
                prepared = producer.prepare()
                self._leave_to_the_finisher(prepared, incarnation, transaction)
                return False
            else:
                ledger.note(transaction, State.COMMITTING)
                again(producer.commit_transaction)
                ledger.note(transaction, State.COMMITTED)
        except AbortTransactionError as error:
            # After a commit call this error means that nothing is visible, and the ledger must say so.
            ledger.note(transaction, State.ABORTED)
            print(f"{incarnation} {transaction}: {error}", file=sys.stderr)
            again(producer.abort_transaction)
        except KafkaTimeoutError:
            # Raised by send, prepare or offsets: an abort is still possible.
            ledger.note(transaction, State.ABORTED)
            again(producer.abort_transaction)
        return True

    def _plan(self) -> list[tuple[str, int]]:
        chance = self._chance
        places = [(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
        chosen = chance.sample(places, chance.randint(1, len(places)))
        return [chance.choice(chosen) for _ in range(chance.randint(1, MOST_RECORDS))]

    def _send(
        self,
        producer: KafkaProducer,
        incarnation: Incarnation,
        transaction: int,
        plan: list[tuple[str, int]],
    ) -> None:
        counts: Counter[tuple[str, int]] = Counter()
        repeats = (self._folder / "repeat").exists()
        for place in plan:
            value = b"%s %d %d" % (str(incarnation).encode(), transaction, counts[place])
            counts[place] += 1
            producer.send(place[0], value, partition=place[1])
            if repeats and self._chance.random() < 0.01:
                producer.send(place[0], value, partition=place[1])
            if self._chance.random() < 0.01:
                producer.flush()
        position = position_of(incarnation, transaction)
        if position is not None:
            producer.send_offsets_to_transaction(
                {TopicPartition(TOPICS[0], 0): OffsetAndMetadata(position)},
                ConsumerGroupMetadata(f"group-{self._name}"),
            )

    def _leave_to_the_finisher(self, prepared: object, incarnation: Incarnation, transaction: int) -> None:
        path = self._folder / f"{incarnation}.{transaction}.prepared"
        path.with_suffix(".part").write_bytes(pickle.dumps((prepared, self._chance.random() < 0.7)))
        path.with_suffix(".part").rename(path)
        while path.exists() and not (self._folder / "stop").exists():
            time.sleep(PAUSE_SECONDS)


def finish(servers: str, folder: Path, seed: int) -> None:
    """End prepared transactions until the run is over, except those that another process has ended."""
    chance = random.Random(seed)
    while not (folder / "stop").exists():
        for path in sorted(folder.glob("*.prepared")):
            name, number, transaction = path.name.split(".")[:3]
            ledger = Ledger(folder / f"{Incarnation(name, int(number))}.finisher.jsonl")
            finish_one(servers, name, path, ledger, int(transaction), chance)
            ledger.close()
            path.unlink()
        time.sleep(PAUSE_SECONDS)


def finish_one(
    servers: str, name: str, path: Path, ledger: Ledger, transaction: int, chance: random.Random
) -> None:
    prepared, is_commit = pickle.loads(path.read_bytes())
    with make_producer(servers, name, chance) as producer:
        try:
            if not is_commit:
                ledger.note(transaction, State.ABORTED)
                producer.abort_prepared(prepared)
                return
            ledger.note(transaction, State.COMMITTING)
            producer.commit_prepared(prepared)
            ledger.note(transaction, State.COMMITTED)
        except TransactionAbortedError:
            ledger.note(transaction, State.ABORTED)
        except KafkaError as error:
            # Fenced: the worker was killed and restarted.
            print(f"finisher, {path.name}: {error}", file=sys.stderr)


def main() -> None:
    role, servers, folder, name, seed = sys.argv[1:]
    if role == "finisher":
        finish(servers, Path(folder), int(seed))
    else:
        Worker(servers, Path(folder), name, int(seed)).run()


if __name__ == "__main__":
    main()
