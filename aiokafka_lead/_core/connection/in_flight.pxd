cimport cython
from libc.stdint cimport int32_t, int64_t

cdef int32_t _LAST_ID


@cython.final
cdef class InFlight:
    cdef readonly int32_t correlation_id
    cdef readonly object request_class
    cdef readonly int version
    cdef readonly double deadline
    cdef readonly object on_done
    cdef readonly bint raw
    cdef readonly int64_t silent


@cython.final
cdef class InFlightLedger:
    cdef public int32_t next_id
    cdef object _entries
    cdef int64_t _silent

    cpdef add(self, object request_class, int version, double deadline, object on_done, bint raw=*)
    cpdef skip(self)
    cdef _advance(self)
    @cython.locals(oldest=InFlight)
    cpdef InFlight match(self, int32_t correlation_id)
    cdef bint _is_silent(self, int64_t correlation_id, int64_t before, int64_t count)
    cpdef pop(self)
