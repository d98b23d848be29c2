"""The pytest plugin: the fixture ``kafka_broker`` for tests that use it, and nothing for all others."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

#: What ``import kproducer`` needs anyway, and the plugin itself.
LIGHT = {"errors", "runtime", "serializers", "testing", "types"}


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Runs a test file in a process of its own, with arguments of pytest."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(code: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(f"from kproducer import KafkaProducer\n{code}")
        return pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", *arguments)

    return run


def test_pytest_finds_the_plugin() -> None:
    found = {each.name: each.value for each in entry_points(group="pytest11")}
    assert found["kproducer"] == "kproducer.testing.pytest_plugin", "install the checkout again (make setup)"


def test_each_test_gets_a_broker_of_its_own(run) -> None:
    code = """
import pytest

@pytest.mark.parametrize("value", [b"placed", b"paid"])
def test_an_order(kafka_broker, value):
    with KafkaProducer(kafka_broker.bootstrap_servers) as producer:
        producer.send("orders", value)
    kafka_broker.topic("orders").assert_written([value])
"""
    run(code).assert_outcomes(passed=2)


def test_a_mark_sets_options_also_for_a_class(run) -> None:
    code = """
import pytest

@pytest.mark.kafka_broker(nodes=3, auto_create=False)
class TestOrders:
    def test_of_the_class(self, kafka_broker):
        assert kafka_broker.nodes == [1, 2, 3]

    @pytest.mark.kafka_broker(nodes=2)
    def test_of_the_function(self, kafka_broker):
        assert kafka_broker.nodes == [1, 2]
"""
    run(code, "--strict-markers").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("3", "*takes keywords only*"),
        ("nodez=3", "*kafka_broker: *'nodez'; did you mean nodes? Valid*"),
        ("nodes=0", "*nodes must be*"),
    ],
)
def test_wrong_options_are_explained(run, options: str, text: str) -> None:
    code = f"""
import pytest

@pytest.mark.kafka_broker({options})
def test_it(kafka_broker): ...
"""
    result = run(code)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([text])


def test_a_failing_test_shows_the_records(run) -> None:
    code = """
def test_an_order(kafka_broker):
    with KafkaProducer(kafka_broker.bootstrap_servers) as producer:
        producer.send("orders", b"placed")
    kafka_broker.topic("orders").assert_written([b"paid"])
"""
    result = run(code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>*kafka_broker.topic("orders").assert_written*',
            "E*It holds 1 record:",
            "E*partition 0 offset 0: key=None value=b'placed'",
        ]
    )
    result.stdout.no_fnmatch_line("*topic.py:*")


def test_it_works_with_asyncio_and_in_parallel(run) -> None:
    code = """
import asyncio

import pytest

@pytest.mark.parametrize("number", range(4))
def test_awaited(kafka_broker, number):
    async def place():
        with KafkaProducer(kafka_broker.bootstrap_servers) as producer:
            await producer.send("orders", b"placed")
        await asyncio.to_thread(kafka_broker.topic("orders").wait_for_records, 1)

    asyncio.run(place())
"""
    run(code, "-n", "2").assert_outcomes(passed=4)


def test_a_project_may_have_a_fixture_of_this_name(run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef kafka_broker(): return 17")
    run("def test_it(kafka_broker): assert kafka_broker == 17").assert_outcomes(passed=1)


def test_nothing_is_imported_for_tests_that_do_not_use_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import sys

def test_it():
    names = [name for name in sys.modules if name.partition(".")[0].startswith("kproducer")]
    print("\\nloaded:", *names)
"""
    )
    result = pytester.runpytest_subprocess("-s", "-p", "no:cacheprovider")
    (loaded,) = [line for line in result.outlines if line.startswith("loaded:")]
    names = loaded.replace("kproducer._core", "kproducer").split()[1:]
    assert "kproducer.testing.pytest_plugin" in names
    parts = {name.split(".")[1] for name in names if "." in name}
    assert parts <= LIGHT
    assert not any(name.startswith(("kproducer.testing.f", "kproducer_messages")) for name in names)


def test_the_plugin_itself_imports_little() -> None:
    code = "import pytest, sys; before = set(sys.modules); import kproducer.testing.pytest_plugin"
    code += "; print(*(set(sys.modules) - before))"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    foreign = {name.partition(".")[0] for name in printed} - set(sys.stdlib_module_names)
    assert foreign <= {"kproducer", "_cython_3_3_1", "cython_runtime"}
    assert {"asyncio", "ssl"}.isdisjoint(printed)


def test_pytest_is_not_needed_without_the_plugin() -> None:
    code = """
import sys

sys.modules["pytest"] = None
from kproducer import testing

with testing.FakeKafka() as kafka:
    kafka.topic("orders").assert_written([])
print(sorted(name for name in testing.__all__ if not hasattr(testing, name)))
"""
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (finished.stdout.strip(), finished.stderr) == ("[]", "")
