"""Packages compiled for the tests, once per process: upstream's specs, and our own language specs.

Upstream's specs come with the kafka-python wheel. Compiling and importing them takes seconds, so it happens
when a test first needs a class, not when tests are collected.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import kproducer_messages

from codegen.compiler import compile_folder, load_folder, write_package
from codegen.model import MessageSpec
from codegen.naming import class_name, module_name
from tests.codegen.message_strategies import ALL_VERSIONS

#: Specs for language features that upstream's specs do not use.
LANGUAGE_DIR = Path(__file__).parent / "specs"


def corpus_dir() -> Path:
    """The folder of upstream's specs."""
    # Located without importing kafka, which reads its specs with deprecated functions.
    found = importlib.util.find_spec("kafka")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "protocol" / "schemas" / "resources"


@functools.cache
def specs_of(spec_dir: Path) -> tuple[MessageSpec, ...]:
    """All specs of a folder, read and checked."""
    return tuple(load_folder(spec_dir))


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="kproducer-codegen-")
    sys.path.insert(0, folder.name)
    return folder


@functools.cache
def package_of(spec_dir: Path, name: str) -> Any:
    """Compile a folder of specs to a package and import it."""
    folder = Path(_scratch().name) / name
    write_package(compile_folder(spec_dir), folder)
    # The compiled decoders do not depend on the package, so those built for ours work here, too.
    for built in Path(kproducer_messages.__file__).parent.glob("_native.*.so"):
        shutil.copy(built, folder)
    return importlib.import_module(name)


@attrs.frozen
class Case:
    """One message in one version, with access to its classes."""

    spec: MessageSpec
    version: int
    package: str = attrs.field(eq=False)
    load: Callable[[], Any] = attrs.field(eq=False, repr=False)

    def __str__(self) -> str:
        return f"{self.spec.name}-v{self.version}"

    @property
    def module(self) -> Any:
        """The generated module."""
        if self.package not in sys.modules:
            self.load()
        return importlib.import_module(f"{self.package}.{module_name(self.spec.name)}")

    @property
    def message_class(self) -> Any:
        """The generated class of the message."""
        return getattr(self.module, class_name(self.spec.name))

    def decoder(self) -> Any:
        """The compiled decoder; ``None`` if the package uses none."""
        return getattr(self.module._DECODE[self.version], "__self__", None)

    def readable(self, data: bytes) -> bytes | memoryview:
        """The bytes in the form in which ``decode`` passes them to decoders."""
        return memoryview(data) if hasattr(self.module, "_ZERO_COPY_SIZE") else data

    @property
    def decode_error(self) -> type[Exception]:
        """The exception of the package's decoders."""
        error: type[Exception] = self.load().DecodeError
        return error


def cases_of(spec_dir: Path, package: str) -> list[Case]:
    """All messages and versions of a folder."""
    load = functools.partial(package_of, spec_dir, package)
    return [
        Case(spec, version, package, load) for spec in specs_of(spec_dir) for version in spec.valid_versions
    ]


def _ours() -> list[Case]:
    def load() -> Any:
        return importlib.import_module("kproducer_messages")

    return [Case(spec, version, "kproducer_messages", load) for spec, version in ALL_VERSIONS]


CORPUS = cases_of(corpus_dir(), "corpus_messages")
LANGUAGE = cases_of(LANGUAGE_DIR, "language_messages")

#: The specs that the project ships.
OURS = _ours()
