"""Readers of other projects, as programs: Apache Avro in Java, and the schema registry client of franz-go."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.kafka.maven_artifacts import avro_class_path, cache_folder, java_command
from tests.support.requirements import REQUIRE_GO, skip_or_fail

_HERE = Path(__file__).parent
_BOUNDED_EXEC = _HERE.parent / "bounded_exec.py"
_LIFETIME_SECONDS = 300
_GO_SECONDS = 250


class JavaValue(NamedTuple):
    """What Java makes of a value.

    Attributes:
        written: what it writes for it.
        json: in Avro's JSON encoding.
        text: its text, with logical types.
    """

    written: bytes
    json: Any
    text: str


def read_with_java(cases: Sequence[tuple[Any, Sequence[bytes]]]) -> list[list[JavaValue]]:
    """Read values with Apache Avro.

    Args:
        cases: schemas as JSON has them, and values.

    Raises:
        KafkaUnavailableError: Java or Maven is missing.
    """
    lines = []
    for schema, values in cases:
        lines.append(f"S{json.dumps(schema)}")
        lines += [f"R{base64.b64encode(value).decode()}" for value in values]
    options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", avro_class_path())
    command = [java_command(), *options, str(_HERE / "ReadAvro.java")]
    found = iter(_run(command, lines))
    return [
        [JavaValue(base64.b64decode(next(found)), json.loads(next(found)), next(found)) for _ in values]
        for _, values in cases
    ]


def franz_go() -> str:
    """The program in ``franz_go/``, compiled. Without Go, the test is skipped or fails."""
    go = shutil.which("go")
    if go is None:
        skip_or_fail(REQUIRE_GO, "tests with franz-go: go not found (Debian: apt-get install golang-go)")
    program = cache_folder() / "franz_go"
    with (cache_folder() / "franz_go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [go, "build", "-mod=readonly", "-o", str(program), "."],
            cwd=_HERE / "franz_go",
            capture_output=True,
            text=True,
            timeout=_GO_SECONDS,
            check=False,
        )
    if done.returncode != 0:
        skip_or_fail(REQUIRE_GO, f"tests with franz-go: go build failed: {done.stderr[-500:]}")
    return str(program)


@contextlib.contextmanager
def franz_go_registry(program: str) -> Iterator[str]:
    """Run the registry of franz-go. Yields its URL."""
    command = [sys.executable, str(_BOUNDED_EXEC), str(_LIFETIME_SECONDS), program, "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def read_with_franz_go(program: str, url: str, records: Sequence[bytes]) -> list[dict[str, Any]]:
    """What franz-go finds in framed records: ``id``, ``schema``, ``type`` and ``data``."""
    lines = [base64.b64encode(record).decode() for record in records]
    found = [json.loads(line) for line in _run([program, "read", url], lines)]
    return [{**each, "data": base64.b64decode(each["data"] or "")} for each in found]


def _run(command: Sequence[str], lines: Sequence[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(_BOUNDED_EXEC), str(_LIFETIME_SECONDS), *command],
        input="".join(f"{line}\n" for line in lines).encode(),
        capture_output=True,
        timeout=_LIFETIME_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    # Not splitlines(): texts may have other ends of lines.
    return done.stdout.decode().split("\n")[:-1]
