"""The compiled columns are compared with the pure ones where they are built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.columns.arrow_kit import Twin


@pytest.fixture(scope="session")
def native() -> Twin:
    """The compiled way of Arrow rows, for what the pure twin leaves to pyarrow or is compared with."""
    from tests.unit.columns.arrow_kit import twin

    try:
        return twin("native")
    except ImportError as error:
        pytest.skip(f"not built: {error}")
