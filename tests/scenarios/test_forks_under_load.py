"""Forks at random moments, while threads send and the I/O thread is in the data plane."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kproducer._core.kernel import data_plane
from tests.scenarios.conftest import Stage
from tests.scenarios.test_fork_and_exit import run_script
from tests.support.tls_peer import authority, certificate, server_context

_FORKS = 60
_PARTITIONS = 4

#: Threads send to a partition of their own each, so that the order of their records is that of the log.
_SCRIPT = """
import collections, faulthandler, json, random
from kproducer import Outcome
from kproducer.errors import ProducerClosedError
from tests.scenarios import internals

settings = json.loads(SETTINGS)
chooser = random.Random(SEED)
p = producer(**settings)
p.partitions_for("t")
p.partitions_for("child")
stop = threading.Event()
latest = [collections.deque(maxlen=200) for _ in range(PARTITIONS)]
all_futures = [[] for _ in range(PARTITIONS)]
waiting = threading.Event()

def feed(partition):
    rate = random.Random(SEED * 10 + partition)
    number = 0
    while not stop.is_set():
        for _ in range(rate.choice([1, 1, 5, 50])):
            future = p.send("t", b"%d %s" % (number, b"v" * rate.choice([0, 100, 900])), partition=partition)
            number += 1
            latest[partition].append(future)
            all_futures[partition].append(future)
        # Not faster than the broker, and not always with an open batch.
        future.result(60)

def in_the_child(number):
    faulthandler.dump_traceback_later(60, exit=True)
    for futures in latest:
        for future in list(futures):
            error = future.exception(60)
            if error is not None:
                assert (type(error), error.outcome) == (ProducerClosedError, Outcome.UNKNOWN), error
    other = producer(**settings)
    assert other.send("child", b"own %d" % number).result(60).offset >= 0
    assert p.send("child", b"inherited %d" % number).result(60).offset >= 0
    other.close(60)
    p.close(60)

threads = [threading.Thread(target=feed, args=(partition,)) for partition in range(PARTITIONS)]
for t in threads:
    t.start()
codes = []
armed = 0
for number in range(FORKS):
    waiting.wait(chooser.random() * 0.02)
    armed += internals.armed_partitions(p) > 0
    ends_normally = chooser.random() < 0.3
    pid = os.fork()
    if pid == 0:
        in_the_child(number)
        if ends_normally:
            sys.exit(0)
        os._exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
stop.set()
for t in threads:
    t.join(60)
p.close(60)
assert codes == [0] * FORKS, codes
offsets = [[future.result(0).offset for future in futures] for futures in all_futures]
assert offsets == [list(range(len(each))) for each in offsets]
print("sent", [len(each) for each in offsets], "armed", armed)
"""


@pytest.mark.parametrize(("kind", "seed"), [("plaintext", 1), ("lz4", 2), ("tls", 3)])
def test_forks_under_load_harm_neither_the_parent_nor_its_children(
    stage: Stage, tmp_path: Path, kind: str, seed: int
) -> None:
    cluster = stage.cluster(1, topics={"t": _PARTITIONS, "child": 1})
    settings: dict[str, Any] = {}
    if kind == "lz4":
        settings = {"compression_type": "lz4", "batch_size": 4096}
    elif kind == "tls":
        cluster.tls = server_context(certificate("127.0.0.1"))
        trusted = tmp_path / "trusted.pem"
        trusted.write_text(authority().pem)
        settings = {"security_protocol": "SSL", "ssl_cafile": str(trusted)}
    constants = {
        "SEED": seed,
        "FORKS": _FORKS,
        "PARTITIONS": _PARTITIONS,
        "SETTINGS": json.dumps(settings),
    }
    script = "".join(f"{name} = {value!r}\n" for name, value in constants.items()) + _SCRIPT
    output = run_script(cluster, script)
    line = next(line for line in output.splitlines() if line.startswith("sent "))
    assert data_plane is None or int(line.split()[-1]) > 0, "no partition was armed when the process forked"
    for partition in range(_PARTITIONS):
        values = [(record.value or b"").split()[0] for record in cluster.records("t", partition)]
        assert values == [b"%d" % number for number in range(len(values))]
    expected = [b"%s %d" % (name, number) for name in (b"own", b"inherited") for number in range(_FORKS)]
    assert sorted(record.value or b"" for record in cluster.records("child")) == sorted(expected)
