"""Read orders, write invoices: exactly one invoice for each order, even if this process is killed.

    pip install -e . confluent-kafka
    python examples/consume_transform_produce.py --bootstrap localhost:9092 \\
        --input orders --partition 0 --output invoices --group invoicing

kproducer has no consumer, so confluent-kafka's reads the orders. The invoices and the offset of the next
order are committed in one transaction of kproducer, so that either both are visible or neither is. Consumers
of the invoices need isolation.level=read_committed.

Run one process for each partition of the input, and restart it when it ends with an error: it continues with
the first order that has no invoice. Its transactional id contains the partition, so a new process for the
same partition fences the old one, should that still be running.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import threading
import time

import confluent_kafka

from kproducer import (
    ConsumerGroupMetadata,
    JsonSerializer,
    KafkaError,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)

log = logging.getLogger("invoicing")


def invoice(order: bytes) -> dict[str, object]:
    fields = json.loads(order)
    return {"order": fields["order"], "total": fields["quantity"] * fields["price"]}


def run(arguments: argparse.Namespace) -> None:
    producer = KafkaProducer(
        arguments.bootstrap,
        transactional_id=f"{arguments.group}-{arguments.input}-{arguments.partition}",
        value_serializer=JsonSerializer(),
    )
    with producer:
        # Ends what an earlier process left open. After that, the committed offset cannot change any more.
        producer.init_transactions()
        # From here on, Ctrl-C and SIGTERM let the open transaction end.
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": arguments.bootstrap,
                "group.id": arguments.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",  # orders that were deleted before they were read
                "isolation.level": "read_committed",
            }
        )
        try:
            consumer.assign([starting_point(consumer, arguments)])
            while not stop.is_set():
                messages = consumer.consume(num_messages=500, timeout=0.5)
                if messages:
                    copy(messages, producer, arguments)
        finally:
            consumer.close()


def starting_point(
    consumer: confluent_kafka.Consumer, arguments: argparse.Namespace
) -> confluent_kafka.TopicPartition:
    """The group's committed offset, or the beginning. Waits for a coordinator that is not ready yet."""
    source = confluent_kafka.TopicPartition(arguments.input, arguments.partition)
    deadline = time.monotonic() + 60
    while True:
        try:
            (place,) = consumer.committed([source], timeout=10)
        except confluent_kafka.KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            if place.offset < 0:
                place.offset = confluent_kafka.OFFSET_BEGINNING
            return place


def copy(
    messages: list[confluent_kafka.Message], producer: KafkaProducer, arguments: argparse.Namespace
) -> None:
    source = TopicPartition(arguments.input, arguments.partition)
    with producer.transaction():
        for message in messages:
            if message.error():
                raise confluent_kafka.KafkaException(message.error())
            try:
                value = invoice(message.value() or b"")
            except (KeyError, TypeError, ValueError) as error:
                # Without this, the process would fail at the same order after each restart.
                log.error("offset %d is no order, and is skipped: %r", message.offset(), error)
                continue
            producer.send(arguments.output, value, key=message.key())
        next_offset = OffsetAndMetadata(messages[-1].offset() + 1)  # type: ignore[operator]
        producer.send_offsets_to_transaction({source: next_offset}, ConsumerGroupMetadata(arguments.group))
    log.info("committed %d orders", len(messages))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--input", required=True, metavar="TOPIC")
    parser.add_argument("--partition", required=True, type=int)
    parser.add_argument("--output", required=True, metavar="TOPIC")
    parser.add_argument("--group", required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    try:
        run(arguments)
    except (KafkaError, confluent_kafka.KafkaException) as error:
        # The transaction is aborted, or its commit is resolved by the next process's init_transactions().
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
