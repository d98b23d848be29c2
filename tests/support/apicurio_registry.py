"""Apicurio Registry, a real schema registry with the API of Confluent's, in its own process and in memory."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from types import TracebackType

from tests.support.kafka.java_process import JavaProcess
from tests.support.kafka.maven_artifacts import java_command, registry_jar

_LISTENING = r"Listening on: (http://127\.0\.0\.1:\d+)"
_START_TIMEOUT_S = 120.0


class ApicurioRegistry:
    """Runs while the context is entered, on a free port of 127.0.0.1.

    Attributes:
        url: of the API that clients of Confluent Schema Registry use.
    """

    url: str

    def __enter__(self) -> ApicurioRegistry:
        self._folder = tempfile.TemporaryDirectory()
        log_path = Path(self._folder.name, "registry.log")
        options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        settings = ("-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port=0")
        command = [java_command(), *options, *settings, "-jar", str(registry_jar())]
        self._process = JavaProcess(command, log_path, _LISTENING, lifetime_seconds=600)
        try:
            self._process.await_ready(_START_TIMEOUT_S)
            listening = re.search(_LISTENING, log_path.read_text(errors="replace"))
            assert listening is not None
            self.url = f"{listening[1]}/apis/ccompat/v7"
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.stop()
        self._folder.cleanup()
