cimport cython
from libc.stdint cimport int64_t, uint32_t

cdef uint32_t _SEED
cdef uint32_t _M
cdef uint32_t _MASK
cdef uint32_t _SIGN
cdef int64_t _RANGE


@cython.locals(
    data="const unsigned char *", length=Py_ssize_t, at=Py_ssize_t, whole=Py_ssize_t, rest=Py_ssize_t,
    h=uint32_t, k=uint32_t,
)
cpdef int64_t murmur2(bytes key) except? -4611686018427387904
