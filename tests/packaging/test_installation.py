"""The results of ``build_info()``, and which interpreters are refused."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import kproducer
from kproducer._core import kernel
from kproducer._core.runtime import threads


def run_python(code: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_build_info_describes_the_installation() -> None:
    info = kproducer.build_info()
    assert info.version == version("kproducer")
    assert info.kernel == kernel.IMPLEMENTATION
    assert platform.python_version() in info.python
    assert info.reason
    assert list(info.native_modules) == sorted(info.native_modules)


def test_the_version_is_a_module_attribute() -> None:
    assert kproducer.__version__ == version("kproducer")


def test_build_info_prints_one_fact_per_line() -> None:
    info = kproducer.BuildInfo(
        version="1.2.3",
        kernel="pure",
        reason="the native core is not complete",
        client="interpreted",
        native_modules=("kproducer.a", "kproducer.b"),
        missing_modules=("kproducer.c: No module named 'c'", "kproducer.d: wrong Python"),
        python="CPython 3.13.0 x86_64",
        crc32c_is_hardware=False,
    )
    assert str(info).splitlines() == [
        "kproducer 1.2.3, CPython 3.13.0 x86_64",
        "kernel: pure (the native core is not complete)",
        "client: interpreted",
        "checksum: computed without processor instructions",
        "compiled modules: 2 usable, 2 missing",
        "  kproducer.c: No module named 'c'",
        "  kproducer.d: wrong Python",
    ]
    assert len(repr(kproducer.build_info())) < 600
    assert "kernel='pure'" in repr(info)
    assert "kproducer.d: wrong Python" in repr(info)


def test_build_info_misses_no_module_that_this_system_cannot_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "kproducer._core.network._native_channel_io", None)
    info = kproducer.build_info()
    assert not any("_native_channel_io" in module for module in (*info.native_modules, *info.missing_modules))


def test_the_checksum_uses_processor_instructions() -> None:
    crc32c = pytest.importorskip("crc32c")
    assert kproducer.build_info().crc32c_is_hardware == bool(crc32c.hardware_based)


def test_build_info_names_the_variable_that_chose_the_kernel() -> None:
    done = run_python("import kproducer; print(kproducer.build_info().reason)", KPRODUCER_KERNEL="pure")
    assert done.stdout.strip() == "KPRODUCER_KERNEL=pure", done.stderr


def test_build_info_names_a_missing_module_and_the_reason() -> None:
    # A module that cannot be imported, as after an installation without a compiler.
    code = (
        "import sys; sys.modules['kproducer._core.kernel.native._batch'] = None\n"
        "import kproducer; info = kproducer.build_info()\n"
        "print(info)"
    )
    done = run_python(code, KPRODUCER_KERNEL="auto")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("kernel: pure (the native core is not complete: "), done.stderr
    assert any(line.startswith("  kproducer._core.kernel.native._batch: import of ") for line in lines)
    assert max(map(len, lines)) < 200


def test_an_interpreter_without_gil_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(ImportError, match="PYTHON_GIL=1"):
        threads.refuse_without_gil()


def test_an_interpreter_with_gil_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    threads.refuse_without_gil()
    monkeypatch.delattr(sys, "_is_gil_enabled")
    threads.refuse_without_gil()


@pytest.mark.parametrize("module", ["kproducer", "kproducer._core.kernel", "kproducer.spark"])
def test_the_refusal_precedes_all_other_imports(module: str) -> None:
    code = (
        "import sys; sys._is_gil_enabled = lambda: False\n"
        f"try: import {module}\n"
        "except ImportError as error: print(error)\n"
        "print(sorted({'kproducer.errors', 'kproducer._core.kernel', 'attrs', 'crc32c'} & set(sys.modules)))"
    )
    done = run_python(code)
    refusal, imported = done.stdout.splitlines()
    assert "free-threaded" in refusal
    assert imported == "[]"


@pytest.mark.parametrize(
    ("environment", "client"),
    [
        ({}, "compiled"),
        ({"KPRODUCER_INTERPRETED": "1"}, "interpreted"),
        ({"KPRODUCER_KERNEL": "pure"}, "interpreted"),
    ],
)
def test_compiled_python_modules_can_be_run_as_sources(environment: dict[str, str], client: str) -> None:
    code = (
        "import kproducer, kproducer._core.sender.sender as module\n"
        "print(kproducer.build_info().client, module.__file__)"
    )
    done = run_python(code, **{"KPRODUCER_KERNEL": "native", "KPRODUCER_INTERPRETED": "0", **environment})
    found, path = done.stdout.split()
    assert found == client, done.stderr
    assert path.endswith(".py") == (client == "interpreted")


SECOND_INTERPRETER = """
import sys
import kproducer._core.kernel, kproducer._core.sender.sender
code = '''
import sys
sys.path = {path!r}
import kproducer, kproducer._core.sender.sender as module
print(kproducer.build_info().client, module.__file__)
kproducer._core.installation.warn_without_native_core()
sys.stdout.flush()
'''.format(path=sys.path)
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    second = interpreters.create("legacy")
else:
    import _xxsubinterpreters as interpreters
    second = interpreters.create(isolated=False)
