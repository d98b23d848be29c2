"""``kproducer doctor``: connects to each broker step by step, and says what fails and what to do.

Name service and TCP are tried directly. A network client with one broker does the other steps: the state of
its connection tells how far it came, and its errors are those that a producer would get.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import Any

import click

from kproducer._core.client.metadata import Metadata
from kproducer._core.client.network_client import NetworkClient, new_network_client
from kproducer._core.client.node_connection import ConnectionState
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.network.host_resolver import ResolvedAddress, resolve_host
from kproducer._core.runtime.clock import SystemClock
from kproducer.cli.connection_options import (
    connection_options,
    producer_config,
    set_log_level,
)
from kproducer.errors import AuthenticationError, KafkaError, NetworkError, printable
from kproducer.types import Node

#: How far a connection has come: the steps before this one have succeeded.
_STEP_OF_STATE = {
    ConnectionState.CONNECTING: "TLS",
    ConnectionState.CHECKING_API_VERSIONS: "ApiVersions",
    ConnectionState.AUTHENTICATING: "SASL",
    ConnectionState.READY: "metadata",
}
_ADVICE = {
    "DNS": "Check the name, and that this machine's name service knows it.",
    "TCP": "Check the port, that the broker is running, and that no firewall blocks it.",
    "connection": "Check the port, and proxy.url if there is one.",
    "TLS": "Check security.protocol and the ssl. settings (docs/security.md).",
    "ApiVersions": "Check that the port is a Kafka listener, and that security.protocol is the listener's.",
    "SASL": "Check sasl.mechanism, user and password, and that the listener has this mechanism.",
    "metadata": "Check the broker's log, and that the user may describe the cluster.",
}
_ADVERTISED = (
    " This is the address that the broker advertises: if it is wrong, change its advertised.listeners."
)


class _StepError(Exception):
    """A step has failed. The arguments are the step and why."""


@click.command(short_help="Find out why brokers cannot be used.")
@connection_options
def doctor(**options: Any) -> None:
    """Connect to every broker step by step; say what fails and what to do.

    Begins with the bootstrap servers, and continues with the addresses that the brokers advertise.
    """
    # The client's warnings are not shown: the report below says the same.
    set_log_level(logging.ERROR)
    config = producer_config(options)
    click.echo(f"Settings: security.protocol={config.security_protocol}", nl=not config.uses_sasl)
    if config.uses_sasl:
        click.echo(f", sasl.mechanism={config.sasl_mechanism}")
    brokers: dict[str, Node] = {}
    failed = 0
    for server in config.bootstrap_servers:
        failed += not _is_usable(f"Bootstrap server {server}", config, server, "", brokers)
    for address, node in list(brokers.items()):
        if address not in config.bootstrap_servers:
            title = f"Broker {node.id} at {printable(address)}"
            failed += not _is_usable(title, config, address, _ADVERTISED, brokers)
    if failed:
        raise click.ClickException(f"{failed} of the addresses cannot be used.")
    click.echo("Every broker can be used.")


def _is_usable(
    title: str, config: ProducerConfig, server: str, more_advice: str, brokers: dict[str, Node]
) -> bool:
    """Report the steps of connecting to an address, and add all brokers of the cluster to ``brokers``."""
    click.echo(title)
    try:
        for step, details in _steps(config, server, brokers):
            click.echo(f"  ok      {step}{details and ': '}{details}")
    except _StepError as failure:
        step, error = failure.args
        click.echo(f"  FAILED  {step}: {error}")
        click.echo(f"          {_ADVICE[step]}{more_advice if step in ('DNS', 'TCP') else ''}")
        return False
    return True


def _address(node: Node) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


def _steps(config: ProducerConfig, server: str, brokers: dict[str, Node]) -> Iterator[tuple[str, str]]:
    """Each step that succeeds, with details.

    Raises:
        _StepError: one fails.
    """
    attempts, first = 1, "connection"
    if not config.proxy_url:
        host, _, port = server.rpartition(":")
        try:
            addresses = resolve_host(host.removeprefix("[").removesuffix("]"), int(port))
        except NetworkError as error:
            raise _StepError("DNS", error) from None
        yield "DNS", ", ".join(each.address[0] for each in addresses)
        errors = _tcp_errors(addresses, config.socket_connection_setup_timeout_ms / 1000)
        if len(errors) == len(addresses):
            raise _StepError("TCP", "; ".join(errors))
        yield "TCP", "; ".join(errors)
        attempts, first = len(addresses), "TLS" if config.uses_tls else "ApiVersions"
    try:
        nodes, reached, failure = _connect(config.evolve(bootstrap_servers=[server]), attempts)
    except KafkaError as error:  # an error of the settings, such as a missing file or package
        raise _StepError(first, error) from None
    steps = [each for each in _STEP_OF_STATE.values() if not _is_unused(config, each)]
    step = _STEP_OF_STATE.get(reached, first)
    if step not in steps:
        step = first
    for passed in steps[: steps.index(step)] if step in steps else []:
        yield passed, ""
    if failure is not None:
        raise _StepError(step, failure)
    brokers.update((_address(node), node) for node in nodes)
    yield step, f"{len(nodes)} broker{'s' * (len(nodes) != 1)}"


def _is_unused(config: ProducerConfig, step: str) -> bool:
    return (step == "TLS" and not config.uses_tls) or (step == "SASL" and not config.uses_sasl)


def _tcp_errors(addresses: list[ResolvedAddress], timeout_s: float) -> list[str]:
    errors = []
    for each in addresses:
        with socket.socket(each.family, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            try:
                sock.connect(each.address)
            except OSError as error:
                errors.append(f"{each.address[0]}: {error.strerror or error}")
    return errors


def _connect(config: ProducerConfig, attempts: int) -> tuple[list[Node], ConnectionState, str | None]:
    """Connect to the one bootstrap server and fetch the brokers.

    Args:
        config: its only server is the one to connect to.
        attempts: how many connections may fail: one for each address of the host.

    Returns:
        The brokers, the state that the connection reached, and why there are no brokers.
    """
    clock = SystemClock()
    known = Metadata(config)
    client = new_network_client(config, known, clock)
    reached = previous = ConnectionState.DISCONNECTED
    now_ms = clock.monotonic_ms()
    deadline_ms = now_ms + config.socket_connection_setup_timeout_ms + config.request_timeout_ms
    try:
        while now_ms < deadline_ms:
            client.poll(min(50, deadline_ms - now_ms), now_ms)
            if not known.snapshot.is_bootstrap:
                return list(known.snapshot.nodes.values()), ConnectionState.READY, None
            state = _state_of(client, known)
            if state is not ConnectionState.DISCONNECTED:
                reached = max(reached, state, key=_ORDER.index)
            refusal = client.connections.refusal_by_all()
            if isinstance(refusal, AuthenticationError):
                return [], reached, str(refusal)
            if state is ConnectionState.DISCONNECTED and previous is not state:
                attempts -= 1
                if not attempts:
                    break
            previous = state
            now_ms = clock.monotonic_ms()
        return [], reached, known.describe_failures(client.connections.last_errors()) or "no answer in time"
    finally:
        client.close()


_ORDER = list(ConnectionState)


def _state_of(client: NetworkClient, known: Metadata) -> ConnectionState:
    connections = [client.connections.get(str(node_id)) for node_id in known.snapshot.nodes]
    states = [each.state for each in connections if each is not None]
    return max(states, key=_ORDER.index, default=ConnectionState.DISCONNECTED)
