# DO NOT EDIT: generated from codegen/runtime/_keyed.py (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 5ee9c3b00c6b119c9716c42df8c611ea4f1efadf910cf97efd8b21c8535d7de6
"""Lists of structs that find their elements by key.

The specs mark such keys with ``mapKey``. Copied into every generated package.
Source: Kafka's ImplicitLinkedHashMultiCollection, which also keeps the order and allows equal keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

E = TypeVar("E")


class KeyedList(list[E]):
    """A list with a look-up by key in constant time. Not thread-safe: plain data.

    Otherwise it is a list: it keeps the order and allows equal keys. The first look-up builds the index, and
    the index follows every change of the list. An element's key must not change once it has been looked up.
    """

    __slots__ = ("_index", "_indexed")

    #: Reads the key of an element: its only key field, or all key fields as a tuple.
    KEY_OF: ClassVar[attrgetter[Any]]
    _index: dict[Hashable, list[E]]
    _indexed: int

    def _with_key(self, key: Hashable) -> list[E]:
        """The elements with the key, in their order. The list belongs to the index; do not change it."""
        try:
            index, start = self._index, self._indexed
        except AttributeError:
            index, start = {}, 0
            self._index = index
        if start < len(self):
            key_of = type(self).KEY_OF
            for position in range(start, len(self)):
                element = self[position]
                index.setdefault(key_of(element), []).append(element)
            self._indexed = len(self)
        return index.get(key, [])

    def _first(self, key: Hashable) -> E | None:
        found = self._with_key(key)
        return found[0] if found else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


def _forgetting(name: str) -> Callable[..., Any]:
    """The method of ``list``, after dropping the index."""
    change = getattr(list, name)

    def method(self: KeyedList[Any], *arguments: Any, **options: Any) -> Any:
        self._index, self._indexed = {}, 0
        return change(self, *arguments, **options)

    method.__name__ = name
    method.__doc__ = change.__doc__
    return method


# append, extend and += only lengthen the list, which a look-up notices by itself.
for _name in (
    "insert",
    "pop",
    "remove",
    "clear",
    "reverse",
    "sort",
    "__setitem__",
    "__delitem__",
    "__imul__",
):
    setattr(KeyedList, _name, _forgetting(_name))
