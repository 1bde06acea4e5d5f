cimport cython


@cython.final
cdef class Lines:
    cdef readonly Py_ssize_t calls
    cdef dict _lines


@cython.final
cdef class Parking:
    cdef object _loop


@cython.final
cdef class _Parked:
    cdef list _futures

    cpdef add(self, object future)
    cpdef set_result(self, object value)
