"""Servers without a port: the adapters take the same ones as their originals."""

from __future__ import annotations

from typing import Any

import pytest

from kproducer._core.config.producer_config import ProducerConfig
from kproducer.compat.bootstrap_servers import with_default_ports
from kproducer.compat.kafka.settings import own_settings

GIVEN: list[Any] = [
    "a",
    "a:1",
    "a, b:2",
    ["a", "b:2"],
    ("127.0.0.1", "127.0.0.2:2"),
    "[::1]",
    "[::1]:1",
    "::1",
    ["fe80::a"],
    "::ffff:10.0.0.1",
]


@pytest.mark.parametrize("module", ["kafka.cluster", "aiokafka.conn"])
@pytest.mark.parametrize("given", GIVEN)
def test_the_originals_understand_the_same(module: str, given: Any) -> None:
    original = pytest.importorskip(module)
    theirs = [(host, port) for host, port, _ in original.collect_hosts(given, randomize=False)]
    config = ProducerConfig.from_keywords({"bootstrap_servers": with_default_ports(given)})
    mine = [each.rpartition(":") for each in config.bootstrap_servers]
    assert [(host.strip("[]"), int(port)) for host, _, port in mine] == theirs


@pytest.mark.parametrize("given", GIVEN)
def test_the_adapter_for_kafka_python_takes_them(given: Any) -> None:
    assert own_settings({"bootstrap_servers": given})["bootstrap_servers"] == with_default_ports(given)


@pytest.mark.parametrize("wrong", [5, None, b"a", [5], "", ",", "a:b", "a:b:c", "user:secret@a"])
def test_what_is_no_address_is_left_for_the_settings_to_refuse(wrong: Any) -> None:
    with pytest.raises(ValueError, match="bootstrap_servers: expected") as raised:
        ProducerConfig.from_keywords({"bootstrap_servers": with_default_ports(wrong)})
    assert "secret" not in str(raised.value)
