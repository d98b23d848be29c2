"""Worker process of a duel: ``... duel.worker CLIENT MODE SERVERS FOLDER DELIVERY_SECONDS BREAKAGE``.

Sends the load of ``load.py`` with one client until FOLDER/stop exists, then closes the producer. What the
client says is in FOLDER/MODE.ledger. FOLDER/MODE.ready appears when a record is acknowledged, and
FOLDER/MODE.end with the CPU seconds and the version when everything is over. DELIVERY_SECONDS: 0 for the
client's own timeouts.
``DuelWorker.java`` does the same with Java's client, without BREAKAGE.
"""

from __future__ import annotations

import faulthandler
import importlib
import signal
import sys
import time
from pathlib import Path

from tests.support.chaos.idempotence_ledger import Lane, Result
from tests.support.chaos.transaction_ledger import State
from tests.support.duel import load
from tests.support.duel.clients.session import DuelClient, ProducerOverError, Session
from tests.support.duel.ledger import DuelLedger, Told

#: Something wrong on purpose, every ``_BREAK_EVERY`` records or transactions: the verdict must show it.
CLAIM, TWICE, SWAP, COMMIT = "claim", "twice", "swap", "commit"
BREAKAGES = (CLAIM, TWICE, SWAP, COMMIT)
_BREAK_EVERY = 10
_PAUSE_AFTER_ERROR_SECONDS = 0.5


class Worker:
    """Runs one producer after the other: a new one only if the client says that the old one is over."""

    def __init__(self, client: DuelClient, mode: str, servers: str, folder: Path, breakage: str) -> None:
        self._client = client
        self._mode = mode
        self._servers = servers
        self._folder = folder
        self._breakage = breakage
        self._ledger = DuelLedger(folder / f"{mode}.ledger")
        self._lives = 0
        self._transactions = 0
        self._next_burst = 0.0

    def run(self) -> None:
        while not self._is_over():
            self._lives += 1
            lane = Lane(f"{self._mode}{self._lives}", load.TOPICS[self._mode])
            self._ledger.open_lane(lane)
            transactional_id = "duel" if self._mode == load.TRANSACTIONAL else None
            try:
                session = self._client.open(self._servers, transactional_id)
            except ProducerOverError as error:
                self._ledger.remark(f"{lane.name} was not initialized: {error}")
                time.sleep(_PAUSE_AFTER_ERROR_SECONDS)
                continue
            self._live(
                Life(session, lane, self._ledger, self._folder / f"{self._mode}.ready", self._breakage)
            )
        self._ledger.close()

    def _live(self, life: Life) -> None:
        try:
            while not self._is_over():
                if self._mode == load.TRANSACTIONAL:
                    self._transactions += 1
                    self._transaction(life, self._transactions)
                    life.settle()
                else:
                    self._pace(life)
                    if life.is_idle_enough:
                        life.send(load.BURST[self._mode])
                life.check()
        except Exception as error:
            # Whatever a client raises apart from what its documentation says: a program would start again.
            self._ledger.remark(f"{life.lane.name} is over: {error!r}")
            time.sleep(_PAUSE_AFTER_ERROR_SECONDS)
        finally:
            life.close()

    def _transaction(self, life: Life, number: int) -> None:
        self._ledger.begin(life.lane, number)
        life.session.begin()
        is_whole = True
        for _ in range(load.bursts_of(number)):
            self._pace(life)
            is_whole = life.send(load.BURST[self._mode])
            if not is_whole:
                break
        if is_whole and load.is_committed(number) and life.session.are_delivered():
            self._ledger.state(life.lane, number, State.COMMITTING)
            self._ledger.state(life.lane, number, life.session.commit())
        else:
            # Nothing of it may be visible, whatever becomes of the call.
            self._ledger.state(life.lane, number, State.ABORTED)
            life.session.abort()
            if self._breakage == COMMIT and number % _BREAK_EVERY == 4:
                self._ledger.state(life.lane, number, State.COMMITTED)

    def _pace(self, life: Life) -> None:
        """Wait for the time of the next burst; late ones are not made up for."""
        now = time.monotonic()
        self._next_burst = max(now, self._next_burst + load.PAUSE_SECONDS)
        while (rest := self._next_burst - time.monotonic()) > 0:
            life.session.poll(rest)
        life.settle()

    def _is_over(self) -> bool:
        return (self._folder / "stop").exists()


