"""What both Arrow readers of the kernel call types and refused rows."""

from __future__ import annotations

from typing import Final

#: Why a row cannot be sent, by the code that ``ArrowRows.refusal`` returns.
REFUSALS: Final = (
    "",
    "row is null",
    "topic is null",
    "timestamp",
    "size",
    "header is null",
    "header name",
    "value",
    "key",
)

#: Types as the C data interface writes them, and their names in pyarrow.
TYPE_NAMES: Final = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32",
    "I": "uint32", "l": "int64", "L": "uint64", "e": "float16", "f": "float32", "g": "float64", "u": "string",
    "U": "large_string", "vu": "string_view", "z": "binary", "Z": "large_binary", "vz": "binary_view",
    "tdD": "date32", "tdm": "date64", "tss:": "timestamp[s]", "tsm:": "timestamp[ms]",
    "tsu:": "timestamp[us]", "tsn:": "timestamp[ns]",
}  # fmt: skip
