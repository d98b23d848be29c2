"""Why a row cannot be sent: places in ``kproducer.kernel.arrow_columns.REASONS``; 0: it can."""


cdef enum RowStatus:
    ROW_IS_FINE = 0
    ROW_IS_NULL
    TOPIC_IS_NULL
    TOPIC_FAILED
    PARTITION_WRONG
    TIMESTAMP_WRONG
    TOO_LARGE
    HEADER_IS_NULL
    HEADER_NAME_WRONG
    STATUS_COUNT
    # Not statuses: what ends the reading of a block.
    LEADS_OUTSIDE = -1
    NO_MEMORY = -2
