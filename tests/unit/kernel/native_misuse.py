"""Calls all public names of a compiled module with arbitrary arguments; they may only raise.

``python -m tests.unit.kernel.native_misuse MODULE SEED ROUNDS OTHER_MODULES``: objects made without
``__init__``, attributes set and deleted, methods called with arguments of every kind and size, released
views, objects that answer differently each time, and objects of the other modules. A process of its own,
because a fault ends it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import inspect
import random
import signal
import socket
import sys
from array import array
from collections.abc import Callable
from datetime import datetime, timezone
from types import ModuleType
from typing import Any

import pyarrow as pa

from kproducer._core.columns.avro_records import ValueChild, ValueNode
from kproducer._core.columns.encoder_plan import ROW, AvroOperation, EncoderPlan, Format, PlanNode

KEPT_OBJECTS = 60

TABLE = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "s": pa.array(["a", None, "c"]).dictionary_encode(),
        "l": pa.array([[1], None, []], pa.list_(pa.int32())),
        "r": pa.array([{"x": 1}, None, {"x": 3}], pa.struct([("x", pa.int32())])),
        "d": pa.array([1, None, 3], pa.decimal128(5, 1)),
    }
)


class Rude:
    """Takes every call, and answers differently each time."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def __call__(self, *arguments: object, **named: object) -> Any:
        return self._chance.choice([None, 1, b"x", (), [], self])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._chance.choice([self, None, 5, [], {}, array("i", [1, 2]), array("q", range(40))])

    def __len__(self) -> int:
        return self._chance.choice([0, 1, 5, 2**31, 2**62])

    def __iter__(self) -> Any:
        return iter([self, None, b"x"])

    def __index__(self) -> int:
        return self._chance.choice([0, 1, -1, 2**31, 2**62])

    def __getitem__(self, place: object) -> Any:
        return self._chance.choice([self, None, 1])


