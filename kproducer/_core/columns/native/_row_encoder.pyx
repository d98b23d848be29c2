# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""RowEncoder: makes a key or value of the columns of a row, as an ``EncoderPlan`` says.

Copies the plan into C structs once, binds their columns once per chunk, and writes a block of rows one after the other
into memory that the next block uses again. The writers of the formats are in modules of their own. The pure twin is
``pure/row_encoder.py``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from kproducer._core.columns.native._arrow_reader cimport (
    ALL_NULL, KP_MOST_BYTES, STRUCT, UNION_SPARSE, ArrowArray, ArrowSchema, ArrowSource, Cell, Column, bind_column, invalid,
)
from kproducer._core.columns.native._avro_writer cimport reads_avro, write_avro
from kproducer._core.kernel.native._batch cimport murmur2_raw
from kproducer._core.columns.native._json_writer cimport prepare_json, reads_json, write_json
from kproducer._core.columns.native._protobuf_writer cimport reads_protobuf, write_protobuf
from kproducer._core.columns.native._output cimport NO_MEMORY, WRITTEN, Output, put, reserve
from kproducer._core.columns.native._row_output cimport CONSTANT, ROW, SAME, Node, Symbol, find_value


cdef enum:
    # The numbers of encoder_plan; the operation is the same in all formats.
    _NOTHING = 0
    _DEEPEST = 64
    _MOST_NODES = 100000
    # A block ends with the row that exceeds this, so that the bytes are still in a cache when they are copied.
    _BLOCK_BYTES = 4 * 1024 * 1024


cdef int64_t _MOST_FACTOR = 10**18


