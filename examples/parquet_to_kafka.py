"""Send the rows of a Parquet file, and account for every row.

    pip install -e '.[arrow]'
    python examples/parquet_to_kafka.py orders.parquet --bootstrap localhost:9092 --topic orders \\
        --key customer --value payload --failed failed.parquet

Exit status 0: every row is delivered. 1: some rows are not, and are in the file of --failed, with the
columns "error" and "outcome". That file can be the input of another run; rows with the outcome "unknown" may
be in the topic already. 130: stopped by Ctrl-C; the rows that were read before are accounted for.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections import deque
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kproducer import KafkaError, KafkaProducer, SendManyResult

BATCH_ROWS = 10_000
#: Batches whose rows stay in memory until their outcome is known, because --failed may need them.
MAX_PENDING = 20


class Report:
    """Counts delivered rows, and writes the others to a Parquet file."""

    def __init__(self, failed: Path) -> None:
        self.delivered = 0
        self.failed = 0
        self._path = failed
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch, result: SendManyResult) -> None:
        """Wait for the outcome of a batch's rows."""
        failures = result.failures()
        self.delivered += len(result) - len(failures)
        self.failed += len(failures)
        if failures:
            rows = batch.take(pa.array([index for index, _ in failures]))
            errors = [f"{type(error).__name__}: {error}" for _, error in failures]
            outcomes = [error.outcome.value if error.outcome else "unknown" for _, error in failures]
            rows = rows.append_column("error", pa.array(errors)).append_column("outcome", pa.array(outcomes))
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._path, rows.schema)
            self._writer.write_batch(rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def send(arguments: argparse.Namespace, report: Report, stop: threading.Event) -> None:
    columns = [name for name in (arguments.key, arguments.value) if name]
    pending: deque[tuple[pa.RecordBatch, SendManyResult]] = deque()
    # When the buffer is full, send_arrow() waits: as long as records may take to be delivered.
    producer = KafkaProducer(
        arguments.bootstrap, compression_type="lz4", max_block_ms=120_000, delivery_timeout_ms=120_000
    )
    with pq.ParquetFile(arguments.file) as file, producer:
        try:
            for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                result = producer.send_arrow(arguments.topic, batch, key=arguments.key, value=arguments.value)
                pending.append((batch, result))
                if len(pending) > MAX_PENDING:
                    report.add(*pending[0])
                    pending.popleft()
                if stop.is_set():
                    break
            while pending:
                report.add(*pending[0])
                pending.popleft()
        except KeyboardInterrupt:
            producer.close(0)  # the second Ctrl-C: rows without an outcome fail now
            raise
        finally:
            for batch, result in pending:
                report.add(batch, result)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--value", required=True, metavar="COLUMN", help="of strings or binary")
    parser.add_argument("--key", metavar="COLUMN", help="of strings or binary")
    parser.add_argument("--failed", required=True, type=Path, metavar="FILE", help="must not exist")
    arguments = parser.parse_args()
    if arguments.failed.exists():
        parser.error(f"--failed {arguments.failed} exists already, perhaps with the failures of another run")

    stop = threading.Event()

    def on_ctrl_c(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the second one does not wait for outcomes

    signal.signal(signal.SIGINT, on_ctrl_c)
    report = Report(arguments.failed)
    problem = None
    try:
        send(arguments, report, stop)
    except (KafkaError, pa.ArrowException, OSError) as error:
        # A column or a topic does not exist, or the file cannot be read. The rows before this were sent.
        problem = f"{type(error).__name__}: {error}"
    finally:
        report.close()
    print(f"{report.delivered:,} rows delivered, {report.failed:,} failed", file=sys.stderr)
    if report.failed:
        print(f"the failed rows are in {arguments.failed}", file=sys.stderr)
    if problem:
        print(f"not all rows were sent: {problem}", file=sys.stderr)
    if stop.is_set():
        return 130
    return 1 if problem or report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
