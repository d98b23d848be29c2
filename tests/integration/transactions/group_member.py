"""A member of a consumer group; a program with the arguments SERVERS TOPIC GROUP.

Joins with kafka-python, which exposes the generation (confluent-kafka does not), prints generation and member
id as JSON after receiving records, and leaves the group at the end of its standard input. Runs in its own
process, because kafka-python leaves sockets to the garbage collector.
"""

from __future__ import annotations

import json
import sys
import warnings


def main() -> None:
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer

    servers, topic, group = sys.argv[1:]
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    while not consumer.poll(timeout_ms=1000):
        pass
    metadata = consumer.group_metadata()
    print(json.dumps([metadata.generation_id, metadata.member_id]), flush=True)
    sys.stdin.read()
    consumer.close()


if __name__ == "__main__":
    main()