cdef class RowEncoder:
    """See the pure twin. For one thread, and one reader, whose cells are in the encoder's memory."""

    def __cinit__(self, plan):
        cdef int count = 0
        cdef bytes prefix
        if not isinstance(plan, tuple):
            raise TypeError(f"not an EncoderPlan: {plan!r:.100}")
        prefix = _bytes(plan.prefix)
        self.plan = plan
        self.prefix = PyBytes_AS_STRING(prefix)
        self.prefix_size = PyBytes_GET_SIZE(prefix)
        if plan.format == 0:
            self.write = write_avro
            self.reads = reads_avro
        elif plan.format == 1:
            self.write = write_protobuf
            self.reads = reads_protobuf
        elif plan.format == 2:
            prepare_json()
            self.write = write_json
            self.reads = reads_json
        else:
            raise ValueError(f"no format {plan.format}")
        self._build(&self.root, plan.root, &count, 0)

    def __dealloc__(self):
        _free_node(&self.root)
        free(self.out.data)

    cdef int _build(self, Node* node, object plan_node, int* count, int depth) except -1:
        """Copy a node of the plan, and those below it."""
        cdef bytes prefix, null
        cdef tuple children, symbols
        cdef Py_ssize_t number
        # Only tuples are accepted: they cannot change, and they keep alive what nodes point to.
        if not isinstance(plan_node, tuple):
            raise TypeError(f"not a PlanNode: {plan_node!r:.100}")
        if depth > _DEEPEST or count[0] >= _MOST_NODES:
            raise ValueError(f"a plan of more than {_DEEPEST} levels, or of more than {_MOST_NODES} nodes")
        prefix, null = _bytes(plan_node.prefix), plan_node.null
        node.operation = plan_node.operation
        node.number = count[0]
        count[0] += 1
        node.column_number = plan_node.column
        if node.column_number < SAME or (
            node.column_number < 0 and (node.column_number == ROW) != (depth == 0)
        ):
            raise ValueError(f"a node of column {node.column_number} at level {depth} of the plan")
        if node.column_number == CONSTANT:
            node.operation = _NOTHING
        node.prefix = PyBytes_AS_STRING(prefix)
        node.prefix_size = PyBytes_GET_SIZE(prefix)
        node.null_size = -1
        if null is not None:
            node.null = PyBytes_AS_STRING(null)
            node.null_size = PyBytes_GET_SIZE(null)
        node.a = plan_node.a
        node.b = plan_node.b
        node.size = plan_node.size
        if not (-_MOST_FACTOR <= node.a <= _MOST_FACTOR and 0 <= node.size <= INT32_MAX):
            raise ValueError("a parameter of the plan is out of range")
        children = plan_node.children
        if children:
            node.children = <Node*> calloc(len(children), sizeof(Node))
            if node.children == NULL:
                raise MemoryError
            node.child_count = len(children)
            for number in range(node.child_count):
                self._build(&node.children[number], children[number], count, depth + 1)
        symbols = plan_node.symbols
        if symbols:
            node.symbols = <Symbol*> malloc(len(symbols) * sizeof(Symbol))
            if node.symbols == NULL:
                raise MemoryError
            node.symbol_count = len(symbols)
            for number in range(node.symbol_count):
                _point_to(symbols[number], &node.symbols[number])
            self._hash_symbols(node)
        return 0

    cdef int _hash_symbols(self, Node* node) except -1:
        cdef Py_ssize_t number, at
        cdef Py_ssize_t size = 16
        while size < 2 * node.symbol_count:
            size *= 2
        node.symbol_table = <int32_t*> malloc(size * sizeof(int32_t))
        if node.symbol_table == NULL:
            raise MemoryError
        node.symbol_table_size = size
        memset(node.symbol_table, 0xFF, size * sizeof(int32_t))
        for number in range(node.symbol_count):
            at = murmur2_raw(
                <const unsigned char*> node.symbols[number].text.data, node.symbols[number].text.size
            ) & <uint32_t> (size - 1)
            while node.symbol_table[at] >= 0:
                at = (at + 1) & (size - 1)
            node.symbol_table[at] = <int32_t> number
        return 0

    # -- its reader --------------------------------------------------------------------------------------

    cdef int take(self, void* reader) except -1:
        """Let one reader use it, until ``give_back``.

        Raises:
            RuntimeError: another one uses it.
        """
        if self._reader != NULL and self._reader != reader:
            raise RuntimeError("a RowEncoder is used by one reader only")
        self._reader = reader
        return 0

    cdef void give_back(self, void* reader) noexcept:
        if self._reader == reader:
            self._reader = NULL

    # -- binding a chunk ---------------------------------------------------------------------------------

    cdef int bind(self, ArrowSource source) except -1:
        """Make the nodes read the current chunk.

        Raises:
            ValueError: the chunk contradicts itself, its schema or the plan.
        """
        cdef Node* node = &self.root
        cdef Node* child
        cdef Py_ssize_t number
        cdef int64_t base = source._array.offset if source._is_struct else 0
        cdef bint is_row = node.column_number == ROW
        cdef Column row_column
        source.check_chunk()
        row_column.layout = STRUCT
        if is_row and not self.reads(node, &row_column):
            raise ValueError(f"operation {node.operation} of the plan does not read rows")
        for number in range(node.child_count if is_row else 1):
            child = &node.children[number] if is_row else node
            if child.column_number >= <int> len(source.names):
                raise ValueError(f"the plan has a column {child.column_number}, and the data {len(source.names)}")
            if child.column_number == SAME:
                raise ValueError("a node of the plan reads the array of the rows, which is not a column")
            if child.column_number < 0:
                continue
            try:
                self._bind_node(child, source.child_schema(child.column_number), source.child(child.column_number),
                                base, source.chunk_rows)
            except ValueError as error:
                raise ValueError(f"column {source.names[child.column_number]!r}: {error}") from error
        return 0

    cdef int _bind_node(self, Node* node, ArrowSchema* schema, ArrowArray* array, int64_t base,
                        int64_t rows) except -1:
        cdef Column* values = &node.column
        bind_column(schema, array, base, rows, &node.column, &node.dictionary)
        if node.column.dictionary != NULL:
            values = &node.dictionary
        if values.layout != ALL_NULL and not self.reads(node, values):
            raise ValueError(f"operation {node.operation} of the plan does not read this type")
        if node.child_count:
            self._bind_children(node, schema, array, base)
        return 0

    cdef int _bind_children(self, Node* node, ArrowSchema* schema, ArrowArray* array, int64_t base) except -1:
        """Bind the children of a node to those of its array, or of its dictionary."""
        cdef Column* values = &node.column
        cdef ArrowSchema* child_schema
        cdef ArrowArray* child_array
        cdef Node* child
        cdef Py_ssize_t number
        cdef ArrowSchema* container_schema = schema
        cdef ArrowArray* container = array
        if node.column.dictionary != NULL:
            values = &node.dictionary
            container_schema = schema.dictionary
            container = array.dictionary
            base = 0
        for number in range(node.child_count):
            child = &node.children[number]
            if child.column_number == SAME:
                # Rows are those of the dictionary, if there is one.
                self._bind_node(child, container_schema, container, base, values.length)
            if child.column_number < 0:
                continue
            if (
                child.column_number >= container_schema.n_children or child.column_number >= container.n_children
                or container_schema.children == NULL or container.children == NULL
            ):
                raise invalid("a child is missing")
            child_schema = container_schema.children[child.column_number]
            child_array = container.children[child.column_number]
            if child_schema == NULL or child_array == NULL:
                raise invalid("a child is missing")
            if values.layout in (STRUCT, UNION_SPARSE):
                # Its own offset counts for its children as well.
                self._bind_node(child, child_schema, child_array, values.offset, values.length)
            else:
                self._bind_node(child, child_schema, child_array, 0, child_array.length)
        return 0

    # -- writing rows ------------------------------------------------------------------------------------

    cdef int64_t encode(self, int64_t first, Py_ssize_t* rows, Cell* cells, uint8_t* status, int64_t* details,
                        uint8_t misfit_status, uint8_t size_status, int64_t most) noexcept nogil:
        """Write the rows of a block.

        Args:
            first: the first one, in the chunk.
            rows: how many; fewer are written if they take too much memory.
            cells: gets the bytes of each row, which stay until the next call.
            status: of each row; ``misfit_status`` where it is 0 and a value does not fit.
            details: then gets the node times 256, plus the reason.
            size_status, most: instead, where the row would take more than ``most`` bytes, and the memory for
                them is not there already; ``details`` then gets a size that it has at least.

        Returns:
            -1, or the row of the block with a cell outside of the data, or NO_MEMORY.
        """
        cdef Py_ssize_t row, start
        cdef int code
        cdef bint is_missing
        cdef int64_t place
        cdef const Column* column
        cdef bint is_row = self.root.column_number == ROW
        self.out.size = 0
        self.out.most = KP_MOST_BYTES
        if not reserve(&self.out, 1):
            return NO_MEMORY
        for row in range(rows[0]):
            place = first + row
            if not is_row:
                if not find_value(&self.root, &place, &column, &is_missing):
                    return row
                if is_missing:
                    cells[row].data = NULL
                    cells[row].size = -1
                    continue
            start = self.out.size
            self.out.most = start + most
            self.out.wanted = 0
            code = put(&self.out, self.prefix, self.prefix_size)
            if code == WRITTEN:
                code = self.write(&self.out, &self.root, first + row)
            if code == NO_MEMORY and self.out.wanted == 0:
                return NO_MEMORY
            if code < 0 and code != NO_MEMORY:
                return row
            # This address is provisional, because the memory may still move.
            cells[row].data = <const char*> start
            cells[row].size = self.out.size - start
            if code:
                self.out.size = start
                cells[row].size = 0
                if status[row] == 0:
                    status[row] = misfit_status if code > 0 else size_status
                    details[row] = (
                        <int64_t> self.out.misfit_node << 8 | code if code > 0 else self.out.wanted - start
                    )
            if self.out.size > _BLOCK_BYTES:
                rows[0] = row + 1
                break
        for row in range(rows[0]):
            if cells[row].size >= 0:
                cells[row].data = self.out.data + <Py_ssize_t> cells[row].data
        return -1

    def encode_rows(self, ArrowSource source not None, int64_t first, Py_ssize_t count) -> list:
        cdef list encoded = []
        cdef Py_ssize_t row, rows
        cdef int64_t fault
        cdef Py_ssize_t done = 0
        cdef Cell* cells = NULL
        cdef int64_t* details = NULL
        cdef uint8_t* status = NULL
        if not (0 <= first <= source.chunk_rows and 0 <= count <= source.chunk_rows - first):
            raise IndexError(first)
        source.check_idle()
        self.take(<void*> source)
        source.busy = True
        try:
            cells = <Cell*> malloc(max(count, 1) * sizeof(Cell))
            details = <int64_t*> malloc(max(count, 1) * sizeof(int64_t))
            status = <uint8_t*> calloc(max(count, 1), 1)
            if cells == NULL or details == NULL or status == NULL:
                raise MemoryError
            self.bind(source)
            while done < count:
                rows = count - done
                fault = self.encode(first + done, &rows, cells, &status[done], &details[done], 1, 1,
                                    KP_MOST_BYTES)
                if fault == NO_MEMORY:
                    raise MemoryError
                if fault >= 0:
                    raise invalid(f"row {first + done + fault} of the chunk refers to bytes outside of its data")
                for row in range(rows):
                    if status[done + row]:
                        encoded.append((details[done + row] >> 8, details[done + row] & 255))
                    elif cells[row].size < 0:
                        encoded.append(None)
                    else:
                        encoded.append(PyBytes_FromStringAndSize(cells[row].data, cells[row].size))
                done += rows
        finally:
            source.busy = False
            self.give_back(<void*> source)
            free(cells)
            free(details)
            free(status)
        return encoded


cdef bytes _bytes(object given):
    if type(given) is not bytes:
        raise TypeError(f"not bytes: {given!r:.100}")
    return given


cdef int _point_to(tuple pair, Symbol* symbol) except -1:
    cdef bytes text, encoded
    if pair is None or len(pair) != 2:
        raise TypeError("a symbol is not a pair")
    text, encoded = _bytes(pair[0]), _bytes(pair[1])
    symbol.text.data, symbol.text.size = PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
    symbol.encoded.data, symbol.encoded.size = PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded)
    return 0


cdef void _free_node(Node* node) noexcept:
    cdef Py_ssize_t number
    for number in range(node.child_count):
        _free_node(&node.children[number])
    free(node.children)
    free(node.symbols)
    free(node.symbol_table)
