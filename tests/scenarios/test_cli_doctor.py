"""``kproducer doctor`` against listeners that demand what the settings do not have."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kproducer.cli.command_line import command_line
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.scenarios.conftest import Stage

SASL = ("security.protocol=SASL_PLAINTEXT", "sasl.username=alice", "sasl.password=wonderland")


def diagnosis(server: str, *settings: str) -> tuple[int, list[str]]:
    """Exit status, and each step with its result."""
    options = [part for each in settings for part in ("-X", each)]
    result = CliRunner().invoke(command_line, ["doctor", "-b", server, *options])
    lines = [line.split(":")[0].split() for line in result.stdout.splitlines()]
    return result.exit_code, [" ".join(words) for words in lines if words[0] in ("ok", "FAILED")]


def test_right_credentials_pass_every_step(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener({"alice": "wonderland"})
    status, steps = diagnosis(cluster.bootstrap_servers[0], "sasl.mechanism=PLAIN", *SASL)
    assert (status, steps) == (0, ["ok DNS", "ok TCP", "ok ApiVersions", "ok SASL", "ok metadata"])


@pytest.mark.parametrize(
    ("settings", "step"),
    [
        (("sasl.mechanism=PLAIN", *SASL), "SASL"),
        (("sasl.mechanism=SCRAM-SHA-256", *SASL), "SASL"),
        (("security.protocol=PLAINTEXT",), "metadata"),
    ],
)
def test_the_step_that_a_listener_with_sasl_refuses(
    stage: Stage, settings: tuple[str, ...], step: str
) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener({"alice": "another"})
    status, steps = diagnosis(cluster.bootstrap_servers[0], *settings)
    assert (status, steps) == (1, ["ok DNS", "ok TCP", "ok ApiVersions", f"FAILED {step}"])
    # A client that does not authenticate is what the last case is about.
    cluster.violations.clear()
