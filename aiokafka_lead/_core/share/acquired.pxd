cimport cython

cdef int _OPEN
cdef int _RENEW
cdef int _RENEW_SENT


@cython.final
cdef class Acquired:
    cdef readonly object tp
    cdef readonly object topic_id
    cdef readonly list ranges
    cdef readonly list bases
    cdef readonly bytearray marks
    cdef readonly double expires_at
    cdef readonly double gone_at
    cdef readonly dict renewed
    cdef public bint dirty
    cdef public object error

    @cython.locals(mark=int)
    cpdef bint may_decide(self, Py_ssize_t index) except -1

    @cython.locals(mark=int)
    cpdef bint decide(self, Py_ssize_t index, int kind) except -1

    cpdef bint is_open(self, Py_ssize_t index) except -1
