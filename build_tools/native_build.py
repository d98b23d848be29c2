"""Compiles the optional native core: every ``.pyx`` file, and the Python modules of ``_PYTHON_MODULES``.

Cython compiles the former, mypyc the latter, which are typed Python, as they are. Each becomes a module
beside its source. setuptools calls ``NativeBuild`` (``pyproject.toml``, ``setup.py``); ``python -m
build_tools.native_build`` builds in place, as ``make native`` does. If a module cannot be compiled, the
installation continues without it and uses Python code instead; with ``KPRODUCER_REQUIRE_NATIVE=1`` that is an
error. The build in place requires all modules, and exits with ``NO_COMPILER`` if there is no C compiler or
Python has no headers. ``KPRODUCER_NATIVE=0`` compiles nothing, ``KPRODUCER_NATIVE=cython`` only the ``.pyx``
files.

pip builds in new temporary folders each time. So what was translated and compiled is kept in
``build/native``, with a hash of everything that it depends on in its name. It gets that name when it is
complete: what an interrupted build leaves is not used.
"""

from __future__ import annotations

import copy
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext
from setuptools.errors import ExecError

ROOT = Path(__file__).resolve().parents[1]
#: Exit status of this program if nothing can be compiled on this machine.
NO_COMPILER = 77
#: The folders with sources, and the folder at which their dotted names start.
_SOURCES = {"kproducer": Path("."), "generated": Path("generated")}
#: Python modules on the way of a batch: when batches are small, their steps take most of the
#: time. All others run once per producer, connection or error.
_PYTHON_MODULES = {
    f"kproducer._core.{package}.{name}": Path("kproducer", "_core", package, f"{name}.py")
    for package, names in {
        "accumulator": "buffer_pool built_in_partitioner partition_load partition_queue producer_batch"
        " ready_batches record_accumulator",
        "client": "api_keys api_versions client_request connections in_flight_requests metadata"
        " metadata_updater network_client node_connection responses send_builder",
        "kernel": "batch_header crc32c",
        "metrics": "connection_metrics windows",
        "network": "channel_io framing kafka_channel network_receive network_send selector wakeup",
        "records": "batch_sizing compression record_batch_builder",
        "sender": "metrics produce_requests produce_responses sender",
        "sending": "admission needs",
        "transactions": "partition_sequences sequence_tracker transaction_manager",
    }.items()
    for name in names.split()
}
#: It uses epoll. Systems without it use Python's selectors instead.
_LINUX_MODULE = "kproducer._core.network._native_channel_io"
#: Where the C code is that several modules include.
_C_SOURCES = Path("kproducer", "_core", "kernel", "native")
#: The code of all of them; the modules beside the sources only refer to it. ``__mypyc`` is added by mypyc.
_GROUP = "kproducer._core._compiled"
_SHARED = f"{_GROUP}__mypyc"
_REFERENCES = f"{_GROUP}_references"
#: Cython's functions are ordinary built-in ones, without code for attributes and annotations in each module;
#: their signatures can still be inspected. A module whose functions are decorated has a line that says so.
_DIRECTIVES = {"binding": False, "embedsignature": True, "embedsignature.format": "clinic"}
#: Options for wheels on Linux. They leave out functions that nobody calls, and what only profilers and
#: debuggers of a checkout need: symbols, tables to unwind C functions and the frame pointers that zig adds,
#: lines of C code in tracebacks.
_SMALL = [
    *("-ffunction-sections", "-fdata-sections", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    *("-fomit-frame-pointer", "-DCYTHON_CLINE_IN_TRACEBACK=0"),
]
#: For mypyc's code, which branches and calls and has few loops: less inlining makes it hardly slower.
_SMALL_CALLS = "-Os"
#: For mypyc's code in a checkout: half the time of gcc, and 1.5 % more instructions per request than -O2.
_QUICK_CALLS = "-O1"
_SMALL_LINK = ["-Wl,--gc-sections", "-Wl,--strip-all", "-Wl,--hash-style=gnu", "-Wl,--build-id=none"]
#: Where a wheel is built, only the requirements of the build are installed, not all that these modules
#: import; and errors in other modules are for `make types`.
MYPY_FLAGS = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
_REMEDY = "A C compiler and Python's headers are needed (Debian: apt-get install gcc python3-dev)"
#: What was translated and compiled before, by Python version.
_KEPT = Path("build", "native", str(sys.implementation.cache_tag))
#: What mypyc wrote.
_TRANSLATED = _KEPT / "mypyc"


class NativeBuild(build_ext):  # type: ignore[misc]  # setuptools is untyped
    """The usual command, for all existing sources, which tolerates modules that cannot be compiled."""

    parallel: int | None

    def initialize_options(self) -> None:
        super().initialize_options()
        self._broken: list[str] = []

    def finalize_options(self) -> None:
        # setup.py names one module, so that setuptools runs this command.
        found = _extensions()
        self.distribution.ext_modules = found or self.distribution.ext_modules
        super().finalize_options()
        self.extensions = found
        self.parallel = self.parallel or os.cpu_count()
        self.force = True  # files of an earlier build are compared by content, not by time

    def run(self) -> None:
        """Compile all modules.

        Raises:
            ExecError: a module could not be compiled, and KPRODUCER_REQUIRE_NATIVE=1 requires all of them.
            SystemExit: as before, because there is no compiler.
        """
        self._is_for_checkout = bool(self.inplace)  # super().run() changes it
        self._is_small = sys.platform == "linux" and not self.inplace and not _debugging_is_requested()
        with _one_build() as scratch:
            self.build_temp = str(scratch)
            if self.inplace:
                self.build_lib = str(scratch / "lib")
            super().run()
            if self.inplace and self.extensions and os.environ.get("KPRODUCER_NATIVE") != "cython":
                self._remove_others()
        if self._broken and _is_required():
            raise ExecError(f"not compiled: {', '.join(self._broken)}")

    def build_extensions(self) -> None:
        """Translate to C and compile, in parallel, what has changed."""
        compiler = getattr(self.compiler, "compiler_so", [])
        if problem := _problem_of(compiler, self.compiler.include_dirs):
            print(f"The native core is not compiled, Python code is used instead: {problem}", file=sys.stderr)
            if _is_required():
                sys.exit(NO_COMPILER)
            self.extensions = []
            return
        version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
        self._compiler_version = version.stdout
        self._translate(Path(self.build_temp))
        for extension in self.extensions:
            self._set_options(extension)
        # The modules that need the shared one when it is known whether that works.
        shims = [each for each in self.extensions if each.name in _PYTHON_MODULES]
        self._build_in_parallel([each for each in self.extensions if each not in shims])
        if _SHARED in self._broken:
            self._broken += [each.name for each in shims]
        elif shims and self._is_for_checkout and sys.platform == "linux":
            self._build_as_one(shims)
        else:
            self._build_in_parallel(shims)

    def build_extension(self, ext: setuptools.Extension) -> None:
        """Compile one module, or take it from an earlier build; if it fails, remember that."""
        compiled = Path(self.get_ext_fullpath(ext.name))
        kept = _KEPT / f"{ext.name}.{self._key_of(ext)}.{'small' if self._is_small else 'so'}"
        try:
            if not kept.exists():
                super().build_extension(ext)
                _keep(compiled, kept)
                if ext.name not in _PYTHON_MODULES:
                    print(f"compiled {ext.name}", flush=True)
            else:
                compiled.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(kept, compiled)
        except Exception as error:  # any error of the compiler
            self._leave_out(ext.name, error)

    def _build_as_one(self, shims: list[setuptools.Extension]) -> None:
        """Compile all modules that refer to the shared one as one, and copy it to each name.

        Python calls a function with the name of the module. The copy has those of all modules.
        """
        sources = [source for each in shims for source in each.sources]
        combined = copy.copy(shims[0])
        combined.name = _REFERENCES
        combined.sources = [str(_TRANSLATED / "references.c")]
        combined.depends = sources
        with open(combined.sources[0], "w", encoding="utf-8") as file:
            for number, source in enumerate(sources):
                # All have a function of this name, which only Windows needs.
                file.write(f"#undef PyInit___init__\n#define PyInit___init__ unused_{number}\n")
                file.write(f'#include "{Path(source).relative_to(_TRANSLATED)}"\n')
        self.build_extension(combined)
        for each in shims:
            if _REFERENCES in self._broken:
                self._broken.append(each.name)
            else:
                compiled = Path(self.get_ext_fullpath(each.name))
                compiled.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.get_ext_fullpath(_REFERENCES), compiled)

    def copy_file(self, source: Any, target: Any, *arguments: Any, **options: Any) -> Any:
        """Replace the file beside the source at once: processes may have loaded the old one."""
        part = f"{target}.part"
        result = super().copy_file(source, part, *arguments, **options)
        os.utime(part)  # newer than the source, see stale_modules
        os.replace(part, target)
        return target, result[1]

    def _remove_others(self) -> None:
        """Remove compiled modules that are not of this build: their sources would not be used."""
        names = {each.name for each in self.extensions}.difference(self._broken)
        built = set(map(self.get_ext_filename, names))
        for folder, start in _SOURCES.items():
            for compiled in Path(folder).rglob(f"*{EXTENSION_SUFFIXES[0]}"):
                if str(compiled.relative_to(start)) not in built:
                    compiled.unlink()

    def _build_in_parallel(self, extensions: list[setuptools.Extension]) -> None:
        pool = ThreadPoolExecutor(self.parallel or 1)
        try:
            for done in [pool.submit(self.build_extension, each) for each in extensions]:
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _leave_out(self, name: str, error: BaseException) -> None:
        self._broken.append(name)
        self.warn(f"{name} is left out, Python code is used instead: {error}")

    def _set_options(self, extension: setuptools.Extension) -> None:
        options = [each for each in extension.extra_compile_args or [] if each[:2] != "-O"]
        # Only the function that Python looks for is exported: calls within a module are direct.
        options.append("-fvisibility=hidden")
        # Even if gcc prints no warnings, this check takes half of its time for mypyc's C.
        options.append("-Wno-misleading-indentation")
        if not _debugging_is_requested():
            options.append("-g0")  # Python may have been compiled with -g
        if self._is_small:
            options += _SMALL
            extension.extra_link_args = [*(extension.extra_link_args or []), *_SMALL_LINK]
        if extension.name == _SHARED:
            options.append("-w")  # it is mypyc's C
        # No processor-specific options: a wheel runs on other machines than the one that built it.
        if "-O" not in os.environ.get("CFLAGS", ""):
            of_mypyc = _QUICK_CALLS if self._is_for_checkout else _SMALL_CALLS if self._is_small else "-O2"
            options.append(of_mypyc if extension.name == _SHARED else "-O3")
        extension.extra_compile_args = options

    def _key_of(self, ext: setuptools.Extension) -> str:
        """A hash of all that decides what the compiled module contains."""
        options = [ext.extra_compile_args, ext.extra_link_args, self.get_ext_filename(ext.name)]
        commands = [self.compiler.compiler_so, self.compiler.linker_so, self._compiler_version]
        return _hash([sys.version, options, commands], [*ext.sources, *ext.depends])

    def _translate(self, scratch: Path) -> None:
        """Set the sources of all modules to files of C; leave out those that cannot be translated."""
        if any(extension.name == _SHARED for extension in self.extensions):
            translated = {extension.name: extension for extension in _mypyc_extensions()}
            for extension in self.extensions:
                vars(extension).update(vars(translated.get(extension.name, extension)))
        changed = []
        for extension in self.extensions:
            if extension.sources and extension.sources[0].endswith(".pyx"):
                key = _hash([_DIRECTIVES, _version_of("Cython")], [*extension.sources, *extension.depends])
                kept = _KEPT / f"{extension.name}.{key}.c"
                if not kept.exists():
                    changed.append((setuptools.Extension(extension.name, extension.sources), kept))
                extension.sources = [str(kept)]
        if changed:
            print(f"translating {len(changed)} modules with Cython", flush=True)
        with suppress(Exception):  # which one failed is found out below
            _cythonize([extension for extension, _ in changed], scratch, self.parallel or 1)
        for extension, kept in changed:
            translated_to = (scratch / extension.sources[0]).with_suffix(".c")
            try:
                if not translated_to.exists():
                    _cythonize([extension], scratch)
                _keep(translated_to, kept)
            except Exception as error:  # any error of Cython
                self._leave_out(extension.name, error)
        self._broken += [each.name for each in self.extensions if not each.sources]  # mypyc has failed
        self.extensions = [each for each in self.extensions if each.name not in self._broken]


