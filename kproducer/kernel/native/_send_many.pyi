from typing import Any

from kproducer.kernel.native._append import SendPath

class RowSender:
    def __new__(cls, path: SendPath, topic: str, places: Any, is_serialized: bool = False) -> RowSender: ...
    def send(
        self,
        values: list[Any],
        keys: list[Any] | None,
        headers: list[Any] | None,
        partitions: list[Any] | None,
        timestamps_ms: list[Any] | None,
        start: int,
        first_row: int,
        now_ms: int,
    ) -> int: ...
