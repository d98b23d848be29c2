"""Compiles the optional native core: every ``.pyx`` file, and the Python modules of ``_PYTHON_MODULES``.

Cython compiles the former, mypyc the latter, which are typed Python, as they are. Each becomes a module
beside its source. setuptools calls ``NativeBuild`` (``pyproject.toml``, ``setup.py``); ``python
native_build.py`` builds in place, as ``make native`` does. If a module cannot be compiled (no compiler, no
headers), the installation continues without it and uses Python code instead; with
``KPRODUCER_REQUIRE_NATIVE=1`` that is an error. ``KPRODUCER_NATIVE=0`` compiles nothing,
``KPRODUCER_NATIVE=cython`` only the ``.pyx`` files, in a third of the time.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext
from setuptools.errors import ExecError

ROOT = Path(__file__).resolve().parent
#: The folders with sources, and the folder at which their dotted names start.
_SOURCES = {"kproducer": Path("."), "generated": Path("generated")}
#: Python modules on the way of a batch: when batches are small, their steps take most of the
#: time. All others run once per producer, connection or error.
_PYTHON_MODULES = {
    f"kproducer.{package}.{name}": Path("kproducer", package, f"{name}.py")
    for package, names in {
        "accumulator": "buffer_pool built_in_partitioner partition_queue producer_batch ready_batches"
        " ready_queues record_accumulator",
        "client": "api_versions client_request connections in_flight_requests metadata metadata_updater"
        " network_client node_connection",
        "kernel": "batch_header crc32c",
        "metrics": "connection_metrics windows",
        "network": "channel_io kafka_channel network_receive network_send selector wakeup",
        "protocol": "framing registry responses send_builder",
        "records": "batch_sizing compression record_batch_builder",
        "sender": "metrics produce_requests produce_responses sender",
        "sending": "record_sender",
        "transactions": "partition_sequences sequence_tracker transaction_manager",
    }.items()
    for name in names.split()
}
#: It uses epoll. Systems without it use Python's selectors instead.
_LINUX_MODULE = "kproducer.network._native_channel_io"
#: The code of all of them; the modules beside the sources only refer to it. ``__mypyc`` is added by mypyc.
_GROUP = "kproducer._compiled"
_SHARED = f"{_GROUP}__mypyc"
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
_SMALL_LINK = ["-Wl,--gc-sections", "-Wl,--strip-all", "-Wl,--hash-style=gnu", "-Wl,--build-id=none"]
#: Where a wheel is built, only the requirements of the build are installed, not all that these modules
#: import; and errors in other modules are for `make types`.
MYPY_FLAGS = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]


class NativeBuild(build_ext):  # type: ignore[misc]  # setuptools is untyped
    """The usual command, for all existing sources, which tolerates modules that cannot be compiled."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.cython_c_in_temp = True
        self._broken: list[str] = []

    def finalize_options(self) -> None:
        # setup.py names one module, so that setuptools runs this command.
        found = _extensions()
        self.distribution.ext_modules = found or self.distribution.ext_modules
        super().finalize_options()
        self.extensions = found
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        """Compile in parallel; the modules that need the shared one when it is known whether that works."""
        extensions = self.extensions
        for is_last in (False, True):
            self.extensions = [each for each in extensions if (each.name in _PYTHON_MODULES) == is_last]
            super().build_extensions()
        self.extensions = extensions

    def build_extension(self, ext: setuptools.Extension) -> None:
        """Compile one module; on failure, remember it and continue with the next one."""
        try:
            if ext.name in _PYTHON_MODULES and _SHARED in self._broken:
                raise ExecError(f"{_SHARED} could not be compiled")
            compiled = Path(self.get_ext_fullpath(ext.name))
            before = compiled.stat() if compiled.exists() else None
            super().build_extension(ext)
            if compiled.stat() != before and ext.name not in _PYTHON_MODULES:
                print(f"compiled {ext.name}", flush=True)
        except Exception as error:  # any error of Cython or the compiler
            self._broken.append(ext.name)
            self.warn(f"{ext.name} is left out, Python code is used instead: {error}")

    def run(self) -> None:
        """Compile all modules.

        Raises:
            ExecError: a module could not be compiled, and KPRODUCER_REQUIRE_NATIVE=1 requires all of them.
        """
        # Here and not in finalize_options, which also runs for commands that only write metadata.
        if any(extension.name == _SHARED for extension in self.extensions):
            translated = {extension.name: extension for extension in _mypyc_extensions()}
            for extension in self.extensions:
                vars(extension).update(vars(translated.get(extension.name, extension)))
            self.extensions = [extension for extension in self.extensions if extension.sources]
        self._translate()
        is_small = sys.platform == "linux" and not self.inplace and not _debugging_is_requested()
        for extension in self.extensions:
            if os.name == "posix":
                # Only the function that Python looks for is exported: calls within a module are direct.
                extension.extra_compile_args = [*(extension.extra_compile_args or []), "-fvisibility=hidden"]
            if is_small:
                extension.extra_compile_args += _SMALL
                if extension.name == _SHARED:
                    extension.extra_compile_args.append(_SMALL_CALLS)
                extension.extra_link_args = [*(extension.extra_link_args or []), *_SMALL_LINK]
        super().run()
        if self._broken and os.environ.get("KPRODUCER_REQUIRE_NATIVE") == "1":
            raise ExecError(f"not compiled: {', '.join(self._broken)}")

    def _translate(self) -> None:
        """Run Cython, which is not thread-safe, in parallel processes; the threads find its results."""
        sources = [each for each in self.extensions if each.sources[0].endswith(".pyx")]
        if not sources:
            return
        for source in sources:
            source.cython_directives = _DIRECTIVES  # for build_extension, if this fails
        processes = (os.cpu_count() or 1) if sys.platform == "linux" else 0
        try:
            from Cython.Build import cythonize

            cythonize(
                sources,
                nthreads=processes,
                build_dir=self.build_temp,
                compiler_directives=_DIRECTIVES,
                quiet=True,
                force=self.force,
            )
        except Exception:  # repeated and reported by build_extension
            self.parallel = None


