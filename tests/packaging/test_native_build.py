"""The build of the native core: its sources, its behaviour without a compiler, the contents of a wheel."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from build_tools.native_build import MYPY_FLAGS, NO_COMPILER, ROOT, native_sources, stale_modules
from tests.packaging.wheel_check import WheelError, check_contents

IN_PLACE = ("-m", "build_tools.native_build")
SOURCES = "[project]\nname = 'sample'\nversion = '1'\n[tool.setuptools]\npackages = []\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one module to compile, built by the same command as this one."""
    package = tmp_path / "kproducer" / "inner"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "_answer.pyx").write_text("# cython: language_level=3\ndef answer():\n    return 42\n")
    (tmp_path / "kproducer" / "__init__.py").touch()
    shutil.copytree(ROOT / "build_tools", tmp_path / "build_tools")
    configuration = (
        "[tool.setuptools.cmdclass]\n"
        "build_ext = 'build_tools.native_build.NativeBuild'\n"
        "bdist_wheel = 'build_tools.build_commands.TaggedWheel'\n"
    )
    one = "[[tool.setuptools.ext-modules]]\nname = 'kproducer.inner._answer'\nsources = ['_answer.pyx']\n"
    (tmp_path / "pyproject.toml").write_text(SOURCES + configuration + one)
    return tmp_path


