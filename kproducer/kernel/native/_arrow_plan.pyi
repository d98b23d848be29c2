"""Plans blocks of Arrow rows; for the compiled rooms beside it alone."""

from kproducer.kernel.native._arrow_chunk import ChunkColumns

class BlockPlan:
    def __init__(self, chunk: ChunkColumns, size_limit: int, hashes_keys: bool) -> None: ...
