"""Hand-made structs of the Arrow C data interface, right or wrong in any detail, as capsules."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable, Sequence
from typing import Any


class CSchema(ctypes.Structure):
    pass


class CArray(ctypes.Structure):
    pass


class CStream(ctypes.Structure):
    pass


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(CSchema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(CArray))
_ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(CStream))
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(CStream), ctypes.POINTER(CSchema))
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(CStream), ctypes.POINTER(CArray))
_GetError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(CStream))

CSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(CSchema))),
    ("dictionary", ctypes.POINTER(CSchema)),
    ("release", _ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
CArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.POINTER(CArray)),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]
CStream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _GetError),
    ("release", _ReleaseStream),
    ("private_data", ctypes.c_void_p),
]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

#: Everything that C code may look at is kept for the whole run.
_kept: list[Any] = []


def keep(thing: Any) -> Any:
    _kept.append(thing)
    return thing


def capsule(struct: Any, name: bytes) -> Any:
    return _new_capsule(ctypes.addressof(struct), keep(name), None)


class Releases:
    """Counts the calls of the release callbacks."""

    def __init__(self) -> None:
        self.count = 0

        def note(struct: Any) -> None:
            self.count += 1
            struct.contents.release = type(struct.contents.release)(0)

        self.schema = keep(_ReleaseSchema(note))
        self.array = keep(_ReleaseArray(note))
        self.stream = keep(_ReleaseStream(note))


def _pointers(kind: Any, items: Sequence[Any]) -> Any:
    made = keep((ctypes.POINTER(kind) * max(len(items), 1))())
    for number, item in enumerate(items):
        made[number] = ctypes.pointer(item) if item is not None else ctypes.POINTER(kind)()
    return ctypes.cast(made, ctypes.POINTER(ctypes.POINTER(kind)))


def schema(
    text: bytes | None,
    name: bytes = b"value",
    children: Sequence[CSchema | None] = (),
    dictionary: CSchema | None = None,
    **fields: Any,
) -> CSchema:
    made = keep(CSchema(format=text, name=name, n_children=len(children)))
    made.children = _pointers(CSchema, children)
    if dictionary is not None:
        made.dictionary = ctypes.pointer(dictionary)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def array(
    length: int,
    buffers: Sequence[bytes | None] | None,
    children: Sequence[CArray | None] = (),
    dictionary: CArray | None = None,
    **fields: Any,
) -> CArray:
    made = keep(CArray(length=length, n_children=len(children)))
    if buffers is not None:
        made.n_buffers = len(buffers)
        pointers = keep((ctypes.c_void_p * max(len(buffers), 1))())
        for number, data in enumerate(buffers):
            if data is not None:
                pointers[number] = ctypes.addressof(keep(ctypes.create_string_buffer(data, len(data) + 64)))
        made.buffers = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
    made.children = _pointers(CArray, children)
    if dictionary is not None:
        made.dictionary = ctypes.pointer(dictionary)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


class Exported:
    """A struct of the given columns, through ``__arrow_c_array__``."""

    def __init__(self, columns: Sequence[tuple[CSchema | None, CArray | None]], **struct: Any) -> None:
        self.releases = Releases()
        rows = struct.pop("length", 2)
        self.schema = schema(b"+s", b"", [column[0] for column in columns])
        self.array = array(rows, struct.pop("buffers", [None]), [column[1] for column in columns], **struct)
        self.schema.release = self.releases.schema
        self.array.release = self.releases.array

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return capsule(self.schema, b"arrow_schema"), capsule(self.array, b"arrow_array")


class Streamed:
    """An ``Exported`` through ``__arrow_c_stream__``; any step may fail with a text."""

    def __init__(
        self, exported: Exported, *, chunks: int = 1, schema_error: int = 0, chunk_error: int = 0,
        text: bytes | None = b"out of luck", on_chunk: Callable[[CArray], None] | None = None,
    ) -> None:  # fmt: skip
        self.releases = Releases()
        left = [chunks]

        def get_schema(stream: Any, out: Any) -> int:
            if schema_error:
                return schema_error
            ctypes.memmove(out, ctypes.byref(exported.schema), ctypes.sizeof(CSchema))
            return 0

        def get_next(stream: Any, out: Any) -> int:
            if not left[0]:
                if chunk_error:
                    return chunk_error
                ctypes.memset(out, 0, ctypes.sizeof(CArray))
                return 0
            left[0] -= 1
            ctypes.memmove(out, ctypes.byref(exported.array), ctypes.sizeof(CArray))
            if on_chunk is not None:
                on_chunk(out.contents)
            return 0

        message = keep(ctypes.c_char_p(text))
        self.struct = keep(
            CStream(
                get_schema=keep(_GetSchema(get_schema)),
                get_next=keep(_GetNext(get_next)),
                get_last_error=keep(_GetError(lambda stream: ctypes.cast(message, ctypes.c_void_p).value)),
                release=self.releases.stream,
            )
        )

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return capsule(self.struct, b"arrow_array_stream")


FAILURE = errno.EIO
