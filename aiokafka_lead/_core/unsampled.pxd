cimport cython


@cython.final
cdef class Unsampled:
    cdef object _current
    cdef object _context
    cdef set _topics
    cdef readonly tuple headers
    cdef readonly bint on

    cpdef bint covers(self, str topic) except -1
