# DO NOT EDIT: generated from codegen/runtime/_native.pyi (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 0e000e618e4b375472d88ec60a830633388886c3036404830e6a832b5cd4d38d
"""Types of the compiled decoders."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

def prepare(zero_uuid: UUID) -> None:
    """Say which object stands for the zero uuid; before anything is decoded."""

class Decoder:
    """One message in one version."""

    #: The generated function.
    generated: Callable[[Any, int, int], tuple[Any, int]]
    def __init__(
        self,
        generated: Callable[[Any, int, int], tuple[Any, int]],
        name: str,
        layouts: dict[str, tuple[type[Any], type[list[Any]], str]],
        shared: dict[str, Any],
    ) -> None: ...
    def decode(self, buffer: Any, position: int, end: int) -> tuple[Any, int]:
        """What the generated function returns, or raises."""
    def attempt(self, buffer: Any, position: int, end: int) -> tuple[Any, int] | None:
        """As ``decode``, but ``None`` where the generated function would be asked."""
