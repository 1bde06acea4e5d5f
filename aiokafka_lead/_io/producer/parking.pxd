cimport cython


@cython.final
cdef class Parking:
    cdef object _loop


@cython.final
cdef class _Parked:
    cdef list _futures

    cpdef add(self, object future)
    cpdef set_result(self, object value)
