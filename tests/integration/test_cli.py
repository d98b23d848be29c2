"""The command ``kproducer`` as a process of its own, against the mock cluster."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.kafka.mock_cluster import MockCluster
from tests.support.kafka.reader import read_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.mock_cluster

PRODUCE = 0
UUID = b"9f0e2f3c-0b6c-4f0e-8c7a-1d2e3f405162"
MESSAGE_TOO_LARGE, REQUEST_TIMED_OUT, INVALID_RECORD = 10, 7, 87


@contextmanager
def running(cluster: MockCluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "kproducer.cli", *arguments, "-b", cluster.bootstrap_servers]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(cluster: MockCluster, *arguments: str, stdin: bytes = b"") -> tuple[int, str]:
    """Exit status and stderr."""
    with running(cluster, *arguments) as process:
        _, errors = process.communicate(stdin, timeout=120)
        return process.returncode, errors.decode()


def records(cluster: MockCluster, topic: str) -> list[Any]:
    return sorted(
        read_topic(cluster.bootstrap_servers, topic), key=lambda each: (each.partition, each.offset)
    )


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("events", 1)
    return mock_cluster


def test_every_line_of_stdin_is_a_record_also_empty_ones_and_the_last(cluster):
    status, errors = run(cluster, "produce", "events", stdin=b"one\n\nthree\r\nla\xfft")
    assert status == 0
    assert "4 records delivered to events" in errors
    assert [each.value for each in records(cluster, "events")] == [b"one", b"", b"three\r", b"la\xfft"]


def test_keys_headers_and_partition_of_lines(cluster, tmp_path):
    cluster.create_topic("many", 4)
    (tmp_path / "lines").write_bytes(b"k\tv\tw\nno key\n")
    arguments = ("-K", "\\t", "-H", "source=test", "-p", "3")
    status, _ = run(cluster, "produce", "many", str(tmp_path / "lines"), *arguments)
    assert status == 0
    found = [(each.partition, each.key, each.value, list(each.headers)) for each in records(cluster, "many")]
    headers = [("source", b"test")]
    assert found == [(3, b"k", b"v\tw", headers), (3, None, b"no key", headers)]


def test_a_hundred_thousand_lines_keep_their_order(cluster, tmp_path):
    (tmp_path / "lines").write_text("".join(f"{number}\n" for number in range(100_000)))
    status, errors = run(cluster, "produce", "events", str(tmp_path / "lines"))
    assert status == 0
    assert "100,000 records delivered" in errors
    assert [int(each.value) for each in records(cluster, "events")] == list(range(100_000))


def test_a_slow_line_is_sent_before_the_next_one_comes(cluster):
    with running(cluster, "produce", "events") as process:
        assert process.stdin is not None
        for number in range(3):
            process.stdin.write(b"line %d\n" % number)
            process.stdin.flush()
            wait_until(lambda number=number: len(records(cluster, "events")) == number + 1)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("input_format", ["json", "csv", "parquet", "arrow"])
def test_columns_become_fields(cluster, tmp_path, input_format):
    path = tmp_path / "input"
    rows = [
        {"id": "a", "text": "x", "at": 1_700_000_000_000},
        {"id": "b", "text": "y", "at": 1_700_000_000_001},
    ]
    table = pa.Table.from_pylist(rows)
    if input_format == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif input_format == "csv":
        path.write_text("id,text,at\n" + "".join(f"{row['id']},{row['text']},{row['at']}\n" for row in rows))
    elif input_format == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    columns = ("--key", "id", "--value", "text", "--timestamp", "at", "-H", "h=1")
    status, errors = run(cluster, "produce", "events", str(path), "--format", input_format, *columns)
    assert status == 0, errors
    found = [
        (each.key, each.value, each.timestamp_ms, list(each.headers)) for each in records(cluster, "events")
    ]
    headers = [("h", b"1")]
    assert found == [
        (b"a", b"x", 1_700_000_000_000, headers),
        (b"b", b"y", 1_700_000_000_001, headers),
    ]


def test_an_arrow_stream_on_stdin_as_json(cluster):
    table = pa.table({"id": [1, 2], "name": ["x", None]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    status, errors = run(
        cluster, "produce", "events", "--format", "arrow", stdin=sink.getvalue().to_pybytes()
    )
    assert status == 0, errors
    values = [json.loads(each.value) for each in records(cluster, "events")]
    assert values == [{"id": 1, "name": "x"}, {"id": 2, "name": None}]


def arrow_stream(rows: int) -> bytes:
    table = pa.table({"id": [str(number) for number in range(rows)]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def test_an_arrow_stream_that_is_larger_than_a_pipe(cluster):
    arguments = ("--format", "arrow", "--value", "id")
    status, errors = run(cluster, "produce", "events", *arguments, stdin=arrow_stream(100_000))
    assert status == 0, errors
    assert [int(each.value) for each in records(cluster, "events")] == list(range(100_000))


def test_ctrl_c_ends_an_arrow_stream_that_waits_for_more(cluster):
    with running(cluster, "produce", "events", "--format", "arrow", "--value", "id") as process:
        assert process.stdin is not None
        process.stdin.write(arrow_stream(10)[:-8])  # without the mark of its end
        process.stdin.flush()
        wait_until(lambda: len(records(cluster, "events")) == 10)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        errors = process.stderr.read().decode()
    assert "10 records delivered" in errors
    assert "-: nothing was sent from line 11 on" in errors


def test_ctrl_c_ends_the_wait_for_a_cluster_that_is_down(cluster):
    cluster.set_down()
    with running(cluster, "produce", "events", "-X", "reconnect.backoff.ms=10") as process:
        said = process.stderr.readline().decode()
        assert "No broker can be reached" in said
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        assert "nothing was read" in process.stderr.read().decode()


def test_rejected_lines_are_counted_if_nobody_reads_stderr(cluster):
    with running(cluster, "produce", "events", "--format", "json") as process:
        process.stderr.close()
        process.stdin.write(b"{\n" * 20_000 + b"1\n")
        process.stdin.close()
        assert process.wait(60) == 1
    assert [each.value for each in records(cluster, "events")] == [b"1"]


def test_rejected_lines_are_counted_if_stderr_is_on_a_full_disk(cluster):
    command = [sys.executable, "-m", "kproducer.cli", "produce", "events", "-b", cluster.bootstrap_servers]
    with open("/dev/full", "wb") as full:
        # With work that grows with the square of the lines, it takes minutes.
        finished = subprocess.run(
            [*command, "--format", "json"], input=b"{\n" * 40_000 + b"1\n", stderr=full, timeout=60
        )
    assert finished.returncode == 1
    assert [each.value for each in records(cluster, "events")] == [b"1"]


def test_a_line_that_is_rejected_does_not_stop_the_others(cluster, tmp_path):
    rejected = tmp_path / "rejected"
    status, errors = run(
        cluster, "produce", "events", "--format", "json", "--rejected", str(rejected),
        stdin=b'{"n": 1}\n{"n": \n{"n": 3}\n',
    )  # fmt: skip
    assert status == 1
    assert "-, line 2: not sent: the line is not JSON" in errors
    entry = json.loads(rejected.read_text())
    assert (entry["file"], entry["line"], entry["outcome"], entry["input"]) == ("-", 2, "not_sent", '{"n": ')
    assert [each.value for each in records(cluster, "events")] == [b'{"n": 1}', b'{"n": 3}']


def test_what_a_broker_rejects_is_kept_with_its_line(cluster, tmp_path):
    cluster.push_errors(PRODUCE, INVALID_RECORD)
    rejected = tmp_path / "rejected"
    status, errors = run(cluster, "produce", "events", "--rejected", str(rejected), stdin=b"first\n")
    assert status == 1
    entry = json.loads(rejected.read_text())
    assert (entry["line"], entry["outcome"], entry["input"]) == (1, "rejected", "first")
    assert "0 records delivered" in errors
    assert "1 rejected by a broker" in errors


def test_what_cannot_be_written_goes_to_the_topic_of_rejected_input(cluster):
    cluster.create_topic("rejected", 1)
    status, errors = run(
        cluster, "produce", "events", "--format", "json", "--rejected-topic", "rejected",
        "-X", "max.request.size=2000", "-X", "value.serializer=IntegerSerializer",
        stdin=b'1\n{"n": \n"%s"\n2\n' % (b"x" * 4000),
    )  # fmt: skip
    assert status == 1
    assert errors.splitlines()[-1].endswith("2 not sent; 2 of them in rejected")
    assert [each.value for each in records(cluster, "events")] == [b"\0\0\0\1", b"\0\0\0\2"]
    no_json, too_large = records(cluster, "rejected")
    assert no_json.value == b'{"n": '
    headers = dict(no_json.headers)
    assert headers["__connect.errors.topic"] == b"events"
    assert headers["__connect.errors.exception.message"].startswith(b"the line is not JSON")
    assert (headers["__kproducer.errors.file"], headers["__kproducer.errors.line"]) == (b"-", b"2")
    assert 0 < len(too_large.value) < 2000
    assert dict(too_large.headers)["__kproducer.errors.cut"] == b"value"


def test_a_rejected_record_goes_to_the_topic_and_one_that_may_be_written_does_not(cluster):
    cluster.create_topic("rejected", 1)
    cluster.push_errors(PRODUCE, INVALID_RECORD)
    arguments = ("produce", "events", "--rejected-topic", "rejected")
    assert run(cluster, *arguments, stdin=b"first\n")[0] == 1
    cluster.push_errors(PRODUCE, *[REQUEST_TIMED_OUT] * 100)
    times = ("-X", "delivery.timeout.ms=400", "-X", "request.timeout.ms=300")
    _, errors = run(cluster, *arguments, *times, stdin=b"second\n")
    cluster.clear_errors(PRODUCE)
    assert "outcome unknown, it may have been written" in errors
    assert "input: second" in errors
    (letter,) = records(cluster, "rejected")
    assert letter.value == b"first"
    assert dict(letter.headers)["__connect.errors.exception.class.name"].endswith(b".InvalidRecordError")


def test_a_dead_letter_that_cannot_be_written_is_shown(cluster):
    cluster.create_topic("rejected", 1)
    cluster.push_errors(PRODUCE, INVALID_RECORD, INVALID_RECORD)
    _, errors = run(cluster, "produce", "events", "--rejected-topic", "rejected", stdin=b"first\n")
    assert "-, line 1: no dead letter was written: " in errors
    assert "; input: first" in errors
    assert "1 rejected by a broker; 0 of them in rejected" in errors


def test_too_many_rejected_lines_end_the_run(cluster):
    lines = b"bad\n" * 3 + b"1\n" * 3
    status, errors = run(cluster, "produce", "events", "--format", "json", "--max-rejected", "1", stdin=lines)
    assert status == 1
    assert "Error: -, line 3: --max-rejected 1: more records were not delivered" in errors
    assert "-: nothing was sent from line 3 on" in errors
    assert records(cluster, "events") == []


def test_an_outcome_that_is_not_known_is_reported_as_unknown(cluster, tmp_path):
    cluster.push_errors(PRODUCE, *[REQUEST_TIMED_OUT] * 100)
    rejected = tmp_path / "rejected"
    times = ("-X", "delivery.timeout.ms=400", "-X", "request.timeout.ms=300")
    status, errors = run(cluster, "produce", "events", "--rejected", str(rejected), *times, stdin=b"first\n")
    assert status == 1
    assert json.loads(rejected.read_text())["outcome"] == "unknown"
    assert "1 with unknown outcome" in errors


def test_a_broken_file_ends_the_run_with_its_name_and_line(cluster, tmp_path):
    path = tmp_path / "broken.csv"
    path.write_text('a,b\n1,2\n"3,4\n')
    status, errors = run(cluster, "produce", "events", str(path), "--format", "csv")
    assert status == 1
    assert f"Error: {path}, line 3: " in errors
    assert [each.value for each in records(cluster, "events")] == [b'{"a":"1","b":"2"}']


def test_a_broken_parquet_file_ends_the_run(cluster, tmp_path):
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"PAR1 nothing else")
    status, errors = run(cluster, "produce", "events", str(path), "--format", "parquet")
    assert status == 1
    assert f"Error: {path}: " in errors


def test_ctrl_c_delivers_what_was_read(cluster):
    with running(cluster, "produce", "events") as process:
        assert process.stdin is not None
        process.stdin.write(b"line\nincomplete")
        process.stdin.flush()
        wait_until(lambda: len(records(cluster, "events")) == 1)
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read().decode()
        assert process.wait(60) == 130
    assert "-: nothing was sent from line 2 on\n1 record delivered" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("input_format", ["lines", "csv"])
def test_a_line_that_was_not_read_to_its_end_is_only_named(cluster, tmp_path, input_format, number):
    rejected = tmp_path / "rejected"
    arguments = ("--format", input_format, "--rejected", str(rejected))
    with running(cluster, "produce", "events", *arguments) as process:
        process.stdin.write(b'id\n1\n"two\nthr')
        process.stdin.flush()
        wait_until(lambda: len(records(cluster, "events")) > (2 if input_format == "lines" else 0))
        process.send_signal(number)
        errors = process.stderr.read().decode()
        assert process.wait(60) == 128 + number
    assert rejected.read_bytes() == b""
    assert f"-: nothing was sent from line {4 if input_format == 'lines' else 3} on" in errors


def test_files_that_were_not_read_are_named(cluster, tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text('id\n1\n"2\n' if name == "a" else "id\n1\n")
    names = [str(tmp_path / name) for name in ("a", "b", "c")]
    status, errors = run(cluster, "produce", "events", *names, "--format", "csv")
    assert status == 1
    assert f"{names[0]}: nothing was sent from line 3 on, and nothing of {names[1]}, {names[2]}" in errors


def test_a_signal_ends_the_wait_for_the_writer_of_a_named_pipe(cluster, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "first").write_text("line\n")
    names = [str(tmp_path / "first"), str(tmp_path / "pipe")]
    with running(cluster, "produce", "events", *names) as process:
        wait_until(lambda: records(cluster, "events"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        assert f"{names[1]}: nothing was sent of it\n1 record delivered" in process.stderr.read().decode()


def test_a_signal_that_was_ignored_at_the_start_stays_ignored(cluster):
    program = "trap '' INT HUP; exec \"$@\""
    command = [sys.executable, "-m", "kproducer.cli", "produce", "events", "-b", cluster.bootstrap_servers]
    with subprocess.Popen(
        ["sh", "-c", program, "sh", *command], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(b"1\n")
        process.stdin.flush()
        wait_until(lambda: records(cluster, "events"))
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        process.communicate(b"2\n", timeout=60)
        assert process.returncode == 0
    assert len(records(cluster, "events")) == 2


def test_rejected_lines_on_a_full_disk_are_on_stderr(cluster):
    arguments = ("--format", "csv", "--headers", "h", "--rejected", "/dev/full")
    status, errors = run(
        cluster, "produce", "events", *arguments,
        stdin=b"v,h\n1,\n2," + b"[" * 100_000 + b"\n3,\n",
    )  # fmt: skip
    assert status == 1
    assert "cannot be written: No space left on device" in errors
    assert "-, line 3: not sent: the headers are not JSON; input: 2,[[[" in errors
    assert "2 records delivered" in errors
    assert "Traceback" not in errors


def test_what_was_read_before_an_unexpected_error_is_delivered(cluster):
    program = (
        "from kproducer.cli import rows\n"
        "def broken(value):\n"
        "    if value == 'bad': raise MemoryError\n"
        "rows._headers = broken\n"
        "from kproducer.cli.command_line import command_line\n"
        "command_line()\n"
    )
    arguments = ["produce", "events", "--format", "csv", "--headers", "h", "-b", cluster.bootstrap_servers]
    finished = subprocess.run(
        [sys.executable, "-c", program, *arguments], input=b"h\n1\nbad\n3\n", capture_output=True, timeout=120
    )
    assert finished.returncode == 1
    assert [each.value for each in records(cluster, "events")] == [b'{"h":"1"}']
    assert b"-: nothing was sent after line 2\n1 record delivered" in finished.stderr
    assert b"MemoryError" in finished.stderr


def test_a_file_without_a_topic_does_not_read_the_terminal(tmp_path):
    (tmp_path / "data").write_text("line\n")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kproducer.cli", "produce", "data", "-b", "localhost:1"]
    finished = subprocess.run(command, cwd=tmp_path, stdin=theirs, capture_output=True, timeout=60)
    os.close(ours)
    os.close(theirs)
    assert finished.returncode == 2
    assert (
        b"There is no file to send. The first argument is the topic, and 'data' is a file" in finished.stderr
    )


def test_a_closed_stdin_is_named(cluster, tmp_path):
    (tmp_path / "rejected").touch()
    command = [sys.executable, "-m", "kproducer.cli", "produce", "events", "-b", cluster.bootstrap_servers]
    finished = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command, "--rejected", str(tmp_path / "rejected")],
        capture_output=True,
        timeout=60,
    )
    assert finished.returncode == 1
    assert b"Error: -: stdin is closed\n-: nothing was sent of it\n" in finished.stderr


@pytest.mark.parametrize("name", ["data", "-"])
def test_the_file_of_rejected_input_is_no_input(cluster, tmp_path, name):
    data = tmp_path / "data"
    data.write_text("{\n")
    command = [sys.executable, "-m", "kproducer.cli", "produce", "events", "--format", "json", name]
    options = ["--rejected", str(data), "-b", cluster.bootstrap_servers]
    with data.open() as file:
        finished = subprocess.run(
            [*command, *options], cwd=tmp_path, stdin=file, capture_output=True, timeout=60
        )
    assert finished.returncode == 2
    assert b"is also read" in finished.stderr


def test_a_second_ctrl_c_gives_up_on_what_is_not_acknowledged(cluster):
    cluster.start_request_tracking()
    cluster.set_rtt_ms(200)
    with running(cluster, "produce", "events", "-X", "request.timeout.ms=60000") as process:
        assert process.stdin is not None
        process.stdin.write(b"line\n")
        process.stdin.flush()
        wait_until(lambda: len(cluster.requests(PRODUCE)) == 1)
        cluster.set_down()
        process.send_signal(signal.SIGINT)
        said = process.stderr.readline().decode()
        while "Waiting for the outcomes of accepted records: 1," not in said:
            assert said
            said = process.stderr.readline().decode()
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read().decode()
        assert process.wait(60) == 130
    assert "1 with unknown outcome" in errors


def test_a_partition_that_does_not_exist_is_refused_before_anything_is_read(cluster, tmp_path):
    status, errors = run(cluster, "produce", "events", "-p", "7", stdin=b"line\n")
    assert status == 1
    assert "-p 7: topic 'events' has 1 partition, numbered from 0; nothing was read" in errors


@pytest.mark.parametrize(
    ("serializer", "lines", "values"),
    [
        ("StringSerializer", b"\xff\n", [b"\xff"]),
        ("ByteArraySerializer", b"a\n", [b"a"]),
        ("ByteBufferSerializer", b"a\n", [b"a"]),
        ("BytesSerializer", b"a\n", [b"a"]),
        ("ShortSerializer", b"258\n70000\n", [b"\x01\x02"]),
        ("IntegerSerializer", b"-1\n1_0\n", [b"\xff" * 4]),
        ("LongSerializer", b"1\n\n1.0\n", [bytes(7) + b"\x01"]),
        ("FloatSerializer", b"1.5\nx\n", [b"\x3f\xc0\0\0"]),
        ("DoubleSerializer", b"1.5\nx\n", [b"\x3f\xf8" + bytes(6)]),
        ("UUIDSerializer", b"%s\n1\n" % UUID, [UUID]),
        ("VoidSerializer", b"a\n", []),
    ],
)
def test_javas_serializers_take_what_the_text_of_a_line_says(cluster, tmp_path, serializer, lines, values):
    properties = tmp_path / "client.properties"
    properties.write_text(f"value.serializer=org.apache.kafka.common.serialization.{serializer}\n")
    status, errors = run(cluster, "produce", "events", "--config", str(properties), stdin=lines)
    assert [each.value for each in records(cluster, "events")] == values
    refused = lines.count(b"\n") - len(values)
    assert (status, errors.count(": not sent: ")) == (int(refused > 0), refused)


@pytest.mark.parametrize("input_format", ["csv", "json", "arrow"])
def test_columns_of_numbers_have_javas_bytes(cluster, tmp_path, input_format):
    path = tmp_path / "input"
    if input_format == "arrow":
        table = pa.table({"id": [5], "text": ["x"]})
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_text("id,text\n5,x\n" if input_format == "csv" else '{"id": 5, "text": "x"}\n')
    serializers = ("-X", "key.serializer=LongSerializer", "-X", "value.serializer=StringSerializer")
    columns = ("--key", "id", "--value", "text")
    status, errors = run(
        cluster, "produce", "events", str(path), "--format", input_format, *columns, *serializers
    )
    assert status == 0, errors
    assert [(each.key, each.value) for each in records(cluster, "events")] == [(bytes(7) + b"\x05", b"x")]


def test_settings_come_from_files_and_options(cluster, tmp_path):
    properties, kcat = tmp_path / "client.properties", tmp_path / "kcat.conf"
    properties.write_text("acks=all\nlinger.ms=1\n")
    kcat.write_text("# comment\ncompression.type = gzip\n")
    arguments = ("--config", str(properties), "-F", str(kcat), "-X", "linger.ms=0")
    assert run(cluster, "produce", "events", *arguments, stdin=b"x\n")[0] == 0
    path = str(Path(properties))
    properties.write_text("lingr.ms=1\n")
    status, errors = run(cluster, "produce", "events", "--config", path, stdin=b"x\n")
    assert status == 2
    assert "did you mean linger.ms?" in errors


# -- metadata ------------------------------------------------------------------------------------------


def printed(cluster: MockCluster, *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    with running(cluster, *arguments) as process:
        output, errors = process.communicate(timeout=120)
        return process.returncode, output.decode(), errors.decode()


def test_metadata_as_json_has_brokers_controller_and_partitions(cluster):
    cluster.create_topic("other", 2)
    cluster.set_leader("other", 0, 2)
    cluster.set_leader("other", 1, 3)
    cluster.set_controller(3)
    cluster.set_rack(1, "rack-1")
    status, output, errors = printed(cluster, "metadata", "--json")
    assert (status, errors) == (0, "")
    found = json.loads(output)
    assert found["controller"] == 3
    assert [(each["id"], each["rack"]) for each in found["brokers"]] == [(1, "rack-1"), (2, None), (3, None)]
    assert sorted(cluster.bootstrap_servers.split(",")) == sorted(
        f"{each['host']}:{each['port']}" for each in found["brokers"]
    )
    assert [each["name"] for each in found["topics"]] == ["events", "other"]
    assert [(each["partition"], each["leader"]) for each in found["topics"][1]["partitions"]] == [
        (0, 2),
        (1, 3),
    ]


def test_metadata_of_one_topic_as_a_table(cluster):
    cluster.create_topic("other", 2)
    cluster.set_leader("other", 0, 2)
    cluster.set_leader("other", 1, 3)
    status, output, _ = printed(cluster, "metadata", "other")
    assert status == 0
    assert "events" not in output
    rows = [[cell.strip() for cell in line.split("│")] for line in output.splitlines() if "other" in line]
    assert {row[2]: row[3] for row in rows if len(row) > 3} == {"0": "2", "1": "3"}


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_metadata_of_a_topic_that_does_not_exist_creates_none(cluster, arguments):
    status, _, errors = printed(cluster, "metadata", "missing", *arguments)
    assert status == 1
    assert "Error: topic 'missing': " in errors
    assert "missing" not in printed(cluster, "metadata")[1]


def test_metadata_of_a_cluster_that_is_down_says_so(cluster):
    cluster.set_down()
    status, _, errors = printed(cluster, "metadata", "-X", "max.block.ms=500")
    assert status == 1
    assert "no broker answered within 500 ms" in errors


# -- doctor --------------------------------------------------------------------------------------------


def test_the_doctor_finds_a_sound_cluster_sound(cluster):
    status, output, errors = printed(cluster, "doctor")
    assert (status, errors) == (0, "")
    assert output.count("ok      metadata: 3 brokers") == 3
    assert "FAILED" not in output
    assert output.endswith("Every broker can be used.\n")


def test_the_doctor_finds_a_broker_that_is_down(cluster):
    cluster.set_down(2)
    status, output, errors = printed(cluster, "doctor")
    assert status == 1
    assert output.count("FAILED  TCP: 127.0.0.1: Connection refused") == 1
    assert output.count("ok      metadata") == 2
    assert "Error: 1 of the addresses cannot be used." in errors


def test_the_doctor_finds_an_advertised_address_that_does_not_exist(cluster):
    cluster.set_host_port(3, "no-such-host.invalid", 9092)
    status, output, _ = printed(cluster, "doctor")
    assert status == 1
    report = output[output.index("Broker 3 at no-such-host.invalid:9092") :]
    assert "FAILED  DNS: could not resolve the host name 'no-such-host.invalid'" in report
    assert "change its advertised.listeners" in report


def test_the_doctor_finds_a_listener_without_tls(cluster):
    status, output, errors = printed(cluster, "doctor", "-X", "security.protocol=SSL")
    assert (status, errors) == (1, "Error: 3 of the addresses cannot be used.\n")
    assert output.count("ok      TCP") == 3
    assert output.count("FAILED  TLS: ") == 3
    assert "Check security.protocol" in output


# -- perf ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [(), ("--throughput", "5000")])
def test_perf_sends_the_records_and_measures(cluster, limits):
    sizes = ("--num-records", "2345", "--record-size", "10")
    status, output, errors = printed(cluster, "perf", "events", *sizes, *limits, "--json")
    assert (status, errors) == (0, "")
    figures = json.loads(output)
    assert (figures["records"], figures["failed"]) == (2345, 0)
    latency = figures["latency_ms"]
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["p99.9"] <= latency["maximum"]
    values = [each.value for each in records(cluster, "events")]
    assert (len(values), {len(value) for value in values}) == (2345, {10})


def test_perf_prints_a_line_per_interval_and_a_histogram_in_80_columns(cluster):
    limits = ("--num-records", "500", "--throughput", "500", "--reporting-interval", "100")
    status, output, _ = printed(cluster, "perf", "events", *limits)
    assert status == 0
    lines = output.splitlines()
    total = next(index for index, line in enumerate(lines) if line.startswith("500 records in "))
    assert lines[0].split() == ["time", "records/s", "MB/s", "p50", "p99", "max"]
    assert total > 1
    assert lines[total + 1].startswith("latency: p50 ")
    assert lines[total + 2].split() == ["up", "to", "timed", "share"]
    assert sum(int(line.split()[2]) for line in lines[total + 3 :]) == 100
    assert max(map(len, lines)) <= 80


def test_perf_reports_intervals_while_it_waits_for_the_last_records(cluster):
    cluster.set_rtt_ms(500)
    limits = ("--num-records", "300", "--reporting-interval", "100", "--json")
    status, output, _ = printed(cluster, "perf", "events", *limits)
    assert status == 0
    figures = json.loads(output)
    first, *_, last = figures["intervals"]
    assert (first["records_per_second"], "latency_ms" in first) == (0, False)
    assert last["latency_ms"]["maximum"] == figures["latency_ms"]["maximum"]
    assert sum(row["records"] for row in figures["histogram"]) == 3


def test_ctrl_c_while_perf_waits_for_the_last_records_keeps_the_figures(cluster):
    cluster.start_request_tracking()
    cluster.set_rtt_ms(1000)
    with running(cluster, "perf", "events", "--num-records", "300") as process:
        wait_until(lambda: cluster.requests(PRODUCE))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Stopped. " in errors
    assert b"300 records in " in output


def test_perf_counts_what_was_not_delivered(cluster):
    cluster.push_errors(PRODUCE, *[INVALID_RECORD] * 1000)
    status, output, errors = printed(cluster, "perf", "events", "--num-records", "300")
    assert status == 1
    assert output.startswith("0 records in ")
    assert "Error: 300 records were not delivered; the first error: " in errors
