"""Every kernel test runs against every twin that can be imported: ``make native`` compiles the second one."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture(params=["pure", "native.twin"], ids=["pure", "native"], scope="session")
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return pytest.importorskip(f"kproducer._core.kernel.{request.param}", exc_type=ImportError)
