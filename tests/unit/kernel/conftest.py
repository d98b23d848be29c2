"""Every kernel test runs against every twin that can be imported: ``make native`` compiles the second one."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.kernel.arrow_kit import Twin


@pytest.fixture(params=["pure", "native.twin"], ids=["pure", "native"], scope="session")
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return pytest.importorskip(f"kproducer._core.kernel.{request.param}", exc_type=ImportError)


@pytest.fixture(scope="session")
def native() -> Twin:
    """The compiled way of Arrow rows, for what the pure twin leaves to pyarrow or is compared with."""
    from tests.unit.kernel.arrow_kit import twin

    try:
        return twin("native")
    except ImportError as error:
        pytest.skip(f"not built: {error}")
