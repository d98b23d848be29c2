# The functions of the OpenSSL that Python's ``ssl`` uses, found at run time: nothing is linked or bundled.
#
# ``SSL`` and ``BIO`` are OpenSSL's public types, used through its public functions only. Where ``ssl`` keeps the
# pointers to them is not public: see TlsSession.

cdef extern from "<dlfcn.h>" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *library, const char *name)
    int RTLD_LAZY
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

cdef inline bint find_functions(OpenSsl *found, const char *path) noexcept nogil:
    """Find the functions in the libraries that the loaded module at ``path`` depends on, and in no other."""
    cdef void *module = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)
    if module == NULL:
        return False
    (<void **>&found.version)[0] = dlsym(module, b"OpenSSL_version_num")
    (<void **>&found.ssl_write)[0] = dlsym(module, b"SSL_write")
    (<void **>&found.ssl_read)[0] = dlsym(module, b"SSL_read")
    (<void **>&found.ssl_get_error)[0] = dlsym(module, b"SSL_get_error")
    (<void **>&found.ssl_pending)[0] = dlsym(module, b"SSL_pending")
    (<void **>&found.ssl_get_context)[0] = dlsym(module, b"SSL_get_SSL_CTX")
    (<void **>&found.ssl_get_rbio)[0] = dlsym(module, b"SSL_get_rbio")
    (<void **>&found.ssl_get_wbio)[0] = dlsym(module, b"SSL_get_wbio")
    (<void **>&found.bio_write)[0] = dlsym(module, b"BIO_write")
    (<void **>&found.bio_read)[0] = dlsym(module, b"BIO_read")
    (<void **>&found.bio_ctrl)[0] = dlsym(module, b"BIO_ctrl")
    (<void **>&found.clear_errors)[0] = dlsym(module, b"ERR_clear_error")
    (<void **>&found.last_error)[0] = dlsym(module, b"ERR_peek_last_error")
    (<void **>&found.error_text)[0] = dlsym(module, b"ERR_reason_error_string")
    return (
        found.version != NULL and found.ssl_write != NULL and found.ssl_read != NULL
        and found.ssl_get_error != NULL and found.ssl_pending != NULL and found.ssl_get_context != NULL
        and found.ssl_get_rbio != NULL and found.ssl_get_wbio != NULL and found.bio_write != NULL
        and found.bio_read != NULL and found.bio_ctrl != NULL and found.clear_errors != NULL
        and found.last_error != NULL and found.error_text != NULL
    )
