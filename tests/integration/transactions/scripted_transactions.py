"""A producer that a test kills; a program with the arguments SCRIPT SERVERS ID TOPIC GROUP.

``three``: commits the transaction "one" with an offset, aborts "two", commits "three"; each writes to both
partitions of TOPIC. ``prepare``: writes "handed over", prepares, prints the result, and hangs until it is
killed. ``tasks``: runs one micro-batch per line on standard input: transactions of TASKS transactional ids,
one after the other, each with a record and an offset of the group with the same name; prints each prepared
transaction. ``copy``: consumes TOPIC to its end and produces to TOPIC-copy, committing offsets in the
transactions.
"""

from __future__ import annotations

import pickle
import sys
import threading

from kproducer import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, TopicPartition

RECORDS = 20
OFFSET = 10
#: Records per transaction of the script "copy".
COPY_SIZE = 10
#: Transactional ids of the script "tasks".
TASKS = 5


def values_of(name: str) -> list[bytes]:
    """The values that a transaction writes to each partition."""
    return [b"%s-%d" % (name.encode(), number) for number in range(RECORDS)]


def send(producer: KafkaProducer, topic: str, name: str) -> None:
    for value in values_of(name):
        for partition in (0, 1):
            producer.send(topic, value, partition=partition)
    producer.flush()


def three(producer: KafkaProducer, topic: str, group: str, servers: str) -> None:
    with producer.transaction():
        send(producer, topic, "one")
        producer.send_offsets_to_transaction(
            {TopicPartition(topic, 0): OffsetAndMetadata(OFFSET)}, ConsumerGroupMetadata(group)
        )
    producer.begin_transaction()
    send(producer, topic, "two")
    producer.abort_transaction()
    with producer.transaction():
        send(producer, topic, "three")


def prepare(producer: KafkaProducer, topic: str, group: str, servers: str) -> None:
    producer.begin_transaction()
    send(producer, topic, "handed over")
    print(pickle.dumps(producer.prepare()).hex(), flush=True)
    threading.Event().wait(60)


def tasks(producer: KafkaProducer, topic: str, group: str, servers: str) -> None:
    for batch, _ in enumerate(sys.stdin):
        for task in range(TASKS):
            name = f"{topic}-{task}"
            producer.change_transactional_id(name)
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"%d-%d" % (batch, task), partition=task % 2)
            mark = {TopicPartition(topic, 0): OffsetAndMetadata(batch, metadata=f"task {task}")}
            producer.send_offsets_to_transaction(mark, ConsumerGroupMetadata(name))
            print(pickle.dumps(producer.prepare()).hex(), flush=True)


def copy(producer: KafkaProducer, topic: str, group: str, servers: str) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
    from confluent_kafka import TopicPartition as Place

    from tests.support.kafka.committed_records import committed_offset

    settings = {"bootstrap.servers": servers, "group.id": group, "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    # Fetched after init_transactions, when no earlier transaction can still be open.
    committed = committed_offset(servers, group, topic)
    consumer.assign([Place(topic, 0, OFFSET_BEGINNING if committed is None else committed)])
    is_at_end = False
    while not is_at_end:
        messages = []
        while not is_at_end and len(messages) < COPY_SIZE:
            message = consumer.poll(60)
            assert message is not None
            if message.error() is None:
                messages.append(message)
            else:
                # librdkafka handles all other errors itself.
                is_at_end = message.error().code() == KafkaError._PARTITION_EOF
        if messages:
            position = OffsetAndMetadata(messages[-1].offset() + 1)
            with producer.transaction():
                for message in messages:
                    producer.send(f"{topic}-copy", message.value(), partition=0)
                producer.send_offsets_to_transaction(
                    {TopicPartition(topic, 0): position}, ConsumerGroupMetadata(group)
                )
    consumer.close()


def main() -> None:
    script, servers, transactional_id, topic, group = sys.argv[1:]
    scripts = {"three": three, "prepare": prepare, "tasks": tasks, "copy": copy}
    with KafkaProducer(
        bootstrap_servers=servers,
        enable_idempotence=True,
        transactional_id=transactional_id,
        linger_ms=0,
    ) as producer:
        if script != "tasks":
            producer.init_transactions()
        scripts[script](producer, topic, group, servers)


if __name__ == "__main__":
    main()