def _extensions() -> list[setuptools.Extension]:
    """Return a module for each source; none if the core cannot be used (PyPy, free-threaded builds).

    Those of mypyc have no sources yet: mypyc writes them, which takes seconds.
    """
    if os.environ.get("KPRODUCER_NATIVE") == "0":  # compiled later, as in `make setup`
        return []
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return []
    modules = [name for name, source in _PYTHON_MODULES.items() if source.exists()]
    if os.environ.get("KPRODUCER_NATIVE") == "cython":
        modules = []
    # The shared one takes longest, so it is first.
    of_mypyc = [setuptools.Extension(name, [], optional=True) for name in [_SHARED, *modules] if modules]
    return of_mypyc + _cython_extensions()


def _mypyc_extensions() -> list[setuptools.Extension]:
    """Run mypyc: the shared module, and one for each source. None if it fails and is not required."""
    sources = [str(source) for source in _PYTHON_MODULES.values() if source.exists()]
    # The types in all modules that they import decide what they are translated to.
    imported = [str(path) for folder in _SOURCES for path in Path(folder).rglob("*.py*")]
    key = _hash([sources, MYPY_FLAGS, *map(_version_of, ("mypy", "attrs")), sys.version], imported)
    kept = _KEPT / f"mypyc.{key}.json"
    try:
        import mypyc
        from mypyc.build import mypycify

        if not kept.exists():
            for other in _KEPT.glob("mypyc.*.json"):
                other.unlink()  # its files are overwritten now
            print(f"translating {len(sources)} Python modules with mypyc", flush=True)
            os.environ["MYPYPATH"] = "generated"
            found = mypycify(
                [*MYPY_FLAGS, *sources],
                opt_level="2",
                debug_level="0",
                group_name=_GROUP,
                target_dir=str(_TRANSLATED),
            )
            names = ("name", "sources", "depends", "extra_compile_args")
            listing = _TRANSLATED / "extensions.json"
            listing.write_text(json.dumps([{name: getattr(each, name) for name in names} for each in found]))
            _keep(listing, kept)
        # Not kept: pip installs mypyc in another folder each time.
        include_dirs = [str(Path(mypyc.__file__).with_name("lib-rt")), str(_TRANSLATED)]
    except (Exception, SystemExit) as error:  # mypyc exits after errors
        if _is_required():
            raise ExecError(f"mypyc failed: {error}") from error
        print(f"warning: mypyc failed, so no Python module is compiled: {error}", file=sys.stderr)
        return []
    listed = json.loads(kept.read_text())
    return [setuptools.Extension(**each, include_dirs=include_dirs, optional=True) for each in listed]


