"""Names: from the specs' CamelCase to Python's snake_case, avoiding Python's reserved names.

Runs of capitals stay together (``ISRNodes`` is ``isr_nodes``), digits stay with the word before them.
"""

from __future__ import annotations

import builtins
import keyword
import re

_WORDS = re.compile(
    r"[A-Z]{2,}s(?=[A-Z]|$)"  # the plural of an abbreviation: IDs
    r"|[A-Z]+(?![a-z])[0-9]*"  # an abbreviation before the next word: ISR in ISRNodes
    r"|[A-Z]?[a-z]+[0-9]*"
    r"|[A-Z][0-9]*"
    r"|[0-9]+"
)

#: Members that every generated class has, and types that annotations in class bodies use.
_TAKEN_BY_CLASSES = frozenset(
    [
        *("size", "zero_copy_size", "encode", "encode_into", "decode", "unknown_tagged_fields"),
        *("to_dict", "from_dict", "to_json", "from_json", "self", "cls"),
        *("int", "str", "bool", "bytes", "float", "list", "dict", "tuple", "type", "range", "classmethod"),
    ]
)

#: Names that generated functions use for themselves; a field of that name gets another local variable.
_TAKEN_BY_FUNCTIONS = frozenset(
    [
        *("item", "buffer", "position", "end", "at", "length", "stop", "size", "data", "present", "total"),
        *("items", "count", "element", "tag", "tag_count", "tag_end", "unknown", "gather", "error"),
        *("byte", "repeat"),
    ]
)

#: Class names that generated modules import.
_TAKEN_BY_MODULES = frozenset(
    [
        *(
            "Any",
            "Buffer",
            "ClassVar",
            "DecodeError",
            "EncodeError",
            "CodecError",
            "Gather",
            "Iterable",
            "NEW",
            "Struct",
            "UUID",
        ),
        *("KeyedList", "Plain"),
    ]
)


def snake_case(name: str) -> str:
    """``TimeoutMs`` to ``timeout_ms``, ``ISRNodes`` to ``isr_nodes``, ``SHA256Hash`` to ``sha256_hash``."""
    return "_".join(word.lower() for word in _WORDS.findall(name))


def attribute_name(name: str) -> str:
    """The attribute that holds a field: snake_case, with an underscore at the end if the name is reserved."""
    snake = snake_case(name)
    if keyword.iskeyword(snake) or snake in _TAKEN_BY_CLASSES:
        return snake + "_"
    return snake


def local_name(attribute: str) -> str:
    """The local variable that generated functions use for an attribute."""
    if attribute in _TAKEN_BY_FUNCTIONS or hasattr(builtins, attribute):
        return attribute + "_"
    return attribute


def class_name(name: str) -> str:
    """The class of a struct or message: the spec's name, with an underscore at the end if it is reserved."""
    if keyword.iskeyword(name) or hasattr(builtins, name) or name in _TAKEN_BY_MODULES:
        return name + "_"
    return name


def module_name(name: str) -> str:
    """The module of a message."""
    snake = snake_case(name)
    return snake + "_" if keyword.iskeyword(snake) else snake
