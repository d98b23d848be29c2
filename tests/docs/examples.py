"""The examples in README.md and docs/: where they are, which are not run and why, and their settings."""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from kproducer._core.config.producer_config import DOTTED_NAMES, ProducerConfig
from kproducer._core.security.sasl_settings import sasl_mechanism_of

ROOT = Path(__file__).parents[2]
_ATTRIBUTES = {dotted: name for name, dotted in DOTTED_NAMES.items()}


class Exemption(NamedTuple):
    """Examples that are not run. They are compiled, and the settings in them are checked.

    Attributes:
        pages: a path, or a pattern of paths.
        text: what the examples contain; empty for all of these pages.
        reason: why they cannot run, and what tests them instead.
    """

    pages: str
    text: str
    reason: str

    def matches(self, page: str, code: str) -> bool:
        return PurePosixPath(page).match(self.pages) and self.text in code


#: The only place where an example can be exempted from running.
NOT_RUN = (
    Exemption("README.md", "broker.example.com", "needs TLS; integration/test_kafka_tls.py runs it"),
    Exemption("docs/clusters/*", "", "need an account of the provider, or Kerberos"),
    Exemption("docs/security.md", "", "need certificates, credentials, a token endpoint or a proxy"),
    Exemption(
        "docs/spark.md", "SASL_SSL", "needs SASL; spark/test_secured_cluster.py writes to such a cluster"
    ),
    Exemption("docs/spark.md", "exactly-once", "needs two DataFrames; spark/test_exactly_once_spark.py"),
    Exemption("docs/spark-pipelines.md", "", "is run by spark-pipelines: spark/test_pipelines.py"),
    Exemption(
        "docs/spark-realtime.md", "", "needs a streaming DataFrame; spark/test_foreach_writer.py has one"
    ),
    Exemption("docs/codegen.md", "", "need a spec that the text adds; codegen/test_tutorial.py compiles it"),
    Exemption("docs/codegen-layout.md", "", "are parts of generated modules"),
)


class Example(NamedTuple):
    """A block of code on a page; ``page`` is its path, and ``line`` the number of its first line."""

    page: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def exemption(self) -> Exemption | None:
        return next((each for each in NOT_RUN if each.matches(self.page, self.code)), None)


def examples(language: str = "python", pages: str = "*") -> list[Example]:
    """All blocks of this language in README.md and docs/, or on the pages that match a pattern."""
    found = []
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        page = path.relative_to(ROOT).as_posix()
        if "_build" in path.parts or not PurePosixPath(page).match(pages):
            continue
        text = path.read_text(encoding="utf-8")
        for block in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            found.append(Example(page, text.count("\n", 0, block.start(1)) + 1, block[1]))
    return found


def settings_in(code: str) -> list[dict[str, Any]]:
    """The settings of each producer in an example, and of each dictionary of Spark options, by attribute."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "KafkaProducer":
            keywords = [each for each in node.keywords if each.arg is not None]
            settings = {str(each.arg): _value_of(str(each.arg), each.value) for each in keywords}
            if node.args:
                settings["bootstrap_servers"] = _value_of("bootstrap_servers", node.args[0])
            found.append({"bootstrap_servers": "broker:9092", **settings})
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            items = {str(_literal(key)): value for key, value in pairs if key}
            options = {name: value for name, value in items.items() if name.startswith("kafka.")}
            dotted = {name.removeprefix("kafka."): value for name, value in (options or items).items()}
            if "bootstrap.servers" in dotted:
                names = {_ATTRIBUTES.get(name, name): value for name, value in dotted.items()}
                found.append({name: _value_of(name, value) for name, value in names.items()})
    return found


def check_settings(config: ProducerConfig) -> None:
    """Raise ConfigError if credentials contradict each other. GSSAPI also needs Kerberos and a keytab."""
    if config.uses_sasl and config.sasl_mechanism != "GSSAPI":
        sasl_mechanism_of(config).close()


def _value_of(setting: str, node: ast.expr) -> Any:
    """The value of a literal; for any other expression a value that fits the setting."""
    value = _literal(node)
    if value is not None or setting == "ssl_context":
        return value
    fitting = {
        "bootstrap_servers": "broker:9092",
        "sasl_jaas_config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="alice" password="secret";',
        "sasl_oauth_token_provider": lambda: ("token", 0),
    }
    return fitting.get(setting, "from somewhere else")


def _literal(node: ast.expr) -> Any:
    """The value of a literal, with the text of the expressions in an f-string; ``None`` for anything else."""
    if isinstance(node, ast.JoinedStr):
        parts = [each.value if isinstance(each, ast.Constant) else "value" for each in node.values]
        return "".join(map(str, parts))
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
