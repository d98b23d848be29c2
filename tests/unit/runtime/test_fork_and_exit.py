"""What exits and forks do to the producers that are registered; whole processes are tested elsewhere."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import weakref

import pytest

from kproducer._core.runtime import fork_and_exit


class Managed:
    """A producer that notes what the process does to it."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.events: list[str] = []

    def begin_close_at_exit(self) -> None:
        self.events.append("begin")
        if self.fails:
            raise RuntimeError("a bug at exit")

    def finish_close_at_exit(self) -> None:
        self.events.append("finish")

    def after_fork_in_child(self) -> None:
        self.events.append("fork")


@pytest.fixture(autouse=True)
def _only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_and_exit, "_live", weakref.WeakValueDictionary())
    monkeypatch.setattr(fork_and_exit, "_unowned", {})


def test_everything_alive_is_closed_in_two_steps() -> None:
    first, second = Managed(), Managed()
    fork_and_exit.register(first)
    fork_and_exit.register(second)
    fork_and_exit.close_all()
    assert first.events == second.events == ["begin", "finish"]


def test_one_that_fails_does_not_keep_the_others_from_closing(caplog: pytest.LogCaptureFixture) -> None:
    failing, fine = Managed(fails=True), Managed()
    fork_and_exit.register(failing)
    fork_and_exit.register(fine)
    fork_and_exit.close_all()
    assert fine.events == ["begin", "finish"]
    assert "a bug at exit" in caplog.text


def test_ctrl_c_before_the_producers_are_closed_does_not_leave_them_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An adapter waits for topics there, perhaps for minutes; other threads may make producers meanwhile."""
    first, second = Managed(), Managed()
    fork_and_exit.register(first)

    def interrupted() -> None:
        fork_and_exit.register(second)
        raise KeyboardInterrupt

    monkeypatch.setattr(fork_and_exit, "before_close", [interrupted])
    with pytest.raises(KeyboardInterrupt):
        fork_and_exit.close_all()
    assert first.events == second.events == ["begin", "finish"]


def test_what_is_collected_is_forgotten_and_what_is_held_is_not() -> None:
    fork_and_exit.register(Managed())
    unowned = Managed()
    fork_and_exit.hold(unowned)
    gc.collect()
    assert fork_and_exit.live_producers() == [unowned]
    fork_and_exit.release(unowned)
    fork_and_exit.release(unowned)
    assert fork_and_exit.live_producers() == []


def test_a_fork_tells_each_in_the_child_and_none_in_the_parent() -> None:
    managed, unowned = Managed(), Managed()
    fork_and_exit.register(managed)
    fork_and_exit.hold(unowned)
    pid = os.fork()
    if pid == 0:
        told = managed.events == unowned.events == ["fork"]
        os._exit(0 if told and fork_and_exit.live_producers() == [managed] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert managed.events == unowned.events == []


def test_a_child_of_multiprocessing_closes_its_producers_at_its_end() -> None:
    script = """
        import multiprocessing

        from kproducer._core.runtime import fork_and_exit


        class Managed:
            def begin_close_at_exit(self):
                print("begin", flush=True)

            def finish_close_at_exit(self):
                print("finish", flush=True)

            def after_fork_in_child(self):
                pass


        def work():
            global managed
            managed = Managed()
            fork_and_exit.register(managed)


        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join(30)
        print("exit code", child.exitcode)
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split("\n")[:3] == ["begin", "finish", "exit code 0"], done.stderr
