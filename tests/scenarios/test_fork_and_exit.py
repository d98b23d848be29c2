"""Forks and process exits: scripts run as child processes, the fake cluster stays in this process.

Each script gets the bootstrap address as its first argument. A child that hangs is killed, and the test
fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from kproducer import Outcome
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage

PRODUCE = 0
_CHILD_S = 150.0
_PREAMBLE = """
import gc, os, sys, threading
from kproducer import KafkaProducer

HOURS_MS = 3_600_000
def producer(**config):
    settings = dict(bootstrap_servers=[sys.argv[1]], linger_ms=0, retry_backoff_ms=20)
    settings.update(config)
    return KafkaProducer(**settings)

def in_child(function):
    # Runs the function in a forked child and returns the child's exit code.
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run_script(cluster: FakeCluster, script: str, *, expect: int = 0) -> str:
    """Run a script in a child process and return what it wrote to stderr."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-X",
            "dev",
            "-c",
            _PREAMBLE + textwrap.dedent(script),
            cluster.bootstrap_servers[0],
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that processes that it forked can be killed with it
    )
    try:
        output, _ = process.communicate(timeout=_CHILD_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGABRT)  # faulthandler, on with -X dev, prints where each thread is
        output, _ = process.communicate()
        raise AssertionError(f"the child hangs:\n{output}") from None
    assert process.returncode == expect, output
    return output


def _values(cluster: FakeCluster) -> list[bytes | None]:
    return [record.value for record in cluster.records("t")]


def test_exit_without_close_delivers_what_was_accepted(stage: Stage, cluster: FakeCluster) -> None:
    run_script(
        cluster,
        """
        p = producer(linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS)
        for index in range(100):
            p.send("t", b"%d" % index)
        """,
    )
    assert _values(cluster) == [b"%d" % index for index in range(100)]


def test_exit_without_close_runs_the_callbacks(stage: Stage, cluster: FakeCluster) -> None:
    output = run_script(
        cluster,
        """
        p = producer(linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS)
        p.send("t", b"v", on_delivery=lambda m, e: print("delivered at", m.offset, flush=True))
        """,
    )
    assert "delivered at 0" in output


def test_exit_with_an_uncaught_exception_still_delivers(stage: Stage, cluster: FakeCluster) -> None:
    run_script(
        cluster,
        """
        p = producer(linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS)
        p.send("t", b"v")
        raise SystemExit(3)
        """,
        expect=3,
    )
    assert _values(cluster) == [b"v"]


def test_exit_with_a_dead_cluster_is_bounded_and_logs_the_number_of_lost_records(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.control(PRODUCE, lambda context: context.answer())  # the first record is acknowledged
    cluster.control(PRODUCE, faults.stall_before(), times=None)
    output = run_script(
        cluster,
        """
        import logging
        logging.basicConfig()
        p = producer(request_timeout_ms=4000, delivery_timeout_ms=4000)
        p.send("t", b"first").result(60)
        print("ready", flush=True)
        for index in range(9):
            p.send("t", b"lost %d" % index)
        """,
    )
    assert "ready" in output
    assert "9" in output.split("ready")[1], output


def test_producers_without_references_deliver_and_do_not_hang(stage: Stage, cluster: FakeCluster) -> None:
    run_script(
        cluster,
        """
        for index in range(20):
            producer(linger_ms=50).send("t", b"%d" % index)
        gc.collect()
        """,
    )
    assert sorted(_values(cluster), key=lambda v: int(v or b"0")) == [b"%d" % index for index in range(20)]


def test_a_forked_child_has_its_own_thread_and_connections(stage: Stage, cluster: FakeCluster) -> None:
    run_script(
        cluster,
        """
        p = producer()
        p.send("t", b"parent 1").result(60)
        def child():
            assert p.send("t", b"child").result(60).offset == 1
            p.close(60)
        assert in_child(child) == 0
        assert p.send("t", b"parent 2").result(60).offset == 2
        """,
    )
    assert _values(cluster) == [b"parent 1", b"child", b"parent 2"]
    by_connection = {b.connection_id for b in cluster.topics["t"].partitions[0].batches}
    assert len(by_connection) == 2


def test_records_waiting_in_the_parent_are_sent_only_by_the_parent(
    stage: Stage, cluster: FakeCluster
) -> None:
    run_script(
        cluster,
        """
        p = producer(linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS)
        futures = [p.send("t", b"parent %d" % index) for index in range(3)]
        def child():
            future = p.send("t", b"child")
            p.flush(60)
            assert future.result(60).offset == 0
        assert in_child(child) == 0
        p.flush(60)
        assert [f.result(0).offset for f in futures] == [1, 2, 3]
        """,
    )
    assert _values(cluster) == [b"child", b"parent 0", b"parent 1", b"parent 2"]


def test_a_child_that_does_not_use_the_producer_does_not_affect_it(
    stage: Stage, cluster: FakeCluster
) -> None:
    """Even if the child ends normally, with exit handlers and finalizers."""
    run_script(
        cluster,
        """
        p = producer(linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS)
        p.partitions_for("t")
        future = p.send("t", b"parent")
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        p.flush(60)
        assert future.result(0).offset == 0
        p.close(60)
        """,
    )
    assert _values(cluster) == [b"parent"]
    assert len({r.connection_id for r in cluster.requests(PRODUCE)}) == 1


def test_a_send_many_result_does_not_hang_in_a_child(stage: Stage, cluster: FakeCluster) -> None:
    run_script(
        cluster,
        """
        p = producer(linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS)
        result = p.send_many("t", [b"parent"] * 3)

        def child():
            assert result.wait(60)
            assert {error.outcome.value for _, error in result.failures()} == {"unknown"}
            assert len(result.failures()) == 3

        assert in_child(child) == 0
        p.flush(60)
        assert result.failures(60) == []
        p.close(60)
        """,
    )
    assert _values(cluster) == [b"parent"] * 3


def test_a_fork_during_send_many(stage: Stage, cluster: FakeCluster) -> None:
    run_script(
        cluster,
        """
        p = producer()

        def rows():
            yield from [b"before"] * 100
            pid = os.fork()
            if pid:
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            for n in range(100):
                yield b"parent" if pid else b"child"

        result = p.send_many("t", rows())
        failed = [(row, error.outcome.value) for row, error in result.failures(60)]
        if failed:
            # The records accepted before the fork belong to the parent.
            assert failed == [(row, "unknown") for row in range(len(failed))]
            assert 0 < len(failed) <= 100
            assert result[150].result().offset >= 0
            p.close(60)
            os._exit(0)
        assert result[150].result().offset >= 0
        p.close(60)
        """,
    )
    assert sorted(set(_values(cluster))) == [b"before", b"child", b"parent"]
    assert _values(cluster).count(b"child") == _values(cluster).count(b"parent") == 100


def test_a_child_that_closes_does_not_close_the_parents_connections(
    stage: Stage, cluster: FakeCluster
) -> None:
    run_script(
        cluster,
        """
        p = producer()
        p.send("t", b"parent 1").result(60)
        assert in_child(lambda: p.close(60)) == 0
        assert p.send("t", b"parent 2").result(60).offset == 1
        """,
    )
    assert len({r.connection_id for r in cluster.requests(PRODUCE)}) == 1


def test_forking_while_other_threads_send_does_not_deadlock_children(
    stage: Stage, cluster: FakeCluster
) -> None:
    run_script(
        cluster,
        """
        p = producer(batch_size=200, linger_ms=1)
        stop = threading.Event()
        def feed():
            while not stop.is_set():
                p.send("t", b"parent").result(60)
        threads = [threading.Thread(target=feed) for _ in range(3)]
        for t in threads:
            t.start()
        def child():
            p.send("t", b"child").result(60)
            p.close(60)
        codes = [in_child(child) for _ in range(10)]
        stop.set()
        for t in threads:
            t.join(60)
        p.close(60)
        assert codes == [0] * 10, codes
        """,
    )
    assert _values(cluster).count(b"child") == 10


def test_a_fork_during_the_import_of_a_message_does_not_hang_the_child(
    stage: Stage, cluster: FakeCluster
) -> None:
    run_script(
        cluster,
        """
        import faulthandler, kproducer_messages
        begun, goes_on = threading.Event(), threading.Event()
        class SlowFinder:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name == "kproducer_messages.end_txn_request" and not begun.is_set():
                    begun.set()
                    goes_on.wait(60)
        sys.meta_path.insert(0, SlowFinder)
        os.register_at_fork(before=goes_on.set)
        thread = threading.Thread(target=lambda: kproducer_messages.EndTxnRequest)
        thread.start()
        assert begun.wait(60)
        def child():
            faulthandler.dump_traceback_later(20, exit=True)
            kproducer_messages.EndTxnRequest
        assert in_child(child) == 0
        thread.join()
        """,
    )


def test_futures_from_before_the_fork_do_not_hang_the_child(stage: Stage, cluster: FakeCluster) -> None:
    run_script(
        cluster,
        """
        p = producer(linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS)
        future = p.send("t", b"parent")
        def child():
            try:
                future.result(0.2)
            except Exception:
                pass
            else:
                raise AssertionError("the child cannot know")
            p.send("t", b"child")
            p.flush(60)
        assert in_child(child) == 0
        p.close(60)
        """,
    )
    assert _values(cluster) == [b"child", b"parent"]


def test_multiprocessing_workers_share_a_producer_made_before(stage: Stage, cluster: FakeCluster) -> None:
    run_script(
        cluster,
        """
        import multiprocessing
        p = producer()
        def work(index):
            return p.send("t", b"%d" % index).result(60).offset
        p.send("t", b"first").result(60)
        with multiprocessing.get_context("fork").Pool(3) as pool:
            offsets = pool.map(work, range(12))
        assert sorted(offsets) == list(range(1, 13)), offsets
        p.close(60)
        """,
    )
    assert len(_values(cluster)) == 13


def test_ctrl_c_interrupts_a_waiting_flush(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.stall_before(), times=None)
    run_script(
        cluster,
        """
        import signal
        # Background jobs of a shell and their children ignore SIGINT.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        p = producer()
        p.send("t", b"stuck")
        try:
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            p.flush(3600)
        except KeyboardInterrupt:
            print("interrupted")
            try:
                p.close(0)
            except Exception:
                pass
        else:
            sys.exit(5)
        """,
    )


INTERRUPTED = """
import logging, signal
# What Ctrl-C does. Not SIGINT, which background jobs of a shell and their children ignore.
signal.signal(signal.SIGALRM, signal.default_int_handler)
class CtrlC(logging.StreamHandler):
    # The user reads the warning and presses Ctrl-C again.
    def emit(self, record):
        super().emit(record)
        if "press Ctrl-C" in record.getMessage():
            signal.setitimer(signal.ITIMER_REAL, 0.1)