def build(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env={**os.environ, "CFLAGS": "-O0", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def answer(project: Path) -> str:
    return build(project, "-c", "from kproducer.inner._answer import answer; print(answer())").stdout.strip()


def make_newer(source: Path) -> None:
    """Make the file newer than everything built from it, on file systems with any time resolution."""
    later = time.time() + 5
    os.utime(source, (later, later))


def test_each_source_is_compiled_beside_itself(project: Path) -> None:
    done = build(project, *IN_PLACE)
    assert done.returncode == 0, done.stderr
    assert answer(project) == "42"
    assert not list(project.glob("kproducer/**/*.c"))


def test_a_changed_source_is_recompiled(project: Path) -> None:
    assert build(project, *IN_PLACE).returncode == 0
    source = project / "kproducer" / "inner" / "_answer.pyx"
    source.write_text(source.read_text().replace("42", "43"))
    make_newer(source)
    assert build(project, *IN_PLACE).returncode == 0
    assert answer(project) == "43"


def test_a_changed_declaration_recompiles_its_users(project: Path) -> None:
    package = project / "kproducer" / "inner"
    (package / "_sizes.pxd").write_text("cdef enum:\n    SIZE = 7\n")
    source = package / "_answer.pyx"
    using = "from kproducer.inner._sizes cimport SIZE\ndef answer():\n    return SIZE\n"
    source.write_text("# cython: language_level=3\n" + using)
    assert build(project, *IN_PLACE).returncode == 0
    assert answer(project) == "7"
    declaration = package / "_sizes.pxd"
    declaration.write_text("cdef enum:\n    SIZE = 8\n")
    make_newer(declaration)
    assert build(project, *IN_PLACE).returncode == 0
    assert answer(project) == "8"


def test_without_a_compiler_the_build_continues(project: Path) -> None:
    command = ["-c", "import setuptools; setuptools.setup()", "build_ext", "--inplace"]
    done = build(project, *command, CC="false", KPRODUCER_REQUIRE_NATIVE="0")
    assert done.returncode == 0, done.stderr
    assert "The native core is not compiled, Python code is used instead: false cannot" in done.stderr
    assert answer(project) == ""


def built_wheel(project: Path, **environment: str) -> Path:
    """Build a wheel as pip does."""
    code = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    done = build(project, "-c", code, KPRODUCER_REQUIRE_NATIVE="0", **environment)
    assert done.returncode == 0, done.stderr
    (wheel,) = (project / "dist").glob("*.whl")
    return wheel


def tag_of_wheel(project: Path, **environment: str) -> str:
    """Build a wheel and return the tag of its name, which must be that of its metadata."""
    wheel = built_wheel(project, **environment)
    name, version, tag = wheel.stem.split("-", 2)
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(f"{name}-{version}.dist-info/WHEEL").decode().splitlines()
    assert f"Tag: {tag}" in lines
    assert f"Root-Is-Purelib: {str(tag.endswith('any')).lower()}" in lines
    return tag


def test_a_wheel_with_compiled_modules_is_for_one_platform(project: Path) -> None:
    tag = tag_of_wheel(project)
    assert tag.startswith(f"cp{sys.version_info.major}{sys.version_info.minor}-cp")
    assert not tag.endswith("any")


@pytest.mark.parametrize(
    "environment", [{"CC": "false"}, {"KPRODUCER_NATIVE": "0"}], ids=["no compiler", "compiled by the caller"]
)
def test_a_wheel_without_compiled_modules_is_for_every_platform(
    project: Path, environment: dict[str, str]
) -> None:
    assert tag_of_wheel(project, **environment) == "py3-none-any"


@pytest.mark.parametrize("interpreter", ["PyPy", "CPython without GIL"])
def test_an_interpreter_without_native_core_gets_a_wheel_for_every_platform(
    project: Path, interpreter: str
) -> None:
    pretend = {
        "PyPy": "platform.python_implementation = lambda: 'PyPy'\n",
        "CPython without GIL": "sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1\n",
    }
    source = project / "build_tools" / "native_build.py"
    start = "class NativeBuild("
    source.write_text(source.read_text().replace(start, f"{pretend[interpreter]}\n\n{start}"))
    assert tag_of_wheel(project) == "py3-none-any"


def test_files_that_an_earlier_build_left_are_not_in_a_wheel(project: Path) -> None:
    native = built_wheel(project)
    native.unlink()
    (leftover,) = (project / "build").glob("lib*/kproducer/inner/_answer*")
    leftover.with_name("_removed.so").touch()
    with zipfile.ZipFile(built_wheel(project)) as archive:
        assert not [name for name in archive.namelist() if "_removed" in name]
    (project / "dist" / native.name).unlink()
    assert tag_of_wheel(project, KPRODUCER_NATIVE="0") == "py3-none-any"


#: The section of an ELF file with the names of its functions. Compiled modules keep only what they export.
SYMBOLS = b".symtab"


@pytest.mark.skipif(sys.platform != "linux", reason="the options are those of GNU's linker")
@pytest.mark.parametrize(("flags", "stripped"), [("-O0", True), ("-O0 -g0", True), ("-O0 -g", False)])
def test_modules_of_a_wheel_have_symbols_only_for_debugging(
    typed_project: Path, flags: str, stripped: bool
) -> None:
    with zipfile.ZipFile(built_wheel(typed_project, CFLAGS=flags)) as archive:
        modules = {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
    assert {name for name, content in modules.items() if SYMBOLS not in content} == (
        set(modules) if stripped else set()
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the options are those of GNU's linker")
def test_modules_of_a_checkout_have_symbols_for_profilers(project: Path) -> None:
    assert build(project, *IN_PLACE).returncode == 0
    (module,) = project.glob("kproducer/inner/*.so")
    assert SYMBOLS in module.read_bytes()


@pytest.fixture
def typed_project(project: Path) -> Path:
    """The project with two modules that mypyc compiles, one of which uses the other."""
    core = project / "kproducer" / "_core"
    for package in (core, core / "network", core / "sender"):
        package.mkdir()
        (package / "__init__.py").touch()
    (core / "network" / "wakeup.py").write_text("def answer() -> int:\n    return 42\n")
    (core / "sender" / "metrics.py").write_text(
        "from kproducer._core.network.wakeup import answer\ndef twice() -> int:\n    return 2 * answer()\n"
    )
    return project


def test_metadata_is_written_without_mypyc(typed_project: Path) -> None:
    """pip requests it before each build, and mypyc takes seconds."""
    (typed_project / "mypyc").mkdir()
    (typed_project / "mypyc" / "__init__.py").touch()
    (typed_project / "mypyc" / "build.py").write_text("open('called', 'w')\n")
    code = "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('.')"
    done = build(typed_project, "-c", code)
    assert done.returncode == 0, done.stderr
    assert not (typed_project / "called").exists()


USE = "from kproducer._core.sender import metrics; print(metrics.twice(), metrics.__file__)"


def test_python_modules_are_compiled_beside_their_sources(typed_project: Path) -> None:
    done = build(typed_project, *IN_PLACE)
    assert done.returncode == 0, done.stderr
    result, path = build(typed_project, "-c", USE).stdout.split()
    assert result == "84"
    assert path.endswith(EXTENSION_SUFFIXES[0])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems compile a module for each source")
def test_modules_that_refer_to_the_shared_one_are_compiled_once_in_a_checkout(typed_project: Path) -> None:
    recording = compiler_that(typed_project, when="*", does='echo "$@" >>commands')
    done = build(typed_project, *IN_PLACE, CC=recording)
    assert done.returncode == 0, done.stderr
    commands = (typed_project / "commands").read_text().splitlines()
    compiled = [command for command in commands if "/mypyc/" in command and " -c " in command]
    of_references, of_shared = sorted(compiled, key=lambda command: "__native" in command)
    assert "/mypyc/references.c" in of_references
    # gcc spends half of its time on this check, even if it prints no warnings.
    assert "-Wno-misleading-indentation" in of_shared.split()
    # Results of that build are enough for the next one.
    (typed_project / "commands").unlink()
    assert build(typed_project, *IN_PLACE, CC=recording).returncode == 0
    assert not [each for each in (typed_project / "commands").read_text().splitlines() if "mypyc" in each]
    result, path = build(typed_project, "-c", USE).stdout.split()
    assert result == "84"
    assert path.endswith(EXTENSION_SUFFIXES[0])


def test_sources_of_cython_can_be_compiled_alone(typed_project: Path) -> None:
    done = build(typed_project, *IN_PLACE, KPRODUCER_NATIVE="cython")
    assert done.returncode == 0, done.stderr
    assert answer(typed_project) == "42"
    assert build(typed_project, "-c", USE).stdout.split()[1].endswith(".py")


def test_progress_is_shown_for_what_is_compiled(typed_project: Path) -> None:
    first, second = (build(typed_project, *IN_PLACE).stdout for _ in range(2))
    assert first.splitlines()[:2] == [
        "translating 2 Python modules with mypyc",
        "translating 1 modules with Cython",
    ]
    assert "compiled kproducer.inner._answer" in first.splitlines()
    assert "kproducer" not in second
    assert "translating" not in second


def test_a_python_module_that_left_the_list_runs_as_it_is(typed_project: Path) -> None:
    compiled = typed_project / "kproducer" / "_core" / "sender" / ("other" + EXTENSION_SUFFIXES[0])
    compiled.touch()
    compiled.with_name("other.py").touch()
    assert build(typed_project, *IN_PLACE).returncode == 0
    assert not compiled.exists()


@pytest.mark.parametrize(
    "broken", ["no compiler", "a type error"], ids=["without a compiler", "with a type error"]
)
def test_python_modules_that_cannot_be_compiled_run_as_they_are(typed_project: Path, broken: str) -> None:
    environment = {"CC": "false"} if broken == "no compiler" else {}
    if broken == "a type error":
        source = typed_project / "kproducer" / "_core" / "network" / "wakeup.py"
        source.write_text(source.read_text() + "unused: str = answer()\n")
    command = ["-c", "import setuptools; setuptools.setup()", "build_ext", "--inplace"]
    done = build(typed_project, *command, KPRODUCER_REQUIRE_NATIVE="0", **environment)
    assert done.returncode == 0, done.stderr
    result, path = build(typed_project, "-c", USE).stdout.split()
    assert result == "84"
    assert path.endswith(".py")
    assert build(typed_project, *IN_PLACE, **environment).returncode != 0


@pytest.mark.parametrize("failing", ["__native", "references"])
def test_a_shared_module_that_is_missing_leaves_no_module_that_needs_it(
    typed_project: Path, failing: str
) -> None:
    """A compiler that fails for the largest file, or for the references to it: then the sources run."""
    compiler = compiler_that(typed_project, when=f"*{failing}*", does="exit 1")
    command = ["-c", "import setuptools; setuptools.setup()", "build_ext", "--inplace"]
    done = build(typed_project, *command, KPRODUCER_REQUIRE_NATIVE="0", CC=compiler)
    assert done.returncode == 0, done.stderr
    assert build(typed_project, "-c", USE).stdout.split()[1].endswith(".py")
    assert answer(typed_project) == "42"


def compiler_that(project: Path, *, when: str, does: str) -> str:
    """A C compiler for ``CC`` that runs shell commands instead if its command line matches a pattern."""
    compiler = project / "cc"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in {when}) {does};; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)
    return str(compiler)


def test_a_module_that_was_half_written_when_the_build_was_killed_is_not_used(project: Path) -> None:
    half = compiler_that(
        project, when="*-shared*", does='while [ "$1" != -o ]; do shift; done; echo half >"$2"; kill -9 $PPID'
    )
    assert build(project, *IN_PLACE, CC=half).returncode != 0
    assert build(project, *IN_PLACE).returncode == 0
    assert answer(project) == "42"


def test_a_translation_that_was_half_written_when_the_build_was_killed_is_not_used(project: Path) -> None:
    (project / "Cython" / "Build").mkdir(parents=True)
    (project / "Cython" / "__init__.py").touch()
    (project / "Cython" / "Build" / "__init__.py").write_text(
        "import os, pathlib\n"
        "def cythonize(extensions, build_dir, **_):\n"
        "    (source,) = extensions[0].sources\n"
        "    half = pathlib.Path(build_dir, source).with_suffix('.c')\n"
        "    half.parent.mkdir(parents=True, exist_ok=True)\n"
        "    half.write_text('half')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert build(project, *IN_PLACE).returncode != 0
    shutil.rmtree(project / "Cython")
    assert build(project, *IN_PLACE).returncode == 0
    assert answer(project) == "42"


def test_builds_in_one_folder_wait_for_each_other(project: Path) -> None:
    """pip's and ``make native``'s."""
    (project / "build").mkdir()
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "build_ext", "--inplace"]
    with open(project / "build" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert second.stdout.readline() == "waiting for another build in this folder\n"
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert second.wait(120) == 0
    assert answer(project) == "42"


def make_setup(project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``make setup`` in an environment that has all packages."""
    venv = project / "venv"
    (venv / "bin").mkdir(parents=True, exist_ok=True)
    python = venv / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    for path in (project / "build_tools" / "constraints.txt", venv / ".created", venv / ".installed-dev"):
        path.touch()
    return subprocess.run(
        ["make", "-f", ROOT / "Makefile", "setup", f"VENV={venv}"],
        cwd=project,
        env={**os.environ, "CFLAGS": "-O0", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("signal", ["INT", "TERM", "KILL"])
@pytest.mark.parametrize("target", ["$PPID", "$$"], ids=["the build", "the compiler"])
def test_setup_is_not_done_if_the_compilation_was_interrupted(
    project: Path, signal: str, target: str
) -> None:
    interrupted = compiler_that(project, when="*_answer*", does=f"kill -{signal} {target}; exit 1")
    assert make_setup(project, CC=interrupted).returncode != 0
    assert make_setup(project).returncode == 0
    assert answer(project) == "42"


def test_setup_without_a_compiler_is_done_and_says_so(project: Path) -> None:
    done = make_setup(project, CC="false")
    assert done.returncode == 0, done.stderr
    assert "The native core is not compiled, Python code is used instead" in done.stderr
    # The compiler may be installed later.
    assert make_setup(project).returncode == 0
    assert answer(project) == "42"


def test_nothing_is_compiled_if_the_caller_does_it(project: Path) -> None:
    assert build(project, *IN_PLACE, KPRODUCER_NATIVE="0").returncode == 0
    assert answer(project) == ""


def test_without_a_compiler_the_build_fails_where_the_core_is_required(project: Path) -> None:
    done = build(project, *IN_PLACE, CC="false")
    assert done.returncode == NO_COMPILER
    assert "apt-get install gcc python3-dev" in done.stderr


def test_a_module_that_does_not_compile_does_not_stop_others(project: Path) -> None:
    (project / "kproducer" / "inner" / "_a_broken.pyx").write_text("def broken(:\n")
    done = build(project, *IN_PLACE)
    assert done.returncode != 0
    assert "not compiled: kproducer.inner._a_broken" in done.stdout + done.stderr
    assert answer(project) == "42"


def test_modules_compiled_from_older_sources_are_named(project: Path) -> None:
    assert build(project, *IN_PLACE).returncode == 0
    assert stale_modules(project) == []
    make_newer(project / "kproducer" / "inner" / "_answer.pyx")
    assert stale_modules(project) == ["kproducer.inner._answer"]


def test_a_python_module_is_as_new_as_the_shared_one(tmp_path: Path) -> None:
    source, shim = (
        tmp_path / "kproducer" / "_core" / "sender" / f"sender{suffix}"
        for suffix in (".py", EXTENSION_SUFFIXES[0])
    )
    shared = tmp_path / "kproducer" / "_core" / f"_compiled__mypyc{EXTENSION_SUFFIXES[0]}"
    source.parent.mkdir(parents=True)
    for number, path in enumerate((shim, source, shared)):  # the shim is not compiled again
        path.touch()
        os.utime(path, (number, number))
    assert stale_modules(tmp_path) == []
    make_newer(source)
    assert stale_modules(tmp_path) == ["kproducer._core.sender.sender"]


def test_every_source_has_a_stub_and_every_stub_a_source() -> None:
    # The stub has the module's types, and lets build_info() report a missing module.
    for folder in ("kproducer", "generated"):
        sources = {path.with_suffix("") for path in (ROOT / folder).rglob("*.pyx")}
        stubs = {path.with_suffix("") for path in (ROOT / folder).rglob("_*.pyi")}
        assert sources == stubs


def wheel_of(folder: Path, *names: str) -> Path:
    wheel = folder / "sample.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return wheel


def test_a_wheel_without_the_core_is_refused(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "kproducer/__init__.py", "kproducer/_core/kernel/native/_batch.pyi")
    with pytest.raises(WheelError, match=r"lacks the native core: kproducer\._core\.kernel\.native\._batch"):
        check_contents(wheel, ["kproducer._core.kernel.native._batch"])


def test_a_wheel_with_sources_is_refused(tmp_path: Path) -> None:
    module = "kproducer/_core/kernel/native/_batch"
    wheel = wheel_of(tmp_path, module + EXTENSION_SUFFIXES[0], module + ".pyx")
    with pytest.raises(WheelError, match="files that only builds need"):
        check_contents(wheel, ["kproducer._core.kernel.native._batch"])


def test_a_wheel_with_the_core_is_accepted(tmp_path: Path) -> None:
    module = "kproducer/_core/kernel/native/_batch"
    for suffix in (EXTENSION_SUFFIXES[0], ".cpython-399-x86_64-linux-musl.so"):  # also of another Python
        check_contents(wheel_of(tmp_path, module + suffix), [module.replace("/", ".")])


def test_the_sources_of_the_checkout_are_found() -> None:
    found = native_sources(ROOT)
    assert found["kproducer._core.kernel.native._batch"].suffix == ".pyx"
    assert found["kproducer._core.sender.sender"].suffix == ".py"


def test_systems_without_epoll_compile_everything_but_the_module_that_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = set(native_sources(ROOT))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert everything - set(native_sources(ROOT)) == {"kproducer._core.network._native_channel_io"}


def test_python_modules_have_types_where_only_the_requirements_of_the_build_are_installed(
    tmp_path: Path,
) -> None:
    (requirements,) = re.findall(
        r"^requires = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    for name in re.findall(r'"([\w-]+)', requirements):
        for file in importlib.metadata.files(name) or []:
            package = tmp_path / file.parts[0]
            if len(file.parts) == 2 and file.name.startswith("__init__.py") and not package.exists():
                package.symlink_to(Path(str(file.locate())).parent)
    sources = [str(source) for source in native_sources(ROOT).values() if source.suffix == ".py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *MYPY_FLAGS, "--no-site-packages", "--cache-dir=/dev/null", *sources],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": f"generated:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
