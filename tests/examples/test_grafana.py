"""The dashboard and the alerts for Spark: their metrics exist, and the documentation names each alert."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kproducer.spark.metrics_file import METRIC_NAMES

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "grafana"
DASHBOARD = json.loads((FOLDER / "kproducer-spark.json").read_text(encoding="utf-8"))
ALERTS = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
SHOWN = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
EXPRESSIONS = [*SHOWN, *(rule["expr"] for rule in ALERTS)]
#: Labels and ranges are not metrics, and neither are functions.
_NOT_METRICS = re.compile(
    r"\{[^}]*\}|\[[^\]]*\]|\b(by|on) \([^)]*\)|\w+\s*\(|\boffset \w+|\b(and|or|unless|sum|max)\b|\d[\d.]*"
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_of_an_expression_exists(expression: str) -> None:
    names = re.findall(r"\w+", _NOT_METRICS.sub(" ", expression))
    assert names
    assert set(names) <= set(METRIC_NAMES)


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for name in METRIC_NAMES if any(re.search(rf"\b{name}\b", each) for each in SHOWN)}
    assert shown == set(METRIC_NAMES)


def test_every_alert_has_a_reason_and_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for rule in ALERTS:
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert f"`{rule['alert']}`" in page