def _cython_extensions() -> list[setuptools.Extension]:
    declarations = [
        str(path)
        for folder in _SOURCES
        for kind in ("pxd", "h", "c")
        for path in Path(folder).rglob(f"*.{kind}")
    ]
    return [
        setuptools.Extension(
            name,
            [str(source)],
            depends=declarations,
            include_dirs=[str(source.parent), str(_C_SOURCES)],
            optional=True,
        )
        for name, source in native_sources(Path()).items()
        if source.suffix == ".pyx"
    ]


def _cythonize(extensions: list[setuptools.Extension], folder: Path, processes: int = 0) -> None:
    """Run Cython, which is not thread-safe, in this or in several processes; its files are in the folder."""
    if extensions:
        from Cython.Build import cythonize

        cythonize(  # type: ignore[no-untyped-call]
            extensions,
            nthreads=processes if sys.platform == "linux" else 0,
            build_dir=str(folder),
            compiler_directives=_DIRECTIVES,
            quiet=True,
            force=True,
        )


# -- results of earlier builds ---------------------------------------------------------------------------


@contextmanager
def _one_build() -> Iterator[Path]:
    """Wait for other builds of this checkout, which use the same files; give this one a folder of its own."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    with open("build/.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another build in this folder", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        for scratch in _KEPT.glob("tmp*"):
            shutil.rmtree(scratch, ignore_errors=True)  # of a build that was killed
        with tempfile.TemporaryDirectory(prefix="tmp", dir=_KEPT) as name:
            yield Path(name)


def _hash(values: Any, files: Iterable[str]) -> str:
    """A hash of the values, and of the names and contents of the files."""
    found = hashlib.sha256(repr(values).encode())
    for file in sorted(files):
        found.update(file.encode() + hashlib.sha256(Path(file).read_bytes()).digest())
    return found.hexdigest()[:20]


def _keep(file: Path, kept: Path) -> None:
    """Copy a complete file to ``NAME.HASH.SUFFIX``, and remove what was kept for the same name before."""
    name, _, suffix = kept.name.rsplit(".", 2)
    part = kept.with_suffix(".part")
    shutil.copy(file, part)
    for older in kept.parent.glob(f"{name}.*.{suffix}"):
        older.unlink()
    os.replace(part, kept)


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


# -- the machine -----------------------------------------------------------------------------------------


def _problem_of(compiler: list[str], include_dirs: list[str]) -> str | None:
    """Why nothing can be compiled; ``None``: a file that includes Python's headers can be.

    Raises:
        ExecError: a signal ended the compiler.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\n")
        options = [f"-I{each}" for each in include_dirs]
        try:
            command = [*compiler, *options, "-c", str(source), "-o", f"{source}.o"]
            probe = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            return f"there is no C compiler ({error}). {_REMEDY}"
    if probe.returncode < 0:
        raise ExecError(f"signal {-probe.returncode} ended {compiler[0]}")
    if probe.returncode == 0:
        return None
    reason = probe.stderr.strip().partition("\n")[0] or f"exit status {probe.returncode}"
    return f"{compiler[0]} cannot compile a file that includes Python.h ({reason}). {_REMEDY}"


