cimport cython

cdef int ALONE, SHALLOW, DEEP
cdef double NONE_WAITS, ONE_WAITS
cdef double BUSY_S
cdef double SHORT_WAY
cdef int SLOW_IN_A_ROW
cdef int TRY_AFTER_MOST
cdef double LATE
cdef double INSTANT_S


@cython.final
cdef class RequestWindow:
    cdef double _opening_s
    cdef Py_ssize_t _depth
    cdef Py_ssize_t _under_way
    cdef bint _was_full
    cdef double _answered_at
    cdef double _quickest_s
    cdef bint _far
    cdef int _slow_in_a_row
    cdef Py_ssize_t _alone_for
    cdef Py_ssize_t _try_after
    cdef readonly double served_s

    cpdef int sent(self) except -1
    cpdef int lost(self) except -1

    @cython.locals(took_s=double, wait=double, beside_s=double, served_s=double, busy_s=double)
    cpdef int answered(self, double sent_at, double now) except -1

    cdef bint _serves_beside(self, double beside_s, double took_s) except -1
    cdef int _look_out(self, bint quick) except -1
    cdef int _set_depth(self, Py_ssize_t depth) except -1

    @cython.locals(full=bint)
    cpdef bint is_full(self, Py_ssize_t filled_bytes=*) except -1
