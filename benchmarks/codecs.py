"""Message codecs side by side: the generated code, kio and kafka-python, on the same messages in one run.

``python -m benchmarks.codecs`` prints a table: the best time of several rounds, in milliseconds, with the
garbage collector off. kio's core is native code, kafka-python is pure Python; ours decodes by compiled code
where that was built (``make native``), and a row of its own shows the generated functions without it. It also
prints how long the compiler takes. First it checks that all codecs produce, or decode, the same bytes.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import io
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kproducer_messages import MetadataResponse, ProduceRequest, ProduceResponse
from kproducer_messages._decoders import IMPLEMENTATION
from kproducer_messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kproducer_messages.produce_request import PartitionProduceData, TopicProduceData
from kproducer_messages.produce_response import PartitionProduceResponse, TopicProduceResponse

from codegen.compiler import compile_folder

METADATA_VERSION = 12
PRODUCE_VERSION = 9
_RECORDS = bytes(1024)
_ROOT = Path(__file__).parents[1]

#: The timed functions by the name of the implementation.
Row = dict[str, Callable[[], Any]]


def metadata_response() -> MetadataResponse:
    """1,000 topics of 10 partitions with 3 replicas each."""
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=5, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        for index in range(10)
    ]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=i, host=f"broker-{i}", port=9092, rack="r") for i in (1, 2, 3)
        ],
        cluster_id="cluster",
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=f"topic-{i:04}", topic_id=uuid.UUID(int=i + 1), partitions=[*partitions]
            )
            for i in range(1000)
        ],
    )


def produce_request() -> ProduceRequest:
    """One topic of 100 partitions with a kilobyte of records each."""
    partitions = [PartitionProduceData(index=index, records=_RECORDS) for index in range(100)]
    topic = TopicProduceData(name="orders", partition_data=partitions)
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> ProduceResponse:
    """Ten acknowledged partitions: the most frequent response of a producer."""
    partitions = [PartitionProduceResponse(index=index, base_offset=index * 10**6) for index in range(10)]
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=partitions)])


def _peers() -> list[tuple[Any, Any]]:
    """kio's and kafka-python's classes for each of our messages."""
    with warnings.catch_warnings():
        # kafka-python reads its specs with functions the standard library has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.protocol.metadata import MetadataResponse as KafkaPythonMetadata
        from kafka.protocol.producer import ProduceRequest as KafkaPythonProduce
        from kafka.protocol.producer import ProduceResponse as KafkaPythonResponse
    from kio.schema.metadata.v12.response import MetadataResponse as KioMetadata
    from kio.schema.produce.v9.request import ProduceRequest as KioProduce
    from kio.schema.produce.v9.response import ProduceResponse as KioResponse

    return [
        (KioMetadata, KafkaPythonMetadata),
        (KioProduce, KafkaPythonProduce),
        (KioResponse, KafkaPythonResponse),
    ]


def _message_rows(title: str, ours: Any, version: int, kio_class: Any, peer: Any) -> dict[str, Row]:
    from kio.serial import entity_reader, entity_writer

    data = ours.encode(version)
    read, write = entity_reader(kio_class), entity_writer(kio_class)
    kio_message, _ = read(data, 0)
    peer_message = peer.decode(data, version=version)
    peer_message._header = None  # not set by decoding, but required for encoding

    def kio_encode() -> bytes:
        sink = io.BytesIO()
        write(sink, kio_message)
        return sink.getvalue()

    def peer_encode() -> bytes:
        return bytes(peer_message.encode(version=version))

    def by_reference() -> bytearray:
        buffer = bytearray(ours.size(version) - ours.zero_copy_size(version))
        ours.encode_into(buffer, 0, version, [])
        return buffer

    if not data == kio_encode() == peer_encode() or type(ours).decode(data, version)[0] != ours:
        raise AssertionError(f"{title}: the codecs do not agree, so their times cannot be compared")
    rows: dict[str, Row] = {
        f"{title}, decode": {
            "kproducer": lambda: type(ours).decode(data, version),
            "kio": lambda: read(data, 0),
            "kafka-python": lambda: peer.decode(data, version=version),
        },
        f"{title}, encode": {
            "kproducer": lambda: ours.encode(version),
            "kio": kio_encode,
            "kafka-python": peer_encode,
        },
    }
    if IMPLEMENTATION == "native":
        rows[f"{title}, decode, generated"] = {"kproducer": _generated_decode(ours, data, version)}
    if ours.zero_copy_size(version):
        rows[f"{title}, encode, by reference"] = {"kproducer": by_reference}
    return rows


def _generated_decode(message: Any, data: bytes, version: int) -> Callable[[], Any]:
    """The generated function that the compiled decoder replaces."""
    module: Any = sys.modules[type(message).__module__]
    generated = module._DECODE[version].__self__.generated
    readable = memoryview(data) if message.zero_copy_size(version) else data
    return lambda: generated(readable, 0, len(data))


def _compiler_rows() -> dict[str, Row]:
    rows: dict[str, Row] = {"compile our specs": {"kproducer": lambda: compile_folder(_ROOT / "specs")}}
    found = importlib.util.find_spec("kafka")
    if found is not None and found.origin is not None:
        upstream = Path(found.origin).parent / "protocol" / "schemas" / "resources"
        count = len(list(upstream.glob("*.json")))
        rows[f"compile upstream's {count} specs"] = {"kproducer": lambda: compile_folder(upstream)}
    return rows


def _best_ms(work: Callable[[], Any], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codecs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="rounds; the best one counts")
    options = parser.parse_args(arguments)
    ours = [
        ("Metadata response v12, 1000 x 10 x 3", metadata_response(), METADATA_VERSION),
        ("Produce request v9, 100 partitions", produce_request(), PRODUCE_VERSION),
        ("Produce response v9, 10 partitions", produce_response(), PRODUCE_VERSION),
    ]
    rows: dict[str, Row] = {}
    for (title, message, version), (kio_class, peer) in zip(ours, _peers(), strict=True):
        rows |= _message_rows(title, message, version, kio_class, peer)
    names = ["kproducer", "kio", "kafka-python"]
    print(f"Message codecs, Python {sys.version.split()[0]}, milliseconds, best of {options.rounds}")
    print(f"kproducer's decoders: {IMPLEMENTATION}")
    print(f"{'':52}" + "".join(f"{name:>14}" for name in names))
    gc.collect()
    gc.disable()
    try:
        for table, rounds in ((rows, options.rounds), (_compiler_rows(), 2)):
            for title, row in table.items():
                cells = [
                    f"{_best_ms(row[name], rounds):14.4f}" if name in row else f"{'':14}" for name in names
                ]
                print(f"{title:52}" + "".join(cells), flush=True)
    finally:
        gc.enable()
    return 0


if __name__ == "__main__":
    sys.exit(main())
