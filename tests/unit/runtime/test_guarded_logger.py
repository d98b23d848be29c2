"""GuardedLogger: what handlers and filters of an application raise, and what a record says of its place."""

from __future__ import annotations

import ast
import io
import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kproducer
from kproducer._core.runtime.guarded_logger import GuardedLogger, error_fields
from kproducer._core.runtime.threads import mark_io_thread
from kproducer.errors import Outcome
from kproducer.errors.broker_errors import InvalidTopicError

LOG = GuardedLogger("kproducer.test.module")
CALLS: list[Callable[[], None]] = [
    lambda: LOG.debug("text %d", 1),
    lambda: LOG.info("text %d", 1),
    lambda: LOG.warning("text %d", 1),
    lambda: LOG.error("text %d", 1, exc_info=ValueError("cause")),
    lambda: LOG.exception("text %d", 1),
    lambda: LOG.critical("text %d", 1),
    lambda: LOG.log(logging.INFO, "text %d", 1),
]


class Raising(logging.Handler):
    """Raises what it is told to, for each record."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
        self.calls = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.calls += 1
        raise self.error

    def filter(self, record: logging.LogRecord) -> bool:
        return True


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("kproducer.test")
    found.setLevel(logging.DEBUG)
    yield found
    found.setLevel(logging.NOTSET)
    for handler in list(found.handlers):
        found.removeHandler(handler)
    for each in list(found.filters):
        found.removeFilter(each)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("place", ["handler", "filter"])
def test_what_an_application_raises_does_not_come_through(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str], call: Callable[[], None], place: str
) -> None:
    def fail(record: logging.LogRecord) -> bool:
        raise ValueError("of the filter")

    if place == "handler":
        logger.addHandler(Raising(ValueError("of the handler")))
    else:
        logger.addFilter(fail)
    call()
    assert f"of the {place}" in capsys.readouterr().err


@pytest.mark.parametrize("error_type", [SystemExit, KeyboardInterrupt])
def test_only_an_io_thread_ignores_what_may_be_meant_for_the_application(
    logger: logging.Logger, error_type: type[BaseException]
) -> None:
    handler = Raising(error_type())
    logger.addHandler(handler)
    with pytest.raises(error_type):
        LOG.error("text")

    def on_io_thread() -> None:
        mark_io_thread()
        LOG.error("text")

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(on_io_thread).exception() is None
    assert handler.calls == 2


def test_a_stderr_that_is_closed_does_not_matter(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    handler = Raising(ValueError("of the handler"))
    logger.addHandler(handler)
    LOG.error("text")
    assert handler.calls == 1


@pytest.mark.parametrize("call", CALLS)
def test_records_name_the_line_that_logs(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture, call: Callable[[], None]
) -> None:
    call()
    (record,) = caplog.records
    assert record.getMessage() == "text 1"
    assert (record.filename, record.funcName) == (Path(__file__).name, "<lambda>")


@pytest.mark.parametrize(
    ("module", "logger_name", "component"),
    [
        ("kproducer._core.client.network_client", "kproducer.client", "network_client"),
        ("kproducer.spark.exactly_once.spark_write", "kproducer.spark", "spark_write"),
        ("kproducer._core.installation", "kproducer", "installation"),
    ],
)
def test_a_package_has_one_logger(
    module: str, logger_name: str, component: str, caplog: pytest.LogCaptureFixture
) -> None:
    GuardedLogger(module).warning("text", extra={"topic": "t"})
    (record,) = caplog.records
    assert record.name == logger_name
    assert (vars(record)["component"], vars(record)["topic"]) == (component, "t")


def test_fields_of_an_error() -> None:
    error = InvalidTopicError("text").with_outcome(Outcome.REJECTED)
    assert error_fields(error) == {"error_type": "InvalidTopicError", "error_code": 17, "outcome": "rejected"}
    assert error_fields(ValueError()) == {"error_type": "ValueError"}


def test_records_carry_the_exception_that_is_handled(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    cause = ValueError("cause")
    try:
        raise cause
    except ValueError:
        LOG.exception("text")
    LOG.error("text", exc_info=cause)
    assert [record.exc_info and record.exc_info[1] for record in caplog.records] == [cause, cause]


def test_nothing_below_the_facade_logs_without_the_guard() -> None:
    """The modules that may run on the I/O thread. Others log before or beside it."""
    package = Path(kproducer.__file__).parent
    core = package / "_core"
    allowed = {
        core / "runtime" / "guarded_logger.py",
        core / "config" / "producer_config.py",
        core / "kernel",
    }
    allowed |= {package / name for name in ("cli", "compat", "spark")}
    unguarded = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if not allowed & {path, *path.parents}
        and any(
            isinstance(node, ast.Attribute) and node.attr == "getLogger"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    ]
    assert unguarded == []
