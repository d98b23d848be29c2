"""What a producer without TLS and SASL does not import: each module costs time at the start of a program.

And what modules say whose package is missing.
"""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

_CREATE = """
import sys
from kproducer import KafkaProducer

with KafkaProducer("localhost:1"):
    print(*sys.modules)
"""


@pytest.mark.parametrize(
    "unneeded",
    [
        "attr",
        "httpcore",
        "json",
        "kproducer._core.client.authentication",
        "kproducer._core.config.properties_file",
        "kproducer._core.config.proxy_url",
        "kproducer.schema_registry",
        "kproducer._core.security",
        "ssl",
    ],
)
def test_a_plaintext_producer_does_not_import_what_others_need(modules_of_a_producer, unneeded):
    assert unneeded not in modules_of_a_producer


@pytest.fixture(scope="module")
def modules_of_a_producer() -> set[str]:
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CREATE],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    modules = set(finished.stdout.split())
    assert "kproducer._core.client.network_client" in modules
    return modules


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("prometheus", "prometheus_client.core"),
        ("opentelemetry", "opentelemetry.propagators.textmap"),
    ],
)
def test_a_module_whose_package_is_missing_names_the_extra(monkeypatch, module, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"kproducer.{module}", raising=False)
    with pytest.raises(
        ImportError, match=rf"^kproducer\.{module} needs .*pip install 'kproducer\[{module}\]'"
    ):
        importlib.import_module(f"kproducer.{module}")


def test_the_spark_sink_names_its_extra_when_it_is_used(monkeypatch):
    """Not when the module is imported: the tables of options are made without PySpark."""
    sink = importlib.import_module("kproducer.spark")
    monkeypatch.delattr(sink, "KafkaProducerDataSource", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    with pytest.raises(ImportError, match=r"^kproducer\.spark needs .*pip install 'kproducer\[spark\]'"):
        sink.KafkaProducerDataSource  # noqa: B018
