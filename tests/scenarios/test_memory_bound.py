"""A producer's memory stays within ``buffer_memory`` plus a stated overhead, measured from outside.

The overhead: ``FIXED_BYTES`` for a producer with its connections, and ``BATCH_BYTES`` for the bookkeeping of
each batch in the buffer, at most one per KiB. Futures that the application keeps are not included.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kproducer._core.records.batch_sizing import SMALLEST_BUFFER_BYTES
from kproducer.testing.fakebroker import faults
from tests.scenarios.conftest import Stage

PRODUCE = 0
FILL_BUFFER = Path(__file__).with_name("fill_buffer.py")

MIB = 1024 * 1024
#: Read buffer, thread, codecs, metadata, lazily imported modules, and memory that malloc holds unused.
FIXED_BYTES = 12 * MIB
#: Python objects: batch, builder, result, views.
BATCH_BYTES = 4096


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its own size from /proc")
@pytest.mark.parametrize(
    ("buffer_mib", "value_size", "partitions", "codec"),
    [(32, 100, 1, "none"), (32, 10_000, 8, "none"), (8, 100, 512, "none"), (16, 100, 2, "lz4")],
)
def test_memory_with_a_full_buffer_and_a_silent_broker_stays_within_the_stated_bound(
    stage: Stage, buffer_mib: int, value_size: int, partitions: int, codec: str
) -> None:
    cluster = stage.cluster(1, topics={"t": partitions})
    cluster.control(PRODUCE, faults.silence(), times=None)
    finished = subprocess.run(
        [
            sys.executable,
            str(FILL_BUFFER),
            ",".join(cluster.bootstrap_servers),
            str(buffer_mib * MIB),
            str(value_size),
            str(partitions),
            codec,
        ],
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    found = json.loads(finished.stdout)
    batches = found["batches"]
    assert batches <= buffer_mib * MIB // SMALLEST_BUFFER_BYTES
    # With many partitions a part of each batch's buffer is empty.
    assert found["records"] * value_size > buffer_mib * MIB / 5
    assert found["grown_bytes"] <= buffer_mib * MIB + batches * BATCH_BYTES + FIXED_BYTES
