"""Kombu messages, and with them Celery tasks, over Kafka: kombu's Kafka transport with kproducer's adapter.

    pip install -e . kombu confluent-kafka
    python examples/kombu_messages.py send localhost:9092 5
    python examples/kombu_messages.py receive localhost:9092 5

The transport sends each message with a ``Producer`` of confluent-kafka and flushes it. One assignment makes
it use the adapter; its consumer stays confluent-kafka's.
"""

from __future__ import annotations

import sys
from typing import Any

from kombu import Connection
from kombu.transport import confluentkafka

from kproducer.compat.confluent_kafka import Producer

confluentkafka.Producer = Producer
QUEUE = "reports"


def send(servers: str, count: int) -> None:
    with Connection(f"confluentkafka://{servers}") as connection:
        queue = connection.SimpleQueue(QUEUE)
        for number in range(count):
            queue.put({"report": number})
        queue.close()


def receive(servers: str, count: int) -> list[Any]:
    found = []
    with Connection(f"confluentkafka://{servers}") as connection:
        queue = connection.SimpleQueue(QUEUE)
        for _ in range(count):
            message = queue.get(timeout=60)
            message.ack()
            found.append(message.payload)
        queue.close()
    return found


if __name__ == "__main__":
    command, servers, count = sys.argv[1:]
    if command == "send":
        send(servers, int(count))
    else:
        print(receive(servers, int(count)))
