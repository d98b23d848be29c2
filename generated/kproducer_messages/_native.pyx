# DO NOT EDIT: generated from codegen/runtime/_native.pyx (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: e93d89d7931df8f30bc23f7fe6e85b41ac7e5b11af12ce6c7b1065d988998cea
# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled decoders with the results of the generated functions; they interpret a module's ``_LAYOUTS``.

Copied into every generated package; contains no code for particular messages. On first use a layout is turned
into a program, an array of steps. Decoding runs the steps and stores values directly in the slots of the classes.

Nothing here raises. If the input cannot be decoded, functions return NULL or False, and the generated function
is called instead: it raises the error, or decodes the input. Lengths are checked against the remaining bytes
before anything is allocated. Lists of numbers are allocated with their exact size, because their bytes are
there; all other lists grow as elements are read, so Python code that runs meanwhile (callbacks of the garbage
collector) never sees a list with holes. Functions that return ``PyObject*`` return a new reference.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

import types
import uuid


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #error "decoding relies on the GIL"
    #endif
    #include <structmember.h>
    #if PY_VERSION_HEX >= 0x030D0000
    #define uuid_number(data) PyLong_FromUnsignedNativeBytes(data, 16, Py_ASNATIVEBYTES_BIG_ENDIAN)
    #else
    #define uuid_number(data) _PyLong_FromByteArray(data, 16, 0, 0)
    #endif
    """
    ctypedef struct PyObject:
        pass
    ctypedef struct PyTypeObject:
        Py_ssize_t tp_basicsize
        Py_ssize_t tp_itemsize
        PyObject* (*tp_alloc)(PyTypeObject*, Py_ssize_t) noexcept
        PyObject* (*tp_new)(PyTypeObject*, PyObject*, PyObject*) noexcept
    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member
    int T_OBJECT_EX
    PyObject* Py_None
    PyObject* Py_True
    PyObject* Py_False
    void Py_INCREF(PyObject*) noexcept
    void Py_DECREF(PyObject*) noexcept
    void Py_XDECREF(PyObject*) noexcept
    PyObject* PyList_New(Py_ssize_t) noexcept
    void PyList_SET_ITEM(PyObject*, Py_ssize_t, PyObject*) noexcept
    int PyList_Append(PyObject*, PyObject*) noexcept
    void PyObject_GC_UnTrack(PyObject*) noexcept
    PyObject* PyDict_New() noexcept
    int PyDict_SetItem(PyObject*, PyObject*, PyObject*) noexcept
    PyObject* PyLong_FromLong(long) noexcept
    PyObject* PyLong_FromLongLong(long long) noexcept
    PyObject* PyFloat_FromDouble(double) noexcept
    PyObject* PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*) noexcept
    PyObject* PyBytes_FromStringAndSize(const char*, Py_ssize_t) noexcept
    PyObject* PySequence_GetSlice(PyObject*, Py_ssize_t, Py_ssize_t) noexcept
    PyObject* PyErr_Occurred() noexcept
    int PyErr_ExceptionMatches(PyObject*) noexcept
    void PyErr_Clear() noexcept
    PyObject* uuid_number(const unsigned char*) noexcept


#: The same limit as in _wire.py.
cdef int64_t _MAX_STRING_BYTES = 32767

cdef enum Kind:
    BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID
    STRING, BYTES, VIEW, STRUCT, NUMBERS, ARRAY, REFUSED

_KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
    "int64": INT64, "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES, "view": VIEW,
}
#: Bytes of the fixed-size kinds, by kind.
cdef int[9] _WIDTHS = [1, 1, 2, 2, 4, 4, 8, 8, 16]


cdef struct Step:
    Kind kind
    #: The kind of an array's elements.
    Kind element
    bint compact
    bint nullable
    #: A tagged field: its null is always 0, while other structs encode null as a byte of -1.
    bint tagged
    int64_t tag
    #: Of the slot in the object.
    Py_ssize_t offset
    #: Of a struct, or of an array's structs.
    Program* program


cdef struct Default:
    Py_ssize_t offset
    #: A shared value, or NULL to create a new one: a struct of defaults, or else an empty list.
    PyObject* value
    Program* program
    PyTypeObject* list_type


cdef struct Program:
    PyTypeObject* type
    #: NULL stands for list.
    PyTypeObject* list_type
    Py_ssize_t minimum
    bint flexible
    Py_ssize_t unknown_offset
    int default_count
    Default* defaults
    int step_count
    Step* steps
    int tagged_count
    Step* tagged


cdef struct Input:
    const uint8_t* start
    const uint8_t* at
    const uint8_t* end
    #: The object that views refer to.
    PyObject* buffer


# -- set-up ----------------------------------------------------------------------------------------------

cdef object _zero_uuid = None
cdef tuple _no_arguments = ()
#: Slot offsets of UUID's number and origin; 0: unknown, and generated functions read all uuids.
cdef Py_ssize_t _uuid_int = 0
cdef Py_ssize_t _uuid_is_safe = 0
cdef PyTypeObject* _uuid_type = <PyTypeObject*> uuid.UUID
cdef object _unknown_origin = uuid.SafeUUID.unknown


def prepare(zero_uuid):
    """Set the object for the zero uuid, before anything is decoded."""
    global _zero_uuid, _uuid_int, _uuid_is_safe
    _zero_uuid = zero_uuid
    wanted = uuid.UUID(bytes=bytes(range(16)))
    try:
        _uuid_int, _uuid_is_safe = _slot_of(uuid.UUID, "int"), _slot_of(uuid.UUID, "is_safe")
    except TypeError:
        return
    made = _new_uuid(bytes(range(16)))
    if made != wanted or hash(made) != hash(wanted) or made.is_safe is not wanted.is_safe:
        _uuid_int = 0


def _new_uuid(bytes data):
    made = _uuid(data)
    if made == NULL:
        raise TypeError("UUID is not what it was")
    found = <object> made
    Py_DECREF(made)
    return found


cdef Py_ssize_t _slot_of(type cls, str name) except -1:
    """The offset of a slot. Raises TypeError unless the attribute is a plain slot of this very class."""
    found = cls.__dict__.get(name)
    if type(found) is not types.MemberDescriptorType or found.__objclass__ is not cls:
        raise TypeError(f"{cls.__name__}.{name} is no slot")
    cdef PyMemberDef* member = (<PyMemberDescrObject*> found).d_member
    cdef Py_ssize_t last = (<PyTypeObject*> cls).tp_basicsize - <Py_ssize_t> sizeof(void*)
    if member.type != T_OBJECT_EX or not <Py_ssize_t> (2 * sizeof(void*)) <= member.offset <= last:
        raise TypeError(f"{cls.__name__}.{name} is no slot for an object")
    return member.offset


cdef class _Layout:
    """Owns the program of one layout and the objects that it refers to."""

    cdef Program program
    cdef list kept

    def __cinit__(self):
        self.kept = []

    def __dealloc__(self):
        PyMem_Free(self.program.defaults)
        PyMem_Free(self.program.steps)
        PyMem_Free(self.program.tagged)

    cdef int fill(self, type cls, type list_type, str text, dict layouts, dict shared) except -1:
        fields, tags = text.split(), []
        self.program.flexible = "tags" in fields
        if self.program.flexible:
            tags = fields[fields.index("tags") + 1 :]
            del fields[fields.index("tags") :]
        if cls.__new__ is not object.__new__ or (<PyTypeObject*> cls).tp_itemsize:
            raise TypeError(f"{cls.__name__} is made in a way of its own")
        self.program.type = <PyTypeObject*> cls
        self.kept.append(cls)
        if list_type is not list:
            self.program.list_type = <PyTypeObject*> list_type
            self.kept.append(list_type)
        self.program.unknown_offset = _slot_of(cls, "unknown_tagged_fields")
        self.program.steps = <Step*> PyMem_Calloc(len(fields) + 1, sizeof(Step))
        self.program.tagged = <Step*> PyMem_Calloc(len(tags) + 1, sizeof(Step))
        if self.program.steps == NULL or self.program.tagged == NULL:
            raise MemoryError
        self.program.minimum = self.program.flexible
        for field in fields:
            step = &self.program.steps[self.program.step_count]
            self.read_field(step, cls, field, layouts, shared)
            self.program.step_count += 1
            self.program.minimum += _minimum(step)
        for part in tags:
            number, _, field = part.partition("=")
            step = &self.program.tagged[self.program.tagged_count]
            step.tag, step.tagged = int(number), True
            if field == "refused":
                step.kind = REFUSED
            else:
                self.read_field(step, cls, field, layouts, shared)
            self.program.tagged_count += 1
        self.read_defaults(cls, {field.partition(":")[0] for field in fields}, shared)
        return 0

    cdef int read_field(self, Step* step, type cls, str field, dict layouts, dict shared) except -1:
        name, _, kind = field.partition(":")
        step.offset = _slot_of(cls, name)
        if kind.startswith("compact_"):
            step.compact, kind = True, kind[8:]
        if kind.startswith("nullable_"):
            step.nullable, kind = True, kind[9:]
        kind, _, inner = kind.rstrip(")").partition("(")
        if kind == "struct":
            step.kind, step.program = STRUCT, self.program_of(inner, layouts, shared)
        elif kind != "array":
            step.kind = _KINDS[kind]
        elif inner not in _KINDS:
            step.kind, step.element, step.program = ARRAY, STRUCT, self.program_of(inner, layouts, shared)
        else:
            step.element = _KINDS[inner]
            step.kind = NUMBERS if step.element <= FLOAT64 else ARRAY
        return 0

    cdef Program* program_of(self, str name, dict layouts, dict shared) except NULL:
        layout = _layout(name, layouts, shared)
        self.kept.append(layout)
        return &layout.program

    cdef int read_defaults(self, type cls, set named, dict shared) except -1:
        """Defaults of fields that may not be read: absent, tagged and unknown tagged fields."""
        fields = [field for field in cls.FIELDS.items() if field[0] not in named]
        self.program.defaults = <Default*> PyMem_Calloc(len(fields) + 1, sizeof(Default))
        if self.program.defaults == NULL:
            raise MemoryError
        for name, value in fields:
            default = &self.program.defaults[self.program.default_count]
            default.offset = _slot_of(cls, name)
            if not isinstance(value, type):
                default.value = <PyObject*> value
            elif not issubclass(value, list):
                # A layout without fields reads nothing and sets all defaults.
                layout = f"{value.__name__} of defaults"
                default.program = self.program_of(layout, {layout: (value, list, "")}, shared)
            elif value is not list:
                default.list_type = <PyTypeObject*> value
            self.kept.append(value)
            self.program.default_count += 1
        return 0


cdef _Layout _layout(str name, dict layouts, dict shared):
    """The layout with this name; created on first use."""
    if name not in shared:
        made = _Layout()
        cls, list_type, text = layouts[name]
        made.fill(cls, list_type, text, layouts, shared)
        shared[name] = made
    return shared[name]


cdef Py_ssize_t _minimum(const Step* step) noexcept:
    """The minimum size of a field in bytes."""
    if step.kind <= UUID:
        return _WIDTHS[<int> step.kind]
    if step.kind == STRUCT:
        return 1 if step.nullable else step.program.minimum
    return _prefix_width(step.kind, step.compact)


cdef Py_ssize_t _element_minimum(const Step* step) noexcept:
    """The minimum size of an element in bytes, at least 1, so that a count cannot exceed the remaining bytes."""
    if step.element <= UUID:
        return _WIDTHS[<int> step.element]
    if step.element == STRUCT:
        return max(step.program.minimum, 1)
    return _prefix_width(step.element, step.compact)


cdef Py_ssize_t _prefix_width(Kind kind, bint compact) noexcept:
    return 1 if compact else 2 if kind == STRING else 4


# -- numbers ---------------------------------------------------------------------------------------------


cdef inline uint16_t _u16(const uint8_t* at) noexcept:
    return <uint16_t> (at[0] << 8 | at[1])


cdef inline uint32_t _u32(const uint8_t* at) noexcept:
    return <uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | at[3]


cdef inline uint64_t _u64(const uint8_t* at) noexcept:
    return <uint64_t> _u32(at) << 32 | _u32(at + 4)


cdef inline PyObject* _same(PyObject* value) noexcept:
    Py_INCREF(value)
    return value


cdef inline PyObject* _number(Kind kind, const uint8_t* at) noexcept:
    """A number; the caller has checked that its bytes are there."""
    cdef uint64_t bits
    cdef double value
    if kind == INT32:
        return PyLong_FromLong(<int32_t> _u32(at))
    if kind == INT16:
        return PyLong_FromLong(<int16_t> _u16(at))
    if kind == INT64:
        return PyLong_FromLongLong(<int64_t> _u64(at))
    if kind == BOOL:
        return _same(Py_True if at[0] else Py_False)
    if kind == INT8:
        return PyLong_FromLong(<int8_t> at[0])
    if kind == UINT16:
        return PyLong_FromLong(_u16(at))
    if kind == UINT32:
        return PyLong_FromLongLong(_u32(at))
    bits = _u64(at)
    memcpy(&value, &bits, 8)
    return PyFloat_FromDouble(value)


cdef PyObject* _numbers(Input* input, Kind kind, int64_t count) noexcept:
    cdef Py_ssize_t width = _WIDTHS[<int> kind]
    cdef Py_ssize_t index
    cdef PyObject* number
    if not 0 <= count <= (input.end - input.at) // width:
        return NULL
    cdef PyObject* items = PyList_New(count)
    if items == NULL:
        return NULL
    for index in range(count):
        number = _number(kind, input.at)
        if number == NULL:
            Py_DECREF(items)
            return NULL
        PyList_SET_ITEM(items, index, number)
        input.at += width
    # Numbers refer to no objects, so the collector need not traverse them: large metadata has three such lists
    # per partition.
    PyObject_GC_UnTrack(items)
    return items


cdef PyObject* _uuid(const uint8_t* data) noexcept:
    cdef PyObject* made
    cdef PyObject* number
    if _u64(data) == 0 and _u64(data + 8) == 0:
        return _same(<PyObject*> _zero_uuid)
    if _uuid_int == 0:
        return NULL
    number = uuid_number(data)
    if number == NULL:
        return NULL
    made = _uuid_type.tp_alloc(_uuid_type, 0)
    if made == NULL:
        Py_DECREF(number)
        return NULL
    _put(made, _uuid_int, number)
    _put(made, _uuid_is_safe, _same(<PyObject*> _unknown_origin))
    return made


cdef bint _uvarint(Input* input, int64_t* value) noexcept:
    """Read an unsigned varint of at most 5 bytes and 32 bits."""
    cdef int64_t found = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift <= 28 and input.at < input.end:
        byte = input.at[0]
        input.at += 1
        found |= <int64_t> (byte & 0x7F) << shift
        if byte < 128:
            value[0] = found
            return found <= 0xFFFFFFFF
        shift += 7
    return False


cdef bint _length(Input* input, Kind kind, bint compact, int64_t* length) noexcept:
    """Read a length prefix; -1 means null."""
    cdef Py_ssize_t width
    if compact:
        if not _uvarint(input, length):
            return False
        length[0] -= 1
        return True
    width = _prefix_width(kind, compact)
    if input.end - input.at < width:
        return False
    length[0] = <int16_t> _u16(input.at) if width == 2 else <int32_t> _u32(input.at)
    input.at += width
    return True


# -- everything else -------------------------------------------------------------------------------------


cdef inline void _put(PyObject* item, Py_ssize_t offset, PyObject* value) noexcept:
    """Fill a slot that is empty or contains a default."""
    cdef PyObject** slot = <PyObject**> (<char*> item + offset)
    cdef PyObject* before = slot[0]
    slot[0] = value
    Py_XDECREF(before)


cdef PyObject* _blob(Input* input, Kind kind, int64_t length) noexcept:
    """Text or bytes of a given length."""
    cdef const char* data = <const char*> input.at
    cdef Py_ssize_t position = input.at - input.start
    if not 0 <= length <= input.end - input.at:
        return NULL
    if kind == STRING:
        if length > _MAX_STRING_BYTES:
            return NULL
        input.at += length
        return PyUnicode_DecodeUTF8(data, length, NULL)
    input.at += length
    if kind == BYTES:
        return PyBytes_FromStringAndSize(data, length)
    return PySequence_GetSlice(input.buffer, position, position + length)


cdef PyObject* _element(Input* input, const Step* step) noexcept:
    cdef int64_t length
    cdef const uint8_t* data = input.at
    if step.element == STRUCT:
        return _struct(input, step.program)
    if step.element == UUID:
        if input.end - data < 16:
            return NULL
        input.at += 16
        return _uuid(data)
    if not _length(input, step.element, step.compact, &length):
        return NULL
    return _blob(input, step.element, length)


cdef PyObject* _array(Input* input, const Step* step, int64_t count) noexcept:
    """An array, except of numbers; it grows as its elements are read."""
    cdef PyObject* items
    cdef PyObject* element
    cdef bint failed
    cdef int64_t index
    if not 0 <= count <= (input.end - input.at) // _element_minimum(step):
        return NULL
    items = _list(NULL if step.program == NULL else step.program.list_type)
    if items == NULL:
        return NULL
    for index in range(count):
        element = _element(input, step)
        failed = element == NULL or PyList_Append(items, element) < 0
        Py_XDECREF(element)
        if failed:
            Py_DECREF(items)
            return NULL
    return items


cdef PyObject* _value(Input* input, const Step* step) noexcept:
    """One field."""
    cdef const uint8_t* data = input.at
    cdef int64_t length
    cdef Py_ssize_t width
    if step.kind <= UUID:
        width = _WIDTHS[<int> step.kind]
        if input.end - data < width:
            return NULL
        input.at += width
        return _uuid(data) if step.kind == UUID else _number(step.kind, data)
    if step.kind == STRUCT:
        if step.nullable:
            if data == input.end:
                return NULL
            input.at += 1
            if data[0] == 0 if step.tagged else data[0] > 127:
                return _same(Py_None)
        return _struct(input, step.program)
    if not _length(input, step.kind, step.compact, &length):
        return NULL
    if length == -1 and step.nullable:
        return _same(Py_None)
    if step.kind == NUMBERS:
        return _numbers(input, step.element, length)
    if step.kind == ARRAY:
        return _array(input, step, length)
    return _blob(input, step.kind, length)


cdef PyObject* _struct(Input* input, const Program* program) noexcept:
    cdef PyObject* item = program.type.tp_alloc(program.type, 0)
    if item != NULL and not _fill(item, input, program):
        Py_DECREF(item)
        return NULL
    return item


cdef bint _fill(PyObject* item, Input* input, const Program* program) noexcept:
    """Set every slot of a new object."""
    cdef PyObject* value
    cdef int index
    for index in range(program.default_count):
        value = _default(input, &program.defaults[index])
        if value == NULL:
            return False
        _put(item, program.defaults[index].offset, value)
    for index in range(program.step_count):
        value = _value(input, &program.steps[index])
        if value == NULL:
            return False
        _put(item, program.steps[index].offset, value)
    return _tags(item, input, program) if program.flexible else True


cdef PyObject* _default(Input* input, const Default* default) noexcept:
    if default.value != NULL:
        return _same(default.value)
    if default.program != NULL:
        return _struct(input, default.program)
    return _list(default.list_type)


cdef inline PyObject* _list(PyTypeObject* list_type) noexcept:
    """An empty list, of the given class unless that is NULL."""
    return PyList_New(0) if list_type == NULL else list_type.tp_new(list_type, <PyObject*> _no_arguments, NULL)


cdef bint _tags(PyObject* item, Input* input, const Program* program) noexcept:
    """The tagged fields at the end of a struct; their tags must increase."""
    cdef int64_t count, tag, size
    cdef int64_t previous = -1
    cdef const uint8_t* end = input.end
    cdef const uint8_t* tag_end
    if not _uvarint(input, &count):
        return False
    while count > 0:
        count -= 1
        if not _uvarint(input, &tag) or tag <= previous or not _uvarint(input, &size):
            return False
        if size > end - input.at:
            return False
        previous = tag
        tag_end = input.at + size
        input.end = tag_end
        if not _tagged(item, input, program, tag):
            return False
        input.at, input.end = tag_end, end
    return True


cdef bint _tagged(PyObject* item, Input* input, const Program* program, int64_t tag) noexcept:
    """One tagged field, whose bytes end at the end of the input."""
    cdef PyObject* value
    cdef int index
    for index in range(program.tagged_count):
        if program.tagged[index].tag == tag:
            if program.tagged[index].kind == REFUSED:
                return False
            value = _value(input, &program.tagged[index])
            if value == NULL:
                return False
            _put(item, program.tagged[index].offset, value)
            return True
    return _unknown(item, input, program, tag)


cdef bint _unknown(PyObject* item, Input* input, const Program* program, int64_t tag) noexcept:
    """Keep the bytes of an unknown tagged field."""
    cdef PyObject* known = (<PyObject**> (<char*> item + program.unknown_offset))[0]
    cdef PyObject* key
    cdef PyObject* value
    cdef bint done
    if known == Py_None:
        known = PyDict_New()
        if known == NULL:
            return False
        _put(item, program.unknown_offset, known)
    key = PyLong_FromLongLong(tag)
    value = PyBytes_FromStringAndSize(<const char*> input.at, input.end - input.at)
    done = key != NULL and value != NULL and PyDict_SetItem(known, key, value) == 0
    Py_XDECREF(key)
    Py_XDECREF(value)
    return done


cdef class Decoder:
    """One message in one version; ``decode`` replaces the generated function."""

    #: The generated function.
    cdef readonly object generated
    cdef str name
    cdef dict layouts
    cdef dict shared
    cdef _Layout layout
    cdef bint unfit

    def __init__(self, generated, str name, dict layouts, dict shared):
        self.generated = generated
        self.name = name
        self.layouts = layouts
        self.shared = shared

    def decode(self, buffer, Py_ssize_t position, Py_ssize_t end):
        """As the generated function."""
        found = self.read(buffer, position, end)
        return self.generated(buffer, position, end) if found is None else found

    def attempt(self, buffer, Py_ssize_t position, Py_ssize_t end):
        """As ``decode``, but ``None`` if the generated function would be called."""
        return self.read(buffer, position, end)

    cdef object read(self, object buffer, Py_ssize_t position, Py_ssize_t end):
        cdef Py_buffer view
        cdef Input input
        cdef PyObject* message
        if self.layout is None and not self.find_layout():
            return None
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            if not 0 <= position <= end <= view.len:
                return None
            input.start = <const uint8_t*> view.buf
            input.at, input.end = input.start + position, input.start + end
            input.buffer = <PyObject*> buffer
            message = _struct(&input, &self.layout.program)
            if message == NULL:
                if PyErr_Occurred() != NULL and not PyErr_ExceptionMatches(<PyObject*> MemoryError):
                    PyErr_Clear()
                return _failure()
            found = (<object> message, input.at - input.start)
            Py_DECREF(message)
            return found
        finally:
            PyBuffer_Release(&view)

    cdef bint find_layout(self):
        """Whether this module can fill the classes; otherwise the generated function decodes everything."""
        if not self.unfit:
            try:
                self.layout = _layout(self.name, self.layouts, self.shared)
            except (TypeError, KeyError, ValueError):
                # Classes without slots, or a layout of a newer compiler than this module was built for.
                self.unfit = True
        return not self.unfit


cdef object _failure():
    """``None``, or a MemoryError."""
    if PyErr_Occurred() != NULL:
        raise MemoryError
    return None
