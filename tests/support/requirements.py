"""What a machine may lack: tests without it are skipped, or fail if an environment variable requires it."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRE_KAFKA = "KPRODUCER_REQUIRE_KAFKA"
REQUIRE_KERBEROS = "KPRODUCER_REQUIRE_KERBEROS"
REQUIRE_BROWSER = "KPRODUCER_REQUIRE_BROWSER"
REQUIRE_GO = "KPRODUCER_REQUIRE_GO"


def skip_or_fail(variable: str, reason: str) -> NoReturn:
    """End the test, for this reason: it fails if the environment variable is 1, and is skipped otherwise."""
    if os.environ.get(variable) == "1":
        pytest.fail(f"{variable}=1, but: {reason}", pytrace=False)
    pytest.skip(f"{reason} (with {variable}=1, this would be a failure)")
