"""One implementation of ``ArrowSource`` and ``RowEncoder``, for tests of plans."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from kproducer._core.columns.encoder_plan import EncoderPlan


class Encoders(NamedTuple):
    """The classes of one implementation."""

    source: Any
    encoder: Any

    @classmethod
    def of(cls, name: str) -> Encoders:
        """``pure`` or ``native``; ImportError: it was not built."""

        def module(path: str) -> Any:
            return importlib.import_module(f"kproducer._core.columns.{path}")

        prefix = "pure." if name == "pure" else "native._"
        return cls(module(f"{prefix}arrow_reader").ArrowSource, module(f"{prefix}row_encoder").RowEncoder)

    def fields(self, data: Any) -> tuple[Any, ...]:
        source = self.source(data)
        try:
            return source.fields()  # type: ignore[no-any-return]
        finally:
            source.close()

    def encode(self, data: Any, plan: EncoderPlan) -> list[Any]:
        """All rows of all chunks: bytes, ``None``, or the number of a node and of a reason."""
        source, encoder = self.source(data), self.encoder(plan)
        try:
            encoded: list[Any] = []
            while (count := source.next_chunk()) >= 0:
                # In two parts: the second does not begin at row 0.
                encoded += encoder.encode_rows(source, 0, count // 2)
                encoded += encoder.encode_rows(source, count // 2, count - count // 2)
            return encoded
        finally:
            source.close()