class Life:
    """One producer and its lane."""

    def __init__(
        self, session: Session, lane: Lane, ledger: DuelLedger, ready: Path, breakage: str = ""
    ) -> None:
        self.session = session
        self.lane = lane
        self._ledger = ledger
        self._ready = ready
        self._breakage = breakage
        self._settled = 0
        self._failed_in_a_row = 0

    @property
    def is_idle_enough(self) -> bool:
        return len(self.lane.results) - self._settled < load.MOST_PENDING

    def send(self, count: int) -> bool:
        """Send the next records. Returns whether the client accepted all of them."""
        first = self.lane.add(count)
        self._ledger.add(self.lane, count)
        for number in self._in_order(range(first, first + count)):
            try:
                self._send(number)
            except ProducerOverError:
                # The client refused this one, and the worker did not try the others.
                self._refuse(range(number, first + count))
                raise
            if self.session.has_refused:
                self.session.has_refused = False
                self._refuse(range(number + 1, first + count))
                return False
        return True

    def _send(self, number: int) -> None:
        partition = load.partition_of(number)
        if self._breakage == CLAIM and number % _BREAK_EVERY == 0:
            self.session.told.append(Told(number, Result.ACKNOWLEDGED, partition))
            return
        value = self.lane.value(number, load.VALUE_BYTES)
        self.session.send(self.lane.topic, partition, value, number)
        if self._breakage == TWICE and number % _BREAK_EVERY == 0:
            self.session.send(self.lane.topic, partition, value, number)

    def _in_order(self, numbers: range) -> list[int]:
        if self._breakage != SWAP:
            return list(numbers)
        return [numbers[1], numbers[0], *numbers[2:]]

    def _refuse(self, numbers: range) -> None:
        self.session.told.extend(Told(each, Result.REJECTED, error="not sent") for each in numbers)

    def settle(self) -> None:
        """Write what the client has said until now."""
        told = [self.session.told.popleft() for _ in range(len(self.session.told))]
        if told and any(each.result is Result.ACKNOWLEDGED for each in told):
            self._ready.touch()
        for each in told:
            self._failed_in_a_row = 0 if each.result is Result.ACKNOWLEDGED else self._failed_in_a_row + 1
        self._settled += len(told)
        self._ledger.tell(self.lane, told)

    def check(self) -> None:
        """Raises ProducerOverError if another producer is needed."""
        if self._failed_in_a_row > load.MOST_FAILED_IN_A_ROW:
            raise ProducerOverError(f"{self._failed_in_a_row} records in a row failed")
        self.session.check()

    def close(self) -> None:
        try:
            self.session.close()
        except Exception as error:
            self._ledger.remark(f"{self.lane.name}: close: {error!r}")
        self.settle()


def main() -> None:
    name, mode, servers, folder, delivery_seconds, breakage = sys.argv[1:]
    faulthandler.register(signal.SIGQUIT, all_threads=True)
    module = importlib.import_module(f"tests.support.duel.clients.{name.replace('-', '_')}_client")
    client: DuelClient = module.Client(float(delivery_seconds) or None)
    Worker(client, mode, servers, Path(folder), breakage).run()
    part = Path(folder) / f"{mode}.end-part"
    part.write_text(f"{time.process_time():.2f} {client.version}")
    part.rename(Path(folder) / f"{mode}.end")


if __name__ == "__main__":
    main()
