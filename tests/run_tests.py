"""Runs the tests of a kernel: ``python -m tests.run_tests native|pure [PYTEST ARGUMENT...]``.

Tests wait more than they compute, so there are more processes (``JOBS``) than cores. ``JOBS=0`` is one.
"""

from __future__ import annotations

import os
import sys

from build_tools.commands import run
from tests.support.kafka.maven_artifacts import NEWEST_VERSION

#: Compiled modules are tested as they are installed. Tests that replace or interrupt parts run the sources.
_INTERPRETED_TESTS = (
    "tests/unit",
    "tests/spark/test_partition_writer.py",
    "tests/scenarios/test_fast_send_agrees.py",
    "tests/scenarios/test_interrupted_calls.py",
    "tests/scenarios/test_sending_in_transactions.py",
)
_PURE_SCENARIOS = (
    "callbacks close_and_flush delivery idempotence interrupted_calls memory_bound memory_limits"
    " resource_limits send_arrow send_arrow_formats send_many send_many_and_send sender_retries"
    " sending_in_transactions"
)
#: The pure kernel affects how records get into batches and how batches are completed. Everything else runs
#: once, with the native core; tests/unit/kernel, tests/unit/columns, tests/unit/network and tests/codegen
#: compare both.
_PURE_TESTS = (
    "tests/unit/records",
    "tests/unit/accumulator",
    "tests/unit/bulk",
    "tests/unit/sending",
    "tests/unit/sender",
    "tests/unit/test_kafka_producer.py",
    *(f"tests/scenarios/test_{name}.py" for name in _PURE_SCENARIOS.split()),
    "tests/simulation/test_random_plans.py",
    "tests/wire_compat/test_round_trips.py",
    "tests/spark/test_partition_writer.py",
    "tests/spark/test_batch_sink.py",
)
#: Once more with TLS, and lanes that hand everything back at random: see ``scenarios/conftest.py``.
_HAND_OVER_SCENARIOS = "close_and_flush delivery harness idempotence transactions"
_HAND_OVER_TESTS = tuple(f"tests/scenarios/test_{name}.py" for name in _HAND_OVER_SCENARIOS.split())


def _pytest(*arguments: str, **variables: str) -> None:
    # Each process runs a contiguous part of the list, because brokers that several files share are started
    # once per process and version.
    distribution = ("-n", os.environ.get("JOBS", "4"), "--dist", "worksteal")
    # Every process that the tests start imports the same modules: compile them once, even if the environment
    # disables bytecode caches. This also lets pytest cache its rewritten test modules.
    variables["PYTHONDONTWRITEBYTECODE"] = ""
    run(sys.executable, "-m", "pytest", *distribution, *arguments, **variables)


def main(kernel: str, *arguments: str) -> None:
    if kernel == "pure":
        versions = os.environ.get("KPRODUCER_KAFKA_VERSIONS") or NEWEST_VERSION
        _pytest(*_PURE_TESTS, *arguments, KPRODUCER_KERNEL="pure", KPRODUCER_KAFKA_VERSIONS=versions)
    else:
        others = (f"--ignore={path}" for path in _INTERPRETED_TESTS)
        _pytest(*_INTERPRETED_TESTS, *arguments, KPRODUCER_KERNEL="native", KPRODUCER_INTERPRETED="1")
        _pytest(*others, *arguments, KPRODUCER_KERNEL="native")
        _pytest(*_HAND_OVER_TESTS, *arguments, KPRODUCER_KERNEL="native", KPRODUCER_HAND_OVERS="tls")


if __name__ == "__main__":
    main(*sys.argv[1:])