logging.getLogger("kproducer").addHandler(CtrlC())
"""


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.NOT_SENT])
def test_the_second_ctrl_c_in_a_with_block_gives_up(
    stage: Stage, cluster: FakeCluster, outcome: Outcome
) -> None:
    if outcome is Outcome.UNKNOWN:
        cluster.control(PRODUCE, faults.stall_before(), times=None)
    else:
        cluster.topics["t"].partitions[0].leader_id = -1
    output = run_script(
        cluster,
        INTERRUPTED
        + """
try:
    with producer(delivery_timeout_ms=2 * HOURS_MS, linger_ms=HOURS_MS) as p:
        future = p.send("t", b"v")
        raise KeyboardInterrupt
except KeyboardInterrupt:
    error = future.exception(0)
    print(type(error).__name__, error.outcome, p)
    sys.exit(5)
""",
        expect=5,
    )
    assert "After Ctrl-C: producer kproducer-1 is waiting for 1 unacknowledged records" in output
    assert "up to about 7200 s" in output
    assert f"ProducerClosedError {outcome!s}" in output
    assert "closed>" in output
    assert "At the end of the process" not in output


def test_ctrl_c_in_a_with_block_delivers_what_can_be_delivered(stage: Stage, cluster: FakeCluster) -> None:
    output = run_script(
        cluster,
        """
        try:
            with producer(linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS) as p:
                future = p.send("t", b"v")
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            assert future.result(0).offset == 0
        """,
    )
    assert _values(cluster) == [b"v"]
    assert "Ctrl-C" not in output


def test_the_end_of_the_process_says_what_it_waits_for(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.stall_before(), times=None)
    output = run_script(
        cluster,
        INTERRUPTED
        + """
