"""The command line: ``python -m codegen SPEC_DIR OUT_DIR`` and ``python -m codegen check OLD_DIR NEW_DIR``.

The first compiles every ``*.json`` of a folder into a Python package, the second compares two versions of the
specs. Exit codes: 0 success; 1 a spec is invalid, the package is out of date (``--check``), or a change is
incompatible; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from codegen.compiler import compile_folder, load_folder, stale_files, write_package
from codegen.errors import SpecError
from codegen.evolution import incompatible_changes

_EPILOG = """\
examples:
  python -m codegen specs generated/kproducer_messages          write the package
  python -m codegen --check specs generated/kproducer_messages  fail if it is out of date
  python -m codegen check released/specs specs                  fail if the specs changed incompatibly

A spec describes one message in Kafka's schema language; Apache Kafka's own specs compile without changes.
The package needs the standard library only. docs/codegen.md has a tutorial.

exit codes: 0 success, 1 an invalid spec, an outdated package or an incompatible change, 2 wrong usage
"""
_CHECK_EPILOG = """\
A change is incompatible if it changes the meaning of a released version: a field was removed, added, renamed,
moved or has another type; null is no longer allowed, or newly allowed; a tag was reused, moved or has another
default; the API key has changed; versions were removed without deprecation. New versions, new messages, and
tagged fields of new versions are compatible, and so is any change of a latest version that was unstable.

exit codes: 0 compatible, 1 at least one incompatible change (or an invalid spec), 2 wrong usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _check(words[1:]) if words[:1] == ["check"] else _compile(words)
    except SpecError as error:
        print(error, file=sys.stderr)
        print(f"{len(error.problems)} problem(s); nothing was done", file=sys.stderr)
        return 1


def _parser(program: str, description: str, epilog: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"python -m {program}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _compile(words: list[str]) -> int:
    parser = _parser("codegen", "Compile a folder of Kafka message specs into a Python package.", _EPILOG)
    parser.add_argument("spec_dir", type=Path, help="folder of *.json specs")
    parser.add_argument("out_dir", type=Path, help="package to write; it may have any name")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if OUT_DIR is out of date")
    options = parser.parse_args(words)
    _need_folder(parser, options.spec_dir)
    files = compile_folder(options.spec_dir)
    if options.check:
        stale = stale_files(files, options.out_dir)
        for line in stale:
            print(line, file=sys.stderr)
        if stale:
            print(
                f"{options.out_dir} is out of date: run `make generate` and commit the result",
                file=sys.stderr,
            )
        return 1 if stale else 0
    changed = write_package(files, options.out_dir)
    print(f"{len(files)} files, {changed} changed, in {options.out_dir}")
    return 0


def _check(words: list[str]) -> int:
    parser = _parser(
        "codegen check", "Report every incompatible change between two versions of the specs.", _CHECK_EPILOG
    )
    parser.add_argument("old_dir", type=Path, help="the released specs")
    parser.add_argument("new_dir", type=Path, help="the current specs")
    options = parser.parse_args(words)
    for folder in (options.old_dir, options.new_dir):
        _need_folder(parser, folder)
    old, new = load_folder(options.old_dir), load_folder(options.new_dir)
    changes = incompatible_changes(old, new)
    for change in changes:
        print(change)
    if changes:
        print(f"{len(changes)} incompatible change(s) in {len(old)} messages", file=sys.stderr)
        return 1
    print(f"{len(old)} messages compared with {len(new)}: compatible")
    return 0


def _need_folder(parser: argparse.ArgumentParser, folder: Path) -> None:
    if not folder.is_dir():
        parser.error(f"{folder} is not a folder")


if __name__ == "__main__":
    sys.exit(main())
