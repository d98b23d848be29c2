"""The contract that twins share: names, parameters and defaults; and the choice between twins."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from types import ModuleType

import pytest

import kproducer._core.kernel
from kproducer._core.kernel import pure

FUNCTIONS = {
    "partition_for_key": "(key, partition_count)",
    "record_size_upper_bound": "(key, value, headers)",
    "write_batch_header": (
        "(buffer, end, attributes, record_count, base_timestamp_ms, max_timestamp_ms,"
        " producer_id, producer_epoch, base_sequence)"
    ),
}
WRITER_METHODS = {
    "append": "(self, timestamp_ms, key, value, headers)",
    "move_to": "(self, buffer)",
    "set_compression_estimate": "(self, ratio, wire_limit)",
}
WRITER_ATTRIBUTES = {
    "buffer",
    "limit",
    "position",
    "record_count",
    "base_timestamp_ms",
    "max_timestamp_ms",
}


def parameters(function: object) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare)).replace("(self, /", "(self")  # no caller passes it by name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_agreed_signature(kernel: ModuleType, name: str) -> None:
    assert parameters(getattr(kernel, name)) == FUNCTIONS[name]


@pytest.mark.parametrize("name", WRITER_METHODS)
def test_writer_methods_have_the_agreed_signature(kernel: ModuleType, name: str) -> None:
    assert parameters(getattr(kernel.BatchWriter, name)) == WRITER_METHODS[name]


def test_writers_are_made_of_a_buffer(kernel: ModuleType) -> None:
    buffer = bytearray(100)
    assert kernel.BatchWriter(buffer=buffer).buffer is buffer
    for bad in (b"x" * 100, memoryview(buffer), None, 100):
        with pytest.raises(TypeError, match="bytearray, not"):
            kernel.BatchWriter(bad)


def test_writer_shows_the_agreed_attributes_and_takes_no_others(kernel: ModuleType) -> None:
    writer = kernel.BatchWriter(bytearray(100))
    assert {name for name in dir(writer) if not name.startswith("_")} == (
        WRITER_ATTRIBUTES | set(WRITER_METHODS)
    )
    with pytest.raises(AttributeError):
        writer.colour = "red"


def test_a_twin_has_every_name_of_the_kernel(kernel: ModuleType) -> None:
    assert kernel.__all__ == pure.__all__
    assert [name for name in pure.__all__ if not hasattr(kernel, name)] == []


def test_the_kernel_package_has_the_names_of_the_chosen_twin() -> None:
    twin = {"pure": "pure", "native": "native.twin"}[kproducer._core.kernel.IMPLEMENTATION]
    chosen = importlib.import_module(f"kproducer._core.kernel.{twin}")
    for name in pure.__all__:
        assert getattr(kproducer._core.kernel, name) is getattr(chosen, name)


def run_with_kernel(choice: str, prepare: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{prepare}\nimport kproducer._core.kernel as k; print(k.IMPLEMENTATION)"],
        env={**os.environ, "KPRODUCER_KERNEL": choice},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


#: As in an installation without a compiler.
NOTHING_COMPILED = """
import logging, sys
sys.modules["kproducer._core.kernel.native._batch"] = None
logging.basicConfig(level="DEBUG")
"""


def test_the_variable_chooses_the_pure_kernel() -> None:
    assert run_with_kernel("pure").stdout == "pure\n"


@pytest.mark.parametrize("choice", ["auto", "native"])
def test_the_native_kernel_is_taken_where_it_is(choice: str) -> None:
    pytest.importorskip("kproducer._core.kernel.native.twin", exc_type=ImportError)
    assert run_with_kernel(choice).stdout == "native\n"


def test_without_the_native_kernel_auto_is_pure_and_the_log_says_why() -> None:
    result = run_with_kernel("auto", NOTHING_COMPILED)
    assert result.stdout == "pure\n"
    assert "kernel: pure, because the native one cannot be imported: " in result.stderr


def test_native_where_there_is_none_is_an_error_with_the_reason() -> None:
    result = run_with_kernel("native", NOTHING_COMPILED)
    assert result.returncode != 0
    assert "ConfigError: KPRODUCER_KERNEL=native: the native kernel cannot be imported: " in result.stderr
    assert "_batch" in result.stderr.splitlines()[-1]


def test_a_kernel_that_does_not_exist_is_an_error_that_names_the_variable() -> None:
    result = run_with_kernel("fast")
    assert result.returncode != 0
    assert "ConfigError: KPRODUCER_KERNEL='fast' is none of auto, pure, native" in result.stderr


@pytest.mark.parametrize(
    "use",
    [
        "from kproducer._core.kernel import record_size_upper_bound as f; f(None, b'value', [('n', b'v')])",
        "from kproducer._core.columns import arrow; assert 'native' in arrow.ArrowRows.__module__",
    ],
    ids=["headers", "arrow"],
)
def test_the_native_kernel_does_not_import_the_pure_one(use: str) -> None:
    """If the process were forked during such an import, the child could never make the same call."""
    pytest.importorskip("kproducer._core.kernel.native.twin", exc_type=ImportError)
    code = (
        f"import sys; {use}\n"
        "print([name for name in sys.modules if '.pure.' in name and name.startswith('kproducer.')])"
    )
    environment = {**os.environ, "KPRODUCER_KERNEL": "native"}
    printed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True, timeout=60)
    assert printed == "[]\n"