p = producer(delivery_timeout_ms=2 * HOURS_MS)
p.send("t", b"stuck")
""",
    )
    assert "At the end of the process: producer kproducer-1 is waiting for 1 unacknowledged records" in output
    assert "1 records were not delivered" in output
    assert "were lost" not in output  # the same loss, a second time


def test_pickling_a_producer_is_a_clear_error(stage: Stage, cluster: FakeCluster) -> None:
    output = run_script(
        cluster,
        """
        import pickle
        with producer() as p:
            try:
                pickle.dumps(p)
            except TypeError as error:
                print("refused:", error)
        """,
    )
    assert "refused:" in output


def test_a_child_uses_the_transactional_id_that_was_set_last(stage: Stage, cluster: FakeCluster) -> None:
    run_script(
        cluster,
        """
        p = producer(transactional_id="first")
        p.change_transactional_id("second")
        def child():
            p.init_transactions()
            with p.transaction():
                p.send("t", b"child")
            p.close()
        assert in_child(child) == 0
        p.close()
        """,
    )
    assert list(cluster.coordination.transactions.transactions) == ["second"]
    assert [record.value for record in cluster.committed_records("t", 0)] == [b"child"]


def test_a_child_forked_in_a_delivery_callback_waits_for_its_own_records(
    stage: Stage, cluster: FakeCluster
) -> None:
    """The child's main thread was the parent's I/O thread, which must not wait for futures."""
    run_script(
        cluster,
        """
        p = producer()
        codes = []

        def in_the_child():
            assert p.send("t", b"child").result().offset == 1
            assert p.send_many("t", [b"many"]).result()
            p.flush()
            p.close()

        p.send("t", b"parent", on_delivery=lambda m, e: codes.append(in_child(in_the_child))).result()
        assert codes == [0], codes
        p.close()
        """,
    )
    assert _values(cluster) == [b"parent", b"child", b"many"]


def test_a_child_that_returns_from_the_delivery_callback_it_was_forked_in_ends(
    stage: Stage, cluster: FakeCluster
) -> None:
    """The child continues in the parent's I/O loop, whose connections and records are not its own."""
    run_script(
        cluster,
        """
        p = producer()
        pids = []
        p.send("t", b"parent", on_delivery=lambda m, e: pids.append(os.fork())).result()
        os.waitpid(pids[0], 0)
        assert p.send("t", b"later").result().offset == 1
        p.close()
        """,
    )
    assert _values(cluster) == [b"parent", b"later"]
