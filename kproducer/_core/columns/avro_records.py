"""The compiled encoder of dictionaries in Avro, and the nodes of its plans, which ``schema_registry`` makes.

``AvroRecordEncoder`` is ``None`` with the pure kernel, and where the native one was built without this
module: then fastavro encodes all values, with the same results.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kproducer._core.kernel import IMPLEMENTATION

if TYPE_CHECKING:
    from kproducer._core.columns.native import _avro_records

__all__ = ["AvroRecordEncoder", "ValueChild", "ValueNode", "ValueOperation"]

AvroRecordEncoder: type[_avro_records.AvroRecordEncoder] | None = None
if not TYPE_CHECKING and IMPLEMENTATION == "native":
    try:
        # Not "from the module": the import rules see compiled modules only as members of their package.
        from kproducer._core.columns.native import _avro_records
    except ImportError:
        pass
    else:
        AvroRecordEncoder = _avro_records.AvroRecordEncoder


class ValueOperation(IntEnum):
    """Which values a node takes, and how it writes them. Any other value makes it decline the record.

    Classes are exact: an instance of a subclass is declined.

    NULL: ``None``.
    BOOLEAN: a ``bool``.
    INTEGER: an ``int`` of ``size`` bits.
    FLOAT, DOUBLE: a ``float`` or an ``int``; a FLOAT that would become infinite is declined.
    STRING: a ``str``. BYTES: ``bytes``. FIXED: ``size`` ``bytes``.
    TIMESTAMP: a ``datetime`` with a time zone, in units of ``size`` microseconds, rounded down; or a long.
    DATE: a ``date``, or an int.
    ENUM: a ``str`` that is a key of the dictionary ``data``; its value is what is written.
    FASTAVRO: what the function ``data`` returns bytes for.
    UNION: ``None``, if ``size`` is the number of the null branch and not -1; else what the first of the other
        ``children`` takes. The ``place`` of a child is its number in the union. A union comes after them.
    ARRAY, MAP: a ``list``, or a ``dict`` with ``str`` as keys, of what the only child takes.
    RECORD: a ``dict``. With ``size`` 1 it must not have more keys than there are ``children``. A dictionary
        with the key ``-type``, which may name the branch of a union around it, is declined.

    Values that are nested more than 900 levels deep are declined, too.
    """

    NULL = 0
    BOOLEAN = 1
    INTEGER = 2
    FLOAT = 3
    DOUBLE = 4
    STRING = 5
    BYTES = 6
    FIXED = 7
    TIMESTAMP = 8
    DATE = 9
    ENUM = 10
    FASTAVRO = 11
    UNION = 12
    # The operations from here on have values that contain others.
    ARRAY = 13
    MAP = 14
    RECORD = 15


class ValueChild(NamedTuple):
    """A node within another one.

    Attributes:
        node: its number.
        place: the name of a field, or the number of a branch.
        default: what a missing field gets, as the only item; empty: a missing field is declined.
    """

    node: int
    place: str | int = 0
    default: tuple[Any, ...] = ()


class ValueNode(NamedTuple):
    """One type of a schema; the first node of a plan is its outermost record.

    Attributes:
        operation: see ``ValueOperation``, also for the others.
    """

    operation: ValueOperation
    children: tuple[ValueChild, ...] = ()
    size: int = 0
    data: Any = None
