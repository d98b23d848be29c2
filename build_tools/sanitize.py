"""Tests the native core under gcc's address and undefined-behaviour sanitizers: ``make sanitize``.

Compiles and tests a copy of the checkout, in ``build/sanitized``. Arguments replace the tests that run.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from build_tools.commands import output_of, run

_TESTS = ("tests/unit", "tests/testing", "tests/scenarios", "tests/codegen")
#: Sanitizers keep freed memory for a while, so memory limits do not hold.
_EXCEPT = ("-m", "not kafka", "--deselect", "tests/scenarios/test_memory_bound.py")
_OPTIONS = "-fsanitize=address,undefined -fno-sanitize-recover=all"


def main(copy: Path, *tests: str) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    for name in output_of("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if Path(name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, copy / name)
    os.chdir(copy)
    compiling = ("-W", "ignore", "-m", "build_tools.native_build")
    run(sys.executable, *compiling, CFLAGS=f"{_OPTIONS} -O1 -g", LDFLAGS=_OPTIONS)
    libraries = (output_of("gcc", f"-print-file-name={name}.so").strip() for name in ("libasan", "libubsan"))
    run(
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *_EXCEPT, *(tests or _TESTS)),
        KPRODUCER_KERNEL="native",
        PYTHONPATH=f"{copy}:{copy / 'generated'}",
        PYTHONMALLOC="malloc",
        LD_PRELOAD=" ".join(libraries),
        ASAN_OPTIONS=f"detect_leaks=0:allocator_may_return_null=1:log_path={copy / 'report'}",
        UBSAN_OPTIONS=f"print_stacktrace=1:log_path={copy / 'report'}",
    )
    for report in copy.glob("report.*"):  # also of processes that the tests started
        text = report.read_text(errors="replace")
        if "ERROR: AddressSanitizer" in text or "runtime error" in text:
            sys.exit(f"{report}:\n{text}")


if __name__ == "__main__":
    main(Path("build", "sanitized").resolve(), *sys.argv[1:])
