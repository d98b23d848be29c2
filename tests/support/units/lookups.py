"""Host name lookups for tests that step the client: finished at once, or by the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from kproducer._core.network.host_resolver import BeginLookup, Lookup, ResolvedAddress
from kproducer.errors import NetworkError


def at_once(resolve: Callable[[str, int], Sequence[ResolvedAddress]]) -> BeginLookup:
    """Every lookup is already finished, with the result or error of ``resolve``."""

    def begin(host: str, port: int) -> Lookup:
        lookup: Lookup = Future()
        try:
            lookup.set_result(resolve(host, port))
        except NetworkError as error:
            lookup.set_exception(error)
        return lookup

    return begin


class OpenLookups:
    """Lookups that the test finishes; ``by_host`` has the newest one of each host."""

    def __init__(self) -> None:
        self.by_host: dict[str, Lookup] = {}
        self.begun: list[str] = []

    def __call__(self, host: str, port: int) -> Lookup:
        self.begun.append(host)
        lookup = self.by_host[host] = Future()
        return lookup

    def find(self, host: str, *addresses: str) -> None:
        """Finish the lookup of the host with these addresses."""
        self.by_host[host].set_result([ResolvedAddress(2, (address, 9092)) for address in addresses])

    def fail(self, host: str) -> None:
        """Fail the lookup of the host."""
        self.by_host[host].set_exception(NetworkError(f"could not resolve the host name {host!r}"))
