# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""ArrowSource: anything with the Arrow PyCapsule interface, opened and read chunk by chunk.

Owns the structs that it moves out of the capsules and releases each of them once. No pyarrow is needed.
Source: the Arrow PyCapsule interface; the C data and C stream interfaces.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.string cimport memset, strcmp, strerror

from kproducer.kernel.native._arrow_columns cimport bind, format_text, has_sane_bounds

from kproducer.errors import InvalidArgumentError


cdef class ArrowSource:
    """One table, record batch, array or stream. For one thread.

    Args:
        data: has ``__arrow_c_array__`` or ``__arrow_c_stream__``.

    Attributes:
        names, formats: of the columns; formats as the C data interface writes them, children in brackets. What
            is no struct is one column without a name.
        chunk_rows: rows of the chunk at hand.

    Raises:
        InvalidArgumentError: it has neither, or what it exports is not valid.
    """

    def __cinit__(self):
        memset(&self._schema, 0, sizeof(ArrowSchema))
        memset(&self._stream, 0, sizeof(ArrowArrayStream))
        memset(&self._array, 0, sizeof(ArrowArray))

    def __init__(self, data: object) -> None:
        if self._schema.release != NULL:
            raise TypeError("an ArrowSource is opened once")
        if hasattr(data, "__arrow_c_array__"):
            exported = data.__arrow_c_array__()
            if not isinstance(exported, tuple) or len(exported) != 2:
                raise InvalidArgumentError("__arrow_c_array__ did not return two capsules")
            self._take_schema(exported[0])
            self._take_array(exported[1])
        elif hasattr(data, "__arrow_c_stream__"):
            self._take_stream(data.__arrow_c_stream__())
        else:
            raise InvalidArgumentError(
                f"{type(data).__name__} has no Arrow interface (__arrow_c_stream__ or __arrow_c_array__)"
            )
        self._read_schema()

    def __dealloc__(self):
        self._release()

    def close(self) -> None:
        """Release everything; there are no more chunks. Idempotent."""
        self.check_idle()
        self._release()

    def next_chunk(self) -> int:
        """Release the chunk at hand and go to the next one.

        Returns:
            The number of its rows; -1: there is none.

        Raises:
            InvalidArgumentError: the source failed, in its own words.
        """
        cdef int code
        self.check_idle()
        if self._array_waits:
            self._array_waits = False
            self.chunk_rows = self._checked_length()
            return self.chunk_rows
        self._release_array()
        self.chunk_rows = 0
        if self._stream.release == NULL:
            return -1
        self.busy = True
        with nogil:
            # A query or a generator may run in here.
            code = self._stream.get_next(&self._stream, &self._array)
        self.busy = False
        if code:
            self._array.release = NULL
            raise self._stream_error(code)
        if self._array.release == NULL:
            self._release_stream()
            return -1
        self.chunk_rows = self._checked_length()
        return self.chunk_rows

    # -- for ArrowRows -----------------------------------------------------------------------------------

    cdef int check_idle(self) except -1:
        """Refuse to change what another thread, or a callback's caller, is reading."""
        if self.busy:
            raise RuntimeError("the Arrow data are being read")
        return 0

    cdef ArrowSchema* child_schema(self, int number):
        return self._schema.children[number] if self._is_struct else &self._schema

    cdef ArrowArray* child(self, int number):
        return self._array.children[number] if self._is_struct else &self._array

    cdef int bind_column(self, int number, Column* column, Column* dictionary) except -1:
        """Make ``column`` read one column of the chunk at hand."""
        base = self._array.offset if self._is_struct else 0
        try:
            bind(self.child_schema(number), self.child(number), base, self.chunk_rows, column, dictionary)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"column {self.names[number]!r}: {error}") from error
        return 0

    cdef int bind_root(self, Column* column) except -1:
        """Make ``column`` tell which rows of a struct are null themselves."""
        memset(column, 0, sizeof(Column))
        if self._is_struct:
            bind(&self._schema, &self._array, 0, self.chunk_rows, column, NULL)
        return 0

    # -- taking over -------------------------------------------------------------------------------------

    cdef int _take_schema(self, object capsule) except -1:
        cdef ArrowSchema* given = <ArrowSchema*> _pointer(capsule, b"arrow_schema")
        if given.release == NULL:
            raise InvalidArgumentError("the Arrow schema was released before it could be read")
        self._schema = given[0]
        given.release = NULL
        return 0

    cdef int _take_array(self, object capsule) except -1:
        cdef ArrowArray* given = <ArrowArray*> _pointer(capsule, b"arrow_array")
        if given.release == NULL:
            raise InvalidArgumentError("the Arrow array was released before it could be read")
        self._array = given[0]
        given.release = NULL
        self._array_waits = True
        return 0

    cdef int _take_stream(self, object capsule) except -1:
        cdef int code
        cdef ArrowArrayStream* given = <ArrowArrayStream*> _pointer(capsule, b"arrow_array_stream")
        if given.release == NULL or given.get_schema == NULL or given.get_next == NULL:
            raise InvalidArgumentError("the Arrow stream was read before, or is none")
        self._stream = given[0]
        given.release = NULL
        with nogil:
            code = self._stream.get_schema(&self._stream, &self._schema)
        if code:
            self._schema.release = NULL
            raise self._stream_error(code)
        if self._schema.release == NULL:
            raise InvalidArgumentError("the Arrow stream gave no schema")
        return 0

    cdef int _read_schema(self) except -1:
        cdef int64_t number
        if self._schema.format == NULL:
            raise InvalidArgumentError("the Arrow schema has no format")
        self._is_struct = strcmp(self._schema.format, b"+s") == 0
        if not self._is_struct:
            self.names = ("",)
            self.formats = (format_text(&self._schema, 0),)
            return 0
        if self._schema.n_children < 0 or (self._schema.n_children and self._schema.children == NULL):
            raise InvalidArgumentError("the Arrow schema names columns that are not there")
        names = []
        formats = []
        for number in range(self._schema.n_children):
            if self._schema.children[number] == NULL:
                raise InvalidArgumentError("the Arrow schema names columns that are not there")
            name = self._schema.children[number].name
            names.append("" if name == NULL else (<bytes> name).decode("utf-8", "replace"))
            formats.append(format_text(self._schema.children[number], 0))
        self.names = tuple(names)
        self.formats = tuple(formats)
        return 0

    cdef int64_t _checked_length(self) except -1:
        cdef bint fits = has_sane_bounds(&self._array)
        if self._is_struct and fits:
            fits = self._array.n_children == self._schema.n_children and (
                self._array.n_children == 0 or self._array.children != NULL
            )
        if not fits:
            raise InvalidArgumentError(
                f"this is no valid Arrow data: length {self._array.length}, offset {self._array.offset}, "
                f"{self._array.n_children} columns where the schema has {self._schema.n_children}"
            )
        return self._array.length

    cdef object _stream_error(self, int code):
        cdef const char* text = NULL
        if self._stream.get_last_error != NULL:
            text = self._stream.get_last_error(&self._stream)
        if text == NULL:
            text = strerror(code)
        reason = (<bytes> text).decode("utf-8", "replace")
        return InvalidArgumentError(f"the Arrow stream failed: {reason}")

    # -- giving back -------------------------------------------------------------------------------------

    cdef void _release_array(self) noexcept:
        self._array_waits = False
        self.generation += 1
        self.chunk_rows = 0
        if self._array.release != NULL:
            self._array.release(&self._array)
            self._array.release = NULL

    cdef void _release_stream(self) noexcept:
        if self._stream.release != NULL:
            self._stream.release(&self._stream)
            self._stream.release = NULL

    cdef void _release(self) noexcept:
        self._release_array()
        self._release_stream()
        if self._schema.release != NULL:
            self._schema.release(&self._schema)
            self._schema.release = NULL


cdef void* _pointer(object capsule, const char* name) except NULL:
    if not PyCapsule_IsValid(capsule, name):
        raise InvalidArgumentError(f"this is no capsule named {name.decode()}: {capsule!r:.100}")
    return PyCapsule_GetPointer(capsule, name)
