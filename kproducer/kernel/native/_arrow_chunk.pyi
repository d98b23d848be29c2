"""Columns of Arrow chunks by what they mean; for the compiled rooms beside it alone."""

from kproducer.kernel.native._arrow_source import ArrowSource

class ChunkColumns:
    def __init__(self, source: ArrowSource, columns: tuple[int, int, int, int, int, int]) -> None: ...
