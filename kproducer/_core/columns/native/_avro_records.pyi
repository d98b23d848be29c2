from collections.abc import Callable
from typing import Any, final

@final
class AvroRecordEncoder:
    def __new__(
        cls, nodes: tuple[Any, ...], prefix: bytes, with_fastavro: Callable[[Any], bytes]
    ) -> AvroRecordEncoder: ...
    def encode(self, value: Any, /) -> bytes: ...
