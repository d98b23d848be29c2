"""Worker process of ``idempotence_chaos``, which kills it: ``... idempotence_worker SERVERS FOLDER NAME
SEED``.

Runs one idempotent producer after the other with random settings until it is told to stop. Every record is in
a ledger before it is sent, and its result as soon as it is known.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from kproducer import KafkaError, KafkaProducer, Outcome, RecordMetadata, SendManyResult
from tests.support.chaos.idempotence_ledger import Lane, LedgerFile
from tests.support.chaos.worker_processes import security_settings

#: Partitions of each topic. ``single`` has one replica; ``brief`` is deleted and recreated.
TOPICS = {"triple": 3, "single": 2, "brief": 2}
#: Unsettled records at which a worker waits; without batching, each record is a request.
MOST_PENDING, MOST_PENDING_UNBATCHED = 3000, 100
#: Longer than brokers remember a producer id while ids expire.
IDLE_SECONDS = (2.2, 4.0)
PAUSE_SECONDS = 0.01


class Orders(NamedTuple):
    """Orders to the workers. Each change has a higher number.

    Attributes:
        held: topics to which workers stop sending after everything sent before has settled.
        vanishing: topics that will be deleted while workers send to them.
    """

    number: int = 0
    held: tuple[str, ...] = ()
    vanishing: tuple[str, ...] = ()
    stop: bool = False
    #: Producers pause for longer than brokers remember their ids.
    idle: bool = False
    repeat: bool = False

    def write(self, folder: Path) -> None:
        part = folder / "orders.part"
        part.write_text(json.dumps(self._asdict()))
        part.rename(folder / "orders")

    @classmethod
    def read(cls, folder: Path) -> Orders:
        orders = cls(**json.loads((folder / "orders").read_text()))
        return orders._replace(held=tuple(orders.held), vanishing=tuple(orders.vanishing))


class Obeyed(NamedTuple):
    """A worker's answer after everything that it sent before the order has settled.

    Attributes:
        number: of the orders that it answers.
        ends: by ``topic-partition``: highest offset acknowledged since the previous orders, plus 1; without
            vanishing topics.
    """

    number: int
    ends: dict[str, int]

    def write(self, path: Path) -> None:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(self))
        part.rename(path)

    @classmethod
    def read(cls, path: Path) -> Obeyed:
        return cls(*json.loads(path.read_text()))


def random_settings(chance: random.Random) -> dict[str, Any]:
    return {
        "batch_size": chance.choice((0, 0, 200, 2000, 16384, 200_000)),
        "linger_ms": chance.choice((0, 0, 2, 30)),
        "max_in_flight_requests_per_connection": chance.choice((1, 2, 3, 4, 5, 5, 5, 5)),
        "compression_type": chance.choice(("none", "none", "none", "lz4", "gzip")),
        "request_timeout_ms": chance.choice((1000, 2000, 5000)),
        "delivery_timeout_ms": chance.choice((5500, 12_000, 30_000)),
        "metadata_max_age_ms": chance.choice((300, 3000, 300_000)),
        "retry_backoff_ms": chance.choice((10, 50, 200)),
        "max_block_ms": 1000,
        "reconnect_backoff_max_ms": 300,
    }


class _Call(NamedTuple):
    """Accepted records; ``first`` is the number of the first one."""

    lane: Lane
    first: int
    results: SendManyResult | list[Future[RecordMetadata]]

    @property
    def is_done(self) -> bool:
        if isinstance(self.results, SendManyResult):
            return self.results.done()
        return all(future.done() for future in self.results)


class Worker:
    """One process; each of its producers has its own ledger."""

    def __init__(self, servers: str, folder: Path, name: str, seed: int) -> None:
        self._servers = servers
        self._folder = folder
        self._name = name
        self._chance = random.Random(seed)
        self._orders = Orders()

    def run(self) -> None:
        number = 0
        while not self._orders.stop:
            number += 1
            life = ProducerLife(self._servers, self._folder, f"{self._name}.{number}", self._chance)
            life.open_lanes(self._orders.vanishing)
            with life:
                self._live(life)

    def _live(self, life: ProducerLife) -> None:
        # Counted in calls, so that a producer that pauses while brokers forget its id continues afterwards.
        calls = self._chance.randint(30, 800)
        while calls > 0:
            orders = Orders.read(self._folder)
            if orders.number != self._orders.number:
                life.settle_all()
                life.open_lanes(orders.vanishing)
                Obeyed(orders.number, life.take_ends()).write(self._folder / f"{self._name}.obeyed")
                self._orders = orders
            if orders.stop:
                return
            topics = [topic for topic in TOPICS if topic not in orders.held]
            if topics:
                calls -= 1
                life.send_some(self._chance.choice(topics), orders.repeat)
            self._pause(orders.idle)

    def _pause(self, idle: bool) -> None:
        what = self._chance.random()
        if idle and what < 0.1:
            time.sleep(self._chance.uniform(*IDLE_SECONDS))
        elif what < 0.5:
            time.sleep(self._chance.uniform(0, 4 * PAUSE_SECONDS))


class ProducerLife:
    """One producer from its first record to ``close``. For one thread."""

    def __init__(self, servers: str, folder: Path, name: str, chance: random.Random) -> None:
        settings = random_settings(chance)
        print(f"{name}: {settings}", file=sys.stderr, flush=True)
        self._name = name
        self._chance = chance
        self._producer = KafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True, **settings, **security_settings()
        )
        self._ledger = LedgerFile(folder / f"{name}.ledger")
        self._lanes: dict[str, Lane] = {}
        self._lane_count = 0
        self._most_pending = MOST_PENDING if settings["batch_size"] else MOST_PENDING_UNBATCHED
        self._pending: list[_Call] = []
        self._ends: dict[str, int] = {}

    def __enter__(self) -> ProducerLife:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()
        self._settle()
        assert not self._pending, f"close() did not settle {self._pending[0]}"
        self._ledger.close()

    def open_lanes(self, vanishing: tuple[str, ...]) -> None:
        """Start new lanes when everything is settled: order is not checked across this point."""
        for topic in TOPICS:
            old = self._lanes.get(topic)
            if old is None or old.may_vanish != (topic in vanishing):
                self._lane_count += 1
                lane = Lane(f"{self._name}.{self._lane_count}", topic, topic in vanishing)
                self._ledger.open_lane(lane)
                self._lanes[topic] = lane

    def take_ends(self) -> dict[str, int]:
        ends, self._ends = self._ends, {}
        return ends

    # -- results ---------------------------------------------------------------------------------------

    def settle_all(self) -> None:
        self._producer.flush()
        self._settle()
        assert not self._pending, f"flush() did not settle {self._pending[0]}"

    def _settle(self) -> None:
        still = []
        for call in self._pending:
            if call.is_done:
                self._ledger.settle(self._outcomes(call))
            else:
                still.append(call)
        self._pending = still

    def _outcomes(self, call: _Call) -> Iterator[tuple[Lane, int, RecordMetadata | KafkaError]]:
        lane = call.lane
        for number, future in enumerate(call.results, call.first):
            outcome = future.exception() or future.result()
            if isinstance(outcome, RecordMetadata) and not lane.may_vanish:
                place = f"{lane.topic}-{outcome.partition}"
                self._ends[place] = max(self._ends.get(place, 0), outcome.offset + 1)
            yield lane, number, outcome

    # -- sending ---------------------------------------------------------------------------------------

    def send_some(self, topic: str, may_repeat: bool) -> None:
        chance, lane = self._chance, self._lanes[topic]
        while sum(len(call.results) for call in self._pending) > self._most_pending:
            self._settle()
            time.sleep(PAUSE_SECONDS)
        count = chance.choice((1, 3, 10, 40, 150))
        first = lane.add(count)
        values = [lane.value(first + row, self._size()) for row in range(count)]
        self._ledger.add(lane, count)
        chance.choice((self._send, self._send_many, self._send_arrow))(lane, first, values)
        if may_repeat and chance.random() < 0.05:
            self._producer.send(topic, values[0], partition=0)
        self._settle()

    def _size(self) -> int:
        """Mostly small; some are too large for a lowered limit."""
        return self._chance.choice((20, 20, 50, 100, 200)) if self._chance.random() < 0.95 else 1500

    def _partitions(self, topic: str, count: int) -> list[int]:
        """Either one partition for all records, which fills its pipeline, or random ones."""
        numbers = range(TOPICS[topic])
        if self._chance.random() < 0.5:
            return [self._chance.choice(numbers)] * count
        return [self._chance.choice(numbers) for _ in range(count)]

    def _send(self, lane: Lane, first: int, values: list[bytes]) -> None:
        partitions = self._any_partitions(lane.topic, len(values))
        for number, (value, partition) in enumerate(zip(values, partitions, strict=True), first):
            try:
                future = self._producer.send(lane.topic, value, partition=partition)
            except KafkaError as error:
                # The remaining records would each wait just as long for the topic.
                rest = range(number, first + len(values))
                self._ledger.settle((lane, each, error) for each in rest)
                return
            self._pending.append(_Call(lane, number, [future]))

    def _any_partitions(self, topic: str, count: int) -> list[Any]:
        """One partition per record, or ``None`` for all: the producer chooses."""
        return [None] * count if self._chance.random() < 0.3 else self._partitions(topic, count)

    def _send_many(self, lane: Lane, first: int, values: list[bytes]) -> None:
        partitions = self._any_partitions(lane.topic, len(values))
        self._bulk(lane, first, values, self._producer.send_many, partitions=partitions)

    def _send_arrow(self, lane: Lane, first: int, values: list[bytes]) -> None:
        partitions = pa.array(self._partitions(lane.topic, len(values)), pa.int32())
        table = pa.table({"value": pa.array(values, pa.binary()), "to": partitions})
        self._bulk(lane, first, table, self._producer.send_arrow, value="value", partition="to")

    def _bulk(self, lane: Lane, first: int, data: Any, call: Any, **columns: Any) -> None:
        accepted: SendManyResult | None = None
        error: KafkaError | None = None
        try:
            accepted = call(lane.topic, data, **columns)
        except KafkaError as raised:
            error = raised
            accepted = getattr(raised, "partial_result", None)
        if accepted:
            self._pending.append(_Call(lane, first, accepted))
        if error is not None:
            refused = range(first + (len(accepted) if accepted else 0), first + len(data))
            error.with_outcome(Outcome.NOT_SENT)
            self._ledger.settle((lane, number, error) for number in refused)


def main() -> None:
    servers, folder, name, seed = sys.argv[1:]
    Worker(servers, Path(folder), name, int(seed)).run()


if __name__ == "__main__":
    main()
