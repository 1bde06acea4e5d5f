from libc.stdint cimport int32_t


cdef class Trust:
    cdef readonly int32_t refusals
    cdef readonly double refused_since

    cpdef bint refused(self, double asked_at, double now, double patience_s) except -1
    cpdef bint in_doubt(self, double now, double patience_s) except -1
