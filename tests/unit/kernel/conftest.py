"""Every kernel test runs against every twin: a twin is a package under ``kproducer.kernel``."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest


@pytest.fixture(params=["pure"], scope="session")
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"kproducer.kernel.{request.param}")
