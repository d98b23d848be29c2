"""Kafka's log dump tool and its parsed output: the reference for what is in a broker's log files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka.java_process import run_java
from tests.support.kafka.maven_artifacts import DUMP_TOOL_VERSION

_BATCH_LINE = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) "
    r".*producerId: (?P<producer>-?\d+) producerEpoch: (?P<epoch>-?\d+) "
    r".*magic: (?P<magic>\d) compresscodec: (?P<codec>\S+) .*isvalid: (?P<valid>\w+)"
)
_PROBLEM_LINE = re.compile(
    r"^(Mismatches|Non-consecutive|Found .*(invalid|corrupt)|.*trailing)", re.IGNORECASE
)


class DumpedBatch(NamedTuple):
    """One record batch as printed by the tool. ``is_valid``: its checksum is correct; -1: no producer id."""

    file: str
    base_offset: int
    last_offset: int
    record_count: int
    magic: int
    codec: str
    is_valid: bool
    producer_id: int
    producer_epoch: int


def dump_log_files(paths: Sequence[Path], is_deep: bool = True) -> list[DumpedBatch]:
    """Run the dump tool over log segments, decoding every record if ``is_deep``.

    Raises:
        RuntimeError: the tool failed or reported an error that does not belong to one batch.
    """
    if not paths:
        raise RuntimeError("no log files to check")
    joined = ",".join(str(path) for path in paths)
    arguments = [*(["--deep-iteration"] if is_deep else []), "--files", joined]
    output = run_java(DUMP_TOOL_VERSION, "kafka.tools.DumpLogSegments", arguments)
    return parse_dump(output)


def parse_dump(output: str) -> list[DumpedBatch]:
    """Parse the tool's output; see ``dump_log_files``."""
    batches = []
    file = ""
    for line in output.splitlines():
        if line.startswith("Dumping "):
            file = line.removeprefix("Dumping ")
        elif match := _BATCH_LINE.search(line):
            batches.append(
                DumpedBatch(
                    file,
                    int(match["base"]),
                    int(match["last"]),
                    int(match["count"]),
                    int(match["magic"]),
                    match["codec"].lower(),
                    match["valid"] == "true",
                    int(match["producer"]),
                    int(match["epoch"]),
                )
            )
        elif _PROBLEM_LINE.match(line):
            raise RuntimeError(f"the log dump tool reported: {line}")
    return batches
