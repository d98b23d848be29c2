"""A program for ``test_memory_bound``: fills a producer's buffer while the broker does not answer.

Arguments: bootstrap servers, buffer_memory, value size, number of partitions, compression. Prints as JSON the
growth of its memory, from before the producer is created until the buffer is full, and the number of batches.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

from kproducer import BufferExhaustedError, KafkaProducer


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS")


def main() -> None:
    bootstrap, buffer_memory, value_size, partitions, codec = sys.argv[1:6]
    gc.collect()
    before = resident_bytes()
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        buffer_memory=int(buffer_memory),
        max_block_ms=2000,
        # Otherwise the first requests may take all memory for batches of a record or two.
        linger_ms=60_000,
        compression_type=codec,
    )
    producer.partitions_for("t")
    value = bytes(range(256)) * (int(value_size) // 256) + bytes(int(value_size) % 256)
    sent = 0
    try:
        while True:
            producer.send("t", value, partition=sent % int(partitions))
            sent += 1
    except BufferExhaustedError:
        pass
    grown = resident_bytes() - before
    batches = producer.health().unacknowledged_batches
    print(json.dumps({"grown_bytes": grown, "records": sent, "batches": batches}))
    producer.close(0)


if __name__ == "__main__":
    main()