def _is_required() -> bool:
    return os.environ.get("KPRODUCER_REQUIRE_NATIVE") == "1"


def _debugging_is_requested() -> bool:
    """Whether CFLAGS or LDFLAGS have an option such as ``-g``, ``-ggdb3`` or ``-fsanitize=address``."""
    options = f"{os.environ.get('CFLAGS', '')} {os.environ.get('LDFLAGS', '')}".split()
    return any(option.startswith(("-g", "-fsanitize")) and option != "-g0" for option in options)


def native_sources(root: Path) -> dict[str, Path]:
    """Each module that is compiled on this system from a source in a checkout, and that source, by name."""
    found = {name: root / source for name, source in _PYTHON_MODULES.items() if (root / source).exists()}
    for folder, start in _SOURCES.items():
        for source in (root / folder).rglob("*.pyx"):
            found[".".join(source.relative_to(root / start).with_suffix("").parts)] = source
    if sys.platform != "linux":
        found.pop(_LINUX_MODULE, None)
    return dict(sorted(found.items()))


def stale_modules(root: Path = ROOT) -> list[str]:
    """The names of modules that are compiled in place and older than their sources."""
    stale = []
    shared = root / Path(*_SHARED.split(".")).with_suffix(EXTENSION_SUFFIXES[0])
    for name, source in native_sources(root).items():
        # The module of a Python source only refers to the shared one, which has the code.
        compiled = shared if source.suffix == ".py" else source.with_name(source.stem + EXTENSION_SUFFIXES[0])
        sources = [path for path in (source, source.with_suffix(".pxd")) if path.exists()]
        if compiled.exists() and compiled.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            stale.append(name)
    return stale


def main(arguments: list[str]) -> None:
    """Build in place."""
    os.chdir(ROOT)
    os.environ["KPRODUCER_REQUIRE_NATIVE"] = "1"
    setuptools.setup(script_args=["--quiet", "build_ext", "--inplace", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
