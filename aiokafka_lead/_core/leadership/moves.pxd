cimport cython
from libc.stdint cimport int32_t


@cython.final
cdef class MoveClock:
    cdef double _since
    cdef int32_t _refused_by

    cpdef refused(self, int32_t node_id, double now)
    cpdef served(self, int32_t node_id, double at, object counters)
