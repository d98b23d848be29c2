"""The collector takes closed producers down, again and again, and begins somewhere else each time.

In what order it clears what it has found depends on all that was made before. What cannot stand every order
is a crash now and then: the end of the process, so ``test_native_robustness.py`` runs this as one of its own.
"""

from __future__ import annotations

import ctypes
import gc
import random
from collections.abc import Callable
from typing import Any

from kproducer import KafkaProducer
from kproducer.testing.fakebroker import FakeCluster

ROUNDS = 25

_untrack: Callable[[Any], None] = ctypes.pythonapi.PyObject_GC_UnTrack
_track: Callable[[Any], None] = ctypes.pythonapi.PyObject_GC_Track
for _function in (_untrack, _track):
    _function.argtypes, _function.restype = [ctypes.py_object], None  # type: ignore[attr-defined]


def use(servers: list[str], **settings: Any) -> None:
    """A producer with all that keeps itself alive: futures that lead to it, callbacks, an error."""
    producer = KafkaProducer(servers, **settings)
    if "transactional_id" in settings:
        producer.init_transactions()
        producer.begin_transaction()
    futures = [producer.send("t", b"value", on_delivery=lambda *_: producer) for _ in range(20)]
    futures[0].producer = producer  # type: ignore[attr-defined]
    producer.send_many("t", [b"value"] * 20)
    producer.flush()
    futures += [producer.send("t", b"late", on_delivery=lambda *_: futures)]
    producer.close(0)
    futures[-1].exception()


def collect_in_any_order(chance: random.Random) -> int:
    """Put all objects in an order of chance before. No other thread may run: its objects are held here."""
    found = gc.get_objects()
    chance.shuffle(found)
    for each in found:
        _untrack(each)
        _track(each)
    each = None
    found.clear()
    return gc.collect()


def main() -> None:
    chance = random.Random(0)
    gc.disable()
    collected = 0
    for number in range(ROUNDS):
        if number % 5 == 0:
            gc.freeze()
        with FakeCluster() as cluster:
            cluster.create_topic("t", 1)
            use(cluster.bootstrap_servers)
            use(cluster.bootstrap_servers, enable_idempotence=True, compression_type="gzip", linger_ms=0)
            use(cluster.bootstrap_servers, transactional_id="tx")
        del cluster
        collected += collect_in_any_order(chance)
    assert collected > 1000 * ROUNDS
    print(f"{ROUNDS} rounds")


if __name__ == "__main__":
    main()
