"""Both implementations of the kernel, for tests that compare them."""

from __future__ import annotations

import pytest

from tests.support.columnar.encoders import Encoders


@pytest.fixture(scope="session")
def both() -> tuple[Encoders, Encoders]:
    """The compiled implementation and the pure one."""
    try:
        return Encoders.of("native"), Encoders.of("pure")
    except ImportError as error:
        pytest.skip(f"not built: {error}")
