# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""ChunkColumns: which columns of a source are value, key and so on, bound to its chunk at hand.

For whatever reads rows as records; what they mean is not known here.
"""

from libc.string cimport memset

from kproducer.kernel.native._arrow_abi cimport ArrowArray, ArrowSchema
from kproducer.kernel.native._arrow_columns cimport (
    ALL_NULL, BYTES_32, BYTES_64, BYTES_FIXED, BYTES_VIEW, INTEGER, LIST_32, LIST_64, LIST_VIEW_32,
    LIST_VIEW_64, SECONDS, STRUCT, Column, bind,
)
from kproducer.kernel.native._arrow_source cimport ArrowSource

from kproducer.errors import InvalidArgumentError


cdef class ChunkColumns:
    """For one thread, and one source.

    Args:
        source: read by the caller, chunk by chunk.
        columns: numbers of the columns value, key, headers, partition, timestamp, topic; -1: there is none.

    Raises:
        ValueError: there is no such column, or no value column.
    """

    def __cinit__(self, ArrowSource source not None, columns: tuple[int, int, int, int, int, int]):
        self.source = source
        self._generation = -1
        memset(&self.columns, 0, sizeof(self.columns))
        for role in range(ROLE_COUNT):
            self.positions[role] = -1
        for role in range(ROLE_COUNT):
            if not -1 <= columns[role] < len(source.names):
                raise ValueError(f"there is no column {columns[role]}")
            self.positions[role] = columns[role]
        if self.positions[VALUE] < 0:
            raise ValueError("there is no value column")

    cdef int bind_chunk(self) except -1:
        """Make the columns read the chunk at hand.

        Raises:
            InvalidArgumentError: the chunk contradicts itself or the schema.
        """
        cdef int role
        self.source.check_idle()
        self._generation = -1
        self.source.bind_root(&self.columns[ROOT])
        for role in range(ROLE_COUNT):
            if self.positions[role] >= 0:
                self.source.bind_column(
                    self.positions[role], &self.columns[role], &self.columns[role + DICTIONARY]
                )
                self._check_layout(role)
        if self.has(HEADERS):
            self._bind_headers()
        self._generation = self.source.generation
        return 0

    cdef int let_go(self) except -1:
        """Read nothing more of the chunk."""
        self.source.check_idle()
        self._generation = -1
        return 0

    cdef bint is_bound(self) noexcept:
        """Whether the chunk that was bound is still the one at hand."""
        return self._generation == self.source.generation

    cdef int check_chunk(self) except -1:
        """Nothing is read of a chunk that was let go."""
        self.source.check_idle()
        if not self.is_bound():
            raise ValueError("the chunk at hand was not started")
        return 0

    cdef bint has(self, int role) noexcept nogil:
        """Whether there is such a column, and anything in it."""
        return self.positions[role] >= 0 and self.columns[role].layout != ALL_NULL

    cdef int _check_layout(self, int role) except -1:
        """The caller has checked types; this keeps a source that changes its mind from being misread."""
        cdef Column* column = &self.columns[role]
        cdef Column* values = column if column.dictionary == NULL else column.dictionary
        cdef bint fits = column.layout == ALL_NULL
        if role == PARTITION:
            fits = fits or (column.layout == INTEGER and column.dictionary == NULL)
        elif role == TIMESTAMP:
            fits = fits or (column.layout in (INTEGER, SECONDS) and column.dictionary == NULL)
        elif role == HEADERS:
            fits = fits or column.layout in (LIST_32, LIST_64, LIST_VIEW_32, LIST_VIEW_64)
        else:
            fits = fits or values.layout in (BYTES_32, BYTES_64, BYTES_VIEW, BYTES_FIXED, ALL_NULL)
        if not fits:
            position = self.positions[role]
            raise InvalidArgumentError(
                f"column {self.source.names[position]!r} cannot be of Arrow format "
                f"{self.source.formats[position]!r}"
            )
        return 0

    cdef int _bind_headers(self) except -1:
        cdef int position = self.positions[HEADERS]
        cdef ArrowSchema* schema = self.source.child_schema(position)
        cdef ArrowArray* array = self.source.child(position)
        cdef int number
        cdef Column* column
        if (
            schema.n_children != 1 or array.n_children != 1 or schema.children == NULL
            or array.children == NULL or schema.children[0] == NULL or array.children[0] == NULL
        ):
            raise InvalidArgumentError("this is no valid Arrow data: a list without values")
        schema = schema.children[0]
        array = array.children[0]
        bind(schema, array, 0, array.length, &self.columns[HEADER], NULL)
        if (
            self.columns[HEADER].layout != STRUCT or schema.n_children != 2 or array.n_children != 2
            or schema.children == NULL or array.children == NULL
        ):
            raise InvalidArgumentError("headers must be structs of a name and a value")
        for number in range(2):
            column = &self.columns[HEADER_NAME + number]
            bind(
                schema.children[number], array.children[number], array.offset, array.length, column,
                &self.columns[HEADER_NAME + number + DICTIONARY],
            )
            if column.dictionary != NULL:
                column = column.dictionary
            if column.layout not in (BYTES_32, BYTES_64, BYTES_VIEW, BYTES_FIXED, ALL_NULL):
                raise InvalidArgumentError("names and values of headers must be strings or binary")
        return 0
