"""The same job where driver and executors share nothing, through Spark Connect, and what installs show."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from importlib import metadata
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.tvf import TableValuedFunction

from tests.support.kafka.reader import read_topic

ROOT = Path(__file__).resolve().parents[2]
_names = (f"sessions-{number}" for number in itertools.count())

LIST_MODULES = (
    "import pkgutil; print([m.name for m in pkgutil.iter_modules() if m.name.startswith('pyspark_')])"
)

PLAN_A_WRITE = """
import pyspark
from pyspark_kproducer import DefaultSource
from pyspark.sql.types import StringType, StructField, StructType

options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "orders", "checkTimeoutMs": "0"}
writer = DefaultSource(options).writer(StructType([StructField("value", StringType())]), False)
print(pyspark.__file__, type(writer).__name__)
"""


def assert_rows_and_numbers(records, answer):
    assert Counter((record.key, record.value, record.partition) for record in records) == Counter(
        (f"key-{number}".encode(), f"value-{number}".encode(), number % 3) for number in range(1000)
    )
    assert "'kafka.bootstrap.servers' is missing" in answer["mistake"]
    assert "kproducer: DataFrame" not in answer["stderr"]
    assert "kproducer: task" not in answer["stderr"]
    if answer["logs"] is None:
        assert not hasattr(TableValuedFunction, "python_worker_logs")
        return
    totals = [log["context"] for log in answer["logs"] if "written by 4 tasks" in log["msg"]]
    assert [context["rows"] for context in totals] == ["1000"]
    tasks = [log["context"] for log in answer["logs"] if "attempt" in (log["context"] or {})]
    assert sum(int(context["rows"]) for context in tasks) == 1000


@pytest.mark.mock_cluster
def test_executors_that_share_no_process_with_the_driver_write_each_row(mock_cluster, run_job):
    topic = next(_names)
    mock_cluster.create_topic(topic, partitions=3)
    answer = run_job("local-cluster[2,1,1024]", mock_cluster.bootstrap_servers, topic, "1000")
    assert answer["session"] == "pyspark.sql.session"
    assert_rows_and_numbers(read_topic(mock_cluster.bootstrap_servers, topic), answer)


@pytest.mark.mock_cluster
@pytest.mark.timeout(1000)  # it may wait for the port of another test
def test_spark_connect_writes_frames_and_streams(mock_cluster, run_job, tmp_path):
    topic = next(_names)
    mock_cluster.create_topic(topic, partitions=3)
    mock_cluster.create_topic(f"{topic}-typed", partitions=1)
    folder = tmp_path / "lines"
    folder.mkdir()
    (folder / "1.txt").write_text("one\ntwo\n")
    answer = run_job("connect", mock_cluster.bootstrap_servers, topic, "1000", str(folder))
    assert answer["session"] == "pyspark.sql.connect.session"
    records = read_topic(mock_cluster.bootstrap_servers, topic)
    assert_rows_and_numbers([record for record in records if record.key], answer)
    assert sorted(record.value for record in records if not record.key) == [b"one", b"two"]
    assert f"topic {topic}: micro-batch 0 written by 1 tasks: 2 rows" in answer["stderr"]
    typed = read_topic(mock_cluster.bootstrap_servers, f"{topic}-typed")
    assert sorted((record.key, record.value) for record in typed) == [
        (b"\x00", b'{"id":0,"ids":[0]}'),
        (b"\x02", b'{"id":1,"ids":[1]}'),
        (b"\x04", b'{"id":2,"ids":[2]}'),
    ]


def test_this_installation_shows_the_source_to_spark():
    listed = subprocess.run(
        [sys.executable, "-c", LIST_MODULES], capture_output=True, text=True, check=True, cwd="/"
    )
    assert "pyspark_kproducer" in listed.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, without the native core."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    # A copy is built: building leaves files behind.
    for name in ("kproducer", "generated", "build_tools"):
        shutil.copytree(ROOT / name, folder / "project" / name, ignore=ignored)
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, folder / "project")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "-w", folder, folder / "project"],
        # Compiling takes minutes, and `make wheel` is for that.
        env={**os.environ, "KPRODUCER_NATIVE": "0"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_a_wheel_contains_the_source_at_its_top_level(wheel, tmp_path):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "pyspark_kproducer/__init__.py" in names
    assert "kproducer/spark/data_source.py" in names
    top = {name.partition("/")[0] for name in names if not name.partition("/")[0].endswith(".dist-info")}
    assert top == {"kproducer", "kproducer_messages", "pyspark_kproducer"}
    assert not any(name.startswith("kproducer/spark/autoload") for name in names)
    unpacked = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(unpacked)
    # -S: without this environment's own installation, so that only the wheel's content can be found.
    listed = subprocess.run(
        [sys.executable, "-S", "-c", LIST_MODULES],
        env={"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert "pyspark_kproducer" in listed.stdout


def test_a_wheel_is_installed_beside_a_pyspark_that_pip_does_not_know(wheel, tmp_path):
    """As on a managed platform: its packages have no metadata, and an installation must not replace them."""
    platform = tmp_path / "platform"
    platform.mkdir()
    installed = Path(pyspark.__file__).parents[1]
    for name in ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "pytz", "dateutil", "six.py"):
        if (installed / name).exists():
            (platform / name).symlink_to(installed / name)
    # What kproducer always needs is there, with metadata: the test has no index.
    for requirement in metadata.requires("kproducer") or ():
        with contextlib.suppress(metadata.PackageNotFoundError):
            files = metadata.files(re.split(r"[^\w-]", requirement)[0]) if "extra" not in requirement else []
            for name in {each.parts[0] for each in files or ()} - {".."}:
                (platform / name).symlink_to(installed / name)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (site / "platform.pth").write_text(str(platform))
    python = tmp_path / "venv" / "bin" / "python"

    environment = {"PATH": os.environ["PATH"], "KPRODUCER_NATIVE": "0"}
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--quiet"]
    subprocess.run([*pip, wheel], env=environment, check=True, timeout=120)
    assert {each.name.partition("-")[0] for each in site.glob("*.dist-info")} == {"kproducer"}
    planned = subprocess.run(
        [python, "-c", PLAN_A_WRITE], env=environment, capture_output=True, text=True, check=True, cwd="/"
    )
    assert planned.stdout.split() == [str(platform / "pyspark" / "__init__.py"), "BatchWriter"]
