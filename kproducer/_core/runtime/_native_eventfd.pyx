# cython: language_level=3
"""EventDescriptor: ends the wait of a thread that polls it. Its methods keep the interpreter lock.

Python's own functions release the lock for each system call. Next to a busy thread, the I/O thread would then get it
back after a switch interval (``sys.getswitchinterval``), and until then would send nothing.
"""

from __future__ import annotations

from libc.errno cimport errno

cdef extern from "<unistd.h>":
    ssize_t read(int fd, void *data, size_t size)
    ssize_t write(int fd, const void *data, size_t size)
    int close(int fd)

cdef extern from *:
    """
    #ifdef __linux__
    #include <sys/eventfd.h>
    #else
    #define EFD_CLOEXEC 0
    #define EFD_NONBLOCK 0
    static int eventfd(unsigned int value, int flags) { (void)value; (void)flags; return -1; }
    #endif
    """
    int eventfd(unsigned int value, int flags)
    int EFD_CLOEXEC
    int EFD_NONBLOCK


cdef class EventDescriptor:
    """A descriptor that is readable while the event is set. Never blocks. It is closed with this object.

    Attributes:
        fd: the descriptor.

    Raises:
        OSError: the system has no ``eventfd``, or no descriptor is left.
    """

    def __cinit__(self):
        self.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if self.fd < 0:
            raise OSError(errno, "eventfd failed")

    def __dealloc__(self):
        if self.fd >= 0:
            close(self.fd)

    cpdef void set(self) noexcept:
        """Make the descriptor readable. Any thread."""
        cdef unsigned long long one = 1
        write(self.fd, &one, sizeof(one))

    cpdef void clear(self) noexcept:
        """Make it unreadable."""
        cdef unsigned long long count
        read(self.fd, &count, sizeof(count))
