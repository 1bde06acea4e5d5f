cimport cython

cdef double _FIRST_BOUND_MS


@cython.final
cdef class Latencies:
    cdef list _counts
    cdef double _sum_ms
    cdef double _peak_ms

    @cython.locals(took_ms=double, at=Py_ssize_t)
    cpdef add(self, double seconds)
