"""World: the operating system that a producer and its brokers see in a simulation.

Within ``with World(seed):``, threads, locks, clocks, sockets, selectors and sources of randomness of the
process are those of the simulation. Nothing else may run in the process meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import pkgutil
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import kproducer_messages
import pyarrow as pa

import kproducer._core.bulk
import kproducer._core.client
import kproducer._core.config
import kproducer._core.engine
import kproducer._core.metrics
import kproducer._core.security
import kproducer._core.telemetry
import kproducer._core.transactions
import kproducer.testing
from kproducer import kafka_producer
from kproducer._core.accumulator import (
    buffer_pool,
    future_record_metadata,
    owned_lock,
    partition_queue,
    record_accumulator,
)
from kproducer._core.event_loop import loop_waiters
from kproducer._core.network import channel_io, host_resolver, selector
from kproducer._core.runtime import threads as io_threads
from kproducer.types import Node
from tests.simulation import threads
from tests.simulation.network import Network, Selector
from tests.simulation.scheduler import Scheduler, Task

# What is imported within a simulation would keep its clocks and locks, and take steps in the first run only.
for _package in (
    kproducer._core.bulk,
    kproducer._core.client,
    kproducer._core.config,
    kproducer._core.engine,
    kproducer._core.metrics,
    kproducer._core.security,
    kproducer._core.transactions,
    kproducer.testing,
    kproducer._core.telemetry,
    kproducer_messages,
):
    for _found in pkgutil.walk_packages(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_found.name)
for _name in ("concurrent.futures.thread", "kproducer._core.installation", "kproducer._core.columns.arrow"):
    importlib.import_module(_name)
# Imports pandas, if it is there.
pa.array([b""], pa.binary())

#: 2023-11-14, when virtual time begins.
_WALL_START_NS = 1_700_000_000_000_000_000
_RealRandom = random.Random


#: Of all host names that can be resolved.
HOST_SUFFIX = "simulated"


class _RaisingHandler(logging.Handler):
    def handle(self, record: logging.LogRecord) -> bool:
        raise ValueError("a log handler that raises")


class World:
    """See the module. One at a time.

    Args:
        seed: decides everything that is left open.
        latency_ns: of the network, one way.
        partial_rate: how often a send or a read moves a part only.
        switch_rate: how often threads are interrupted where they could be.
        logs_raise: messages of the producer go to a handler that raises; else to none.

    Attributes:
        scheduler, network: its parts.
        wall_shift_ns: by how much the wall clock was set.
        names_fail: the name service answers nothing.
        name_delay_s: how long a look-up takes.
    """

    def __init__(
        self,
        seed: object,
        *,
        latency_ns: tuple[int, int] = (50_000, 500_000),
        partial_rate: float = 0.05,
        switch_rate: float = 0.05,
        logs_raise: bool = False,
    ) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed, switch_rate)
        self.network = Network(self.scheduler, latency_ns, partial_rate)
        self.wall_shift_ns = 0
        self.names_fail = False
        self.name_delay_s = 0.0
        self._logs_raise = logs_raise
        self._undo = contextlib.ExitStack()
        self._randomness = _RealRandom(f"randomness {seed}")

    def monotonic_ms(self) -> int:
        # Compiled code and plain Python between locks are interrupted, too: here is a place for that.
        self.scheduler.pause()
        return self.scheduler.now_ns // 1_000_000

    def wall_ns(self) -> int:
        return _WALL_START_NS + self.scheduler.now_ns + self.wall_shift_ns

    def wall_ms(self) -> int:
        return self.wall_ns() // 1_000_000

    def run(self, *functions: Callable[[], Any], limit_s: float = 3600) -> list[Task]:
        """Run each function as a thread, until all have returned."""
        tasks = [self.scheduler.spawn(f.__name__, f) for f in functions]
        running = list(tasks)
        for task in tasks:
            task.on_end.append(partial(running.remove, task))
        self.scheduler.run(lambda: not running, int(limit_s * 1e9))
        return tasks

    def sleep(self, seconds: float) -> None:
        self.scheduler.sleep(int(seconds * 1e9))

    # -- the patches -------------------------------------------------------------------------------------

    def __enter__(self) -> World:
        scheduler, network = self.scheduler, self.network
        for primitive in (
            threads.Lock,
            threads.RLock,
            threads.Event,
            threads.Thread,
            threads.Local,
            threads.SimpleQueue,
        ):
            primitive.scheduler = scheduler
        Selector.network = network
        simulated_owned_lock = type(
            "OwnedLock",
            (threads.RLock,),
            {
                name: value
                for name, value in {**vars(owned_lock.ReentrantLock), **vars(owned_lock.OwnedLock)}.items()
                if name[:2] != "__" or name in ("__init__", "__enter__")
            }
            | {"_holds_another": None},
        )
        main = threads.Thread(name="outside")

        draw = self._randomness.random

        class SeededRandom(_RealRandom):
            def __init__(self, seed: Any = None) -> None:
                super().__init__(draw() if seed is None else seed)

        def current_thread() -> Any:
            task = scheduler.current
            return main if task is None else task.thread or task

        now_s = lambda: scheduler.now_ns / 1e9  # noqa: E731
        replaced: list[tuple[Any, dict[str, Any]]] = [
            (
                threading,
                {
                    "Lock": threads.Lock,
                    "RLock": threads.RLock,
                    "_allocate_lock": threads.Lock,
                    "Event": threads.Event,
                    "Thread": threads.Thread,
                    "_time": now_s,
                    "get_ident": lambda: threads.get_ident(scheduler),
                    "current_thread": current_thread,
                },
            ),
            (
                time,
                {
                    "monotonic": now_s,
                    "monotonic_ns": lambda: scheduler.now_ns,
                    "time_ns": self.wall_ns,
                    "time": lambda: self.wall_ns() / 1e9,
                    "perf_counter": now_s,
                    "sleep": self.sleep,
                },
            ),
            (
                socket,
                {
                    "socket": network.socket,
                    "socketpair": network.socketpair,
                    "getaddrinfo": self._look_up,
                },
            ),
            (host_resolver, {"SimpleQueue": threads.SimpleQueue}),
            (selectors, {"DefaultSelector": Selector}),
            (random, {"Random": SeededRandom}),
            (os, {"urandom": self._randomness.randbytes}),
            # The hash of a string, and so the order of a set, differs from process to process.
            (Node, {"__hash__": lambda node: node.id}),
            (kafka_producer, {"SystemClock": lambda: self}),
            (selector, {"PlaintextChannelIo": channel_io.PortableChannelIo}),
            (io_threads, {"_this_thread": threads.Local(is_io_thread=False)}),
            (loop_waiters, {"_this_thread": threads.Local(reference=None)}),
            *(
                (module, {"OwnedLock": simulated_owned_lock})
                for module in (buffer_pool, partition_queue, record_accumulator)
            ),
        ]
        self.replace(replaced)
        lock = threads.RLock()
        self._replace(future_record_metadata.FutureRecordMetadata, "_lock", lock)
        self._replace(future_record_metadata.FutureRecordMetadata, "_condition", threading.Condition(lock))
        random.seed(self._randomness.random())
        if self._logs_raise:
            self._log_to(_RaisingHandler())
        else:
            logging.disable(logging.CRITICAL)
            self._undo.callback(logging.disable, logging.NOTSET)
        if gc.isenabled():
            gc.disable()
            self._undo.callback(gc.enable)
        self._undo.callback(scheduler.end)
        return self

    def _look_up(self, host: str, port: int | None, *_: Any, flags: int = 0, **__: Any) -> list[Any]:
        """``socket.getaddrinfo``: names with ``HOST_SUFFIX`` and IPv4 addresses."""
        if not host.endswith(HOST_SUFFIX):
            socket.inet_aton(host)
            address = host
        elif flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not an address")
        else:
            if self.name_delay_s:
                self.sleep(self.name_delay_s)
            if self.names_fail:
                raise socket.gaierror(socket.EAI_AGAIN, "the name service does not answer")
            address = "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))]

    def _log_to(self, handler: logging.Handler) -> None:
        logger = logging.getLogger("kproducer")
        self.replace(
            [
                (logger, {"handlers": [handler], "propagate": False}),
                (logging, {"raiseExceptions": False}),
                (logging.getLogger("asyncio"), {"disabled": True}),
            ]
        )
        self._undo.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.DEBUG)

    def replace(self, replaced: Iterable[tuple[Any, Mapping[str, Any]]]) -> None:
        """Replace attributes of objects, by object and name, until the simulation ends."""
        for target, names in replaced:
            for name, value in names.items():
                self._replace(target, name, value)

    def _replace(self, target: Any, name: str, value: Any) -> None:
        self._undo.callback(setattr, target, name, getattr(target, name))
        setattr(target, name, value)

    def __exit__(self, *_: object) -> None:
        self._undo.close()
        # The finalizer of a producer refers to its clock, which is this object, and must not keep the rest.
        self.network.forget()