def _extensions() -> list[setuptools.Extension]:
    """Return a module for each source; none if the core cannot be used (PyPy, free-threaded builds).

    Those of mypyc have no sources yet: mypyc writes them, which takes a minute.
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
    os.environ["MYPYPATH"] = "generated"
    try:
        from mypyc.build import mypycify

        extensions = mypycify(
            [*MYPY_FLAGS, *sources],
            opt_level="2",
            debug_level="0",
            group_name=_GROUP,
            target_dir="build/mypyc",
        )
    except (Exception, SystemExit) as error:  # mypyc exits after errors
        if os.environ.get("KPRODUCER_REQUIRE_NATIVE") == "1":
            raise ExecError(f"mypyc failed: {error}") from error
        print(f"warning: mypyc failed, so no Python module is compiled: {error}", file=sys.stderr)
        return []
    for extension in extensions:
        extension.optional = True
    return list(extensions)


def _cython_extensions() -> list[setuptools.Extension]:
    return [
        setuptools.Extension(
            name,
            [str(source)],
            depends=sorted(map(str, [*source.parent.glob("*.pxd"), *source.parent.glob("*.h")])),
            include_dirs=[str(source.parent)],
            # No processor-specific options: a wheel runs on other machines than the one that built it.
            extra_compile_args=[] if os.name == "nt" or "-O" in os.environ.get("CFLAGS", "") else ["-O3"],
            optional=True,
        )
        for name, source in native_sources(Path()).items()
        if source.suffix == ".pyx"
    ]


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


def main(arguments: list[str]) -> Any:
    """Build in place; one build at a time, because concurrent builds would write the same files."""
    os.chdir(ROOT)
    os.environ["KPRODUCER_REQUIRE_NATIVE"] = "1"
    Path("build").mkdir(exist_ok=True)
    with open("build/.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for compiled in Path("kproducer").rglob(f"*{EXTENSION_SUFFIXES[0]}"):
            source = compiled.with_name(compiled.name.removesuffix(EXTENSION_SUFFIXES[0]) + ".py")
            is_left_out = (
                source not in _PYTHON_MODULES.values() or os.environ.get("KPRODUCER_NATIVE") == "cython"
            )
            if source.exists() and is_left_out:
                compiled.unlink()  # of an earlier build: the shared module does not have its code, or is old
        return setuptools.setup(script_args=["--quiet", "build_ext", "--inplace", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
