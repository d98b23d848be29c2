cdef class EventDescriptor:
    cdef readonly int fd
    cdef object __weakref__
    cpdef void set(self) noexcept
    cpdef void clear(self) noexcept
