"""The command line: ``python -m codegen [--check] SPEC_DIR OUT_DIR``.

Compiles every ``*.json`` of a folder into a Python package. Exit codes: 0 done (or nothing stale), 1 a spec
is wrong or, with ``--check``, the package is not what the specs say; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from codegen.compiler import compile_folder, stale_files, write_package
from codegen.errors import SpecError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m codegen", description="Compile Kafka message specs to Python."
    )
    parser.add_argument("spec_dir", type=Path, help="folder of *.json specs")
    parser.add_argument("out_dir", type=Path, help="package to write; its name is free")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when OUT_DIR is not up to date"
    )
    options = parser.parse_args(arguments)
    if not options.spec_dir.is_dir():
        parser.error(f"{options.spec_dir} is no folder")
    try:
        files = compile_folder(options.spec_dir)
    except SpecError as error:
        print(error, file=sys.stderr)
        print(f"{len(error.problems)} problem(s); nothing was generated", file=sys.stderr)
        return 1
    if options.check:
        stale = stale_files(files, options.out_dir)
        for line in stale:
            print(line, file=sys.stderr)
        if stale:
            print(f"{options.out_dir} is stale: run `make generate` and commit the result", file=sys.stderr)
        return 1 if stale else 0
    changed = write_package(files, options.out_dir)
    print(f"{len(files)} files, {changed} changed, in {options.out_dir}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
