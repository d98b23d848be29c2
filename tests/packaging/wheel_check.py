"""Checks a wheel like a user's installation: new environment, no checkout, no compiler. For ``make wheel``.

The wheel must contain a compiled module for each source of the checkout; when installed alone into a new
virtual environment, it must use them and send records to its own broker for tests. With packages that the
demo needs, the demo must run from it, too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from build_tools.native_build import ROOT, native_sources

#: Sends a record in each way with each codec, and reads them back from a broker in the same process.
SENDING = """
from kproducer import KafkaProducer
from kproducer.testing import FakeKafka

for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    with FakeKafka() as kafka:
        with KafkaProducer(kafka.bootstrap_servers, compression_type=codec) as producer:
            producer.send("t", b"one", key=b"k").result(60)
            producer.send_many("t", [b"two", b"three"]).result(60)
        kafka.topic("t").assert_written([b"one", b"two", b"three"])
        assert not kafka.violations, kafka.violations
"""
#: Packages that the demo needs besides the producer: a broker and independent reader, what Avro and its
#: registry need, Arrow tables, and a console.
DEMO_NEEDS = ("confluent-kafka", "fastavro", "httpcore", "pyarrow", "rich")


class WheelError(Exception):
    """The wheel is not fit for release."""


def is_compiled(name: str) -> bool:
    """Whether a file is a compiled module, of any Python: a wheel may be for another one than this."""
    return name.endswith((".so", ".pyd"))


def check_contents(wheel: Path, modules: list[str]) -> None:
    """Raise ``WheelError`` unless the wheel has the compiled ``modules`` and no build-only files."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    missing = [
        module
        for module in modules
        if not any(name.startswith(module.replace(".", "/") + ".") and is_compiled(name) for name in names)
    ]
    if missing or not modules:
        raise WheelError(
            f"{wheel.name} lacks the native core: {', '.join(missing) or 'there are no sources'}"
        )
    surplus = [name for name in names if name.endswith((".c", ".pyx", ".o")) or name.startswith("tests/")]
    if surplus:
        raise WheelError(f"{wheel.name} contains files that only builds need: {', '.join(surplus)}")


def run_without_compiler(environment: Path, *arguments: str | Path, folder: Path) -> str:
    """Run the environment's Python with an otherwise empty PATH, in ``folder``, and return its output.

    Raises:
        WheelError: it failed; the message has its output.
    """
    bin_folder = environment / "bin"
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KPRODUCER"))
    }
    done = subprocess.run(
        [str(bin_folder / "python"), *map(str, arguments)],
        cwd=folder,
        env={**variables, "PATH": str(bin_folder), "CC": "false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        raise WheelError(f"{' '.join(map(str, arguments))} failed:\n{done.stdout}")
    return done.stdout


def check_installed(wheel: Path, scratch: Path, demo_count: int) -> None:
    """Install the wheel into a new environment, check its ``build_info()``, send, and run the demo."""
    environment = scratch / "environment"
    venv.create(environment, with_pip=True)
    run_without_compiler(environment, "-m", "pip", "install", "--quiet", wheel, folder=scratch)
    question = (
        "import kproducer; info = kproducer.build_info(); print(kproducer.__file__);"
        " print(info.kernel, info.client, *info.missing_modules)"
    )
    place, found = run_without_compiler(environment, "-c", question, folder=scratch).splitlines()[:2]
    if not Path(place).is_relative_to(environment):
        raise WheelError(f"imported {place} instead of the installed package")
    if found != "native compiled":
        raise WheelError(f"the installed wheel has not all of the native core: {found}")
    for name in ("examples", "tests"):
        shutil.copytree(ROOT / name, scratch / name, ignore=shutil.ignore_patterns("__pycache__"))
    run_without_compiler(environment, "-c", SENDING, folder=scratch)
    if not demo_count:
        return
    constraints = ROOT / "build_tools" / "constraints.txt"
    run_without_compiler(
        environment, "-m", "pip", "install", "--quiet", "-c", constraints, *DEMO_NEEDS, folder=scratch
    )
    said = run_without_compiler(
        environment, "-m", "examples.demo", "--count", str(demo_count), folder=scratch
    )
    if f"verified {demo_count:,} of {demo_count:,}" not in said:
        raise WheelError(f"the demo did not verify its records:\n{said}")
    print(said)


def main() -> None:
    parser = argparse.ArgumentParser(description="Check a wheel in an empty environment without a compiler.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument(
        "--demo-count", type=int, default=100_000, help="records that the demo sends; 0: none"
    )
    arguments = parser.parse_args()
    modules = list(native_sources(ROOT))
    try:
        check_contents(arguments.wheel, modules)
        with tempfile.TemporaryDirectory(prefix="kproducer-wheel-") as scratch:
            check_installed(arguments.wheel.resolve(), Path(scratch).resolve(), arguments.demo_count)
    except WheelError as error:
        sys.exit(f"wheel: {error}")
    print(
        f"wheel: {arguments.wheel} has {len(modules)} compiled modules; it sends records without a compiler"
    )


if __name__ == "__main__":
    main()
