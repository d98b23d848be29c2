# The functions of the OpenSSL that Python's ``ssl`` uses, found at run time: nothing is linked or bundled.
#
# ``SSL`` and ``BIO`` are OpenSSL's public types, used through its public functions only. Where ``ssl`` keeps the
# pointers to them is not public: see TlsSession.

from posix.dlfcn cimport RTLD_LAZY, dlopen, dlsym

cdef extern from "<dlfcn.h>" nogil:
    int RTLD_NOLOAD

cdef enum:
    SSL_ERROR_WANT_READ = 2
    SSL_ERROR_ZERO_RETURN = 6
    BIO_CTRL_INFO = 3
    BIO_CTRL_PENDING = 10

cdef struct OpenSsl:
    unsigned long (*version)() noexcept nogil
    int (*ssl_write)(void *ssl, const void *data, int size) noexcept nogil
    int (*ssl_read)(void *ssl, void *data, int size) noexcept nogil
    int (*ssl_get_error)(const void *ssl, int result) noexcept nogil
    int (*ssl_pending)(const void *ssl) noexcept nogil
    void *(*ssl_get_context)(const void *ssl) noexcept nogil
    void *(*ssl_get_rbio)(const void *ssl) noexcept nogil
    void *(*ssl_get_wbio)(const void *ssl) noexcept nogil
    int (*bio_write)(void *bio, const void *data, int size) noexcept nogil
    int (*bio_read)(void *bio, void *data, int size) noexcept nogil
    long (*bio_ctrl)(void *bio, int command, long number, void *pointer) noexcept nogil
    void (*clear_errors)() noexcept nogil
    unsigned long (*last_error)() noexcept nogil
    const char *(*error_text)(unsigned long code) noexcept nogil

cdef inline bint find(void *module, const char *name, void **function) noexcept nogil:
    """Find one function in the libraries that a module depends on."""
    function[0] = dlsym(module, name)
    return function[0] != NULL

cdef inline bint find_functions(OpenSsl *found, const char *path) noexcept nogil:
    """Find the functions in the libraries that the loaded module at ``path`` depends on, and in no other."""
    cdef void *module = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)
    if module == NULL:
        return False
    return (
        find(module, b"OpenSSL_version_num", <void **>&found.version)
        and find(module, b"SSL_write", <void **>&found.ssl_write)
        and find(module, b"SSL_read", <void **>&found.ssl_read)
        and find(module, b"SSL_get_error", <void **>&found.ssl_get_error)
        and find(module, b"SSL_pending", <void **>&found.ssl_pending)
        and find(module, b"SSL_get_SSL_CTX", <void **>&found.ssl_get_context)
        and find(module, b"SSL_get_rbio", <void **>&found.ssl_get_rbio)
        and find(module, b"SSL_get_wbio", <void **>&found.ssl_get_wbio)
        and find(module, b"BIO_write", <void **>&found.bio_write)
        and find(module, b"BIO_read", <void **>&found.bio_read)
        and find(module, b"BIO_ctrl", <void **>&found.bio_ctrl)
        and find(module, b"ERR_clear_error", <void **>&found.clear_errors)
        and find(module, b"ERR_peek_last_error", <void **>&found.last_error)
        and find(module, b"ERR_reason_error_string", <void **>&found.error_text)
    )
