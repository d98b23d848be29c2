"""The faults of a duel: the same for every client, and each kind of them takes place."""

from __future__ import annotations

import re
import socket
import struct
import threading
from pathlib import Path

import pytest
from kproducer_messages import EndTxnRequest, EndTxnResponse, RequestHeader, ResponseHeader

from kproducer._core.client.api_keys import ApiKey
from tests.support.duel import load
from tests.support.duel.connection_faults import ConnectionFaults
from tests.support.duel.schedule import (
    BROKER_FAULTS,
    CONNECTION_FAULTS,
    END_LATE,
    END_RESPONSE_LOST,
    FROZEN,
    NODES,
    PARTITIONS,
    PRODUCE_RESPONSE_LOST,
    Fault,
    schedule,
)
from tests.support.kafka.proxy import Frame

JAVA_WORKER = Path(load.__file__).parents[1] / "kafka" / "DuelWorker.java"
END_VERSION = 3


@pytest.mark.parametrize("seconds", [1, 20, 300])
@pytest.mark.parametrize("seed", range(20))
def test_a_seed_stands_for_one_list_with_every_kind_of_fault(seed, seconds):
    faults = schedule(seed, seconds)
    assert faults == schedule(seed, seconds)
    assert faults == sorted(faults)
    assert {fault.kind for fault in faults} == {*BROKER_FAULTS, *CONNECTION_FAULTS}
    assert all(0 <= fault.at < seconds for fault in faults)
    for fault in faults:
        if fault.kind in BROKER_FAULTS:
            assert fault.node in NODES
            assert fault.partition in range(PARTITIONS)


def test_another_seed_stands_for_another_list():
    assert schedule(1, 20) != schedule(2, 20)


def test_one_freeze_of_a_long_run_outlasts_the_timeout_of_a_request():
    for seed in range(20):
        assert sum(fault.seconds > 30 for fault in schedule(seed, 120) if fault.kind == FROZEN) == 1


def test_a_response_is_lost_once_and_only_after_its_time():
    faults = ConnectionFaults([Fault(0.0, PRODUCE_RESPONSE_LOST), Fault(1e6, END_RESPONSE_LOST)])
    produce, end = (Frame(each, 9, True, b"") for each in (ApiKey.PRODUCE, ApiKey.END_TXN))
    assert faults(produce)
    faults.start()
    assert [faults(produce), faults(produce), faults(end)] == [False, True, True]
    assert faults(Frame(ApiKey.PRODUCE, 9, False, b""))
    assert faults.counts == {PRODUCE_RESPONSE_LOST: 1}


def test_no_api_has_two_faults_in_a_row():
    faults = ConnectionFaults([Fault(0.0, END_RESPONSE_LOST), Fault(1e-9, END_LATE), Fault(2e-9, END_LATE)])
    request, answer = (Frame(ApiKey.END_TXN, END_VERSION, is_answer, b"") for is_answer in (False, True))
    faults.start()
    assert [faults(request), faults(request), faults(answer)] == [False, True, True]
    # The other late one was overdue.
    assert [faults(request), faults(answer), faults(request), faults(answer)] == [True, False, True, True]
    faults.stop()
    assert faults.counts == {END_LATE: 1, END_RESPONSE_LOST: 1}


def test_nothing_is_lost_after_the_end():
    faults = ConnectionFaults([Fault(0.0, PRODUCE_RESPONSE_LOST)])
    faults.start()
    faults.stop()
    assert faults(Frame(ApiKey.PRODUCE, 9, True, b""))


def test_a_late_request_reaches_the_broker_on_another_connection():
    with socket.create_server(("127.0.0.1", 0)) as broker:
        broker.settimeout(30)
        got: list[bytes] = []
        thread = threading.Thread(target=_answer_one, args=(broker, got))
        thread.start()
        header = RequestHeader(request_api_key=ApiKey.END_TXN, request_api_version=END_VERSION)
        request = header.encode(2) + EndTxnRequest(transactional_id="duel", committed=True).encode(
            END_VERSION
        )
        faults = ConnectionFaults([Fault(0.0, END_LATE, seconds=0.01)])
        faults.start()
        assert not faults(Frame(ApiKey.END_TXN, END_VERSION, False, request, broker.getsockname()[1]))
        faults.stop()
        thread.join()
    assert got == [request]
    assert faults.late_answers == {48: 1}
    assert faults.end_version == END_VERSION


def test_a_late_request_to_a_broker_that_is_down_is_lost():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    faults = ConnectionFaults([Fault(0.0, END_LATE)])
    faults.start()
    assert not faults(Frame(ApiKey.END_TXN, END_VERSION, False, b"request", port))
    faults.stop()
    assert not faults.late_answers


def _answer_one(broker: socket.socket, got: list[bytes]) -> None:
    connection, _ = broker.accept()
    with connection, connection.makefile("rwb") as stream:
        got.append(stream.read(*struct.unpack(">i", stream.read(4))))
        answer = ResponseHeader().encode(1) + EndTxnResponse(error_code=48).encode(END_VERSION)
        stream.write(struct.pack(">i", len(answer)) + answer)


def test_the_worker_in_java_sends_the_same_load():
    source = JAVA_WORKER.read_text()
    for name, value in {
        "PARTITIONS": PARTITIONS,
        "RUN": load._RUN,
        "VALUE_BYTES": load.VALUE_BYTES,
        "PAUSE_NS": round(load.PAUSE_SECONDS * 1e9),
        "MOST_PENDING": load.MOST_PENDING,
        "MOST_FAILED_IN_A_ROW": load.MOST_FAILED_IN_A_ROW,
    }.items():
        (found,) = re.findall(rf" {name} = ([\d_]+);", source)
        assert int(found) == value, name
    assert f"isTransactional ? {load.BURST[load.TRANSACTIONAL]} : {load.BURST[load.IDEMPOTENT]}" in source
    assert "3 + number * 7 % 11" in source
    assert [load.bursts_of(number) for number in (1, 12, 13)] == [10, 10, 6]
    assert "number % 5 != 4" in source
    assert [number for number in range(20) if not load.is_committed(number)] == [4, 9, 14, 19]
    assert "number / RUN % PARTITIONS" in source
    assert [load.partition_of(number) for number in (0, 4, 5, 29, 30)] == [0, 0, 1, 5, 0]
