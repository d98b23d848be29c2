"""Apache Kafka's generated classes as a reference: one Java process per test module, values as Kafka's JSON.

The program is ``KafkaOracle.java`` in this folder; Java runs it from source. The jars are those of the broker
tests.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import attrs

from codegen.model import FieldSpec, MessageSpec, MessageType, StructSpec
from codegen.naming import attribute_name
from codegen.versions import Versions
from tests.support.kafka.maven_artifacts import KafkaUnavailableError, java_command, spec_jars

#: The first one that has a version is used; 4.x removed old versions that 3.9 still has.
KAFKAS = ("4.4.0", "3.9.2")

_HERE = Path(__file__).parent
_BOUNDED_EXEC = _HERE.parent / "support" / "bounded_exec.py"
_LIFETIME_SECONDS = 3600


class OracleError(Exception):
    """Kafka refused the message; the text is from its exception."""


@attrs.frozen
class Answer:
    """Kafka's encoding of the values, and its reading of our bytes."""

    from_values: bytes
    written_again: bytes
    values: dict[str, Any]


class KafkaOracle:
    """The Java process. Close it when done; it also ends by itself after some minutes.

    Args:
        folders: the jars of each Kafka version to use.

    Raises:
        KafkaUnavailableError: Java or Maven is missing, or this Java cannot compile.
    """

    def __init__(self, folders: Mapping[str, Path] | None = None) -> None:
        if folders is None:
            folders = {version: spec_jars(version) for version in KAFKAS}
        self._kafkas = tuple(folders)
        command = [java_command(), "-Xmx512m", "-XX:TieredStopAtLevel=1", str(_HERE / "KafkaOracle.java")]
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(_BOUNDED_EXEC),
                str(_LIFETIME_SECONDS),
                *command,
                *map(str, folders.values()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._ranges: dict[str, list[Versions]] = {}
        try:
            self._supported("MetadataRequestData")
        except (EOFError, BrokenPipeError):
            self.close()
            raise KafkaUnavailableError(
                "Kafka's own classes are called by a small Java program, which this Java cannot compile "
                "(Debian: apt-get install openjdk-17-jdk-headless)"
            ) from None

    def knows(self, spec: MessageSpec, version: int) -> str | None:
        """The Kafka version to use for this message, if any has it."""
        ranges = self._supported(_java_class(spec))
        return next(
            (kafka for kafka, known in zip(self._kafkas, ranges, strict=True) if version in known), None
        )

    def ask(self, spec: MessageSpec, version: int, values: dict[str, Any], data: bytes) -> Answer:
        """Let Kafka encode the values, and decode and re-encode our bytes. Raises OracleError.

        Classes without JSON converters (those of Kafka Streams) only return ``written_again``.
        """
        kafka = self.knows(spec, version)
        assert kafka is not None
        name = _java_class(spec)
        text = json.dumps(values).encode()
        self._send(b"X" + bytes([self._kafkas.index(kafka)]) + _sized(name.encode()))
        self._send(struct.pack(">h", version) + _sized(text) + _sized(data), flush=True)
        if self._read(1) == b"\1":
            raise OracleError(self._read_sized().decode())
        return Answer(self._read_sized(), self._read_sized(), json.loads(self._read_sized()))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _supported(self, name: str) -> list[Versions]:
        if name not in self._ranges:
            self._send(b"R" + _sized(name.encode()), flush=True)
            bounds = [struct.unpack(">hh", self._read(4)) for _ in self._kafkas]
            self._ranges[name] = [Versions(*pair) for pair in bounds]
        return self._ranges[name]

    def _send(self, data: bytes, *, flush: bool = False) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        if flush:
            self._process.stdin.flush()

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(count)
        if len(data) < count:
            raise EOFError("the Java process has ended")
        return data

    def _read_sized(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)


def _java_class(spec: MessageSpec) -> str:
    suffixed = (MessageType.REQUEST, MessageType.RESPONSE, MessageType.HEADER)
    return f"{spec.name}Data" if spec.type in suffixed else spec.name


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def kafka_json(message: Any, spec: MessageSpec, version: int, *, for_reading: bool) -> dict[str, Any]:
    """A message in the form of Kafka's JSON converters.

    Written JSON (``for_reading=False``) has the size of records instead of their bytes.
    """
    structs = spec.structs()
    root = StructSpec(spec.name, spec.valid_versions, spec.fields, spec.line)

    def struct_values(item: Any, described: StructSpec) -> dict[str, Any]:
        values: dict[str, Any] = {}
        untouched = type(item)()
        for field in described.fields:
            if version not in field.versions:
                continue
            name = attribute_name(field.name)
            value = getattr(item, name)
            if version in field.tagged_versions and value == getattr(untouched, name):
                continue
            key = field.name[0].lower() + field.name[1:]
            if field.type.name == "records" and not for_reading and value is not None:
                values[f"{key}SizeInBytes"] = len(value)
            else:
                values[key] = plain(value, field)
        return values

    def plain(value: Any, field: FieldSpec) -> Any:
        if value is None:
            return None
        if isinstance(value, list):
            return [plain(element, field) for element in value]
        if field.type.is_struct:
            return struct_values(value, structs[field.type.name])
        if field.type.name == "uuid":
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        if field.type.name in ("bytes", "records"):
            return base64.b64encode(value).decode()
        if isinstance(value, float) and not math.isfinite(value) and not for_reading:
            return "Infinity" if value > 0 else "-Infinity"
        return value

    return struct_values(message, root)


def extract_specs(jars: Path, folder: Path) -> list[Path]:
    """Extract the specs from the jars of a folder into one folder below ``folder`` per jar and kind."""
    found: set[Path] = set()
    for jar in sorted(jars.glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                kind = PurePosixPath(name).parent.name
                if name.endswith(".json") and kind in ("message", "metadata"):
                    part = re.sub(r"\W", "_", f"{jar.stem}_{kind}")
                    target = folder / part / PurePosixPath(name).name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(name))
                    found.add(target.parent)
    return sorted(found)
