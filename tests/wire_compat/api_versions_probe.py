"""Query a broker's API versions with nothing but a socket: ApiVersions v0, written by hand.

This gives an independent list to compare with the versions that a client negotiated.
"""

from __future__ import annotations

import socket
import struct

_API_VERSIONS_KEY = 18
_TIMEOUT_SECONDS = 60.0


def advertised_versions(bootstrap_server: str) -> dict[int, tuple[int, int]]:
    """API key -> (lowest, highest) of one broker, ``host:port``."""
    host, _, port = bootstrap_server.rpartition(":")
    request = struct.pack(">hhih", _API_VERSIONS_KEY, 0, 7, -1)
    with socket.create_connection((host, int(port)), timeout=_TIMEOUT_SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answers:
            (length,) = struct.unpack(">i", answers.read(4))
            body = answers.read(length)
    correlation_id, error_code, count = struct.unpack_from(">ihi", body)
    if correlation_id != 7 or error_code != 0:
        raise RuntimeError(f"ApiVersions v0 was answered with error {error_code}")
    rows = struct.iter_unpack(">hhh", body[10 : 10 + 6 * count])
    return {api_key: (lowest, highest) for api_key, lowest, highest in rows}