class Misuse:
    """One run over one module; the others lend objects."""

    def __init__(self, module: ModuleType, others: list[ModuleType], seed: int) -> None:
        self._chance = random.Random(seed)
        self._module = module
        self._classes = _classes(module)
        self._other_classes = [found for other in others for found in _classes(other)]
        self._functions = [
            found
            for found in vars(module).values()
            if callable(found)
            and not isinstance(found, type)
            and getattr(found, "__module__", "") == module.__name__
        ]
        self._sockets = socket.socketpair()
        for end in self._sockets:
            end.setblocking(False)
        self._made: list[Any] = []

    def step(self) -> None:
        """One deed; any exception is fine."""
        deeds: list[Callable[[], Any]] = [self._make, self._make, self._change, *[self._call] * 4]
        if self._functions:
            deeds.append(self._call_function)
        result = self._chance.choice(deeds)()
        if result is not None:
            self._made.append(result)
        if len(self._made) > KEPT_OBJECTS:
            del self._made[self._chance.randrange(len(self._made))]

    def _make(self) -> Any:
        chance = self._chance
        classes = self._classes if self._classes and chance.random() < 0.7 else self._other_classes
        chosen = chance.choice(classes)
        if chance.random() < 0.2:
            return chosen.__new__(chosen)
        if chance.random() < 0.2:
            chosen = type("Sub", (chosen,), {})
        return chosen(*self._arguments(chosen))

    def _change(self) -> Any:
        owner = self._chance.choice(self._made)
        names = [name for name in _names(owner) if not callable(getattr(type(owner), name, None))]
        name = self._chance.choice(names)
        how = self._chance.random()
        if how < 0.15:
            delattr(owner, name)
        elif how < 0.5:
            setattr(owner, name, self._argument())
        else:
            return getattr(owner, name)
        return None

    def _call(self) -> Any:
        owner = self._chance.choice(self._made)
        if not isinstance(owner, (*self._classes, *self._other_classes)):
            return None
        names = [name for name in _names(owner) if callable(getattr(type(owner), name, None))]
        method = getattr(owner, self._chance.choice([*names, "__init__"]))
        return method(*self._arguments(method))

    def _call_function(self) -> Any:
        function = self._chance.choice(self._functions)
        return function(*self._arguments(function))

    def _arguments(self, called: Any) -> list[Any]:
        # By chance, plans and dictionaries that fit each other would be too rare.
        name = getattr(called, "__name__", "")
        if name == "AvroRecordEncoder" and self._chance.random() < 0.8:
            return [self._value_nodes(), b"prefix", Rude(self._chance)]
        if name == "encode" and self._chance.random() < 0.8:
            return [self._record()]
        count = self._chance.randrange(8)
        if self._chance.random() < 0.8:
            with contextlib.suppress(ValueError, TypeError):
                count = len(inspect.signature(called).parameters)
        return [self._argument() for _ in range(count)]

    def _argument(self, depth: int = 0) -> Any:
        chance = self._chance
        if self._made and chance.random() < 0.35:
            return chance.choice(self._made)
        several = [self._argument(depth + 1) for _ in range(chance.randrange(4))] if depth < 2 else []
        released = memoryview(b"gone")
        released.release()
        number = chance.choice([0, 1, 2, -1, 7, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 2**64])
        values: list[Any] = [
            *(None, True, 1.5, "text", "\ud800", "\u00e9", b"", b"bytes" * 9, number, number, number),
            *(bytearray(70), bytearray(300), memoryview(bytearray(500))[3:400], released),
            *(memoryview(array("q", range(9))), array("i", [0] * 8), array("q", [0] * 8)),
            *(several, tuple(several), dict.fromkeys("ab", several), [("h", b"v")], [b"v"] * len(several)),
            *(
                TABLE,
                self._plan(),
                EncoderPlan(number, self._node(0), b"p"),
                EncoderPlan(number, Rude(chance)),
            ),  # type: ignore[arg-type]
            *(self._value_nodes(), self._record()),
            *(Rude(chance), object, self._sockets[0].fileno(), self._sockets[1].fileno()),
        ]
        return chance.choice(values)

    def _plan(self) -> EncoderPlan:
        """Of rows, or of one column; it may fit ``TABLE``."""
        chance = self._chance
        format_ = chance.choice(list(Format))
        if chance.random() < 0.3:
            return EncoderPlan(format_, self._node(0))
        record = {Format.AVRO: AvroOperation.RECORD}.get(format_, chance.randrange(20))
        children = tuple(self._node(1) for _ in range(chance.randrange(4)))
        return EncoderPlan(format_, PlanNode(record, ROW, children=children), b"p")

    def _node(self, depth: int) -> PlanNode:
        chance = self._chance
        children = tuple(self._node(depth + 1) for _ in range(chance.randrange(3))) if depth < 3 else ()
        limit = (10**5).to_bytes(32, "little")
        return PlanNode(
            chance.randrange(25),
            chance.choice([0, 0, 1, 2, 3, 4, 5, -1, -2, -3, -4]),
            chance.choice([b"", b"pre", None]),  # type: ignore[arg-type]
            chance.choice([b"", b"null", None]),
            chance.choice([children, children, list(children), None]),  # type: ignore[arg-type]
            chance.choice([0, 1, 16, -5, 2**63 - 1, -(2**63)]),
            chance.choice([0, 1, 32, 64, -1, 2**40]),
            chance.choice([0, 12, 16, -1, 2**31, 2**40]),
            chance.choice([(), ((b"", limit),), ((b"a", b"\0"), (b"c", b"\1")), ((b"a",),), (None,), None]),  # type: ignore[arg-type]
        )

    def _value_nodes(self) -> tuple[Any, ...]:
        """The plan of an encoder of dictionaries; it may fit ``_record``."""
        chance = self._chance
        return (self._value_node(15), *(self._value_node() for _ in range(chance.randrange(5))))

    def _value_node(self, operation: int | None = None) -> Any:
        chance = self._chance
        children = tuple(
            ValueChild(
                chance.randrange(5) if chance.random() < 0.9 else chance.choice([-1, 9, 2**40]),
                chance.choice(["a", "b", "a", "b", 0, 1, None]),  # type: ignore[arg-type]
                chance.choice([(), (), (1,), None]),  # type: ignore[arg-type]
            )
            for _ in range(chance.randrange(4))
        )
        node = ValueNode(
            chance.randrange(18) if operation is None else operation,  # type: ignore[arg-type]
            chance.choice([children, children, children, list(children)]),  # type: ignore[arg-type]
            chance.choice([0, 1, 32, 64, 1000, -1, 2**62]),
            chance.choice([{"a": b"1", 1: b""}, {"a": 1}, Rude(chance), None]),
        )
        return node if chance.random() < 0.95 else list(node)

    def _record(self) -> Any:
        chance = self._chance
        parts: list[Any] = [1, None, 2**70, 1.5, "a", "\ud800", b"x", datetime.now(timezone.utc), [1], ["a"]]
        record: dict[Any, Any] = {
            key: chance.choice(parts) for key in chance.choice(["ab", "ba", "a", "abc"])
        }
        record["a" if chance.random() < 0.3 else "c"] = chance.choice([record, [record], {"a": record}])
        return record


def _classes(module: ModuleType) -> list[type]:
    return [
        found
        for found in vars(module).values()
        if isinstance(found, type) and found.__module__ == module.__name__
    ]


def _names(owner: object) -> list[str]:
    return [name for name in dir(type(owner)) if not name.startswith("__")]


def main(name: str, others: list[str], seed: int, rounds: int) -> None:
    faulthandler.enable()
    misuse = Misuse(importlib.import_module(name), [importlib.import_module(other) for other in others], seed)
    # Nothing that waits waits for long.
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    taken = 0
    for round_number in range(rounds):
        with contextlib.suppress(Exception):
            misuse.step()
            taken += 1
        if round_number % 100 == 0:
            gc.collect()
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(f"{name}: {taken} of {rounds} raised nothing")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[4:], int(sys.argv[2]), int(sys.argv[3]))
