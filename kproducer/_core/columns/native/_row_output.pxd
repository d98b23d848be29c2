"""The nodes of a plan in C; for the compiled writers of each format.

Inline functions only, so that writers need not be linked to each other. See ``kproducer._core.columns.encoder_plan`` for what
nodes mean.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from kproducer._core.columns.native._arrow_reader cimport ALL_NULL, FLOATING, UNION_DENSE, Cell, Column
from kproducer._core.kernel.native._batch cimport murmur2_raw
from kproducer._core.columns.native._output cimport KP_LIKELY, Output, put

# What a writer returns, besides WRITTEN and NO_MEMORY. Anything above WRITTEN is a reason: see Misfit.
cdef enum:
    LEADS_OUTSIDE = -1
    IS_NULL = 1
    OUT_OF_RANGE
    NOT_A_SYMBOL
    TOO_MANY_DIGITS
    WRONG_SIZE
    NOT_A_UUID
    NEGATIVE
    NOT_EXACT
    NOT_A_NUMBER
    SEVERAL_VALUES
    NOT_UTF8


# Column numbers of nodes that read no column of their own: see PlanNode.
cdef enum:
    CONSTANT = -1
    ROW = -2
    SAME = -3


cdef struct Symbol:
    Cell text
    Cell encoded


cdef struct Node:
    int operation
    int number                  # in the order of EncoderPlan.nodes
    int column_number
    const char* prefix
    Py_ssize_t prefix_size
    const char* null
    Py_ssize_t null_size        # -1: null does not fit
    Node* children
    Py_ssize_t child_count
    int64_t a
    int64_t b
    int64_t size
    Symbol* symbols
    Py_ssize_t symbol_count
    # A hash table of numbers of symbols; -1: free.
    int32_t* symbol_table
    Py_ssize_t symbol_table_size
    # What the node reads in the current chunk.
    Column column
    Column dictionary


# Writes the value of a node. Returns WRITTEN, LEADS_OUTSIDE, NO_MEMORY, or a reason (then the output ends anywhere).
ctypedef int (*WriteNode)(Output* out, Node* node, int64_t row) noexcept nogil


# Whether a node's operation can read a column, that of the dictionary if there is one.
ctypedef bint (*ReadsLayout)(const Node* node, const Column* values) noexcept nogil


cdef inline int32_t find_symbol(const Node* node, const Cell* text) noexcept nogil:
    """The number of the symbol with this text; -1: there is none."""
    cdef Py_ssize_t at = murmur2_raw(<const unsigned char*> text.data, text.size) & <uint32_t> (node.symbol_table_size - 1)
    cdef int32_t number
    while True:
        number = node.symbol_table[at]
        if number < 0 or (
            node.symbols[number].text.size == text.size
            and memcmp(node.symbols[number].text.data, text.data, text.size) == 0
        ):
            return number
        at = (at + 1) & (node.symbol_table_size - 1)


cdef inline Node* alternative_of(Node* node, const Column* column, int64_t* row) noexcept nogil:
    """The child that a union chooses for a row, and the row of that child. NULL: outside of the data."""
    cdef int64_t at = column.offset + row[0]
    cdef Cell type_id
    cdef int32_t number
    type_id.data = column.data + at
    type_id.size = 1
    number = find_symbol(node, &type_id)
    if number < 0:
        return NULL
    number = node.symbols[number].encoded.data[0]
    if not 0 <= number < node.child_count:
        return NULL
    if column.layout == UNION_DENSE:
        row[0] = (<const int32_t*> column.values)[at]
        if not 0 <= row[0] < node.children[number].column.length:
            return NULL
    return &node.children[number]


cdef inline int misfit(Output* out, const Node* node, int reason) noexcept nogil:
    """Note the node whose value does not fit, and return the reason."""
    out.misfit_node = node.number
    return reason


cdef inline bint find_value(const Node* node, int64_t* row, const Column** column, bint* is_missing) noexcept nogil:
    """Follow the dictionary, if there is one: find the column and the row that have the value.

    Args:
        row: of the node's array; becomes that of ``column``.
        is_missing: set if the value is null.

    Returns:
        ``False``: the dictionary has no such place.
    """
    cdef const Column* here = &node.column
    cdef int64_t at = here.offset + row[0]
    column[0] = here
    is_missing[0] = here.layout == ALL_NULL or (
        here.validity != NULL and not (here.validity[at >> 3] >> (at & 7)) & 1
    )
    if KP_LIKELY(here.dictionary == NULL) or is_missing[0]:
        return True
    at = index_at(here, at)
    here = here.dictionary
    if not 0 <= at < here.length:
        return False
    row[0] = at
    column[0] = here
    at += here.offset
    is_missing[0] = here.layout == ALL_NULL or (
        here.validity != NULL and not (here.validity[at >> 3] >> (at & 7)) & 1
    )
    return True


cdef inline bint has_value(Output* out, const Node* node, int64_t* row, const Column** column, int* code) noexcept nogil:
    """Whether there is a value to write; it is then in ``row`` of ``column``, which stays as it is for a whole row.

    Otherwise the node is a constant or null, which this writes, and ``code`` is what the writer returns.
    """
    cdef bint is_missing = False
    if node.column_number == CONSTANT:
        code[0] = put(out, node.prefix, node.prefix_size)
        return False
    if node.column_number == ROW:
        return True
    if not find_value(node, row, column, &is_missing):
        code[0] = LEADS_OUTSIDE
        return False
    if is_missing:
        code[0] = misfit(out, node, IS_NULL) if node.null_size < 0 else put(out, node.null, node.null_size)
        return False
    return True


cdef inline int64_t index_at(const Column* column, int64_t at) noexcept nogil:
    """The integer at a place of the values; unsigned ones of 64 bits that do not fit are negative."""
    if column.width == 8:
        return (<const int64_t*> column.values)[at]
    if column.width == 4:
        if column.is_signed:
            return (<const int32_t*> column.values)[at]
        return (<const uint32_t*> column.values)[at]
    if column.width == 2:
        if column.is_signed:
            return (<const int16_t*> column.values)[at]
        return (<const uint16_t*> column.values)[at]
    if column.is_signed:
        return (<const int8_t*> column.values)[at]
    return (<const uint8_t*> column.values)[at]


cdef inline bint boolean_at(const Column* column, int64_t row) noexcept nogil:
    cdef int64_t at = column.offset + row
    return ((<const uint8_t*> column.values)[at >> 3] >> (at & 7)) & 1


cdef inline double floating_at(const Column* column, int64_t row) noexcept nogil:
    """A floating point number of 2, 4 or 8 bytes."""
    cdef int64_t at = column.offset + row
    if column.width == 8:
        return (<const double*> column.values)[at]
    if column.width == 4:
        return (<const float*> column.values)[at]
    return half_to_double((<const uint16_t*> column.values)[at])


cdef inline bint is_exact(const Column* column, int64_t row, bint is_double, double* number) noexcept nogil:
    """Whether a number, which may be an integer, is written as it is; rounding a double to a float is allowed."""
    cdef int64_t whole, most
    if column.layout == FLOATING:
        number[0] = floating_at(column, row)
        return True
    whole = index_at(column, column.offset + row)
    most = <int64_t> 1 << (53 if is_double else 24)
    number[0] = <double> whole
    return -most <= whole <= most and (whole >= 0 or column.is_signed)


cdef inline double half_to_double(uint16_t half) noexcept nogil:
    cdef uint64_t sign = <uint64_t> (half >> 15) << 63
    cdef uint64_t exponent = (half >> 10) & 31
    cdef uint64_t fraction = half & 1023
    cdef uint64_t bits
    cdef double number
    if exponent == 0:
        number = <double> <int64_t> fraction / 16777216.0
        return -number if sign else number
    # Exponents are biased by 15 and by 1023; the highest one is that of infinities and NaN.
    exponent = 2047 if exponent == 31 else exponent + 1008
    bits = sign | exponent << 52 | fraction << 42
    memcpy(&number, &bits, 8)
    return number
