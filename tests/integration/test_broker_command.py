"""``make broker``, and the demo's brokers: mistakes are answered at once, with one sentence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.terminal import foreground
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


def refusal(module: str, *arguments: str, **environment: str) -> str:
    """What a command writes to stderr when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr.strip()


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = refusal("tests.support.kafka.run_broker", "--port", str(port))
    assert said.splitlines()[1:] == [
        f"make broker: no broker can listen on 127.0.0.1:{port} (Address already in use): stop the program"
        " that uses the port, or choose another one"
    ]


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("tests.support.kafka.run_broker", ["9.9.9"]), ("examples.demo", ["--kafka", "9.9.9"])],
)
def test_an_unknown_version_is_refused_before_maven_is_asked(module: str, arguments: list[str]) -> None:
    said = refusal(module, *arguments)
    assert "Apache Kafka '9.9.9' cannot be started: the known versions are 2.8.2, " in said
    assert len(said.splitlines()) == 1


def test_the_reason_of_maven_is_shown(tmp_path: Path) -> None:
    maven_log = r"\033[0m\033[0m[ERROR] No network\n[ERROR] \n[ERROR] Help\n"
    for name, output in (("java", ""), ("mvn", maven_log)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nprintf '{output}'\nexit 1\n")
        program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    said = refusal("tests.support.kafka.run_broker", PATH=path, JAVA_HOME="", KPRODUCER_CACHE=str(tmp_path))
    expected = f"make broker: Maven could not resolve Apache Kafka {NEWEST_VERSION}: No network ("
    assert said.splitlines()[-1].startswith(expected)


@pytest.mark.kafka
@pytest.mark.parametrize("moment", ["while it starts", "when it runs"])
def test_ctrl_c_ends_the_broker_at_once(moment: str) -> None:
    with foreground([sys.executable, "-m", "tests.support.kafka.run_broker"], ROOT) as broker:
        assert broker.process.stderr is not None
        assert b"starting Apache Kafka" in broker.process.stderr.readline()
        if moment == "when it runs":
            broker.await_output(r"127\.0\.0\.1:\d+\n")
            assert b"Ctrl-C stops it" in broker.process.stderr.readline()
        else:
            wait_until(lambda: len(broker.pids()) > 1)
        assert broker.press_ctrl_c() == (130, "make broker: interrupted\n")
        broker.await_end()


@pytest.mark.kafka
def test_a_secured_broker_prints_a_program_that_works() -> None:
    with foreground([sys.executable, "-m", "tests.support.kafka.run_broker", "--secure"], ROOT) as broker:
        program = broker.await_output(r"from kproducer .*result\(timeout=10\)\)\n")
        command = [sys.executable, "-c", program]
        sent = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert sent.returncode == 0, sent.stderr
        assert "topic='events'" in sent.stdout
        broker.press_ctrl_c()
        broker.await_end()