interpreters.run_string(second, code)
interpreters.destroy(second)
"""


def test_a_second_interpreter_of_the_process_runs_the_sources() -> None:
    """mypyc's modules would share their objects with the first one; Cython's refuse to be imported."""
    done = run_python(SECOND_INTERPRETER, KPRODUCER_KERNEL="auto", KPRODUCER_INTERPRETED="0")
    assert done.returncode == 0, done.stderr
    client, path = done.stdout.split()
    assert client == "interpreted"
    assert path.endswith(".py")
    assert "import kproducer in only one interpreter of the process" in done.stderr
    assert "make native" not in done.stderr
    assert "compiler" not in done.stderr


@pytest.mark.parametrize("missing", ["kproducer._core.kernel.native._batch", "kproducer_messages._native"])
def test_a_test_run_with_an_incomplete_native_core_fails(missing: str) -> None:
    code = (
        f"import sys, pytest; sys.modules['{missing}'] = None; "
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'tests/unit/kernel/test_varint.py']))"
    )
    done = run_python(code, KPRODUCER_KERNEL="native")
    assert done.returncode != 0
    assert missing.rpartition(".")[2] in done.stdout + done.stderr
    assert "passed" not in done.stdout


#: Two producers in one process.
START_TWO_PRODUCERS = (
    "import kproducer\n"
    "for number in range(2): kproducer.KafkaProducer('127.0.0.1:1').close(0)\n"
    "print(kproducer.__file__)"
)
NOT_COMPILED = {"KPRODUCER_KERNEL": "auto", "KPRODUCER_INTERPRETED": "0"}


@pytest.fixture(scope="module")
def not_compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the package that has no compiled modules."""
    folder = tmp_path_factory.mktemp("not_compiled")
    sources = Path(__file__).parents[2] / "kproducer"
    shutil.copytree(sources, folder / "kproducer", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder


def test_a_producer_that_starts_in_an_uncompiled_source_tree_warns_once(
    not_compiled: Path, tmp_path: Path
) -> None:
    (tmp_path / "kproducer").symlink_to(not_compiled / "kproducer")
    (tmp_path / "build_tools").mkdir()
    (tmp_path / "build_tools" / "native_build.py").touch()
    done = run_python(START_TWO_PRODUCERS, tmp_path, **NOT_COMPILED)
    assert done.stdout.startswith(str(tmp_path)), "the current directory hides the installed package"
    assert done.stderr.count("native core") == 1
    assert "'_append'" in done.stderr, "the module that cannot be imported"
    assert f"source tree {tmp_path}: run `make native` there, or start Python elsewhere" in done.stderr


def test_a_producer_of_an_installation_without_native_core_warns_once(not_compiled: Path) -> None:
    done = run_python(START_TWO_PRODUCERS, not_compiled, **NOT_COMPILED)
    assert done.stderr.count("native core") == 1
    assert "C compiler" in done.stderr
    assert "make native" not in done.stderr


def test_a_producer_warns_if_only_its_client_is_not_compiled() -> None:
    # As if mypyc had failed: the kernel is compiled, the Python modules are not.
    interpret = (
        "import sys\n"
        "from kproducer._core.runtime.source_finder import SourceFinder\n"
        "sys.meta_path.insert(0, SourceFinder)\n"
        "sys.modules['kproducer._core._compiled__mypyc'] = None\n"
    )
    done = run_python(interpret + START_TWO_PRODUCERS, KPRODUCER_KERNEL="native", KPRODUCER_INTERPRETED="0")
    assert done.stderr.count("native core") == 1
    assert "kproducer._core._compiled__mypyc" in done.stderr
    assert "KPRODUCER_INTERPRETED=1" in done.stderr


@pytest.mark.parametrize(
    "requested",
    [{"KPRODUCER_KERNEL": "pure"}, {"KPRODUCER_KERNEL": "native", "KPRODUCER_INTERPRETED": "1"}],
)
def test_a_producer_without_native_core_is_silent_if_that_was_requested(requested: dict[str, str]) -> None:
    done = run_python(START_TWO_PRODUCERS, **{**NOT_COMPILED, **requested})
    assert done.returncode == 0, done.stderr
    assert "native core" not in done.stderr


def test_errors_name_a_command_that_adds_an_extra_to_an_installation_without_an_index() -> None:
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "kproducer[cli]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout
