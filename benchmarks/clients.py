"""The clients and sending methods to measure, and which of them are installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module

from benchmarks.sessions import Session, Target

#: One future per record, for an application that reads those that matter to it.
MAIN = "kproducer send, futures kept"
#: The reference for ratios: the fastest other client that reports the result of each record.
REFERENCE = "confluent-kafka, callback"
#: The same with a thread that calls ``poll``, so that callbacks never wait for the next ``produce``.
POLL_THREAD = "confluent-kafka, poll thread"
CALLBACK = "kproducer send, callback"
ASYNC_SUBMIT = "kproducer async submit"
#: With 1,000 sends at once, much of the time is linger; aiokafka's time per record grows with their number.
ASYNC_SENDS, ASYNC_MANY_SENDS = (f"kproducer async, {count} gathered sends" for count in ("1,000", "10,000"))
AIOKAFKA = "aiokafka"
AIOKAFKA_SENDS, AIOKAFKA_MANY_SENDS = (f"aiokafka, {count} gathered sends" for count in ("1,000", "10,000"))
KAFKA_PYTHON = "kafka-python"
MANY, ARROW = "kproducer send_many", "kproducer send_arrow"
PRODUCE_BATCH = "confluent-kafka, produce_batch"
#: kproducer's adapters, and the clients whose interface they have.
ADAPTERS = {
    "kproducer.compat.confluent_kafka, callback": REFERENCE,
    "kproducer.compat.aiokafka": AIOKAFKA,
    "kproducer.compat.kafka": KAFKA_PYTHON,
}
#: Measured on one row: adapters cost the same per record on every row, and 10,000 sends at once take seconds.
ON_ONE_ROW = {*ADAPTERS, ASYNC_MANY_SENDS, AIOKAFKA_MANY_SENDS}
#: As on systems without epoll; only for the comparison in ``portable_io``.
PORTABLE = "kproducer send, portable I/O"
JAVA = "Java's perf tool"


@dataclass(frozen=True)
class Client:
    """A client with one method of sending.

    Attributes:
        name: in tables.
        distribution: the package whose version is reported.
        session: ``module:class`` of its ``Session``; imported only in the sending process.
        environment: additional variables of that process.
        method: of ``KafkaProducer``; the client is skipped if it does not exist.
        gathered: how many sends it makes at once; the records of a run are a multiple of it.
    """

    name: str
    distribution: str
    session: str
    environment: dict[str, str] = field(default_factory=dict)
    method: str | None = None
    gathered: int = 1

    def open(self, target: Target) -> Session:
        module_name, class_name = self.session.split(":")
        factory: Callable[[Target], Session] = getattr(import_module(module_name), class_name)
        return factory(replace(target, gathered=self.gathered))


#: So that a missing native kernel is an error, and the pure one is not measured in its place.
NATIVE = {"KPRODUCER_KERNEL": "native"}
_PURE = {"KPRODUCER_KERNEL": "pure"}
_OURS = "benchmarks.kproducer_sessions"
_PEERS = "benchmarks.peer_sessions"

CLIENTS = (
    Client(MAIN, "kproducer", f"{_OURS}:KeptFutureSession", NATIVE),
    Client("kproducer send, results read", "kproducer", f"{_OURS}:ReadFutureSession", NATIVE),
    Client("kproducer send, futures dropped", "kproducer", f"{_OURS}:DroppedFutureSession", NATIVE),
    Client(CALLBACK, "kproducer", f"{_OURS}:CallbackSession", NATIVE),
    Client(MANY, "kproducer", f"{_OURS}:ManySession", NATIVE, method="send_many"),
    Client(ARROW, "kproducer", f"{_OURS}:ArrowSession", NATIVE, method="send_arrow"),
    Client(ASYNC_SUBMIT, "kproducer", f"{_OURS}:AsyncSubmitSession", NATIVE),
    Client(ASYNC_SENDS, "kproducer", f"{_OURS}:AsyncSendsSession", NATIVE, gathered=1_000),
    Client(ASYNC_MANY_SENDS, "kproducer", f"{_OURS}:AsyncSendsSession", NATIVE, gathered=10_000),
    Client("kproducer send, pure Python", "kproducer", f"{_OURS}:KeptFutureSession", _PURE),
    Client(REFERENCE, "confluent-kafka", f"{_PEERS}:ConfluentCallbackSession"),
    Client(POLL_THREAD, "confluent-kafka", f"{_PEERS}:ConfluentPollThreadSession"),
    Client("confluent-kafka, no callback", "confluent-kafka", f"{_PEERS}:ConfluentSession"),
    Client(PRODUCE_BATCH, "confluent-kafka", f"{_PEERS}:ConfluentBatchSession"),
    Client(AIOKAFKA, "aiokafka", f"{_PEERS}:AiokafkaSession"),
    Client(AIOKAFKA_SENDS, "aiokafka", f"{_PEERS}:AiokafkaSendsSession", gathered=1_000),
    Client(AIOKAFKA_MANY_SENDS, "aiokafka", f"{_PEERS}:AiokafkaSendsSession", gathered=10_000),
    Client(KAFKA_PYTHON, "kafka-python", f"{_PEERS}:KafkaPythonSession"),
    *(
        Client(name, "kproducer", f"{_PEERS}:{session}", NATIVE)
        for name, session in zip(
            ADAPTERS,
            ("ConfluentAdapterSession", "AiokafkaAdapterSession", "KafkaPythonAdapterSession"),
            strict=True,
        )
    ),
)
#: The clients of the groups of rows other than "throughput", which has all.
CLIENTS_OF_GROUP = {
    "small-batches": (MAIN, CALLBACK, MANY, ARROW, REFERENCE, POLL_THREAD, PRODUCE_BATCH),
    "partitions": (MAIN, REFERENCE, POLL_THREAD),
}
_PORTABLE_CLIENT = Client(PORTABLE, "kproducer", "benchmarks.portable_session:PortableIoSession", NATIVE)
BY_NAME = {client.name: client for client in (*CLIENTS, _PORTABLE_CLIENT)}


def has_native_kernel() -> bool:
    """Whether all of the native core can be used; otherwise only the pure kernel is measured."""
    return not import_module("kproducer").build_info().missing_modules


def default_batch_bytes() -> dict[str, int]:
    """The batch size of "own defaults" per client: ours from the code, the others' from their references."""
    config = import_module("kproducer").ProducerConfig(bootstrap_servers="localhost:9092")
    java = 16_384
    return {
        "kproducer": config.batch_size,
        "confluent-kafka": 1_000_000,
        "aiokafka": java,
        "kafka-python": java,
        JAVA: java,
    }


def available_clients() -> tuple[list[Client], list[str]]:
    """The clients that can be measured here, and a line with the reason for each other one."""
    found: list[Client] = []
    left_out: list[str] = []
    is_native = has_native_kernel()
    if not is_native:
        left_out.append(
            "kproducer at fixed rates, at rest and with idempotence, and formats: no native kernel here"
        )
    producer = import_module("kproducer").KafkaProducer
    for client in CLIENTS:
        if client.environment == NATIVE and not is_native:
            left_out.append(f"{client.name}: no native kernel here (make native)")
        elif client.method is not None and not hasattr(producer, client.method):
            left_out.append(f"{client.name}: this version has no {client.method}()")
        else:
            found.append(client)
    return found, left_out
